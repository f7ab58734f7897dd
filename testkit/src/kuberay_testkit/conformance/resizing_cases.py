"""Cases about CPU and memory of pods that exist: what ``pods/resize`` changes, and what it refuses (Kubernetes 1.33)."""

from __future__ import annotations

from typing import Any

from kuberay.api.kinds import POD
from kuberay.kube.transport import Transport

from kuberay_testkit.conformance.api import Api

RESIZE = "resize"


def _pod(requests: dict[str, str], limits: dict[str, str]) -> dict[str, Any]:
    """A pod that nobody starts: one that runs must have a kubelet that tells the sizes of containers."""
    container = {"name": "main", "image": "busybox:1", "resources": {"requests": requests, "limits": limits}}
    annotations = {"fake-kubelet.kuberay.dev/hold": "true"}
    return {"metadata": {"name": "p", "annotations": annotations}, "spec": {"containers": [container]}}


def _set(path: str, value: str) -> list[dict[str, Any]]:
    return [
        {"op": "test", "path": "/spec/containers/0/name", "value": "main"},
        {"op": "replace", "path": f"/spec/containers/0/{path}", "value": value},
    ]


async def case_resize_is_discovered(transport: Transport, namespace: str) -> None:
    answer = await Api(transport, namespace).call("GET", "/api/v1")
    assert "pods/resize" in {resource["name"] for resource in answer.body["resources"]}


async def case_resize_changes_cpu_and_memory(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    made = await api.create(POD, _pod({"cpu": "1", "memory": "64Mi"}, {"cpu": "2", "memory": "1Gi"}))
    for path, value in (("resources/requests/cpu", "1500m"), ("resources/limits/memory", "2Gi")):
        answer = await api.json_patch(POD, "p", _set(path, value), RESIZE)
        assert answer.status == 200
    resources = (await api.get(POD, "p")).body["spec"]["containers"][0]["resources"]
    assert resources == {"requests": {"cpu": "1500m", "memory": "64Mi"}, "limits": {"cpu": "2", "memory": "2Gi"}}
    assert answer.body["metadata"]["uid"] == made.body["metadata"]["uid"]


async def case_resize_is_only_for_sizes(transport: Transport, namespace: str) -> None:
    """The pod itself takes no other size, and the subresource drops everything but sizes."""
    api = Api(transport, namespace)
    await api.create(POD, _pod({"cpu": "1"}, {"cpu": "2"}))
    answer = await api.json_patch(POD, "p", _set("resources/requests/cpu", "1500m"))
    assert (answer.status, answer.reason) == (422, "Invalid")
    answer = await api.json_patch(POD, "p", _set("image", "busybox:2"), RESIZE)
    assert answer.status == 200
    assert (await api.get(POD, "p")).body["spec"]["containers"][0]["image"] == "busybox:1"


async def case_resize_keeps_the_class_of_service(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    amounts = {"cpu": "1", "memory": "64Mi"}
    await api.create(POD, _pod(dict(amounts), dict(amounts)))
    answer = await api.json_patch(POD, "p", _set("resources/requests/cpu", "500m"), RESIZE)
    assert (answer.status, answer.reason) == (422, "Invalid")
    assert "Pod QOS Class may not change as a result of resizing" in answer.message


async def case_resize_of_an_absent_pod(transport: Transport, namespace: str) -> None:
    answer = await Api(transport, namespace).json_patch(POD, "p", _set("resources/requests/cpu", "1"), RESIZE)
    assert (answer.status, answer.reason) == (404, "NotFound")
