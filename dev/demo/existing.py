"""What the demo may do on a cluster that is not its own: refuse where another operator works, remove only what it made."""

from __future__ import annotations

from dev.demo import install, workload
from dev.demo.kubectl import Kubectl
from dev.demo.progress import Progress

LABEL = "kuberay.io/made-by"
MARK = f"{LABEL}=demo"


class NotFreeError(Exception):
    """The cluster has something that the demo must not touch; one sentence."""


def check_free(kubectl: Kubectl) -> None:
    """Raise `NotFreeError` where an operator that the demo did not install is at work."""
    for deployment in kubectl.list("deployments"):
        namespace, name = deployment["metadata"]["namespace"], deployment["metadata"]["name"]
        labels = deployment["metadata"].get("labels", {})
        if labels.get("app.kubernetes.io/name") == install.NAME and namespace != install.NAMESPACE:
            raise NotFreeError(
                f"the cluster already has an operator, {namespace}/{name}; two would fight over the same objects"
            )
    for name in install.CRD_NAMES:
        crd = kubectl.get("crd", name)
        if crd is not None and crd["metadata"].get("labels", {}).get(LABEL) != "demo":
            raise NotFreeError(
                f"the cluster already has the CRD {name}, which the demo did not install; use a cluster without KubeRay"
            )


def remove(kubectl: Kubectl, progress: Progress) -> None:
    """Remove everything that the demo made, the CRDs last; what somebody else made stays. Raises `NotFreeError` where nothing
    is the demo's: the CRDs come first and go last, so without one that has its mark the rest is somebody else's."""
    if not kubectl.list("crd", selector=MARK):
        raise NotFreeError("nothing on this cluster was made by the demo, so nothing is removed")
    with progress.step("removing the demo's Ray objects"):
        for kind in ("rayservice", "rayjob", "raycluster"):
            if kubectl.get("crd", f"{kind}s.ray.io") is not None:
                kubectl.run("-n", workload.NAMESPACE, "delete", kind, "--all", "--timeout=120s", seconds=130)
        kubectl.delete("namespace", workload.NAMESPACE)
    with progress.step("removing the operator"):
        kubectl.delete("namespace", install.NAMESPACE)
        for kind in ("clusterrolebinding", "clusterrole"):
            kubectl.delete(kind, install.NAME)
    with progress.step("removing the CRDs"):
        kubectl.run("delete", "crd", "-l", MARK, "--ignore-not-found", "--timeout=120s", seconds=130)
