"""What a pod's status looks like in each state a kubelet can report, and what a pod's annotations wish for."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PHASE = "fake-kubelet.kuberay.dev/phase"
READY = "fake-kubelet.kuberay.dev/ready"
DELAY = "fake-kubelet.kuberay.dev/delay"
HOLD = "fake-kubelet.kuberay.dev/hold"

PHASES = ("Pending", "Running", "Succeeded", "Failed")
_DURATION = re.compile(r"(\d+(?:\.\d+)?|\.\d+)(ns|us|µs|ms|s|m|h)")
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_BOOLS = {**dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True)}
_BOOLS.update(dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False))


@dataclass(frozen=True, slots=True)
class Wish:
    """What a pod's annotations ask for. Without any: Running and ready."""

    phase: str = "Running"
    ready: bool = True
    delay: float | None = None
    """Seconds; None: the kubelet's own."""
    hold: bool = False

    @property
    def ends(self) -> bool:
        return self.phase in ("Succeeded", "Failed")


def parse_duration(text: str) -> float:
    """Seconds from Go's notation (``1.5s``, ``2m30s``). Raises ``ValueError``."""
    if text == "0":
        return 0.0
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is not a duration")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def read_wish(annotations: Mapping[str, str]) -> Wish:
    """Raises ``ValueError`` naming the annotation that makes no sense."""
    phase = annotations.get(PHASE, "Running")
    if phase not in PHASES:
        raise ValueError(f"annotation {PHASE}: {phase!r} is none of {', '.join(PHASES)}")
    flags = {READY: True, HOLD: False}
    for name in flags:
        text = annotations.get(name)
        if text is not None:
            if text not in _BOOLS:
                raise ValueError(f"annotation {name}: {text!r} is not a boolean")
            flags[name] = _BOOLS[text]
    delay = None
    if DELAY in annotations:
        try:
            delay = parse_duration(annotations[DELAY])
        except ValueError as error:
            raise ValueError(f"annotation {DELAY}: {error}") from error
    return Wish(phase, flags[READY], delay, flags[HOLD])


def set_condition(
    status: dict[str, Any], type_: str, holds: bool, now: str, reason: str = "", message: str = ""
) -> None:
    """Set one condition; its transition time moves only when its value changes."""
    value = "True" if holds else "False"
    conditions = status.setdefault("conditions", [])
    new = {"type": type_, "status": value, "lastProbeTime": None, "lastTransitionTime": now}
    if reason:
        new["reason"] = reason
    if message:
        new["message"] = message
    for index, old in enumerate(conditions):
        if old["type"] == type_:
            if old["status"] == value:
                new["lastTransitionTime"] = old["lastTransitionTime"]
            conditions[index] = new
            return
    conditions.append(new)


def _container(
    uid: str, container: Mapping[str, Any], phase: str, ready: bool, since: str, now: str, exit_code: int
) -> dict[str, Any]:
    name, image = container["name"], container.get("image", "")
    alive = phase not in ("Succeeded", "Failed")
    status: dict[str, Any] = {
        "name": name,
        "image": image,
        "imageID": image,
        "containerID": f"sim://{uid}/{name}",
        "ready": alive and ready,
        "started": alive,
        "restartCount": 0,
        "lastState": {},
    }
    if alive:
        status["state"] = {"running": {"startedAt": since}}
        return status
    failed = phase == "Failed"
    status["state"] = {
        "terminated": {
            "exitCode": exit_code if failed else 0,
            "reason": "Error" if failed else "Completed",
            "startedAt": since,
            "finishedAt": now,
            "containerID": status["containerID"],
        }
    }
    return status


def reached(
    pod: Mapping[str, Any], phase: str, *, ready: bool, host_ip: str, pod_ip: str, now: str, exit_code: int = 1
) -> dict[str, Any]:
    """The status of *pod* once it is in *phase*; conditions of others stay."""
    status: dict[str, Any] = dict(pod.get("status") or {})
    status["conditions"] = [dict(condition) for condition in status.get("conditions") or ()]
    since = status.setdefault("startTime", now)
    status.update(phase=phase, hostIP=host_ip, hostIPs=[{"ip": host_ip}], podIP=pod_ip, podIPs=[{"ip": pod_ip}])
    ended = phase in ("Succeeded", "Failed")
    serving = ready and not ended
    why = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(phase, "" if ready else "ContainersNotReady")
    set_condition(status, "PodScheduled", True, now)
    set_condition(status, "PodReadyToStartContainers", not ended, now)
    set_condition(status, "Initialized", True, now)
    set_condition(status, "ContainersReady", serving, now, why)
    set_condition(status, "Ready", serving, now, why)
    uid, spec = pod["metadata"]["uid"], pod["spec"]
    inits = spec.get("initContainers") or ()
    if inits:
        status["initContainerStatuses"] = [
            _container(uid, each, phase, ready, since, now, exit_code)
            if each.get("restartPolicy") == "Always"
            else {**_container(uid, each, "Succeeded", True, since, since, 0), "ready": True}
            for each in inits
        ]
    status["containerStatuses"] = [
        _container(uid, each, phase, ready, since, now, exit_code) for each in spec.get("containers") or ()
    ]
    return status


def container_ended(
    pod: Mapping[str, Any], container: str, exit_code: int, message: str, now: str, *, starts_again: bool
) -> dict[str, Any]:
    """The status of a running *pod* after one of its containers has ended, by the restart policies. One that is started
    again runs at once, or with *starts_again* false waits in back-off. When all have ended for good the pod has too."""
    status: dict[str, Any] = copy.deepcopy(dict(pod["status"]))
    statuses = status["containerStatuses"]
    found = next((each for each in statuses if each["name"] == container), None)
    if found is None or "running" not in found["state"]:
        raise LookupError(f"container {container} of pod {pod['metadata']['name']} does not run")
    terminated = {
        "exitCode": exit_code,
        "reason": "Error" if exit_code else "Completed",
        "startedAt": found["state"]["running"]["startedAt"],
        "finishedAt": now,
        "containerID": found.get("containerID", ""),
        **({"message": message} if message else {}),
    }
    if _restarts(pod, container, exit_code):
        waiting = {"reason": "CrashLoopBackOff", "message": f"back-off restarting failed container={container}"}
        state = {"running": {"startedAt": now}} if starts_again else {"waiting": waiting}
        count = found["restartCount"] + starts_again
        found.update(state=state, lastState={"terminated": terminated}, restartCount=count)
    else:
        starts_again = False
        found.update(state={"terminated": terminated})
    found.update(ready=starts_again, started=starts_again)
    codes = [(each["state"].get("terminated") or {}).get("exitCode") for each in statuses]
    unready = [each["name"] for each in statuses if not each["ready"]]
    why, told = "ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]"
    if None not in codes:
        status["phase"] = "Failed" if any(codes) else "Succeeded"
        why, told = "PodFailed" if any(codes) else "PodCompleted", ""
        set_condition(status, "PodReadyToStartContainers", False, now)
    for type_ in ("ContainersReady", "Ready"):
        set_condition(status, type_, not unready, now, why if unready else "", told if unready else "")
    return status


def _restarts(pod: Mapping[str, Any], container: str, exit_code: int) -> bool:
    """A container's own policy goes before that of its pod (Kubernetes 1.35)."""
    own = next(each for each in pod["spec"]["containers"] if each["name"] == container).get("restartPolicy")
    policy = own or pod["spec"].get("restartPolicy") or "Always"
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)
