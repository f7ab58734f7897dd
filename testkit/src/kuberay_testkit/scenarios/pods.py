"""What becomes of the pods of a scenario: which status they get when they start, and when a step ends them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kuberay.api.names import HEAD, LABEL_NODE_TYPE, WORKER

from kuberay_testkit.scenarios.script import UnsupportedStepError
from kuberay_testkit.sim.podstatus import HOLD, container_ended, reached

HELD = {HOLD: "true"}
"""Annotations for head and worker pods that keep other kubelets from playing them; an operator adds them by its
``defaultPodAnnotations``."""

JOB_NAME = "batch.kubernetes.io/job-name"
HOST_IP = "10.77.0.1"
ROLES = {HEAD: "head", WORKER: "worker"}
START_SECONDS = 0.4
"""How long a pod takes to start."""


def role_of(pod: Mapping[str, Any]) -> str:
    """``head``, ``worker``, ``submitter``, or empty for any other."""
    labels = pod["metadata"].get("labels") or {}
    if JOB_NAME in labels:
        return "submitter"
    return ROLES.get(labels.get(LABEL_NODE_TYPE, ""), "")


def phase_of(pod: Mapping[str, Any]) -> str:
    return str((pod.get("status") or {}).get("phase") or "Pending")


def terminating(obj: Mapping[str, Any]) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def started(pod: Mapping[str, Any], wish: str, number: int, now: str) -> dict[str, Any] | None:
    """The status of a pod that starts as *wish* says; None when it does not start at all."""
    match wish:
        case "none":
            return None
        case "ready" | "unready":
            return _status(pod, "Running", number, now, ready=wish == "ready")
    raise UnsupportedStepError(f"a pod cannot be {wish!r}")


def moved(pod: Mapping[str, Any], to: str, container: str, now: str) -> dict[str, Any]:
    """The status of a pod, or of one of its containers, that a step moves."""
    if container:
        if to not in ("succeeded", "failed"):
            raise UnsupportedStepError(f"a container cannot be made {to!r}")
        return container_ended(pod, container, int(to == "failed"), "", now, starts_again=False)
    match to:
        case "ready" | "unready":
            return _status(pod, "Running", 0, now, ready=to == "ready")
        case "failed":
            return _status(pod, "Failed", 0, now, ready=False)
        case "succeeded":
            return _status(pod, "Succeeded", 0, now, ready=False)
    raise UnsupportedStepError(f"a pod cannot be made {to!r}")


def _status(pod: Mapping[str, Any], phase: str, number: int, now: str, *, ready: bool) -> dict[str, Any]:
    address = (pod.get("status") or {}).get("podIP") or f"10.17.{number >> 8 & 255}.{number & 255}"
    return reached(pod, phase, ready=ready, host_ip=HOST_IP, pod_ip=address, now=now)
