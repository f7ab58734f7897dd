"""Installs the operator in a cluster as a user would: CRDs, permissions and a Deployment.

Shared by the demo and the end-to-end tests, so that what is tested is what is shown.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from dev.demo.kubectl import Kubectl, KubectlError

ROOT = Path(__file__).resolve().parents[2]
DEPLOYMENT = ROOT / "config" / "operator" / "deployment.yaml"
NAMESPACE = "kuberay-system"
NAME = "kuberay-operator"
OUR_IMAGE = "kuberay/operator:dev"
OUR_RAY_IMAGE = "rayproject/ray:2.60.0"
CRD_NAMES = ("rayclusters.ray.io", "rayjobs.ray.io", "rayservices.ray.io", "raycronjobs.ray.io")
POD_LABELS = f"app.kubernetes.io/name={NAME},app.kubernetes.io/component={NAME}"


def printed_by_kuberay(*arguments: str) -> str:
    """What our own command prints, for example ``kuberay crds``."""
    return subprocess.run(
        [sys.executable, "-m", "kuberay.cli.main", *arguments], capture_output=True, text=True, check=True
    ).stdout


def install_crds(kubectl: Kubectl, label: str = "") -> None:
    """Apply the CRDs and wait until the API server serves them; *label* (``key=value``) marks them as ours."""
    kubectl.apply(printed_by_kuberay("crds"), "--server-side", "--force-conflicts")
    if label:
        kubectl.run("label", "--overwrite", "crd", *CRD_NAMES, label)
    deadline = time.monotonic() + 60
    # Not `kubectl wait`: it gives up where a CRD has no conditions at all yet.
    while not all(_established(kubectl, name) for name in CRD_NAMES):
        if time.monotonic() > deadline:
            raise KubectlError("the API server did not accept the CRDs within 60 s")
        time.sleep(0.5)


def _established(kubectl: Kubectl, name: str) -> bool:
    crd = kubectl.get("crd", name) or {}
    conditions = crd.get("status", {}).get("conditions") or []
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


def install_operator(kubectl: Kubectl, image: str = OUR_IMAGE, *, batch_scheduler: str = "") -> None:
    """Namespace, permissions, Deployment; an operator that already runs is restarted, for its image may be another. With a
    *batch_scheduler* that plugin is on, and has the permissions it asks for."""
    flags = [f"--batch-scheduler={batch_scheduler}"] if batch_scheduler else []
    manifests = deployment(image, flags)
    runs_already = kubectl.get("deployment", NAME, NAMESPACE) is not None
    kubectl.apply(yaml.safe_dump_all([m for m in manifests if m["kind"] == "Namespace"]))
    kubectl.apply(printed_by_kuberay("rbac", "--namespace", NAMESPACE, *flags))
    kubectl.apply(yaml.safe_dump_all([m for m in manifests if m["kind"] != "Namespace"]))
    if runs_already:
        kubectl.run("-n", NAMESPACE, "rollout", "restart", f"deployment/{NAME}")


def wait_for_operator(kubectl: Kubectl, seconds: int = 180) -> None:
    """Return once the operator's only pod is ready. Raises `KubectlError` as soon as it is known never to be."""
    deadline = time.monotonic() + seconds
    while not _rolled_out(kubectl.get("deployment", NAME, NAMESPACE) or {}):
        stuck = never_starts(kubectl.list("pods", NAMESPACE, POD_LABELS))
        if stuck:
            raise KubectlError(stuck)
        if time.monotonic() > deadline:
            raise KubectlError(f"the operator was not ready within {seconds} s")
        time.sleep(0.5)


def _rolled_out(deployment: dict[str, Any]) -> bool:
    status = deployment.get("status", {})
    if status.get("observedGeneration") != deployment.get("metadata", {}).get("generation"):
        return False
    return [status.get(key) for key in ("updatedReplicas", "readyReplicas", "replicas")] == [1, 1, 1]


HOPELESS = (
    "CrashLoopBackOff",
    "CreateContainerConfigError",
    "ErrImageNeverPull",
    "ImagePullBackOff",
    "InvalidImageName",
)


def never_starts(pods: list[dict[str, Any]]) -> str:
    """One sentence about a container that will not start without somebody's help; empty when there is none."""
    for pod in pods:
        status = pod["status"]
        for container in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
            waiting = container.get("state", {}).get("waiting", {})
            if waiting.get("reason") in HOPELESS:
                name, reason = pod["metadata"]["name"], waiting["reason"]
                return f"pod {name}, container {container['name']}: {reason}: {waiting.get('message', '')}"
    return ""


def deployment(image: str, flags: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The manifests of ``config/operator/deployment.yaml`` with another image, and more *flags* for the operator."""
    manifests = list(yaml.safe_load_all(DEPLOYMENT.read_text()))
    for manifest in manifests:
        if manifest["kind"] == "Deployment":
            container = manifest["spec"]["template"]["spec"]["containers"][0]
            container["image"] = image
            container["args"] = [*container["args"], *flags]
    return manifests
