"""When ``rayClusterConfig`` asks for another RayCluster, and when it does not (spec rayservice.md 2.6, rows 1 to 11)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from kuberay.api import names
from kuberay.api.kinds import RAYCLUSTER, RAYSERVICE
from kuberay.api.objects import RayObject, from_dict
from kuberay.api.service import RayServiceSpec
from kuberay.plan.config import PlanConfig
from kuberay.plan.observed import FixedView, Observed
from kuberay.plan.service.cluster_body import build_cluster
from kuberay.plan.service.draft import ACTIVE, PENDING, Draft
from kuberay.plan.service.goal import read_stamp, relation, shape_of
from kuberay.plan.service.likeness import asks_no_more, canonical
from kuberay.plan.service.sides import Side, side_of
from kuberay_testkit.builders import build_group

from core.tests.plan.service.worlds import START, VERSION, Body, ray_service

Edit = Callable[[Body], Any]
TOLERATION = {"key": "gpu", "operator": "Exists"}
GATE = {"name": "kueue.x-k8s.io/admission"}


def templates(config: Body) -> list[Body]:
    groups = [config["headGroupSpec"], *config["workerGroupSpecs"]]
    return [group["template"]["spec"] for group in groups]


def every_template(**fields: Any) -> Edit:
    return lambda config: [template.update(copy.deepcopy(fields)) for template in templates(config)]


def group(number: int = 0, **fields: Any) -> Edit:
    return lambda config: config["workerGroupSpecs"][number].update(fields)


def top(**fields: Any) -> Edit:
    return lambda config: config.update(fields)


def append(*groups: str) -> Edit:
    return lambda config: config["workerGroupSpecs"].extend(build_group(name) for name in groups)


def both(*edits: Edit) -> Edit:
    return lambda config: [edit(config) for edit in edits]


def draft_for(service: Body, cluster: Body | None) -> Draft:
    """A draft whose status names *cluster* as the active one."""
    body = copy.deepcopy(service)
    body["metadata"] |= {"uid": "uid-s", "generation": 2}
    name = cluster["metadata"]["name"] if cluster is not None else "s-1"
    body["status"] = {ACTIVE: {"rayClusterName": name}}
    obj = from_dict(RAYSERVICE, body)
    assert isinstance(obj, RayObject)
    view = FixedView([(RAYCLUSTER, copy.deepcopy(cluster))] if cluster is not None else ())
    observed = Observed(obj=obj, now=START, view=view, config=PlanConfig(operator_version=VERSION))
    return Draft.start(observed, RayServiceSpec.parse(obj.spec))


def active(draft: Draft) -> Side:
    side = side_of(draft, ACTIVE)
    assert side is not None
    return side


def made_for(service: Body) -> Body:
    """The RayCluster as the operator makes it, stored by the API server."""
    draft = draft_for(service, None)
    body = build_cluster(draft, "s-1")
    body["metadata"] |= {"uid": "uid-c", "resourceVersion": "7", "creationTimestamp": "2024-01-01T00:00:00Z"}
    return body


CASES: dict[str, tuple[Edit, str]] = {
    "row 1: replicas": (group(replicas=3), "same"),
    "row 2: rayVersion": (top(rayVersion="2.99.0"), "differs"),
    "row 3: tolerations of head and workers": (every_template(tolerations=[TOLERATION]), "same"),
    "row 4: scheduling gates of head and workers": (every_template(schedulingGates=[GATE]), "same"),
    "row 6: identical": (lambda config: None, "same"),
    "row 8: one group appended": (append("late"), "extended"),
    "row 9: group appended and replicas of an old one": (both(append("late"), group(replicas=7)), "extended"),
    "two groups appended": (append("late", "later"), "extended"),
    "row 11: group appended and rayVersion": (both(append("late"), top(rayVersion="2.99.0")), "differs"),
    "group inserted before": (lambda config: config["workerGroupSpecs"].insert(0, build_group("early")), "differs"),
    "group removed": (lambda config: config["workerGroupSpecs"].pop(), "differs"),
    "groups exchanged": (lambda config: config["workerGroupSpecs"].reverse(), "differs"),
    "bounds": (group(minReplicas=1, maxReplicas=99), "same"),
    "workers to delete": (group(scaleStrategy={"workersToDelete": ["p"]}), "same"),
    "suspend": (top(suspend=True), "same"),
    "the RayCluster's own strategy": (top(upgradeStrategy={}), "same"),
    "hosts per replica": (group(numOfHosts=2), "differs"),
    "a group suspended": (group(suspend=True), "differs"),
    "start parameters": (group(rayStartParams={"num-cpus": "2"}), "differs"),
    "autoscaler": (top(enableInTreeAutoscaling=True), "differs"),
    "GCS fault tolerance, which is on by being there": (top(gcsFaultToleranceOptions={}), "differs"),
    "pod spec": (every_template(hostNetwork=True), "differs"),
    "defaults of another schema": (group(numOfHosts=1, priority=0), "same"),
}


@pytest.mark.parametrize(("edit", "expected"), CASES.values(), ids=CASES)
def test_relation_after_an_edit(edit: Edit, expected: str) -> None:
    service = ray_service(groups={"a": 1, "b": 1})
    cluster = made_for(service)
    edit(service["spec"]["rayClusterConfig"])
    draft = draft_for(service, cluster)
    assert relation(draft, active(draft)) == expected


def test_what_the_autoscaler_and_others_do_to_the_ray_cluster_is_no_edit() -> None:
    """Row 5 and row 10, and row 153: only the annotation counts, never what the live spec has become."""
    service = ray_service(groups={"a": 1, "b": 1})
    cluster = made_for(service)
    cluster["spec"]["workerGroupSpecs"][0] |= {"replicas": 9, "scaleStrategy": {"workersToDelete": ["x"]}}
    cluster["spec"]["headGroupSpec"]["template"]["spec"]["nodeSelector"] = {"flavour": "spot"}
    draft = draft_for(service, cluster)
    assert relation(draft, active(draft)) == "same"


def test_row_7_a_cluster_made_before_the_first_group_was_there() -> None:
    service = ray_service(groups=0)
    cluster = made_for(service)
    append("first")(service["spec"]["rayClusterConfig"])
    draft = draft_for(service, cluster)
    assert relation(draft, active(draft)) == "extended"


@pytest.mark.parametrize(("key", "expected"), [(ACTIVE, "differs"), (PENDING, "same")])
def test_a_ray_cluster_that_is_not_there(key: Any, expected: str) -> None:
    draft = draft_for(ray_service(), None)
    draft.status = {key: {"rayClusterName": "gone"}}
    side = side_of(draft, key)
    assert side is not None
    assert relation(draft, side) == expected


# RS-02: RayClusters that another operator, or another scheme of hashes, has made.

GO: dict[str, Edit] = {
    "as it was asked for": lambda spec: None,
    "resources that Go's encoder writes": every_template(
        containers=[{"name": "c", "image": "i", "resources": {}}], restartPolicy=""
    ),
    "defaults of the schema": group(numOfHosts=1, priority=0, replicas=0, minReplicas=0, maxReplicas=2147483647),
    "what the autoscaler chose": group(replicas=9, scaleStrategy={"workersToDelete": ["x"]}),
    "what a queue added": every_template(nodeSelector={"flavour": "spot"}, tolerations=[TOLERATION]),
}


def by_kuberay(service: Body, stored: str = "NSGQJQ7ROMHO8RTGBD7Q11CU14BR481F") -> Body:
    cluster = made_for(service)
    cluster["metadata"]["annotations"] |= {
        names.ANNOTATION_CLUSTER_HASH: stored,
        names.ANNOTATION_OPERATOR_VERSION: "v1.6.0",
    }
    return cluster


@pytest.mark.parametrize("difference", GO.values(), ids=GO)
@pytest.mark.parametrize("stored", ["NSGQJQ7ROMHO8RTGBD7Q11CU14BR481F", "", "0-A-B", "1-A"])
def test_rs_02_a_ray_cluster_of_another_operator_is_judged_by_its_spec(difference: Edit, stored: str) -> None:
    service = ray_service(groups={"a": 1, "b": 1})
    if difference is GO["resources that Go's encoder writes"]:
        every_template(containers=[{"name": "c", "image": "i"}])(service["spec"]["rayClusterConfig"])
    cluster = by_kuberay(service, stored)
    difference(cluster["spec"])
    draft = draft_for(service, cluster)
    assert relation(draft, active(draft)) == "same"


EDITS: dict[str, tuple[Edit, str]] = {
    "image": (every_template(containers=[{"name": "c", "image": "new"}]), "differs"),
    "rayVersion": (top(rayVersion="2.99.0"), "differs"),
    "field added": (every_template(serviceAccountName="new"), "differs"),
    "group appended": (append("late"), "extended"),
    "group appended and rayVersion": (both(append("late"), top(rayVersion="2.99.0")), "differs"),
    "group removed": (lambda config: config["workerGroupSpecs"].pop(), "differs"),
    "groups exchanged": (lambda config: config["workerGroupSpecs"].reverse(), "differs"),
}


@pytest.mark.parametrize(("edit", "expected"), EDITS.values(), ids=EDITS)
def test_rs_02_an_edit_that_another_operator_has_not_seen_still_counts(edit: Edit, expected: str) -> None:
    service = ray_service(groups={"a": 1, "b": 1})
    cluster = by_kuberay(service)
    edit(service["spec"]["rayClusterConfig"])
    draft = draft_for(service, cluster)
    assert relation(draft, active(draft)) == expected


@pytest.mark.parametrize(
    ("edited", "expected"), [("2023-12-31T23:59:59Z", "same"), ("2024-01-01T00:00:00Z", "differs"), (None, "differs")]
)
def test_rs_02_without_an_edit_since_it_was_made_nothing_differs(edited: str | None, expected: str) -> None:
    """Whatever a webhook has made of the RayCluster of another operator."""
    service = ray_service()
    cluster = by_kuberay(service)
    every_template(containers=[{"name": "c", "image": "mirror/i"}])(cluster["spec"])
    if edited:
        owned: Body = {"f:spec": {"f:rayClusterConfig": {"f:rayVersion": {}}}}
        service["metadata"]["managedFields"] = [{"manager": "kubectl", "time": edited, "fieldsV1": owned}]
    draft = draft_for(service, cluster)
    assert relation(draft, active(draft)) == expected


def test_the_stamp_is_read_back_and_says_what_is_asked_for() -> None:
    service = ray_service(cluster={"suspend": True})
    cluster = from_dict(RAYCLUSTER, made_for(service))
    assert isinstance(cluster, RayObject)
    stamp = read_stamp(cluster)
    assert stamp is not None
    assert stamp.suspended
    assert stamp.shape == shape_of(service["spec"]["rayClusterConfig"])
    assert stamp.text == cluster.metadata.annotations[names.ANNOTATION_CLUSTER_HASH]


def test_hashes_do_not_depend_on_how_a_spec_is_written() -> None:
    config = ray_service()["spec"]["rayClusterConfig"]
    other = copy.deepcopy(config)
    for template in templates(other):
        template["containers"][0] |= {"ports": [{"containerPort": 8000, "protocol": "TCP"}], "env": None}
    for template in templates(config):
        template["containers"][0]["ports"] = [{"containerPort": 8000}]
    other["headGroupSpec"]["template"]["metadata"] = {"creationTimestamp": None}
    del other["workerGroupSpecs"][0]["rayStartParams"]
    assert shape_of(config) == shape_of(dict(reversed(other.items())))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"nodeSelector": {"node-role/gpu": ""}}, {"nodeSelector": {}}),
        ({"automountServiceAccountToken": False}, {}),
        ({"terminationGracePeriodSeconds": 0}, {}),
        ({"labels": {"name": ""}}, {"labels": {}}),
        ({"volumes": [{"name": "v", "emptyDir": {}}]}, {"volumes": [{"name": "v"}]}),
        ({"ports": [{"containerPort": 1, "protocol": "UDP"}]}, {"ports": [{"containerPort": 1}]}),
    ],
)
def test_what_says_something_stays(one: Body, other: Body) -> None:
    assert canonical(one) != canonical(other)


@pytest.mark.parametrize(
    ("asked", "there", "expected"),
    [
        ({"limits": {"cpu": "1000m"}}, {"limits": {"cpu": "1"}}, True),
        ({"limits": {"cpu": 1}}, {"limits": {"cpu": "1"}}, True),
        ({"limits": {"cpu": "1"}}, {"limits": {"cpu": "2"}}, False),
        ({"limits": {"cpu": "1"}}, {}, False),
        ({"value": "1000m"}, {"value": "1"}, False),
        ({"value": ""}, {}, True),
        ({"value": "x"}, {}, False),
        ({"args": ["a"]}, {"args": ["a", "b"]}, False),
        ({"containers": [{"name": "a"}]}, {"containers": [{"name": "sidecar"}, {"name": "a", "x": 1}]}, True),
        ({"containers": [{"name": "a"}, {"name": "b"}]}, {"containers": [{"name": "b"}, {"name": "a"}]}, False),
        ({"containers": [{"name": "a", "x": 1}]}, {"containers": [{"name": "a", "x": 2}]}, False),
        ({"a": {}}, {"a": None}, True),
        ({"a": {"b": 1}}, {"a": 1}, False),
        ({"a": [1]}, {"a": 1}, False),
    ],
)
def test_whether_a_spec_has_all_that_is_asked(asked: Body, there: Body, expected: bool) -> None:
    assert asks_no_more(asked, there) is expected
