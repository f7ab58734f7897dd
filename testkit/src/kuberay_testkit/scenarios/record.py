"""Writes down what happens to a scenario's objects: states of the main one, lives of the others, checkpoints, events."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from kuberay.api.conditions import ServiceCondition
from kuberay.api.kinds import GATEWAY, HTTP_ROUTE, POD, RAYCLUSTER, RAYJOB, RAYSERVICE, SERVICE, Kind
from kuberay.api.names import LABEL_CLUSTER, LABEL_SERVE

from kuberay_testkit.scenarios.masks import Masks
from kuberay_testkit.scenarios.pods import role_of, terminating

Body = dict[str, Any]
ONE_PASS = 1.5
"""What is so many seconds apart may have come from one pass."""
LIVES = ("RayCluster", "RayJob", "RayService", "RayCronJob", "Job")
"""Kinds whose creations and removals count."""

SERVICE_CONDITIONS = frozenset(
    {
        ServiceCondition.READY,
        ServiceCondition.UPGRADE_IN_PROGRESS,
        ServiceCondition.ROLLBACK_IN_PROGRESS,
        ServiceCondition.SUSPENDING,
        ServiceCondition.SUSPENDED,
    }
)
"""Those that KubeRay has; others are no part of what was recorded."""

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
    lasted: list[float] = field(default_factory=list)
    """Seconds that each of the ``transitions`` was there."""


@dataclass(slots=True)
class Record:
    """Fed with every change of a scenario's namespace."""

    main_kind: str
    main_name: str
    masks: Masks
    seconds: Callable[[], float]
    """A clock."""
    since: list[float] = field(default_factory=list)
    """When each of the `transitions` came."""
    transitions: list[Body] = field(default_factory=list)
    lifecycle: dict[str, list[str]] = field(default_factory=dict)
    _removed: dict[str, float] = field(default_factory=dict)
    checkpoints: list[Body] = field(default_factory=list)

    def change(self, kind: Kind, change: str, obj: Body) -> None:
        """One change, in the order the API server told them."""
        name = obj["metadata"]["name"]
        if kind.kind == "RayJob":
            status = obj.get("status") or {}
            self.masks.scheduled(name)
            self.masks.cluster(status.get("rayClusterName", ""))
            self.masks.job_id(status.get("jobId", ""))
        elif kind == RAYSERVICE:
            for side in ("active", "pending"):
                told = (obj.get("status") or {}).get(f"{side}ServiceStatus") or {}
                self.masks.cluster(told.get("rayClusterName", ""))
        elif kind == RAYCLUSTER:
            self.masks.cluster(name)
        is_main = (kind.kind, name) == (self.main_kind, self.main_name)
        if kind.kind in LIVES and change != "MODIFIED" and not (is_main and change == "ADDED"):
            word = "created" if change == "ADDED" else "gone"
            self._live(kind.kind, f"{word} {name}")
        if is_main and change != "DELETED":
            state = state_of(kind.kind, obj)
            if state is not None and (not self.transitions or self.transitions[-1] != state):
                self.transitions.append(state)
                self.since.append(self.seconds())

    def _live(self, kind: str, what: str) -> None:
        """In the order it happened; objects removed by one pass are in that in which they were made: KubeRay takes them from
        a map, so theirs is chance."""
        lives, now = self.lifecycle.setdefault(kind, []), self.seconds()
        together = now - self._removed.get(kind, -math.inf) < ONE_PASS
        lives.append(what)
        if what.startswith("gone "):
            self._removed[kind] = now
            place = len(lives) - 1
            while (
                together
                and place
                and lives[place - 1].startswith("gone ")
                and _born(lives, place - 1) > _born(lives, place)
            ):
                lives[place - 1 : place + 1] = reversed(lives[place - 1 : place + 1])
                place -= 1

    def lasted(self) -> list[float]:
        """Seconds that each state was there, the last one for ever."""
        return [after - before for before, after in pairwise([*self.since, math.inf])]


def _born(lives: Sequence[str], place: int) -> int:
    """Where in *lives* the object that is gone at *place* was created."""
    created = lives[place].replace("gone ", "created ", 1)
    return lives.index(created) if created in lives else -1


def state_of(kind: str, obj: Mapping[str, Any]) -> Body | None:
    """What counts as one state of a main object; None: it has none yet."""
    status = obj.get("status") or {}
    if kind == "RayCronJob":
        return {"lastScheduleTime": "set" if status.get("lastScheduleTime") else "unset"}
    if not status:
        return None
    if kind == RAYSERVICE.kind:
        return _service_state(status)
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


def _service_state(status: Mapping[str, Any]) -> Body:
    return {
        "serviceStatus": status.get("serviceStatus", ""),
        "conditions": _service_conditions(status),
        "active": _side(status.get("activeServiceStatus") or {}),
        "pending": _side(status.get("pendingServiceStatus") or {}),
        "endpoints": ">0" if status.get("numServeEndpoints") else "0",
    }


def _service_conditions(status: Mapping[str, Any]) -> dict[str, str]:
    told = sorted(status.get("conditions") or (), key=lambda condition: str(condition["type"]))
    return {c["type"]: f"{c['status']}/{c.get('reason', '')}" for c in told if c["type"] in SERVICE_CONDITIONS}


def _side(status: Mapping[str, Any]) -> Body | None:
    """The active or the pending cluster of a RayService; None: there is none."""
    if not status.get("rayClusterName"):
        return None
    side: Body = {"cluster": status["rayClusterName"]}
    if apps := status.get("applicationStatuses"):
        side["apps"] = {name: app.get("status", "") for name, app in apps.items()}
    side.update({key: status[key] for key in ("targetCapacity", "trafficRoutedPercent") if status.get(key) is not None})
    return side


def checkpoint(main_kind: str, main: Body | None, objects: Iterable[tuple[Kind, Body]]) -> Body:
    """What lives: names by kind, pods by cluster and role, selectors of the main object's services, suspended groups, where
    a Gateway's requests go. Of a RayService how many endpoints it counts, too."""
    names: dict[str, Any] = {}
    selectors: Body = {}
    suspended: Body = {}
    gateways: list[str] = []
    routes: Body = {}
    for kind, obj in objects:
        name = obj["metadata"]["name"]
        if terminating(obj):
            continue
        if kind == POD:
            _count_pod(names, obj)
            continue
        if kind == GATEWAY:
            gateways.append(name)
            continue
        if kind == HTTP_ROUTE:
            backends = [backend for rule in obj["spec"]["rules"] for backend in rule.get("backendRefs") or ()]
            routes[name] = [[each["name"], each.get("port"), each.get("weight", 1)] for each in backends]
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
    if main_kind == RAYSERVICE.kind:
        found["numServeEndpoints"] = ((main or {}).get("status") or {}).get("numServeEndpoints", 0)
    if gateways or routes:
        found.update(gateway=gateways, route=routes)
    return found


def _count_pod(names: dict[str, Any], pod: Body) -> None:
    role = role_of(pod)
    if role in ("submitter", ""):
        return
    cluster = (pod["metadata"].get("labels") or {}).get(LABEL_CLUSTER, "")
    entry = names.setdefault("Pod", {}).setdefault(f"{cluster} {role}", {"count": 0})
    entry["count"] += 1
    if serves := (pod["metadata"].get("labels") or {}).get(LABEL_SERVE):
        # One value in all that was recorded; pods that differ show both.
        entry[LABEL_SERVE] = ",".join(sorted({serves, *entry.get(LABEL_SERVE, serves).split(",")}))


def final(kind: str, main: Body | None, objects: Iterable[tuple[Kind, Body]]) -> Body:
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
        elif kind == RAYSERVICE.kind:
            status = main.get("status") or {}
            found["conditions"] = _service_conditions(status)
            is_current = status.get("observedGeneration") == main["metadata"].get("generation")
            found["observedGeneration"] = "current" if is_current else "older"
    return {**found, **checkpoint(kind, main, objects)}
