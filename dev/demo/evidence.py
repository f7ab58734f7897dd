"""What to show when something did not work: the operator's log, pods, events, and the logs of what is not ready."""

from __future__ import annotations

from collections.abc import Callable

from dev.demo.install import NAME, NAMESPACE
from dev.demo.kubectl import Kubectl, KubectlError

Write = Callable[[str], None]


def show(kubectl: Kubectl, namespace: str, write: Write) -> None:
    """Write everything that helps to find the reason, most telling last."""
    _section(write, "pods", kubectl.try_run("get", "pods", "-A", "-o", "wide"))
    kinds = "rayservices,rayclusters,rayjobs,jobs,services"
    _section(write, "Ray objects", kubectl.try_run("-n", namespace, "get", kinds))
    for kind in ("rayservices", "gateways", "httproutes"):
        _described(kubectl, namespace, kind, write)
    events = kubectl.try_run("-n", namespace, "get", "events", "--sort-by=.lastTimestamp")
    _section(write, "last events", events, last=20)
    for where in (NAMESPACE, namespace):
        _not_ready(kubectl, where, write)
    log = kubectl.try_run("-n", NAMESPACE, "logs", f"deployment/{NAME}", "--tail=40")
    _section(write, "end of the operator's log", log)


def _described(kubectl: Kubectl, namespace: str, kind: str, write: Write) -> None:
    """Status and events of all objects of a kind, where there are any."""
    try:
        found = kubectl.list(kind, namespace)
    except KubectlError as error:
        write(str(error))
        return
    for obj in found:
        name = obj["metadata"]["name"]
        text = kubectl.try_run("-n", namespace, "describe", kind, name)
        _section(write, f"{kind} {name}", text[text.find("\nStatus:") + 1 :], last=80)


def _not_ready(kubectl: Kubectl, namespace: str, write: Write) -> None:
    try:
        pods = kubectl.list("pods", namespace)
    except KubectlError as error:
        write(str(error))
        return
    for pod in pods:
        name, status = pod["metadata"]["name"], pod["status"]
        statuses = status.get("initContainerStatuses", []) + status.get("containerStatuses", [])
        waiting = [s["name"] for s in statuses if not s["ready"]]
        if status.get("phase") == "Succeeded" or (statuses and not waiting):
            continue
        described = kubectl.try_run("-n", namespace, "describe", "pod", name)
        _section(write, f"pod {name} is not ready", described, last=25)
        for container in waiting:
            log = kubectl.try_run("-n", namespace, "logs", name, "-c", container, "--tail=25")
            _section(write, f"end of the log of {name}, container {container}", log)


def _section(write: Write, title: str, text: str, last: int = 40) -> None:
    write(f"--- {title}")
    for line in text.strip().splitlines()[-last:]:
        write(f"    {line}")
