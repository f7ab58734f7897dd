"""Which reconcile keys a change of an object concerns."""

from __future__ import annotations

from typing import Any

import pytest
from kuberay.api.kinds import JOB, PERSISTENT_VOLUME_CLAIM, POD, RAYCLUSTER, RAYCRONJOB, RAYJOB, SECRET, SERVICE, Kind
from kuberay.api.names import LABEL_CLUSTER
from kuberay.api.objects import Object, from_dict
from kuberay.operator.keys import Key, SelectorIndex, concerned

RAYSERVICE = Kind("ray.io", "v1", "rayservices", "RayService")


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
        (POD, [owner(RAYSERVICE, "rs")], []),
        (POD, [], []),
        (SERVICE, [], []),
    ],
)
def test_an_object_concerns_itself_and_its_controller(
    kind: Kind, owners: list[dict[str, Any]], expected: list[str]
) -> None:
    assert [str(key) for key in concerned(kind, obj(kind, "x", *owners), SelectorIndex())] == expected


@pytest.mark.parametrize(
    ("kind", "owners", "expected"),
    [
        (SECRET, [], ["RayCluster ns/rc"]),
        (PERSISTENT_VOLUME_CLAIM, [], ["RayCluster ns/rc"]),
        (SECRET, [owner(RAYCLUSTER, "other")], ["RayCluster ns/other"]),
        (SERVICE, [], []),
    ],
)
def test_secrets_and_claims_that_nobody_owns_go_by_their_label(kind: Kind, owners: Any, expected: list[str]) -> None:
    found = obj(kind, "x", *owners)
    found.metadata.labels = {LABEL_CLUSTER: "rc"}
    assert [str(key) for key in concerned(kind, found, SelectorIndex())] == expected


def job(name: str, selector: Any) -> Object:
    spec = {} if selector is None else {"clusterSelector": selector}
    return obj(RAYJOB, name, **spec)


def test_a_cluster_concerns_the_jobs_that_select_it() -> None:
    index = SelectorIndex()
    index.update(None, job("b", {LABEL_CLUSTER: "rc"}))
    index.update(None, job("a", {LABEL_CLUSTER: "rc"}))
    index.update(None, job("c", {LABEL_CLUSTER: "other"}))
    keys = list(concerned(RAYCLUSTER, obj(RAYCLUSTER, "rc"), index))
    assert keys == [Key(RAYCLUSTER, "ns", "rc"), Key(RAYJOB, "ns", "a"), Key(RAYJOB, "ns", "b")]
    assert list(index.users_of("elsewhere", "rc")) == []


def test_the_selector_index_follows_edits_and_deletions() -> None:
    index = SelectorIndex()
    first, second = job("a", {LABEL_CLUSTER: "one"}), job("a", {LABEL_CLUSTER: "two"})
    index.update(None, first)
    index.update(first, second)
    assert [key.name for key in index.users_of("ns", "one")] == []
    assert [key.name for key in index.users_of("ns", "two")] == ["a"]
    index.update(second, None)
    assert [key.name for key in index.users_of("ns", "two")] == []


@pytest.mark.parametrize("selector", [None, {}, {LABEL_CLUSTER: ""}, {LABEL_CLUSTER: 7}, {"other": "rc"}, "rc", []])
def test_a_selector_that_names_no_cluster_is_no_reference(selector: Any) -> None:
    index = SelectorIndex()
    index.update(None, job("a", selector))
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
    index = SelectorIndex()
    index.update(None, running_job("rj", "rc"))
    assert [str(key) for key in concerned(POD, head_of("rc"), index)] == ["RayCluster ns/rc", "RayJob ns/rj"]
    assert [str(key) for key in concerned(POD, head_of("rc", "worker"), index)] == ["RayCluster ns/rc"]
    index.update(running_job("rj", "rc"), running_job("rj", "next"))
    assert [str(key) for key in concerned(POD, head_of("rc"), index)] == ["RayCluster ns/rc"]
    assert [str(key) for key in concerned(POD, head_of("next"), index)] == ["RayCluster ns/next", "RayJob ns/rj"]
    index.update(running_job("rj", "next"), None)
    assert [str(key) for key in concerned(POD, head_of("next"), index)] == ["RayCluster ns/next"]


@pytest.mark.parametrize("state", ["Complete", "Failed"])
def test_a_head_does_not_concern_a_rayjob_that_is_over(state: str) -> None:
    index = SelectorIndex()
    index.update(None, running_job("rj", "rc", state))
    assert [str(key) for key in concerned(POD, head_of("rc"), index)] == ["RayCluster ns/rc"]
