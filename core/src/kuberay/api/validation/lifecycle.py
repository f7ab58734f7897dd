"""Whether ``spec.lifecycle`` is refused. A feature of this operator; KubeRay has none.

Problems are pairs of field path below the spec and message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kuberay.api.cluster import RayClusterSpec
from kuberay.api.gates import STATUS_CONDITIONS
from kuberay.api.lifecycle import DELETE, SUSPEND
from kuberay.api.problems import Problem

Found = tuple[str, str]


def lifecycle_problems(spec: RayClusterSpec, gates: Mapping[str, bool]) -> Iterator[Found]:
    """Limits that are there and positive, a known action, and conditions to keep the state in."""
    lifecycle = spec.lifecycle
    if lifecycle is None:
        return
    limits = (("idleTimeoutSeconds", lifecycle.idle_timeout_seconds), ("maxAgeSeconds", lifecycle.max_age_seconds))
    for name, seconds in limits:
        if seconds is not None and seconds < 1:
            yield f"lifecycle.{name}", f"lifecycle.{name} must be at least 1, got {seconds}"
    if all(seconds is None for _, seconds in limits):
        yield "lifecycle", "lifecycle must set idleTimeoutSeconds, maxAgeSeconds or both"
    if lifecycle.action not in (None, SUSPEND, DELETE):
        yield "lifecycle.action", f"lifecycle.action must be {SUSPEND} or {DELETE}, got {lifecycle.action!r}"
    if lifecycle.warning_seconds is not None and lifecycle.warning_seconds < 0:
        yield (
            "lifecycle.warningSeconds",
            f"lifecycle.warningSeconds must not be negative, got {lifecycle.warning_seconds}",
        )
    if not gates.get(STATUS_CONDITIONS, False):
        yield "lifecycle", f"lifecycle can be used only when the {STATUS_CONDITIONS} feature gate is enabled"


def ownership_problems(spec: RayClusterSpec, creator: str, path: str, reason: str) -> Iterator[Problem]:
    """A RayJob or RayService ends its cluster itself; suspended or deleted under it, it would only be made again."""
    if spec.lifecycle is not None and creator in ("RayJob", "RayService"):
        message = f"lifecycle cannot be set when RayCluster is created by {creator}, which ends it itself"
        yield Problem(f"{path}.lifecycle", message, reason)
