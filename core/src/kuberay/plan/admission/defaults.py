"""Which defaults of the operator's own an object can be made to say: only such as change nothing that runs.

Fields with a default in the CRD are left to it. What belongs to pods is left alone, since pods are known by what their user wrote
(`kuberay.plan.build.spec_hash`); so is ``managedBy``, which can never be changed, and a time zone, which is the operator's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kuberay.api.cronjob import ConcurrencyPolicy
from kuberay.api.job import DEFAULT_SUBMITTER_BACKOFF_LIMIT, JobSubmissionMode
from kuberay.api.kinds import RAYCLUSTER, RAYCRONJOB, RAYJOB, RAYSERVICE, Kind
from kuberay.api.service import DEFAULT_DELETION_DELAY, UpgradeType
from kuberay.plan.config import PlanConfig

Path = tuple[str | int, ...]
Default = tuple[Path, Any]


def defaults(kind: Kind, spec: Mapping[str, Any], config: PlanConfig) -> list[dict[str, Any]]:
    """JSON patch operations on the object, in the order to be made; empty when its spec says all of it. A spec of the wrong
    shape is left to validation."""
    operations: list[dict[str, Any]] = []
    for path, value in _DEFAULTS[kind](spec, config):
        operations += _adding(spec, path, value)
    return operations


def _cluster(spec: Mapping[str, Any], _config: PlanConfig) -> Sequence[Default]:
    groups = spec.get("workerGroupSpecs")
    count = len(groups) if isinstance(groups, list) else 0
    found: list[Default] = [(("headGroupSpec", "rayStartParams"), {})]
    found += [(("workerGroupSpecs", index, "rayStartParams"), {}) for index in range(count)]
    return [*found, (("suspend",), False)]


def _job(spec: Mapping[str, Any], _config: PlanConfig) -> Sequence[Default]:
    found: list[Default] = [(("shutdownAfterJobFinishes",), False), (("suspend",), False)]
    if spec.get("submissionMode") in (None, "", JobSubmissionMode.K8S_JOB):
        # Only within a submitterConfig that is there: one of ours would keep the mode from being edited to SidecarMode.
        found.append((("submitterConfig", "backoffLimit"), DEFAULT_SUBMITTER_BACKOFF_LIMIT))
    return found


def _service(spec: Mapping[str, Any], config: PlanConfig) -> Sequence[Default]:
    type_ = (UpgradeType.NEW_CLUSTER if config.enable_zero_downtime else UpgradeType.NONE).value
    strategy: Default = (("upgradeStrategy",), {"type": type_})
    if isinstance(spec.get("upgradeStrategy"), dict):
        strategy = (("upgradeStrategy", "type"), type_)
    return [
        strategy,
        (("rayClusterDeletionDelaySeconds",), int(DEFAULT_DELETION_DELAY.total_seconds())),
        (("excludeHeadPodFromServeSvc",), False),
        (("suspend",), False),
    ]


def _cronjob(spec: Mapping[str, Any], _config: PlanConfig) -> Sequence[Default]:
    return [(("concurrencyPolicy",), ConcurrencyPolicy.ALLOW.value), (("suspend",), False)]


_DEFAULTS: Mapping[Kind, Callable[[Mapping[str, Any], PlanConfig], Sequence[Default]]] = {
    RAYCLUSTER: _cluster,
    RAYJOB: _job,
    RAYSERVICE: _service,
    RAYCRONJOB: _cronjob,
}


def _adding(spec: Mapping[str, Any], path: Path, value: Any) -> list[dict[str, Any]]:
    """The operation that adds *value*, unless something stands there, or there is nothing it could be added to."""
    place: Any = spec
    for part in path[:-1]:
        if isinstance(place, list) and isinstance(part, int):
            place = place[part]
        else:
            place = place.get(part) if isinstance(place, Mapping) else None
    if not isinstance(place, Mapping) or place.get(path[-1]) is not None:
        return []
    return [{"op": "add", "path": "/spec/" + "/".join(map(str, path)), "value": value}]
