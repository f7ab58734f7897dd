"""Which reconcile keys a change of an object concerns."""

from __future__ import annotations

from typing import Any

import pytest
from kuberay.api.kinds import (
    ENDPOINT_SLICE,
    GATEWAY,
    JOB,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    RAYCLUSTER,
    RAYCRONJOB,
    RAYJOB,
    RAYSERVICE,
    SECRET,
    SERVICE,
    Kind,
)
from kuberay.api.names import LABEL_CLUSTER, LABEL_NODE_TYPE, LABEL_ORIGIN_CRD, LABEL_ORIGIN_NAME, LABEL_SERVE
from kuberay.api.objects import Object, from_dict
from kuberay.operator.keys import Key, References, changed, concerned


def obj(kind: Kind, name: str, *owners: dict[str, Any], namespace: str = "ns", **spec: Any) -> Object:
    metadata = {"name": name, "namespace": namespace, "ownerReferences": list(owners)}
    return from_dict(kind, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec})


def owner(kind: Kind, name: str, *, controller: bool | None = True, api_version: str = "") -> dict[str, Any]:
    return {
        "apiVersion": api_version or kind.api_version,
        "kind": kind.kind,
        "name": name,
        "uid": f"uid-{name}",
        "controller": controller,
    }


@pytest.mark.parametrize(
    ("kind", "owners", "expected"),
    [
        (RAYCLUSTER, [], ["RayCluster ns/x"]),
        (RAYJOB, [], ["RayJob ns/x"]),
        (POD, [owner(RAYCLUSTER, "rc")], ["RayCluster ns/rc"]),
        (SERVICE, [owner(RAYJOB, "rj")], ["RayJob ns/rj"]),
        (RAYCLUSTER, [owner(RAYJOB, "rj")], ["RayCluster ns/x", "RayJob ns/rj"]),
        (RAYCRONJOB, [], ["RayCronJob ns/x"]),
        (RAYJOB, [owner(RAYCRONJOB, "cj")], ["RayJob ns/x", "RayCronJob ns/cj"]),
        # Another version of the API is the same owner.
        (POD, [owner(RAYCLUSTER, "rc", api_version="ray.io/v1alpha1")], ["RayCluster ns/rc"]),
        (POD, [owner(JOB, "j"), owner(RAYCLUSTER, "rc", controller=False)], []),
        (POD, [owner(RAYCLUSTER, "rc", controller=None), owner(RAYJOB, "rj")], ["RayJob ns/rj"]),
        (POD, [owner(RAYCLUSTER, "rc", api_version="else.io/v1")], []),
        (RAYSERVICE, [], ["RayService ns/x"]),
        (RAYCLUSTER, [owner(RAYSERVICE, "rs")], ["RayCluster ns/x", "RayService ns/rs"]),
        (GATEWAY, [owner(RAYSERVICE, "rs")], ["RayService ns/rs"]),
        (POD, [owner(GATEWAY, "gw")], []),
        (POD, [], []),
        (SERVICE, [], []),
    ],
)
def test_an_object_concerns_itself_and_its_controller(
    kind: Kind, owners: list[dict[str, Any]], expected: list[str]
) -> None:
    assert [str(key) for key in concerned(kind, obj(kind, "x", *owners), References())] == expected


@pytest.mark.parametrize(
    ("kind", "owners", "expected"),
    [
        (SECRET, [], ["RayCluster ns/rc"]),
        (PERSISTENT_VOLUME_CLAIM, [], ["RayCluster ns/rc"]),
        (SECRET, [owner(RAYCLUSTER, "other")], ["RayCluster ns/other"]),
        # It goes with a pod of the cluster; one that is another's concern is not the cluster's.
        (SECRET, [owner(POD, "rc-head")], ["RayCluster ns/rc"]),
        (SECRET, [owner(JOB, "j")], []),
        (SERVICE, [], []),
    ],
)
def test_secrets_and_claims_that_nobody_owns_go_by_their_label(kind: Kind, owners: Any, expected: list[str]) -> None:
    found = obj(kind, "x", *owners)
    found.metadata.labels = {LABEL_CLUSTER: "rc"}
    assert [str(key) for key in concerned(kind, found, References())] == expected


def job(name: str, selector: Any) -> Object:
    spec = {} if selector is None else {"clusterSelector": selector}
    return obj(RAYJOB, name, **spec)


def test_a_cluster_concerns_the_jobs_that_select_it() -> None:
    index = References()
    index.update(RAYJOB, None, job("b", {LABEL_CLUSTER: "rc"}))
    index.update(RAYJOB, None, job("a", {LABEL_CLUSTER: "rc"}))
    index.update(RAYJOB, None, job("c", {LABEL_CLUSTER: "other"}))
    keys = list(concerned(RAYCLUSTER, obj(RAYCLUSTER, "rc"), index))
    assert keys == [Key(RAYCLUSTER, "ns", "rc"), Key(RAYJOB, "ns", "a"), Key(RAYJOB, "ns", "b")]
    assert list(index.users_of("elsewhere", "rc")) == []


def test_the_selector_index_follows_edits_and_deletions() -> None:
    index = References()
    first, second = job("a", {LABEL_CLUSTER: "one"}), job("a", {LABEL_CLUSTER: "two"})
    index.update(RAYJOB, None, first)
    index.update(RAYJOB, first, second)
    assert [key.name for key in index.users_of("ns", "one")] == []
    assert [key.name for key in index.users_of("ns", "two")] == ["a"]
    index.update(RAYJOB, second, None)
    assert [key.name for key in index.users_of("ns", "two")] == []


@pytest.mark.parametrize("selector", [None, {}, {LABEL_CLUSTER: ""}, {LABEL_CLUSTER: 7}, {"other": "rc"}, "rc", []])
def test_a_selector_that_names_no_cluster_is_no_reference(selector: Any) -> None:
    index = References()
    index.update(RAYJOB, None, job("a", selector))
    assert list(index.users_of("ns", "rc")) == []
    assert list(index.users_of("ns", "")) == []


def running_job(name: str, cluster: str, state: str = "Running") -> Object:
    made = obj(RAYJOB, name)
    made.status = {"rayClusterName": cluster, "jobDeploymentStatus": state}  # type: ignore[attr-defined]
    return made


def head_of(cluster: str, node_type: str = "head") -> Object:
    pod = obj(POD, "p", owner(RAYCLUSTER, cluster))
    pod.metadata.labels = {LABEL_CLUSTER: cluster, "ray.io/node-type": node_type}
    return pod


def test_a_head_concerns_the_rayjob_that_runs_there() -> None:
    index = References()
    index.update(RAYJOB, None, running_job("rj", "rc"))
    assert [str(key) for key in concerned(POD, head_of("rc"), index)] == ["RayCluster ns/rc", "RayJob ns/rj"]
    assert [str(key) for key in concerned(POD, head_of("rc", "worker"), index)] == ["RayCluster ns/rc"]
    index.update(RAYJOB, running_job("rj", "rc"), running_job("rj", "next"))
    assert [str(key) for key in concerned(POD, head_of("rc"), index)] == ["RayCluster ns/rc"]
    assert [str(key) for key in concerned(POD, head_of("next"), index)] == ["RayCluster ns/next", "RayJob ns/rj"]
    index.update(RAYJOB, running_job("rj", "next"), None)
    assert [str(key) for key in concerned(POD, head_of("next"), index)] == ["RayCluster ns/next"]


@pytest.mark.parametrize("state", ["Complete", "Failed"])
def test_a_head_does_not_concern_a_rayjob_that_is_over(state: str) -> None:
    index = References()
    index.update(RAYJOB, None, running_job("rj", "rc", state))
    assert [str(key) for key in concerned(POD, head_of("rc"), index)] == ["RayCluster ns/rc"]


def service(name: str, active: str = "", pending: str = "") -> Object:
    made = obj(RAYSERVICE, name)
    made.status = {  # type: ignore[attr-defined]
        "activeServiceStatus": {"rayClusterName": active} if active else {"rayClusterStatus": {"head": {}}},
        "pendingServiceStatus": {"rayClusterName": pending} if pending else {},
    }
    return made


def names(keys: Any) -> list[str]:
    return sorted(str(key) for key in keys)


def serving(*services: Object) -> References:
    index = References()
    for each in services:
        index.update(RAYSERVICE, None, each)
    return index


def test_a_rayservice_is_found_by_both_of_its_clusters() -> None:
    index = serving(service("rs", "one", "two"), service("other", "three"))
    assert [names(index.served_by("ns", cluster)) for cluster in ("one", "two", "three", "four", "")] == [
        ["RayService ns/rs"],
        ["RayService ns/rs"],
        ["RayService ns/other"],
        [],
        [],
    ]
    assert names(index.served_by("elsewhere", "one")) == []


def test_promotion_and_deletion_leave_no_former_cluster_in_the_index() -> None:
    first, second = service("rs", "one", "two"), service("rs", "two")
    index = serving(first)
    index.update(RAYSERVICE, first, second)
    assert names(index.served_by("ns", "one")) == []
    assert names(index.served_by("ns", "two")) == ["RayService ns/rs"]
    index.update(RAYSERVICE, second, None)
    assert names(index.served_by("ns", "two")) == []


@pytest.mark.parametrize("status", [{}, {"activeServiceStatus": None}, {"activeServiceStatus": {"rayClusterName": 7}}])
def test_a_status_that_names_no_cluster_is_no_reference(status: dict[str, Any]) -> None:
    odd = service("rs")
    odd.status = status  # type: ignore[attr-defined]
    assert names(serving(odd).served_by("ns", "7")) == []


def ray_pod(node_type: str = "worker", **changes: Any) -> Object:
    """A pod of RayCluster ``rc`` that serves."""
    given = {"ip": "10.0.0.1", "ready": True, "serve": "true", "restarts": 0, "deleting": None, "uid": "u", **changes}
    metadata: dict[str, Any] = {
        "name": "p",
        "namespace": "ns",
        "uid": given["uid"],
        "resourceVersion": str(given.get("version", "1")),
        "labels": {LABEL_CLUSTER: "rc", LABEL_NODE_TYPE: node_type, LABEL_SERVE: given["serve"]},
        "annotations": given.get("annotations", {}),
        "ownerReferences": [owner(RAYCLUSTER, "rc")],
    }
    if given["deleting"]:
        metadata["deletionTimestamp"] = given["deleting"]
    status = {
        "phase": "Running",
        "podIP": given["ip"],
        "conditions": [
            {"type": "Ready", "status": "True" if given["ready"] else "False"},
            {"type": "PodScheduled", "status": "True", "message": given.get("message", "")},
        ],
        "containerStatuses": [{"name": "ray", "ready": given["ready"], "restartCount": given["restarts"]}],
    }
    return from_dict(POD, {"metadata": metadata, "status": status})


MATTERS = {
    "ready": {"ready": False},
    "serve label": {"serve": "false"},
    "address": {"ip": "10.0.0.2"},
    "deletion": {"deleting": "2026-01-01T00:00:00Z"},
    "restart": {"restarts": 1},
    "another pod": {"uid": "v"},
    "no address": {"ip": ""},
}


@pytest.mark.parametrize("node_type", ["head", "worker"])
@pytest.mark.parametrize("change", MATTERS.values(), ids=MATTERS)
def test_what_a_pod_serves_by_concerns_the_rayservice(node_type: str, change: dict[str, Any]) -> None:
    index = serving(service("rs", "rc"))
    before, after = ray_pod(node_type), ray_pod(node_type, **change)
    assert names(changed(POD, before, after, index)) == ["RayCluster ns/rc", "RayService ns/rs"]
    assert names(changed(POD, after, before, index)) == ["RayCluster ns/rc", "RayService ns/rs"]
    assert names(changed(POD, before, after, serving(service("rs", "else")))) == ["RayCluster ns/rc"]


NO_MATTER = {
    "a version": (ray_pod(), ray_pod(version="2")),
    "an annotation": (ray_pod(), ray_pod(annotations={"a": "b"})),
    "another condition": (ray_pod(), ray_pod(message="x")),
    "made": (None, ray_pod(ip="", ready=False)),
    "gone before it ran": (ray_pod(ip="", ready=False), None),
    "deleted before it ran": (
        ray_pod(ip="", ready=False),
        ray_pod(ip="", ready=False, deleting="2026-01-01T00:00:00Z"),
    ),
}


@pytest.mark.parametrize(("before", "after"), NO_MATTER.values(), ids=NO_MATTER)
def test_other_changes_of_pods_do_not(before: Any, after: Any) -> None:
    """They are many: of each pod that starts, several."""
    assert names(changed(POD, before, after, serving(service("rs", "rc")))) == ["RayCluster ns/rc"]


@pytest.mark.parametrize(("before", "after"), [(None, ray_pod()), (ray_pod(), None)], ids=["new", "gone"])
def test_pods_that_come_and_go_with_an_address_do(before: Any, after: Any) -> None:
    assert "RayService ns/rs" in names(changed(POD, before, after, serving(service("rs", "rc"))))


def endpoint_slice(
    of: str, *uids: str, crd: str = "RayService", labels: bool = True, ready: bool | None = True
) -> Object:
    metadata = {
        "name": "s",
        "namespace": "ns",
        "labels": {LABEL_ORIGIN_CRD: crd, LABEL_ORIGIN_NAME: of} if labels else {},
        "ownerReferences": [owner(SERVICE, "svc")],
    }
    endpoints = [{"addresses": ["a"], "conditions": {"ready": ready}, "targetRef": {"uid": uid}} for uid in uids]
    return from_dict(ENDPOINT_SLICE, {"metadata": metadata, "endpoints": endpoints})


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, endpoint_slice("rs", "a"), ["RayService ns/rs"]),
        (endpoint_slice("rs", "a"), endpoint_slice("rs", "a", "b"), ["RayService ns/rs"]),
        (endpoint_slice("rs", "a"), endpoint_slice("rs", "a", ready=False), ["RayService ns/rs"]),
        (endpoint_slice("rs", "a"), None, ["RayService ns/rs"]),
        # The service of one RayCluster: the RayService is found through it.
        (endpoint_slice("rc"), endpoint_slice("rc", "a"), ["RayService ns/rc", "RayService ns/rs"]),
        (endpoint_slice("rs", "a", "b"), endpoint_slice("rs", "b", "a"), []),
        (endpoint_slice("rs", "a", ready=None), endpoint_slice("rs", "a", ready=False), []),
        (None, endpoint_slice("rs"), []),
        (None, endpoint_slice("rj", "a", crd="RayJob"), []),
        (None, endpoint_slice("rs", "a", labels=False), []),
    ],
)
def test_an_endpointslice_concerns_the_rayservice_that_counts_it(before: Any, after: Any, expected: list[str]) -> None:
    assert names(changed(ENDPOINT_SLICE, before, after, serving(service("rs", "rc")))) == expected
