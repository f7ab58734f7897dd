"""Cases about creating and changing objects: codes, names, resourceVersions, generation, status, patches."""

from __future__ import annotations

from kuberay.api.kinds import RAYCLUSTER, SERVICE, Kind
from kuberay.kube.transport import Transport

from kuberay_testkit.conformance.api import Api
from kuberay_testkit.conformance.bodies import a_cluster, a_config
from kuberay_testkit.sim.registry import CONFIG_MAP


async def case_create_and_get(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    made = await api.create(CONFIG_MAP, a_config("a", x="1"))
    assert made.status == 201
    metadata = made.body["metadata"]
    assert metadata["uid"]
    assert metadata["namespace"] == namespace
    assert metadata["creationTimestamp"].endswith("Z")
    assert int(metadata["resourceVersion"]) > 0
    got = await api.get(CONFIG_MAP, "a")
    assert got.status == 200
    assert got.body == made.body


async def case_create_twice_already_exists(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    await api.create(CONFIG_MAP, a_config("a"))
    again = await api.create(CONFIG_MAP, a_config("a"))
    assert (again.status, again.reason) == (409, "AlreadyExists")
    assert again.message == 'configmaps "a" already exists'
    assert again.body["details"]["name"] == "a"


async def case_absent_object_not_found(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    for answer in (
        await api.get(RAYCLUSTER, "none"),
        await api.merge(RAYCLUSTER, "none", {"metadata": {"labels": {"a": "b"}}}),
        await api.delete(RAYCLUSTER, "none"),
    ):
        assert (answer.status, answer.reason) == (404, "NotFound")
        assert answer.message == 'rayclusters.ray.io "none" not found'


async def case_unknown_kind_is_404(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    answer = await api.find(Kind("nobody.example.com", "v1", "things", "Thing"))
    assert answer.status == 404
    assert answer.reason in ("", "NotFound")


async def case_bad_names_are_invalid(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    table = [
        (CONFIG_MAP, "Upper"),
        (CONFIG_MAP, "under_score"),
        (CONFIG_MAP, "-dash"),
        (RAYCLUSTER, "x" * 254),
    ]
    for kind, name in table:
        body = a_cluster(name) if kind == RAYCLUSTER else a_config(name)
        answer = await api.create(kind, body)
        assert (answer.status, answer.reason) == (422, "Invalid"), name
        assert answer.body["details"]["causes"][0]["field"] == "metadata.name"
    # A Service name starts with a letter, has no dots and at most 63 characters.
    for name in ("1st", "a.b", "s" * 64):
        answer = await api.create(SERVICE, {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}})
        assert (answer.status, answer.reason) == (422, "Invalid"), name


async def case_bad_label_value_is_invalid(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    for value in ("with space", "x" * 64, "-dash"):
        answer = await api.create(CONFIG_MAP, {"metadata": {"name": "a", "labels": {"k": value}}})
        assert (answer.status, answer.reason) == (422, "Invalid"), value


async def case_generate_name(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    names = set()
    for _ in range(3):
        answer = await api.create(CONFIG_MAP, {"metadata": {"generateName": "made-"}})
        assert answer.status == 201
        name = answer.body["metadata"]["name"]
        assert name.startswith("made-")
        assert len(name) == len("made-") + 5
        names.add(name)
    assert len(names) == 3
    assert (await api.create(CONFIG_MAP, {"metadata": {}})).status == 422


async def case_wrong_namespace_or_kind_is_bad_request(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    elsewhere = {"metadata": {"name": "a", "namespace": "somewhere-else"}}
    assert (await api.create(CONFIG_MAP, elsewhere)).status == 400
    assert (await api.create(CONFIG_MAP, {**a_config("a"), "kind": "Secret"})).status == 400
    # A body that does not say what it is, is what the path says.
    made = await api.call("POST", RAYCLUSTER.path(namespace), body=a_cluster("a"))
    assert (made.status, made.body["kind"]) == (201, "RayCluster")


async def case_patch_of_another_uid_is_invalid(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    await api.create(RAYCLUSTER, a_cluster("a"))
    uid = "00000000-0000-4000-8000-000000000000"
    answer = await api.merge(RAYCLUSTER, "a", {"metadata": {"uid": uid, "labels": {"a": "b"}}})
    assert (answer.status, answer.reason) == (422, "Invalid")


async def case_dry_run_stores_nothing(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    assert (await api.create(CONFIG_MAP, a_config("a"), dryRun="All")).status == 201
    assert (await api.get(CONFIG_MAP, "a")).status == 404


async def case_put_with_stale_version_conflicts(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    first = (await api.create(CONFIG_MAP, a_config("a", x="1"))).body
    second = await api.replace(CONFIG_MAP, {**first, "data": {"x": "2"}})
    assert second.status == 200
    assert int(second.version) > int(first["metadata"]["resourceVersion"])
    stale = await api.replace(CONFIG_MAP, {**first, "data": {"x": "3"}})
    assert (stale.status, stale.reason) == (409, "Conflict")
    assert "the object has been modified" in stale.message


async def case_put_without_version(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    await api.create(CONFIG_MAP, a_config("a", x="1"))
    assert (await api.replace(CONFIG_MAP, a_config("a", x="2"))).status == 200
    await api.create(RAYCLUSTER, a_cluster("a"))
    refused = await api.replace(RAYCLUSTER, a_cluster("a"))
    assert (refused.status, refused.reason) == (422, "Invalid")
    assert "must be specified for an update" in refused.message


async def case_put_of_another_uid_conflicts(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    first = (await api.create(CONFIG_MAP, a_config("a"))).body
    other = {**first, "metadata": {**first["metadata"], "uid": "00000000-0000-4000-8000-000000000000"}}
    assert (await api.replace(CONFIG_MAP, other)).status == 409


async def case_write_without_change_keeps_version(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    first = await api.create(CONFIG_MAP, a_config("a", x="1"))
    assert (await api.replace(CONFIG_MAP, first.body)).version == first.version
    assert (await api.merge(CONFIG_MAP, "a", {"data": {"x": "1"}})).version == first.version
    applied = await api.apply(CONFIG_MAP, a_config("b", x="1"), manager="m")
    assert applied.status == 201
    again = await api.apply(CONFIG_MAP, a_config("b", x="1"), manager="m")
    assert (again.status, again.version) == (200, applied.version)


async def case_generation_follows_spec_only(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    made = await api.create(RAYCLUSTER, a_cluster("a"))
    assert made.body["metadata"]["generation"] == 1
    labelled = await api.merge(RAYCLUSTER, "a", {"metadata": {"labels": {"k": "v"}}})
    assert labelled.body["metadata"]["generation"] == 1
    status = await api.merge(RAYCLUSTER, "a", {"status": {"state": "ready"}}, "status")
    assert status.body["metadata"]["generation"] == 1
    changed = await api.merge(RAYCLUSTER, "a", {"spec": {"suspend": True}})
    assert changed.body["metadata"]["generation"] == 2


async def case_status_and_spec_are_apart(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    made = await api.create(RAYCLUSTER, {**a_cluster("a"), "status": {"state": "ready"}})
    assert not made.body.get("status")
    ignored = await api.merge(RAYCLUSTER, "a", {"status": {"state": "ready"}})
    assert ignored.status == 200
    assert not ignored.body.get("status")
    written = await api.merge(
        RAYCLUSTER,
        "a",
        {"status": {"state": "ready"}, "spec": {"suspend": True}, "metadata": {"labels": {"a": "b"}}},
        "status",
    )
    assert written.body["status"] == {"state": "ready"}
    assert "suspend" not in written.body["spec"]
    assert "labels" not in written.body["metadata"]
    kept = await api.merge(RAYCLUSTER, "a", {"spec": {"suspend": False}})
    assert kept.body["status"] == {"state": "ready"}


async def case_merge_patch_null_removes(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    await api.create(CONFIG_MAP, a_config("a", x="1", y="2"))
    answer = await api.merge(CONFIG_MAP, "a", {"data": {"x": None, "z": "3"}})
    assert answer.body["data"] == {"y": "2", "z": "3"}


async def case_patch_with_stale_version_conflicts(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    first = await api.create(CONFIG_MAP, a_config("a", x="1"))
    await api.merge(CONFIG_MAP, "a", {"data": {"x": "2"}})
    stale = {"metadata": {"resourceVersion": first.version}, "data": {"x": "3"}}
    answer = await api.merge(CONFIG_MAP, "a", stale)
    assert (answer.status, answer.reason) == (409, "Conflict")


async def case_json_patch(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    await api.create(CONFIG_MAP, a_config("a", x="1"))
    good = [
        {"op": "test", "path": "/data/x", "value": "1"},
        {"op": "replace", "path": "/data/x", "value": "2"},
        {"op": "add", "path": "/metadata/annotations", "value": {"a/b": "c"}},
        {"op": "remove", "path": "/metadata/annotations/a~1b"},
    ]
    answer = await api.json_patch(CONFIG_MAP, "a", good)
    assert answer.status == 200
    assert answer.body["data"] == {"x": "2"}
    refused = await api.json_patch(CONFIG_MAP, "a", [{"op": "test", "path": "/data/x", "value": "9"}])
    assert (refused.status, refused.reason) == (422, "Invalid")
    assert (await api.json_patch(CONFIG_MAP, "a", [{"op": "remove", "path": "/data/none"}])).status == 422


async def case_json_patch_of_stale_version_conflicts(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    first = await api.create(CONFIG_MAP, a_config("a", x="1"))
    await api.merge(CONFIG_MAP, "a", {"data": {"x": "2"}})
    operations = [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": first.version},
        {"op": "replace", "path": "/data/x", "value": "3"},
    ]
    answer = await api.json_patch(CONFIG_MAP, "a", operations)
    assert (answer.status, answer.reason) == (409, "Conflict")
