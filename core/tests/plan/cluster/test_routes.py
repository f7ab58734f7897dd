"""Ingress and Route over time (spec raycluster.md 6.3, 6.4, 7 and 8.5)."""

from __future__ import annotations

from typing import Any

import pytest
from kuberay.api.kinds import INGRESS, ROUTE
from kuberay.plan.config import PlanConfig

OPENSHIFT = PlanConfig(operator_version="1.2.3", openshift=True)
FOREIGN = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "Ingress",
    "metadata": {"name": "pair-head-ingress"},
    "spec": {"defaultBackend": {"service": {"name": "other", "port": {"number": 80}}}},
}


def exposed(cluster: Any, name: str = "pair", **head: Any) -> Any:
    body = cluster(name)
    body["spec"]["headGroupSpec"] |= {"enableIngress": True, **head}
    return body


def routes(tiny: Any) -> list[tuple[str, str]]:
    return [(kind.kind, name) for kind, name in tiny.objects if kind in (INGRESS, ROUTE)]


def notes(tiny: Any) -> list[str]:
    return [event.note for event in tiny.events if "ngress" in event.note or "oute" in event.note]


def turn_off(spec: Any) -> None:
    spec["headGroupSpec"]["enableIngress"] = False


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (PlanConfig(), ("Ingress", "pair-head-ingress")),
        (PlanConfig(ingress_on_openshift=True), ("Ingress", "pair-head-ingress")),
        (PlanConfig(openshift=True), ("Route", "pair-head-route")),
        (PlanConfig(openshift=True, ingress_on_openshift=True), ("Ingress", "pair-head-ingress")),
    ],
)
def test_which_one(kubernetes: Any, cluster: Any, config: PlanConfig, expected: tuple[str, str]) -> None:
    tiny = kubernetes(exposed(cluster), config=config)
    tiny.settle()
    assert routes(tiny) == [expected]
    kind, name = expected
    assert notes(tiny) == [f"Created {kind.lower()} default/{name}"]
    assert tiny.status["state"] == "ready"


@pytest.mark.parametrize("config", [PlanConfig(), OPENSHIFT])
def test_turned_off_it_goes(kubernetes: Any, cluster: Any, config: PlanConfig) -> None:
    tiny = kubernetes(exposed(cluster), config=config)
    tiny.settle()
    tiny.edit(turn_off)
    tiny.settle()
    assert routes(tiny) == []
    (reason,) = {event.reason for event in tiny.events if event.reason.startswith("Deleted")}
    assert reason in ("DeletedIngress", "DeletedRoute")


def test_moving_to_routes_removes_the_ingress(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(exposed(cluster), config=PlanConfig(openshift=True, ingress_on_openshift=True))
    tiny.settle()
    tiny.config = OPENSHIFT
    tiny.settle()
    assert routes(tiny) == [("Route", "pair-head-route")]


def test_only_the_ingress_of_our_name_goes(kubernetes: Any, cluster: Any) -> None:
    """A plugin may own others."""
    tiny = kubernetes(exposed(cluster))
    tiny.settle()
    other = {**FOREIGN, "metadata": {**tiny.objects[INGRESS, "pair-head-ingress"]["metadata"], "name": "of-a-plugin"}}
    tiny.add(INGRESS, other)
    tiny.edit(turn_off)
    tiny.settle()
    assert routes(tiny) == [("Ingress", "of-a-plugin")]


def test_drift_is_repaired(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(exposed(cluster, "a-cluster-with-a-name-longer-than-its-ingress", ingressOptions={"host": "a.b"}))
    tiny.settle()
    ((_, name),) = routes(tiny)
    assert len(name) == 50
    tiny.objects[INGRESS, name]["spec"]["rules"][0]["host"] = "stale"
    del tiny.objects[INGRESS, name]["metadata"]["labels"]["ray.io/cluster"]
    tiny.settle()
    assert routes(tiny) == [("Ingress", name)]
    live = tiny.objects[INGRESS, name]
    assert live["spec"]["rules"][0]["host"] == "a.b"
    assert "ray.io/cluster" in live["metadata"]["labels"]
    assert [event.note for event in tiny.events if event.reason == "UpdatedIngress"] == [
        f"Updated ingress default/{name}"
    ]


def test_a_class_that_admission_filled_in_is_kept_and_one_asked_for_is_set(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(exposed(cluster))
    tiny.settle()
    live = tiny.objects[INGRESS, "pair-head-ingress"]
    live["spec"]["ingressClassName"] = "nginx"
    writes = len(tiny.writes)
    tiny.settle()
    assert (live["spec"]["ingressClassName"], len(tiny.writes)) == ("nginx", writes)
    tiny.cluster["metadata"]["annotations"] = {"kubernetes.io/ingress.class": "traefik"}
    tiny.settle()
    assert live["spec"]["ingressClassName"] == "traefik"
    assert "annotations" not in live["metadata"]


def test_somebody_elses_is_left_alone_and_told_once(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(exposed(cluster))
    tiny.add(INGRESS, FOREIGN)
    tiny.settle()
    tiny.settle()
    note = "Ingress default/pair-head-ingress already exists and is not owned by this RayCluster; not modifying it"
    assert notes(tiny) == [note]
    (event,) = [event for event in tiny.events if event.type == "Warning"]
    assert (event.reason, event.action) == ("FailedToCreateIngress", "Create")
    assert tiny.condition("IngressConflict")["message"] == note
    assert "ownerReferences" not in tiny.objects[INGRESS, "pair-head-ingress"]["metadata"]
    assert tiny.status["state"] == "ready"
    del tiny.objects[INGRESS, "pair-head-ingress"]
    tiny.settle()
    assert tiny.condition("IngressConflict") is None
    assert routes(tiny) == [("Ingress", "pair-head-ingress")]


def test_turned_off_somebody_elses_stays(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(exposed(cluster))
    tiny.add(INGRESS, FOREIGN)
    tiny.settle()
    tiny.edit(turn_off)
    tiny.settle()
    assert routes(tiny) == [("Ingress", "pair-head-ingress")]
    assert tiny.condition("IngressConflict") is None


def test_no_name_for_a_route_in_a_long_namespace(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(exposed(cluster), config=OPENSHIFT, namespace="n" * 60)
    tiny.settle()
    assert routes(tiny) == []
    assert tiny.status["state"] == "ready"
    assert tiny.condition("IngressConflict")["reason"] == "NoName"


def test_a_refused_one_is_told(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(exposed(cluster))
    tiny.refuse = lambda write: "host is taken" if write.kind == INGRESS else ""
    tiny.reconcile()
    assert notes(tiny) == ["Failed creating ingress default/pair-head-ingress, host is taken"]
    tiny.refuse = lambda write: ""
    tiny.settle()
    tiny.refuse = lambda write: "host is taken" if write.kind == INGRESS else ""
    tiny.edit(lambda spec: spec["headGroupSpec"].update(ingressOptions={"host": "x.y"}))
    tiny.reconcile()
    assert notes(tiny)[-1] == "Failed updating ingress default/pair-head-ingress, host is taken"
    assert tiny.status["state"] == "ready"


def test_it_leads_to_the_head_service_that_is_there(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster())
    tiny.settle()

    def rename(spec: Any) -> None:
        spec["headGroupSpec"] |= {"enableIngress": True, "headService": {"metadata": {"name": "front"}}}

    tiny.edit(rename)
    tiny.settle()
    (rule,) = tiny.objects[INGRESS, "pair-head-ingress"]["spec"]["rules"]
    assert rule["http"]["paths"][0]["backend"]["service"]["name"] == "pair-head-svc"
