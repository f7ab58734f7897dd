"""Whether a live object already says what is wanted: judged by content and by what managedFields say we once applied."""

from __future__ import annotations

import copy
from typing import Any

import orjson
import pytest
from kuberay.api.kinds import ROLE, SECRET, SERVICE
from kuberay.kube.client import Client
from kuberay.kube.sync import Synced, in_sync, without_emptied
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.transport import SimTransport
from kuberay_testkit.sim.virtual import in_virtual_time

WANTED: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {
        "name": "s",
        "namespace": "ns",
        "labels": {"a": "1", "b": "2"},
        "annotations": {"n": "x"},
        "ownerReferences": [
            {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "rc", "uid": "u", "controller": True}
        ],
    },
    "spec": {
        "clusterIP": "None",
        "selector": {"app": "ray"},
        "ports": [{"name": "gcs", "port": 6379}, {"name": "dashboard", "port": 8265}],
    },
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """WANTED with the value at a dotted *path* replaced, or removed when it is None."""
    body = copy.deepcopy(WANTED)
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    target: Any = body
    for part in parents:
        target = target[part]
    if value is None:
        del target[last]
    else:
        target[last] = value
    return body


def applied(*bodies: dict[str, Any], then: dict[str, Any] | None = None) -> dict[str, Any]:
    """The live object after we applied *bodies* in turn, and after another manager's merge patch *then*."""
    server = SimServer()
    for body in bodies:
        server.apply(body, manager="kuberay-operator")
    if then is not None:
        server.patch(SERVICE, "ns", "s", then, manager="somebody")
    live = server.peek(SERVICE, "ns", "s")
    assert live is not None
    return live


def test_what_was_just_applied_is_in_sync_although_the_server_added_defaults() -> None:
    live = applied(WANTED)
    assert live["spec"].keys() > WANTED["spec"].keys(), "the server defaulted something"
    assert live["spec"]["ports"][0].keys() > {"name", "port"}
    assert in_sync(WANTED, live)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.labels.a", "other"),
        ("metadata.labels.c", "3"),
        ("metadata.annotations.n", "y"),
        ("metadata.ownerReferences.0.uid", "another"),
        ("spec.selector.app", "else"),
        ("spec.ports.0.port", 6380),
        ("spec.ports.0.name", "renamed"),
        ("spec.ports.0.targetPort", 1),
        ("spec.publishNotReadyAddresses", True),
        # No longer wanted, but applied once: only managedFields know.
        ("metadata.labels.b", None),
        ("metadata.annotations.n", None),
        ("metadata.annotations", None),
        ("metadata.ownerReferences", None),
        ("spec.selector", None),
        ("spec.ports.1", None),
    ],
)
def test_any_change_of_what_is_wanted_is_seen_and_settled_by_one_apply(path: str, value: Any) -> None:
    wanted = changed(path, value)
    live = applied(WANTED)
    assert not in_sync(wanted, live)
    assert in_sync(wanted, applied(WANTED, wanted))


@pytest.mark.parametrize(
    "drift",
    [
        {"metadata": {"labels": {"a": "edited"}}},
        {"metadata": {"labels": {"a": None}}},
        {"metadata": {"annotations": {"n": "edited"}}},
        {"metadata": {"ownerReferences": []}},
        {"spec": {"selector": {"app": "edited"}}},
        {"spec": {"ports": [{"name": "gcs", "port": 1}, {"name": "dashboard", "port": 8265}]}},
        {"spec": {"ports": [{"name": "gcs", "port": 6379}]}},
    ],
    ids=str,
)
def test_what_others_changed_of_ours_is_seen(drift: dict[str, Any]) -> None:
    assert not in_sync(WANTED, applied(WANTED, then=drift))


@pytest.mark.parametrize(
    "addition",
    [
        {"metadata": {"labels": {"theirs": "x"}}},
        {"metadata": {"annotations": {"theirs": "x"}}},
        {"metadata": {"finalizers": ["theirs/protect"]}},
        {"spec": {"sessionAffinity": "ClientIP"}},
        {"spec": {"externalIPs": ["1.2.3.4"]}},
        {
            "spec": {
                "ports": [{"name": "gcs", "port": 6379}, {"name": "dashboard", "port": 8265}, {"name": "x", "port": 9}]
            }
        },
    ],
    ids=str,
)
def test_what_others_added_is_left_alone(addition: dict[str, Any]) -> None:
    assert in_sync(WANTED, applied(WANTED, then=addition))


def test_the_order_of_lists_merged_by_key_does_not_matter() -> None:
    live = applied(WANTED)
    live["spec"]["ports"].reverse()
    assert in_sync(WANTED, live)


@pytest.mark.parametrize(
    ("wanted", "live", "same"),
    [
        (["a", "b"], ["a", "b"], True),
        (["a", "b"], ["b", "a"], False),
        (["a"], ["a", "b"], False),
        (["a", "b"], ["a"], False),
        ([], [], True),
        ([], None, True),
        ([], ["a"], False),
        (["a"], None, False),
    ],
)
def test_plain_lists_are_compared_as_wholes(wanted: list[str], live: list[str] | None, same: bool) -> None:
    assert in_sync({"metadata": {}, "verbs": wanted}, {"metadata": {}, "verbs": live}) is same


def test_other_managers_and_subresources_do_not_bind_us() -> None:
    theirs = {"f:metadata": {"f:labels": {"f:theirs": {}}}}
    entries = [
        {"manager": "kubectl", "operation": "Apply", "fieldsV1": theirs},
        {"manager": "kuberay-operator", "operation": "Apply", "subresource": "status", "fieldsV1": {"f:status": {}}},
    ]
    live = {"metadata": {"labels": {"a": "1", "theirs": "x"}, "managedFields": entries}}
    wanted = {"metadata": {"labels": {"a": "1"}}}
    assert in_sync(wanted, live)
    assert not in_sync(wanted, live, manager="kubectl")


def test_set_values_once_applied_must_still_be_wanted() -> None:
    fields = {"f:metadata": {"f:finalizers": {".": {}, 'v:"a"': {}, 'v:"b"': {}}}}
    live = {
        "metadata": {"finalizers": ["a", "b"], "managedFields": [{"manager": "kuberay-operator", "fieldsV1": fields}]}
    }
    assert in_sync({"metadata": {"finalizers": ["a", "b"]}}, live)
    assert not in_sync({"metadata": {"finalizers": ["a"]}}, live)


def test_set_values_of_others_stay_theirs() -> None:
    """A load balancer adds a finalizer to a service whose user asked for one of their own."""
    wanted = changed("metadata.finalizers", ["example.test/ours"])
    both = ["service.kubernetes.io/load-balancer-cleanup", "example.test/ours"]
    assert in_sync(wanted, applied(wanted, then={"metadata": {"finalizers": both}}))
    assert not in_sync(wanted, applied(wanted, then={"metadata": {"finalizers": both[:1]}}))


def test_kinds_without_a_spec_are_compared_too() -> None:
    server = SimServer()
    role: dict[str, Any] = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "r", "namespace": "ns"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    }
    server.apply(role, manager="kuberay-operator")
    live = server.peek(ROLE, "ns", "r")
    assert live is not None
    assert in_sync(role, live)
    more = copy.deepcopy(role)
    more["rules"][0]["verbs"].append("list")  # type: ignore[index]
    assert not in_sync(more, live)
    assert not in_sync({**role, "rules": []}, live)
    widened = {"rules": [*role["rules"], {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]}
    server.patch(ROLE, "ns", "r", widened, manager="somebody")
    live = server.peek(ROLE, "ns", "r")
    assert live is not None
    assert not in_sync(role, live), "nobody may add to a list that is ours as a whole"


RESOURCES = {"cpu": "3", "memory": "3Gi"}
EMPTIED: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "a map that was ours": ({"n": 3, "m": RESOURCES}, {"n": 0, "m": {}}, {"n": 0}),
    "a map that was empty before": ({"n": 3, "m": {}}, {"n": 0, "m": {}}, {"n": 0, "m": {}}),
    "a map that is new": ({"n": 3}, {"n": 0, "m": {}}, {"n": 0, "m": {}}),
    "a map inside another": ({"n": 3, "m": {"x": RESOURCES}}, {"n": 0, "m": {"x": {}}}, {"n": 0}),
    "a map beside another": ({"m": {"x": RESOURCES, "y": 1}}, {"m": {"x": {}, "y": 1}}, {"m": {"y": 1}}),
    "a map that is not empty": ({"n": 3, "m": RESOURCES}, {"n": 1, "m": {"cpu": "1"}}, {"n": 1, "m": {"cpu": "1"}}),
}


@pytest.mark.parametrize("case", EMPTIED)
def test_a_map_that_becomes_empty_is_left_out(case: str) -> None:
    """Applied as it is, the API server makes null of it and refuses that (`case_apply_of_a_map_that_became_empty`)."""
    before, after, sent = EMPTIED[case]
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "ns"},
    }
    server = SimServer()
    live = server.apply({**group, "spec": before}, manager="kuberay-operator")
    wanted = {**group, "spec": after}
    assert without_emptied(wanted, live)["spec"] == sent
    stored = server.apply(dict(without_emptied(wanted, live)), manager="kuberay-operator")
    assert in_sync(wanted, stored), "and then it is in sync, so nothing is written again"


@in_virtual_time
async def test_values_the_server_rewrites_are_settled_by_the_answer_of_one_apply() -> None:
    """``stringData`` stands for all of them: it comes back in another form and never as it was asked for."""
    server = SimServer()
    client = Client(SimTransport(server))
    wanted = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": "ns"},
        "data": {"cpu": "1000m"},
    }
    live = orjson.loads(await client.apply(SECRET, "ns", "s", wanted))
    live["data"]["cpu"] = "1"
    assert not in_sync(wanted, live)
    synced = Synced()
    uid, version, sent = live["metadata"]["uid"], live["metadata"]["resourceVersion"], orjson.dumps(wanted)
    synced.remember(uid, version, sent)
    assert synced.known(uid, version, sent)
    assert not synced.known(uid, "another version", sent)
    assert not synced.known(uid, version, sent + b" ")
    assert not synced.known("another object", version, sent)
    synced.forget(uid)
    assert not synced.known(uid, version, sent)
    synced.forget(uid)
