"""Which policy of the deprecated ``onSuccess`` and ``onFailure`` an ended RayJob falls under.

Source: spec rayjob.md 4.8 (legacy policies). Beyond KubeRay: a RayJob that failed without word from Ray has failed, too.
"""

from __future__ import annotations

from kuberay.api.job import DeletionPolicy, JobDeploymentStatus, JobStatus
from kuberay.plan.job.deletion_policies import policy_named
from kuberay.plan.job.draft import Draft


def legacy_policy(draft: Draft) -> DeletionPolicy | None:
    """The policy that applies, whenever it is due; None when neither side speaks of this end (a stopped job)."""
    strategy = draft.spec.deletion_strategy
    if strategy is None or strategy.on_success is None or strategy.on_failure is None:
        return None
    if draft.job_status == JobStatus.SUCCEEDED:
        return policy_named(strategy.on_success.policy)
    if draft.job_status == JobStatus.FAILED or draft.state == JobDeploymentStatus.FAILED:
        return policy_named(strategy.on_failure.policy)
    return None
