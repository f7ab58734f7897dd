"""The operator's pod in end-to-end tests: killed with SIGKILL, replaced, and waited for."""

from __future__ import annotations

from typing import Any

import node
from waiting import eventually

from dev.demo import install
from dev.demo.kubectl import Kubectl

CONTAINER = "kuberay-operator"


def pod(kubectl: Kubectl, operator: str) -> dict[str, Any]:
    """The operator's only pod; *operator* is its namespace."""
    (found,) = kubectl.list("pods", operator, install.POD_LABELS)
    return found


def restarts(kubectl: Kubectl, operator: str) -> int:
    (status,) = pod(kubectl, operator)["status"]["containerStatuses"]
    return int(status["restartCount"])


def renew(kubectl: Kubectl, operator: str) -> None:
    """A new pod, where the present one was killed: the kubelet waits longer before each restart of a container that keeps on
    ending."""
    if restarts(kubectl, operator):
        kubectl.run("-n", operator, "rollout", "restart", f"deployment/{install.NAME}")
        install.wait_for_operator(kubectl)


def kill(kubectl: Kubectl, operator: str) -> int:
    """Kill its process; the kubelet starts another one in the same pod, which is not waited for. Gives the restarts before."""
    install.wait_for_operator(kubectl)
    before = restarts(kubectl, operator)
    node.kill(pod(kubectl, operator), CONTAINER)
    return before


def wait_for_the_next(kubectl: Kubectl, operator: str, before: int) -> None:
    eventually(lambda: restarts(kubectl, operator) > before, 120, "the operator's container has started again")
    install.wait_for_operator(kubectl)


def replace(kubectl: Kubectl, operator: str) -> None:
    """Its pod goes without a farewell, and one under another name takes over."""
    before = pod(kubectl, operator)["metadata"]
    kubectl.run("-n", operator, "delete", "pod", before["name"], "--grace-period=0", "--force")
    install.wait_for_operator(kubectl)
    assert pod(kubectl, operator)["metadata"]["uid"] != before["uid"]


def crash(kubectl: Kubectl, operator: str) -> None:
    """Kill its process and have another pod take over at once, however often that is done."""
    node.kill(pod(kubectl, operator), CONTAINER)
    replace(kubectl, operator)
