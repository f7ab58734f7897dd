"""Cases about server-side apply: who owns what, conflicts, what is removed, how lists merge."""

from __future__ import annotations

from typing import Any

from kuberay.api.kinds import POD, RAYCLUSTER, SERVICE
from kuberay.kube.transport import Transport

from kuberay_testkit.conformance.api import Answer, Api, fields_of, owners_of
from kuberay_testkit.conformance.bodies import a_cluster, a_config
from kuberay_testkit.sim.registry import CONFIG_MAP


async def case_apply_creates_and_owns(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    body = {"metadata": {"name": "a", "labels": {"k": "v"}}, "data": {"x": "1"}}
    made = await api.apply(CONFIG_MAP, body, manager="one")
    assert made.status == 201
    assert owners_of(made.body) == ["one/Apply"]
    assert fields_of(made.body, "one") == {"f:data": {"f:x": {}}, "f:metadata": {"f:labels": {"f:k": {}}}}


async def case_apply_removes_what_it_no_longer_says(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    await api.apply(CONFIG_MAP, a_config("a", x="1", y="2"), manager="one")
    await api.merge(CONFIG_MAP, "a", {"data": {"z": "3"}}, fieldManager="two")
    answer = await api.apply(CONFIG_MAP, a_config("a", x="1"), manager="one")
    assert answer.body["data"] == {"x": "1", "z": "3"}


async def case_apply_keeps_what_others_also_own(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    await api.apply(CONFIG_MAP, a_config("a", x="1", y="2"), manager="one")
    shared = await api.apply(CONFIG_MAP, a_config("a", y="2"), manager="two")
    assert owners_of(shared.body) == ["one/Apply", "two/Apply"]
    answer = await api.apply(CONFIG_MAP, a_config("a", x="1"), manager="one")
    assert answer.body["data"] == {"x": "1", "y": "2"}
    last = await api.apply(CONFIG_MAP, a_config("a"), manager="two")
    assert last.body["data"] == {"x": "1"}


async def case_apply_conflicts_name_the_manager(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    await api.apply(CONFIG_MAP, a_config("a", x="1"), manager="one")
    refused = await api.apply(CONFIG_MAP, a_config("a", x="2"), manager="two")
    assert (refused.status, refused.reason) == (409, "Conflict")
    assert refused.message == 'Apply failed with 1 conflict: conflict with "one": .data.x'
    (cause,) = refused.body["details"]["causes"]
    assert cause == {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".data.x"}
    forced = await api.apply(CONFIG_MAP, a_config("a", x="2"), manager="two", force=True)
    assert forced.status == 200
    assert owners_of(forced.body) == ["two/Apply"]


async def case_apply_conflicts_with_update(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    await api.create(CONFIG_MAP, a_config("a", x="1"), fieldManager="editor")
    refused = await api.apply(CONFIG_MAP, a_config("a", x="2"), manager="two")
    assert refused.status == 409
    assert 'conflict with "editor" using v1' in refused.message
    # The same value is no conflict: both own it.
    assert (await api.apply(CONFIG_MAP, a_config("a", x="1"), manager="two")).status == 200


async def case_update_takes_fields_from_appliers(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    await api.apply(CONFIG_MAP, a_config("a", x="1", y="1"), manager="one")
    answer = await api.merge(CONFIG_MAP, "a", {"data": {"x": "2"}}, fieldManager="editor")
    assert fields_of(answer.body, "one") == {"f:data": {"f:y": {}}}
    assert fields_of(answer.body, "editor") == {"f:data": {"f:x": {}}}


async def case_apply_needs_a_manager(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    answer = await api.apply(CONFIG_MAP, a_config("a"), manager="")
    assert answer.status in (400, 422)


async def case_apply_with_foreign_uid_conflicts(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    uid = "00000000-0000-4000-8000-000000000000"
    with_uid = {"metadata": {"name": "a", "uid": uid}, "data": {"x": "1"}}
    refused = await api.apply(CONFIG_MAP, with_uid, manager="one")
    assert (refused.status, refused.reason) == (409, "Conflict")
    assert "uid mismatch" in refused.message
    assert (await api.get(CONFIG_MAP, "a")).status == 404
    await api.apply(CONFIG_MAP, a_config("a", x="1"), manager="one")
    # On an object that exists it is another error, and on the status of a custom kind it is none at all.
    immutable = await api.apply(CONFIG_MAP, with_uid, manager="one")
    assert (immutable.status, immutable.reason) == (422, "Invalid")
    await api.create(RAYCLUSTER, a_cluster("a"))
    status = {"metadata": {"name": "a", "uid": uid}, "status": {"state": "ready"}}
    assert (await api.apply(RAYCLUSTER, status, manager="one", subresource="status")).status == 200


async def case_apply_of_stale_version_conflicts(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    first = await api.apply(CONFIG_MAP, a_config("a", x="1"), manager="one")
    await api.apply(CONFIG_MAP, a_config("a", x="2"), manager="one")
    stale = {"metadata": {"name": "a", "resourceVersion": first.version}, "data": {"x": "3"}}
    assert (await api.apply(CONFIG_MAP, stale, manager="one", force=True)).status == 409


async def case_status_apply_of_stale_version_conflicts(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    first = await api.create(RAYCLUSTER, a_cluster("a"))
    await api.merge(RAYCLUSTER, "a", {"metadata": {"labels": {"a": "b"}}})
    body = {"metadata": {"name": "a", "resourceVersion": first.version}, "status": {"state": "ready"}}
    answer = await api.apply(RAYCLUSTER, body, manager="one", subresource="status")
    assert (answer.status, answer.reason) == (409, "Conflict")


async def case_status_apply_of_nothing(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    await api.create(RAYCLUSTER, a_cluster("a"))
    full = {"metadata": {"name": "a"}, "status": {"state": "ready"}}
    await api.apply(RAYCLUSTER, full, manager="one", subresource="status")
    # An empty map in place of what was applied before turns into null, which the schema refuses.
    empty = await api.apply(RAYCLUSTER, {"metadata": {"name": "a"}, "status": {}}, manager="one", subresource="status")
    assert (empty.status, empty.reason) == (422, "Invalid")
    absent = await api.apply(RAYCLUSTER, {"metadata": {"name": "a"}}, manager="one", subresource="status")
    assert absent.status == 200
    assert not absent.body.get("status")


async def case_apply_of_a_map_that_became_empty(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    await api.create(RAYCLUSTER, a_cluster("a"))

    async def apply(head: dict[str, Any] | None, manager: str = "one") -> Answer:
        status = {"state": "ready"} | ({} if head is None else {"head": head})
        body = {"metadata": {"name": "a"}, "status": status}
        return await api.apply(RAYCLUSTER, body, manager=manager, subresource="status")

    assert (await apply({})).status == 200
    await apply({"podIP": "10.0.0.1"})
    refused = await apply({})
    assert (refused.status, refused.reason) == (422, "Invalid")
    assert 'status.head: Invalid value: "null": head in body must be of type object' in refused.message
    # Left out it goes; and what others have in it keeps it a map.
    assert (await apply(None)).body["status"] == {"state": "ready"}
    await apply({"podIP": "10.0.0.1"})
    await apply({"podName": "h"}, manager="two")
    assert (await apply({})).body["status"]["head"] == {"podName": "h"}


async def case_apply_conflicts_of_status_manager(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    await api.create(RAYCLUSTER, a_cluster("a"))
    await api.merge(RAYCLUSTER, "a", {"status": {"state": "x", "reason": "k"}}, "status", fieldManager="other")
    body = {"metadata": {"name": "a"}, "status": {"state": "y", "reason": "z"}}
    refused = await api.apply(RAYCLUSTER, body, manager="one", subresource="status")
    assert refused.message == (
        'Apply failed with 2 conflicts: conflicts with "other" with subresource "status" using ray.io/v1:\n'
        "- .status.reason\n- .status.state"
    )


async def case_apply_with_repeated_key_fails(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    containers = [{"name": "a", "image": "busybox:1"}, {"name": "a", "image": "busybox:1"}]
    answer = await api.apply(POD, {"metadata": {"name": "p"}, "spec": {"containers": containers}}, manager="one")
    assert answer.status == 500
    assert '.spec.containers: duplicate entries for key [name="a"]' in answer.message


async def case_apply_orders_keyed_lists(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)

    async def apply(manager: str, *ports: int) -> list[int]:
        wanted = [{"name": f"p{port}", "port": port} for port in ports]
        answer = await api.apply(SERVICE, {"metadata": {"name": "s"}, "spec": {"ports": wanted}}, manager=manager)
        return [port["port"] for port in answer.body["spec"]["ports"]]

    assert await apply("one", 1, 2, 3) == [1, 2, 3]
    assert await apply("two", 3, 4, 1) == [2, 3, 4, 1]
    assert await apply("one", 2, 1, 3) == [2, 4, 1, 3]


async def case_apply_drops_maps_it_empties(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    await api.apply(CONFIG_MAP, {"metadata": {"name": "a", "annotations": {"k": "v"}}}, manager="one")
    answer = await api.apply(CONFIG_MAP, {"metadata": {"name": "a"}}, manager="one")
    assert "annotations" not in answer.body["metadata"]
    await api.create(RAYCLUSTER, a_cluster("a"))
    for status in ({"desiredCPU": "1", "head": {"podIP": "10.0.0.1"}}, {"desiredCPU": "1"}):
        body = {"metadata": {"name": "a"}, "status": status}
        answer = await api.apply(RAYCLUSTER, body, manager="one", subresource="status")
        assert answer.body["status"] == status


async def case_status_apply_to_missing_object_is_404(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    body = {"metadata": {"name": "none"}, "status": {"state": "ready"}}
    answer = await api.apply(RAYCLUSTER, body, manager="one", subresource="status")
    assert (answer.status, answer.reason) == (404, "NotFound")


async def case_status_apply_owns_status_only(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    made = await api.create(RAYCLUSTER, a_cluster("a"), fieldManager="user")
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "R",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    body = {"metadata": {"name": "a"}, "status": {"state": "ready", "conditions": [condition]}}
    answer = await api.apply(RAYCLUSTER, body, manager="operator", subresource="status")
    assert answer.status == 200
    assert answer.body["spec"] == made.body["spec"]
    assert answer.body["metadata"]["generation"] == 1
    assert owners_of(answer.body) == ["operator/Apply/status", "user/Update"]
    # Dropping the condition from what is applied drops it from the object.
    less = {"metadata": {"name": "a"}, "status": {"state": "ready"}}
    answer = await api.apply(RAYCLUSTER, less, manager="operator", subresource="status")
    assert not answer.body["status"].get("conditions")


async def case_apply_merges_keyed_lists(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)

    def service(*ports: dict[str, Any]) -> dict[str, Any]:
        return {"metadata": {"name": "s"}, "spec": {"selector": {"a": "b"}, "ports": list(ports)}}

    one = {"name": "one", "port": 1001}
    two = {"name": "two", "port": 1002}
    await api.apply(SERVICE, service(one), manager="first")
    both = await api.apply(SERVICE, service(one, two), manager="second")
    assert both.status == 200
    assert [port["port"] for port in both.body["spec"]["ports"]] == [1001, 1002]
    left = await api.apply(SERVICE, service(one), manager="second")
    assert [port["port"] for port in left.body["spec"]["ports"]] == [1001]
    assert left.body["spec"]["clusterIP"] == both.body["spec"]["clusterIP"]


async def case_apply_merges_owners_by_uid(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    made = [(await api.create(CONFIG_MAP, a_config(name))).body for name in ("owner-a", "owner-b")]
    references = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": o["metadata"]["name"], "uid": o["metadata"]["uid"]}
        for o in made
    ]
    first = {"metadata": {"name": "c", "ownerReferences": [references[0]]}}
    second = {"metadata": {"name": "c", "ownerReferences": [references[1]]}}
    await api.apply(CONFIG_MAP, first, manager="first")
    answer = await api.apply(CONFIG_MAP, second, manager="second")
    found = {each["uid"] for each in answer.body["metadata"]["ownerReferences"]}
    assert found == {each["uid"] for each in references}


async def case_apply_replaces_atomic_lists(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    await api.apply(RAYCLUSTER, a_cluster("a", groups={"one": 1, "two": 1}), manager="first")
    answer = await api.apply(RAYCLUSTER, a_cluster("a", groups={"three": 1}), manager="first")
    assert [group["groupName"] for group in answer.body["spec"]["workerGroupSpecs"]] == ["three"]
