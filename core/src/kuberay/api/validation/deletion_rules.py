"""Whether a RayJob's deletion strategy is refused, in either style.

Source: spec rayjob.md 6.2 (S4-S13) and 6.3. Problems are pairs of field path below the spec and message.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise

from kuberay.api.gates import DELETION_POLICY
from kuberay.api.job import DeletionCondition, DeletionPolicy, DeletionStrategy, RayJobSpec

Found = tuple[str, str]

_PATH = "deletionStrategy"
_INVALID = "The RayJob spec is invalid: "
_ON_CLUSTER = (DeletionPolicy.DELETE_CLUSTER, DeletionPolicy.DELETE_WORKERS)
_ORDER = (DeletionPolicy.DELETE_WORKERS, DeletionPolicy.DELETE_CLUSTER, DeletionPolicy.DELETE_SELF)


def deletion_problems(spec: RayJobSpec, gates: Mapping[str, bool]) -> Iterator[Found]:
    """Rules S4-S13 with D1-D7."""
    strategy = spec.deletion_strategy
    if strategy is None:
        return
    rules = f"{_PATH}.deletionRules"
    if not gates.get(DELETION_POLICY, False):
        yield _PATH, f"{_INVALID}RayJobDeletionPolicy feature gate must be enabled to use DeletionStrategy"
    if strategy.deletion_rules and spec.shutdown_after_job_finishes:
        yield (
            rules,
            f"{_INVALID}a RayJob with deletionRules cannot have shutdownAfterJobFinishes set to true",
        )
    legacy = strategy.on_success is not None or strategy.on_failure is not None
    if strategy.deletion_rules and legacy:
        yield rules, f"{_INVALID}deletionRules cannot be used together with onSuccess and onFailure"
    elif legacy:
        yield from _legacy_problems(spec, strategy)
    elif strategy.deletion_rules:
        told = list(_rule_problems(spec, strategy))
        if told:
            yield (rules + told[0][0] if len(told) == 1 else rules), "\n".join(message for _, message in told)
    else:
        yield _PATH, f"{_INVALID}deletionStrategy requires either both onSuccess and onFailure, or deletionRules"


def _legacy_problems(spec: RayJobSpec, strategy: DeletionStrategy) -> Iterator[Found]:
    success, failure = strategy.on_success, strategy.on_failure
    if success is None or failure is None:
        missing = "onSuccess" if success is None else "onFailure"
        yield f"{_PATH}.{missing}", f"{_INVALID}deletionStrategy requires both onSuccess and onFailure"
        return
    sides = [("onSuccess", success.policy), ("onFailure", failure.policy)]
    for name, policy in sides:
        if not policy:
            yield f"{_PATH}.{name}.policy", f"{_INVALID}the policy of deletionStrategy.{name} must be set"
    for name, policy in sides:
        if spec.cluster_selector and policy in _ON_CLUSTER:
            yield f"{_PATH}.{name}.policy", f"{_INVALID}the ClusterSelector mode doesn't support {name}.policy {policy}"
    for name, policy in sides:
        if _autoscaling(spec) and policy == DeletionPolicy.DELETE_WORKERS:
            yield (
                f"{_PATH}.{name}.policy",
                f"{_INVALID}{name}.policy DeleteWorkers is not supported with autoscaling enabled",
            )
    for name, policy in sides:
        if spec.shutdown_after_job_finishes and policy == DeletionPolicy.DELETE_NONE:
            yield (
                f"{_PATH}.{name}.policy",
                f"{_INVALID}shutdownAfterJobFinishes is set to true while {name}.policy is DeleteNone",
            )


def _rule_problems(spec: RayJobSpec, strategy: DeletionStrategy) -> Iterator[tuple[str, str]]:
    """Pairs of index (``[0]``, empty when several rules are concerned) and message."""
    seen: set[tuple[str, str, str]] = set()
    delays: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for index, rule in enumerate(strategy.deletion_rules):
        condition, policy = rule.condition, rule.policy
        kind, value = _condition_key(condition)
        wrong = ""
        if kind == "both":
            wrong = "JobStatus and JobDeploymentStatus cannot be used together within the same deletion condition"
        elif kind == "none":
            wrong = "the deletion condition requires either the JobStatus or the JobDeploymentStatus field"
        elif condition.ttl_seconds < 0:
            wrong = f"TTLSeconds must be non-negative, got {condition.ttl_seconds}"
        elif spec.cluster_selector and policy in _ON_CLUSTER:
            wrong = f"DeletionPolicyType '{policy}' not supported when ClusterSelector is set"
        elif _autoscaling(spec) and policy == DeletionPolicy.DELETE_WORKERS:
            wrong = "DeletionPolicyType 'DeleteWorkers' not supported with autoscaling enabled"
        elif (kind, value, policy) in seen:
            wrong = f"duplicate rule for DeletionPolicyType '{policy}' and {kind} '{value}'"
        if wrong:
            yield f"[{index}]", f"deletionRules[{index}]: {wrong}"
        else:
            seen.add((kind, value, policy))
            delays[kind, value][policy] = condition.ttl_seconds
    for (kind, value), by_policy in delays.items():
        present = [(policy, by_policy[policy]) for policy in _ORDER if policy in by_policy]
        for (first, early), (second, late) in pairwise(present):
            if late < early:
                yield (
                    "",
                    f"for {kind} '{value}': {second} TTL ({late}) must be greater than or equal to"
                    f" {first} TTL ({early})",
                )


def _condition_key(condition: DeletionCondition) -> tuple[str, str]:
    if condition.job_status and condition.job_deployment_status:
        return "both", ""
    if condition.job_status:
        return "JobStatus", condition.job_status
    if condition.job_deployment_status:
        return "JobDeploymentStatus", condition.job_deployment_status
    return "none", ""


def _autoscaling(spec: RayJobSpec) -> bool:
    return spec.ray_cluster_spec is not None and spec.ray_cluster_spec.autoscaling
