"""Cases about deletion: preconditions, finalizers, collections, and what happens to dependents."""

from __future__ import annotations

from kuberay.api.kinds import POD, RAYCLUSTER
from kuberay.kube.transport import Transport

from kuberay_testkit.conformance.api import Api
from kuberay_testkit.conformance.bodies import a_cluster, a_config, a_pod
from kuberay_testkit.sim.podstatus import HOLD
from kuberay_testkit.sim.registry import CONFIG_MAP


async def case_delete_with_preconditions(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    made = await api.create(CONFIG_MAP, a_config("a"))
    wrong = {"preconditions": {"uid": "00000000-0000-4000-8000-000000000000"}}
    answer = await api.delete(CONFIG_MAP, "a", wrong)
    assert (answer.status, answer.reason) == (409, "Conflict")
    answer = await api.delete(CONFIG_MAP, "a", {"preconditions": {"resourceVersion": "1"}})
    assert answer.status == 409
    right = {"preconditions": {"uid": made.body["metadata"]["uid"], "resourceVersion": made.version}}
    assert (await api.delete(CONFIG_MAP, "a", right)).status == 200
    assert (await api.get(CONFIG_MAP, "a")).status == 404


async def case_finalizer_holds_a_deleted_object(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    body = a_cluster("a")
    body["metadata"]["finalizers"] = ["example.com/hold"]
    await api.create(RAYCLUSTER, body)
    answer = await api.delete(RAYCLUSTER, "a")
    assert answer.status == 200
    held = await api.get(RAYCLUSTER, "a")
    assert held.body["metadata"]["deletionTimestamp"]
    assert held.body["metadata"]["generation"] == 2
    more = {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}
    assert (await api.merge(RAYCLUSTER, "a", more)).status == 422
    assert (await api.merge(RAYCLUSTER, "a", {"metadata": {"finalizers": None}})).status == 200
    assert (await api.get(RAYCLUSTER, "a")).status == 404


async def case_last_version_of_a_held_object(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    body = a_cluster("a")
    body["metadata"]["finalizers"] = ["example.com/hold"]
    start = (await api.create(RAYCLUSTER, body)).version
    await api.delete(RAYCLUSTER, "a")
    await api.merge(RAYCLUSTER, "a", {"metadata": {"finalizers": None}})
    events = await api.watch(RAYCLUSTER, start, count=2)
    assert [type_ for type_, _ in events] == ["MODIFIED", "DELETED"]
    assert events[1][1]["metadata"]["finalizers"] == ["example.com/hold"]


async def case_pod_is_told_to_terminate(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    made = await api.create(POD, {"metadata": {"name": "p", "annotations": {HOLD: "true"}}, "spec": a_pod("p")["spec"]})
    answer = await api.delete(POD, "p")
    assert answer.body["metadata"]["deletionTimestamp"]
    events = await api.watch(POD, made.version, count=2)
    assert [type_ for type_, _ in events] == ["MODIFIED", "DELETED"]
    assert events[0][1]["metadata"]["generation"] == 2


async def case_delete_collection_by_label(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    for name, color in (("a", "red"), ("b", "blue"), ("c", "red")):
        await api.create(CONFIG_MAP, {"metadata": {"name": name, "labels": {"color": color}}})
    answer = await api.call("DELETE", CONFIG_MAP.path(namespace), {"labelSelector": "color=red"})
    assert answer.status == 200
    left = await api.find(CONFIG_MAP, labelSelector="color")
    assert [item["metadata"]["name"] for item in left.body["items"]] == ["b"]


async def case_owned_objects_go_with_their_owner(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    owner = (await api.create(CONFIG_MAP, a_config("owner"))).body["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["uid"]}
    await api.create(CONFIG_MAP, {"metadata": {"name": "child", "ownerReferences": [reference]}})
    gone = {**reference, "uid": "00000000-0000-4000-8000-000000000000"}
    await api.create(CONFIG_MAP, {"metadata": {"name": "stray", "ownerReferences": [gone]}})
    await api.until_gone(CONFIG_MAP, "stray")
    assert (await api.get(CONFIG_MAP, "child")).status == 200
    await api.delete(CONFIG_MAP, "owner", {"propagationPolicy": "Background"})
    await api.until_gone(CONFIG_MAP, "child")


async def case_foreground_waits_for_dependents(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    owner = (await api.create(CONFIG_MAP, a_config("owner"))).body["metadata"]
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner["uid"],
        "blockOwnerDeletion": True,
    }
    child = {"metadata": {"name": "child", "ownerReferences": [reference], "finalizers": ["example.com/hold"]}}
    await api.create(CONFIG_MAP, child)
    await api.delete(CONFIG_MAP, "owner", {"propagationPolicy": "Foreground"})
    held = await api.get(CONFIG_MAP, "owner")
    assert held.body["metadata"]["finalizers"] == ["foregroundDeletion"]
    await api.merge(CONFIG_MAP, "child", {"metadata": {"finalizers": None}})
    await api.until_gone(CONFIG_MAP, "child")
    await api.until_gone(CONFIG_MAP, "owner")


async def case_orphans_lose_their_owner(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    owner = (await api.create(CONFIG_MAP, a_config("owner"))).body["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["uid"]}
    await api.create(CONFIG_MAP, {"metadata": {"name": "child", "ownerReferences": [reference]}})
    await api.delete(CONFIG_MAP, "owner", {"propagationPolicy": "Orphan"})
    await api.until_gone(CONFIG_MAP, "owner")
    child = await api.get(CONFIG_MAP, "child")
    assert "ownerReferences" not in child.body["metadata"]
