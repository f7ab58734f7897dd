"""Which of a RayJob's ``deletionRules`` acts in this pass: of those that are due and not done, the most destructive one.

Source: spec rayjob.md 4.9. Stages follow from ``status.endTime`` and what is still there, so nothing need be remembered.
"""

from __future__ import annotations

from kuberay.api.job import DeletionCondition, DeletionPolicy
from kuberay.api.objects import RayObject
from kuberay.plan.job import deadlines
from kuberay.plan.job.deletion_policies import achieved, due_at, policy_named
from kuberay.plan.job.draft import Draft

_RANK = (
    DeletionPolicy.DELETE_NONE,
    DeletionPolicy.DELETE_WORKERS,
    DeletionPolicy.DELETE_CLUSTER,
    DeletionPolicy.DELETE_SELF,
)


def matches(draft: Draft, condition: DeletionCondition) -> bool:
    """Whether the job ended in the way *condition* names."""
    if condition.job_status:
        return draft.status.get("jobStatus") == condition.job_status
    return bool(condition.job_deployment_status) and draft.state == condition.job_deployment_status


def rule_to_follow(draft: Draft, cluster: RayObject | None) -> DeletionPolicy | None:
    """The policy to carry out now, if any; the pass is repeated when the next rule is due."""
    strategy = draft.spec.deletion_strategy
    overdue: list[DeletionPolicy] = []
    for rule in strategy.deletion_rules if strategy is not None else ():
        policy = policy_named(rule.policy)
        if policy is None or not matches(draft, rule.condition) or achieved(draft, policy, cluster):
            # What is done already stays done, so nobody need look again when its time comes.
            continue
        due = due_at(draft, rule.condition.ttl_seconds)
        if due is not None and deadlines.passed(draft, due):
            overdue.append(policy)
    return max(overdue, key=_RANK.index, default=None)
