"""Whether a RayCluster is refused: its name, its spec, its upgrade strategy, its status.

Source: spec raycluster.md 1.8, operator.md 11.1-11.3. Messages are KubeRay's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from kuberay.api.cluster import RayClusterSpec, parse_problems
from kuberay.api.conditions import ClusterCondition, is_true
from kuberay.api.names import HEAD_GROUP, LABEL_ORIGIN_CRD
from kuberay.api.problems import Problem
from kuberay.api.syntax import dns1035_errors
from kuberay.api.validation.autoscaling import autoscaling_problems
from kuberay.api.validation.fallback import fallback_problems
from kuberay.api.validation.fault_tolerance import fault_tolerance_problems
from kuberay.api.validation.groups import group_name_problems, head_problems, worker_problems
from kuberay.api.validation.history import history_problems
from kuberay.api.validation.isolation import network_policy_problems, tls_problems
from kuberay.api.validation.leaving import leaving_problems
from kuberay.api.validation.lifecycle import lifecycle_problems, ownership_problems
from kuberay.api.validation.rolling import rolling_problems
from kuberay.api.validation.token_auth import auth_problems
from kuberay.api.validation.wait_gcs import wait_gcs_problems

INVALID_METADATA = "InvalidRayClusterMetadata"
INVALID_SPEC = "InvalidRayClusterSpec"
INVALID_STATUS = "InvalidRayClusterStatus"

MAX_NAME = 53


def validate_cluster(
    name: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    spec: RayClusterSpec | Mapping[str, Any],
    gates: Mapping[str, bool],
    status: Mapping[str, Any] | None = None,
) -> list[Problem]:
    """All problems, KubeRay's first one first; ``reason`` is the event reason. Empty means accepted."""
    problems = list(name_problems("RayCluster", name, MAX_NAME, INVALID_METADATA))
    if not isinstance(spec, RayClusterSpec):
        try:
            spec = RayClusterSpec.parse(spec)
        except ValidationError as error:
            return problems + parse_problems(error, "spec", INVALID_SPEC)
    problems += spec_problems(spec, annotations, gates)
    problems += upgrade_problems(spec, labels.get(LABEL_ORIGIN_CRD, ""))
    problems += ownership_problems(spec, labels.get(LABEL_ORIGIN_CRD, ""), "spec", INVALID_SPEC)
    problems += _status_problems(status or {})
    return problems


def name_problems(kind: str, name: str, limit: int, reason: str, prefix: str = "") -> Iterator[Problem]:
    """Too long, or no DNS-1035 label. *prefix* goes before the message."""
    if len(name) > limit:
        yield Problem("metadata.name", f"{prefix}{kind} name should be no more than {limit} characters", reason)
    errors = dns1035_errors(name)
    if errors:
        message = f"{prefix}{kind} name should be a valid DNS1035 label: [{' '.join(errors)}]"
        yield Problem("metadata.name", message, reason)


def spec_problems(
    spec: RayClusterSpec,
    annotations: Mapping[str, str],
    gates: Mapping[str, bool],
    path: str = "spec",
    reason: str = INVALID_SPEC,
) -> list[Problem]:
    """The rules of 1.8 for a RayClusterSpec found at *path*, with our own additions last.

    *annotations* are those of the object that holds the spec.
    """
    found: list[tuple[str, str]] = [
        *head_problems(spec),
        *worker_problems(spec),
        *fault_tolerance_problems(spec, annotations, gates),
        *autoscaling_problems(spec, gates),
        *history_problems(spec, gates),
        *auth_problems(spec),
        *network_policy_problems(spec, gates),
        *tls_problems(spec, gates),
        *group_name_problems(spec),
        *wait_gcs_problems(spec, annotations),
        *fallback_problems(spec),
        *lifecycle_problems(spec, gates),
        *leaving_problems(spec, annotations),
    ]
    return [
        Problem(where if where.startswith("metadata.") else f"{path}.{where}", what, reason) for where, what in found
    ]


def upgrade_problems(
    spec: RayClusterSpec, creator: str, path: str = "spec", reason: str = INVALID_SPEC
) -> Iterator[Problem]:
    """Rules about ``upgradeStrategy``. *creator* is the kind that made the cluster."""
    if spec.upgrade_strategy is None or spec.upgrade_strategy.type is None:
        return
    strategy = spec.upgrade_strategy.type
    where = f"{path}.upgradeStrategy.type"
    if strategy not in ("Recreate", "None", "Rolling"):
        # KubeRay's words; the schema, which speaks first, names Rolling as well.
        message = (
            f"The RayCluster spec is invalid: Spec.UpgradeStrategy.Type value {strategy} is invalid,"
            " valid options are Recreate or None"
        )
        yield Problem(where, message, reason)
    # A RayService hands its own strategy down to its one RayCluster.
    if creator == "RayJob" or (creator == "RayService" and strategy not in ("Recreate", "Rolling")):
        yield Problem(where, f"upgradeStrategy cannot be set when RayCluster is created by {creator}", reason)
    if strategy == "Rolling":
        for name, what in rolling_problems(spec.upgrade_strategy):
            yield Problem(f"{path}.upgradeStrategy.{name}", what, reason)
        if spec.group(HEAD_GROUP) is not None:
            # Pods say by this name which group they were made from.
            yield Problem(
                where, f"Rolling cannot be used with a worker group named {HEAD_GROUP}: the head is called so", reason
            )


def _status_problems(status: Mapping[str, Any]) -> Iterator[Problem]:
    conditions = status.get("conditions") or []
    if is_true(conditions, ClusterCondition.SUSPENDING) and is_true(conditions, ClusterCondition.SUSPENDED):
        message = (
            "invalid RayCluster State: rayv1.RayClusterSuspending and rayv1.RayClusterSuspended conditions"
            " should not be both true"
        )
        yield Problem("status.conditions", message, INVALID_STATUS)


def event_note(problem: Problem, namespace: str, name: str) -> str:
    """The note of the Warning event about *problem* (7)."""
    if problem.reason == INVALID_METADATA:
        return f"The RayCluster metadata is invalid {namespace}/{name}: {problem.message}"
    if problem.reason == INVALID_STATUS:
        return f"The RayCluster status is invalid {namespace}/{name}, {problem.message}"
    what = "UpgradeStrategy" if problem.path.startswith("spec.upgradeStrategy") else "spec"
    return f"The RayCluster {what} is invalid {namespace}/{name}: {problem.message}"
