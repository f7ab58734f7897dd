"""Services over time (spec raycluster.md 2.5-2.7; cases.md RC-20)."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from kuberay.api.kinds import SERVICE


def annotate(spec: Any) -> None:
    spec["headServiceAnnotations"] = {"lb": "internal"}


def test_later_edits_reach_the_head_service(kubernetes: Any, cluster: Any) -> None:
    """RC-20."""
    body = cluster()
    body["spec"]["headGroupSpec"]["serviceType"] = "NodePort"
    tiny = kubernetes(body)
    tiny.settle()
    address = tiny.objects[SERVICE, "pair-head-svc"]["spec"]["clusterIP"]
    tiny.edit(annotate)
    tiny.edit(lambda spec: spec["headGroupSpec"].update(serviceType="LoadBalancer"))
    tiny.settle()
    service = tiny.objects[SERVICE, "pair-head-svc"]
    assert service["metadata"]["annotations"] == {"lb": "internal"}
    assert (service["spec"]["type"], service["spec"]["clusterIP"]) == ("LoadBalancer", address)
    assert [event.note for event in tiny.events if event.reason == "UpdatedService"] == [
        "Updated service default/pair-head-svc"
    ]


def test_type_port_and_annotation_reach_a_users_service(kubernetes: Any, cluster: Any) -> None:
    """RC-20: the case as it was reported."""
    body = cluster()
    custom: dict[str, Any] = {"metadata": {"annotations": {"lb": "internal"}}}
    body["spec"]["headGroupSpec"] |= {"serviceType": "ClusterIP", "headService": custom}
    tiny = kubernetes(body)
    tiny.settle()
    live = tiny.objects[SERVICE, "pair-head-svc"]
    address = live["spec"]["clusterIP"]
    live["metadata"]["annotations"]["cloud.example/id"] = "7"

    def edit(spec: Any) -> None:
        head = spec["headGroupSpec"]
        head["serviceType"] = "LoadBalancer"
        head["headService"]["metadata"]["annotations"]["second"] = "yes"
        head["template"]["spec"]["containers"][0]["ports"] = [{"name": "extra", "containerPort": 7000}]

    tiny.edit(edit)
    tiny.settle()
    assert (live["spec"]["type"], live["spec"]["clusterIP"]) == ("LoadBalancer", address)
    assert {port["name"]: port["port"] for port in live["spec"]["ports"]} == {"extra": 7000, "metrics": 8080}
    assert live["metadata"]["annotations"] == {"lb": "internal", "second": "yes", "cloud.example/id": "7"}


def test_what_else_changes_reaches_a_service_that_must_stay_headless(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster())
    tiny.settle()

    def edit(spec: Any) -> None:
        spec["headGroupSpec"]["serviceType"] = "LoadBalancer"
        spec["headServiceAnnotations"] = {"lb": "internal"}

    tiny.edit(edit)
    tiny.settle()
    live = tiny.objects[SERVICE, "pair-head-svc"]
    assert live["metadata"]["annotations"] == {"lb": "internal"}
    assert (live["spec"]["clusterIP"], live["spec"].get("type")) == ("None", None)


def test_headless_service_cannot_change_and_says_so(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster())
    tiny.settle()
    tiny.edit(lambda spec: spec["headGroupSpec"].update(serviceType="LoadBalancer"))
    tiny.settle()
    assert tiny.objects[SERVICE, "pair-head-svc"]["spec"]["clusterIP"] == "None"
    (event,) = {event for event in tiny.events if event.reason == "ServiceNotUpdated"}
    assert "delete it to have it made anew" in event.note
    del tiny.objects[SERVICE, "pair-head-svc"]
    tiny.settle()
    assert tiny.objects[SERVICE, "pair-head-svc"]["spec"]["type"] == "LoadBalancer"


def test_renamed_head_service_keeps_its_first_name(kubernetes: Any, cluster: Any) -> None:
    """Workers that run know the old one."""
    tiny = kubernetes(cluster())
    tiny.settle()
    custom = {"metadata": {"name": "front"}, "spec": {"clusterIP": "None"}}
    tiny.edit(lambda spec: spec["headGroupSpec"].update(headService=custom))
    tiny.edit(lambda spec: spec["workerGroupSpecs"][0].update(replicas=4))
    tiny.settle()
    assert [name for kind, name in tiny.objects if kind == SERVICE] == ["pair-head-svc"]
    addresses = {
        entry["value"]
        for pod in tiny.workers.values()
        for entry in pod["spec"]["containers"][0]["env"]
        if entry["name"] == "RAY_IP"
    }
    assert addresses == {"pair-head-svc"}
    assert tiny.status["head"]["serviceName"] == "pair-head-svc"


def test_foreign_service_of_that_name_is_not_taken_over(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster())
    tiny.add(SERVICE, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "pair-head-svc"}, "spec": {}})
    tiny.refuse = lambda write: "already exists" if write.kind == SERVICE else ""
    tiny.reconcile()
    assert tiny.pods == {}
    assert [event.note for event in tiny.events] == ["Failed creating service default/pair-head-svc, already exists"]


def test_users_own_head_service_with_our_labels_is_used(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster())
    labels = {"ray.io/cluster": "pair", "ray.io/node-type": "head", "ray.io/identifier": "pair-head"}
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "pair-head-svc", "labels": labels}, "spec": {}}
    tiny.add(SERVICE, body)
    tiny.settle()
    assert tiny.status["state"] == "ready"
    assert "ownerReferences" not in tiny.objects[SERVICE, "pair-head-svc"]["metadata"]


@pytest.mark.parametrize("named", ["another", "zzz"])
def test_a_second_service_with_the_labels_of_the_head_changes_nothing(
    kubernetes: Any, cluster: Any, named: str
) -> None:
    """8.5: KubeRay stops with an error here."""
    tiny = kubernetes(cluster())
    tiny.settle()
    second = copy.deepcopy(tiny.objects[SERVICE, "pair-head-svc"])
    second["metadata"]["name"] = named
    tiny.add(SERVICE, second)
    writes = len(tiny.writes)
    tiny.edit(lambda spec: spec["workerGroupSpecs"][0].update(replicas=4))
    tiny.settle()
    assert [write.kind.kind for write in tiny.writes[writes:]] == ["Pod"]
    assert tiny.status["head"]["serviceName"] == "pair-head-svc"
    assert tiny.status["state"] == "ready"


def test_missing_serve_port_is_told_once(kubernetes: Any, cluster: Any) -> None:
    body = cluster()
    body["metadata"]["annotations"] = {"ray.io/enable-serve-service": "true"}
    body["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["ports"] = [{"name": "x", "containerPort": 1}]
    tiny = kubernetes(body)
    tiny.settle()
    (event,) = [event for event in tiny.events if event.type == "Warning"]
    assert event.note.startswith("Please specify a port named 'serve'")
    assert tiny.status["state"] == "ready"


def test_services_are_told_together(kubernetes: Any, cluster: Any, group: Any) -> None:
    tiny = kubernetes(cluster(groups=[group(numOfHosts=2)]))
    tiny.settle()
    (event,) = [event for event in tiny.events if event.reason == "CreatedService"]
    assert (event.note, event.count) == ("Created service default/pair-head-svc", 2)


def test_service_that_comes_later_is_told(kubernetes: Any, cluster: Any, group: Any) -> None:
    tiny = kubernetes(cluster())
    tiny.settle()
    tiny.edit(lambda spec: spec["workerGroupSpecs"].append(group("tpu", 1, numOfHosts=2)))
    tiny.settle()
    notes = [event.note for event in tiny.events if event.reason == "CreatedService"]
    assert notes == ["Created service default/pair-head-svc", "Created service default/pair-headless"]
