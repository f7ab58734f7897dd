"""What the demos run: the RayCluster and the RayJob of ``config/samples``, a RayService, and how their progress is told.

Also used by the end-to-end tests. Waiting reports each change of what is seen, once.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dev.demo.install import OUR_RAY_IMAGE, ROOT, never_starts
from dev.demo.kubectl import Kubectl

SAMPLES = ROOT / "config" / "samples"
NAMESPACE = "ray-demo"
CLUSTER = "autoscaling"
JOB = "pi"
SERVICE = "greeting"
SERVICE_MANIFEST = Path(__file__).parent / "rayservice.yaml"

Tell = Callable[[str], None]


class WorkloadError(Exception):
    """What did not come about, in one sentence."""


def sample(name: str, ray_image: str = OUR_RAY_IMAGE) -> str:
    """A manifest of ``config/samples`` with another Ray image, and with its version when the tag says it."""
    return _with_image(SAMPLES / name, ray_image)


def service_manifest(ray_image: str = OUR_RAY_IMAGE) -> str:
    """The RayService of the Serve demo, and its code."""
    return _with_image(SERVICE_MANIFEST, ray_image)


def _with_image(path: Path, ray_image: str) -> str:
    text = path.read_text().replace(OUR_RAY_IMAGE, ray_image)
    version = re.search(r":(\d+\.\d+\.\d+)", ray_image)
    return re.sub(r'rayVersion: "[^"]*"', f'rayVersion: "{version[1]}"', text) if version else text


def wait_for_cluster(kubectl: Kubectl, namespace: str, name: str, *, seconds: float = 300, tell: Tell) -> None:
    """Return once the RayCluster is ready. Raises `WorkloadError` with its last conditions when it is not in time."""

    def ready(cluster: dict[str, Any] | None) -> bool:
        tell(look_at_pods(kubectl, namespace, f"ray.io/cluster={name}"))
        return cluster is not None and cluster.get("status", {}).get("state") == "ready"

    _wait(kubectl, "raycluster", name, namespace, ready, seconds, "ready")


def wait_for_submitter(kubectl: Kubectl, namespace: str, name: str, *, seconds: float = 300, tell: Tell) -> str:
    """Return the name of the RayJob's submitter pod once it runs or has run."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        job = kubectl.get("rayjob", name, namespace) or {}
        status = job.get("status", {})
        for pod in kubectl.list("pods", namespace, f"batch.kubernetes.io/job-name={name}"):
            if pod["status"].get("phase") in ("Running", "Succeeded", "Failed"):
                return str(pod["metadata"]["name"])
        if status.get("jobDeploymentStatus") in ("Failed", "ValidationFailed"):
            raise WorkloadError(f"RayJob {name} is {status['jobDeploymentStatus']}: {status.get('message', '')}")
        cluster = status.get("rayClusterName")
        pods = look_at_pods(kubectl, namespace, f"ray.io/cluster={cluster}") if cluster else ""
        tell("; ".join(part for part in (status.get("jobDeploymentStatus") or "accepted", pods) if part))
        time.sleep(1)
    raise WorkloadError(f"the submitter of RayJob {name} did not run within {seconds:.0f} s")


def wait_for_job(
    kubectl: Kubectl, namespace: str, name: str, *, seconds: float = 300, tell: Tell = lambda _: None
) -> dict[str, Any]:
    """Return the status of the RayJob once it is Complete or Failed."""

    def over(job: dict[str, Any] | None) -> bool:
        status = (job or {}).get("status", {})
        tell(f"{status.get('jobDeploymentStatus', 'not seen yet')} {status.get('jobStatus', '')}".strip())
        return status.get("jobDeploymentStatus") in ("Complete", "Failed", "ValidationFailed")

    job = _wait(kubectl, "rayjob", name, namespace, over, seconds, "Complete or Failed")
    return dict(job["status"])


def wait_for_service(
    kubectl: Kubectl, namespace: str, name: str, *, seconds: float = 300, tell: Tell = lambda _: None
) -> dict[str, Any]:
    """Return the RayService once it is ready. Raises `WorkloadError` with its last conditions when it is not in time."""
    deadline = time.monotonic() + seconds
    while True:
        service = look_at_service(kubectl, namespace, name, tell)
        if condition(service, "Ready").get("status") == "True":
            return service
        if condition(service, "Ready").get("reason") == "ValidationFailed" or time.monotonic() > deadline:
            raise WorkloadError(f"rayservice {name} is not ready; {why(service or None)}")
        time.sleep(1)


def look_at_service(kubectl: Kubectl, namespace: str, name: str, tell: Tell) -> dict[str, Any]:
    """The RayService, empty when there is none; tells how its RayClusters and applications are."""
    service = kubectl.get("rayservice", name, namespace) or {}
    parts = []
    for side in ("active", "pending"):
        status = service.get("status", {}).get(f"{side}ServiceStatus", {})
        cluster = status.get("rayClusterName")
        if cluster:
            pods = look_at_pods(kubectl, namespace, f"ray.io/cluster={cluster}")
            apps = [f"{app} {seen.get('status', '')}" for app, seen in status.get("applicationStatuses", {}).items()]
            parts.append(f"{side} {cluster}: " + ", ".join([pods or "no pods yet", *apps]))
    tell("; ".join(parts))
    return service


def condition(obj: dict[str, Any], type_: str) -> dict[str, Any]:
    """A condition in the status of an object; empty when it is not there."""
    found = (c for c in obj.get("status", {}).get("conditions") or [] if c["type"] == type_)
    return next(found, {})


def gateway_url(
    kubectl: Kubectl, namespace: str, name: str, *, seconds: float = 60, tell: Tell = lambda _: None
) -> str:
    """Where the Gateway of a RayService answers, once its implementation has told."""
    deadline = time.monotonic() + seconds
    while True:
        gateway = kubectl.get("gateway", f"{name}-gateway", namespace) or {}
        addresses = [address["value"] for address in gateway.get("status", {}).get("addresses") or []]
        if addresses and condition(gateway, "Programmed").get("status") == "True":
            return f"http://{addresses[0]}:{gateway['spec']['listeners'][0]['port']}/"
        if time.monotonic() > deadline:
            raise WorkloadError(
                f"gateway {name}-gateway was not programmed within {seconds:.0f} s; {why(gateway or None)}"
            )
        tell(f"waiting for an address of the Gateway {name}-gateway")
        time.sleep(1)


def look_at_pods(kubectl: Kubectl, namespace: str, selector: str) -> str:
    """For example ``head Running 1/2, worker Pending``. Raises `WorkloadError` for a pod that will never start."""
    parts = []
    pods = kubectl.list("pods", namespace, selector)
    stuck = never_starts(pods)
    if stuck:
        raise WorkloadError(stuck)
    for pod in pods:
        statuses = pod["status"].get("containerStatuses", [])
        ready = sum(1 for status in statuses if status["ready"])
        kind = pod["metadata"]["labels"].get("ray.io/node-type", pod["metadata"]["name"])
        counts = f" {ready}/{len(statuses)}" if statuses else ""
        parts.append(f"{kind} {pod['status'].get('phase', 'Pending')}{counts}")
    return ", ".join(sorted(parts))


def _wait(
    kubectl: Kubectl,
    kind: str,
    name: str,
    namespace: str,
    reached: Callable[[dict[str, Any] | None], bool],
    seconds: float,
    what: str,
) -> dict[str, Any]:
    deadline = time.monotonic() + seconds
    while True:
        found = kubectl.get(kind, name, namespace)
        if reached(found) and found is not None:
            return found
        if time.monotonic() > deadline:
            raise WorkloadError(f"{kind} {name} was not {what} within {seconds:.0f} s; {why(found)}")
        time.sleep(1)


def why(found: dict[str, Any] | None) -> str:
    """What an object's status says of itself, for a sentence."""
    if found is None:
        return "it does not exist"
    status = found.get("status", {})
    conditions = [
        f"{c['type']}={c['status']} ({c.get('reason', '')}: {c.get('message', '')})"
        for c in status.get("conditions", [])
    ]
    words = [str(status[key]) for key in ("state", "jobDeploymentStatus", "reason", "message") if status.get(key)]
    return "its status says " + ("; ".join([*words, *conditions]) or "nothing: is the operator running?")
