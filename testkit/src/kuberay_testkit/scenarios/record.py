"""Writes down what happens to a scenario's objects: states of the main one, lives of the others, checkpoints, events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kuberay.api.kinds import POD, RAYCLUSTER, RAYJOB, SERVICE, Kind
from kuberay.api.names import LABEL_CLUSTER

from kuberay_testkit.scenarios.masks import Masks
from kuberay_testkit.scenarios.pods import role_of, terminating

Body = dict[str, Any]
LIVES = ("RayCluster", "RayJob", "RayService", "RayCronJob", "Job")
"""Kinds whose creations and removals count."""

_OWNS_SERVICES = ("RayJob", "RayService")


@dataclass(slots=True)
class Played:
    """What a run of a scenario showed, masked."""

    transitions: list[Body]
    lifecycle: dict[str, list[str]]
    requests: dict[str, list[Body]]
    events: dict[str, list[tuple[str, str]]]
    """By object: (time, type and reason), in order of time."""
    checkpoints: list[Body]
    final: Body


@dataclass(slots=True)
class Record:
    """Fed with every change of a scenario's namespace."""

    main_kind: str
    main_name: str
    masks: Masks
    transitions: list[Body] = field(default_factory=list)
    lifecycle: dict[str, list[str]] = field(default_factory=dict)
    checkpoints: list[Body] = field(default_factory=list)

    def change(self, kind: Kind, change: str, obj: Body) -> None:
        """One change, in the order the API server told them."""
        name = obj["metadata"]["name"]
        if kind.kind == "RayJob":
            status = obj.get("status") or {}
            self.masks.scheduled(name)
            self.masks.cluster(status.get("rayClusterName", ""))
            self.masks.job_id(status.get("jobId", ""))
        elif kind == RAYCLUSTER:
            self.masks.cluster(name)
        is_main = (kind.kind, name) == (self.main_kind, self.main_name)
        if kind.kind in LIVES and change != "MODIFIED" and not (is_main and change == "ADDED"):
            word = "created" if change == "ADDED" else "gone"
            self.lifecycle.setdefault(kind.kind, []).append(f"{word} {name}")
        if is_main and change != "DELETED":
            state = state_of(kind.kind, obj)
            if state is not None and (not self.transitions or self.transitions[-1] != state):
                self.transitions.append(state)


def state_of(kind: str, obj: Mapping[str, Any]) -> Body | None:
    """What counts as one state of a main object; None: it has none yet."""
    status = obj.get("status") or {}
    if kind == "RayCronJob":
        return {"lastScheduleTime": "set" if status.get("lastScheduleTime") else "unset"}
    if not status:
        return None
    return {
        "jobDeploymentStatus": status.get("jobDeploymentStatus", ""),
        "jobStatus": status.get("jobStatus", ""),
        "reason": status.get("reason", ""),
        "failed": status.get("failed", 0),
        "succeeded": status.get("succeeded", 0),
        "cluster": status.get("rayClusterName", ""),
        "jobId": status.get("jobId", ""),
        "statusCheckFailing": bool(status.get("jobStatusCheckFailureStartTime")),
    }


def checkpoint(objects: Iterable[tuple[Kind, Body]]) -> Body:
    """What lives: names by kind, pods by cluster and role, selectors of the main object's services, suspended groups."""
    names: dict[str, Any] = {}
    selectors: Body = {}
    suspended: Body = {}
    for kind, obj in objects:
        name = obj["metadata"]["name"]
        if terminating(obj):
            continue
        if kind == POD:
            _count_pod(names, obj)
            continue
        names.setdefault(kind.kind, []).append(name)
        owners = {owner["kind"] for owner in obj["metadata"].get("ownerReferences") or ()}
        if kind == SERVICE and owners & set(_OWNS_SERVICES):
            selectors[name] = obj["spec"].get("selector") or {}
        if kind == RAYCLUSTER:
            groups = obj["spec"].get("workerGroupSpecs") or ()
            if stopped := [group["groupName"] for group in groups if group.get("suspend")]:
                suspended[name] = stopped
    found: Body = {"objects": names}
    if selectors:
        found["selectors"] = selectors
    if suspended:
        found["suspendedGroups"] = suspended
    return found


def _count_pod(names: dict[str, Any], pod: Body) -> None:
    role = role_of(pod)
    if role in ("submitter", ""):
        return
    cluster = (pod["metadata"].get("labels") or {}).get(LABEL_CLUSTER, "")
    entry = names.setdefault("Pod", {}).setdefault(f"{cluster} {role}", {"count": 0})
    entry["count"] += 1


def final(main: Body | None, kind: str, objects: Iterable[tuple[Kind, Body]]) -> Body:
    """What is left at the end, and the main object's own end."""
    found: Body = {"exists": main is not None}
    if main is not None:
        found["finalizers"] = main["metadata"].get("finalizers") or []
        if kind == RAYJOB.kind:
            status = main.get("status") or {}
            told = ("jobDeploymentStatus", "jobStatus", "reason", "message")
            found["status"] = {key: status[key] for key in told if status.get(key)}
            found["status"].update({key: status.get(key, 0) for key in ("failed", "succeeded")})
            info = status.get("rayJobInfo") or {}
            times = [key for key in ("startTime", "endTime") if status.get(key)]
            times += [f"rayJobInfo.{key}" for key in ("startTime", "endTime") if info.get(key)]
            found["times"] = times
    return {**found, **checkpoint(objects)}
