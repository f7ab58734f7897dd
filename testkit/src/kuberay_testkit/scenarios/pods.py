"""What becomes of the pods of a scenario: which status they get when they start, and when a step ends them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

from kuberay.api.kinds import POD
from kuberay.api.names import HEAD, LABEL_NODE_TYPE, WORKER
from kuberay.api.times import format_time
from kuberay.kube.client import Client
from kuberay.kube.clock import Clock
from kuberay.kube.errors import ConflictError, NotFoundError

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


class PlayedPods:
    """Those of one namespace; *addresses* numbers them."""

    def __init__(self, client: Client, clock: Clock, namespace: str, addresses: Iterator[int]) -> None:
        self._client = client
        self._clock = clock
        self._namespace = namespace
        self._addresses = addresses

    async def start(self, pod: Mapping[str, Any], wishes: Mapping[str, str]) -> None:
        """What becomes of a new pod, by what *wishes* says of its role when it is time."""
        await asyncio.sleep(START_SECONDS)
        status = started(pod, wishes[role_of(pod)], next(self._addresses), self._now())
        if status is not None:
            await self._write(pod, status)

    async def move(self, pod: Mapping[str, Any], to: str, container: str = "") -> None:
        """Delete it, or put it or one of its containers into another state."""
        if to == "deleted":
            metadata = pod["metadata"]
            await self._client.delete(POD, self._namespace, metadata["name"], uid=metadata["uid"])
        else:
            await self._write(pod, moved(pod, to, container, self._now()))

    async def _write(self, pod: Mapping[str, Any], status: Mapping[str, Any]) -> None:
        """Unless the pod is gone."""
        body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
        try:
            await self._client.merge_patch(POD, self._namespace, pod["metadata"]["name"], body, subresource="status")
        except (NotFoundError, ConflictError):
            return

    def _now(self) -> str:
        return format_time(self._clock.now())


def role_of(pod: Mapping[str, Any]) -> str:
    """``head``, ``worker``, ``submitter``, or empty for any other."""
    labels = pod["metadata"].get("labels") or {}
    if JOB_NAME in labels:
        return "submitter"
    return ROLES.get(labels.get(LABEL_NODE_TYPE, ""), "")


def phase_of(pod: Mapping[str, Any]) -> str:
    return str((pod.get("status") or {}).get("phase") or "Pending")


def is_ready(pod: Mapping[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


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
