"""Rendering without a cluster: the operator's own plans on a world where all goes well."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from kuberay.api.gates import DEFAULT_GATES
from kuberay.api.kinds import POD, RAYCLUSTER, RAYJOB, RAYSERVICE, SERVICE_ACCOUNT
from kuberay.hooks.calls import NoHooks
from kuberay.operator.offline import Rendered, render
from kuberay.plan.cluster import plan_cluster
from kuberay.plan.config import PlanConfig
from kuberay.plan.job import plan_job
from kuberay.plan.model import (
    Apply,
    Create,
    Delete,
    Event,
    ObjectProbe,
    Plan,
    ProxyHealthProbe,
    ServeConfigCall,
    ServeProbe,
)
from kuberay.plan.observed import Observed
from kuberay_testkit.builders import build_group, build_raycluster, build_rayjob, build_rayservice

PLANS = {RAYCLUSTER: plan_cluster, RAYJOB: plan_job}


def rendered(manifest: dict[str, Any], plans: Any = PLANS) -> Rendered:
    return render(manifest, plans=plans, hooks=NoHooks(), gates=DEFAULT_GATES, config=PlanConfig())


def kinds(result: Rendered) -> list[str]:
    return [child["kind"] for child in result.children]


@pytest.mark.parametrize(
    ("groups", "pods"),
    [
        ([], 1),
        ([build_group("a", 3)], 4),
        ([build_group("a", 1), build_group("b", 2)], 4),
        ([build_group("a", 2, numOfHosts=2)], 5),
        ([build_group("a", 0)], 1),
    ],
)
def test_a_cluster_becomes_a_service_and_its_pods(groups: list[dict[str, Any]], pods: int) -> None:
    result = rendered(build_raycluster("rc", groups=groups))
    assert kinds(result).count("Pod") == pods
    assert kinds(result)[0] == "Service"
    assert result.problems == []
    assert all(child["metadata"]["ownerReferences"][0]["name"] == "rc" for child in result.children)
    assert all("status" not in child for child in result.children), "manifests as they would be sent"


def test_a_suspended_cluster_has_no_pods() -> None:
    assert "Pod" not in kinds(rendered(build_raycluster("rc", suspend=True)))


def test_a_job_becomes_a_cluster_with_its_children_and_a_submitter() -> None:
    result = rendered(build_rayjob("rj"))
    assert kinds(result).count("RayCluster") == 1
    assert kinds(result).count("Job") == 1
    assert kinds(result).count("Pod") == 2
    assert result.problems == []


def test_the_manifest_given_is_not_changed_and_its_status_does_not_count() -> None:
    manifest = build_raycluster("rc")
    before = copy.deepcopy(manifest)
    first = rendered(manifest)
    assert manifest == before
    with_status = {**manifest, "status": {"state": "ready", "head": {"podName": "x"}}}
    assert rendered(with_status).children == first.children


def test_null_means_absent() -> None:
    manifest = build_raycluster("rc", groups=[])
    manifest["metadata"]["labels"] = None
    container = {"name": "ray", "image": "r", "env": None, "resources": {"limits": None}, "livenessProbe": None}
    manifest["spec"]["headGroupSpec"] = {"rayStartParams": None, "template": {"spec": {"containers": [container]}}}
    result = rendered(manifest)
    assert kinds(result) == ["Service", "Pod"]
    assert None not in result.children[1]["spec"]["containers"][0].values()
    assert result.children[1]["spec"]["containers"][0]["resources"] == {}


def test_a_refused_object_has_no_children_but_problems() -> None:
    result = rendered(build_raycluster("rc", groups=[build_group("w", 1, minReplicas=5, maxReplicas=3)]))
    assert result.children == []
    assert any("minReplicas" in problem for problem in result.problems)


@pytest.mark.parametrize(
    ("manifest", "sentence"),
    [
        ({"kind": "Pod"}, "kind 'Pod' cannot be rendered; it must be one of RayCluster, RayJob"),
        ({}, "kind None cannot be rendered; it must be one of RayCluster, RayJob"),
        ({"kind": "RayCluster"}, "metadata.name is missing"),
        ({"kind": "RayCluster", "metadata": {"namespace": "x"}}, "metadata.name is missing"),
    ],
)
def test_what_cannot_be_rendered(manifest: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        rendered(manifest)


def stub(plan: Any) -> Any:
    return {RAYCLUSTER: plan}


def child(name: str, observed: Observed) -> dict[str, Any]:
    owner = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "rc", "uid": observed.obj.uid, "controller": True}
    return {"metadata": {"name": name, "ownerReferences": [owner]}, "spec": {"containers": [{"name": "c"}]}}


def test_looked_up_objects_exist_and_pods_are_ready() -> None:
    probe = ObjectProbe(SERVICE_ACCOUNT, "default", "sa")

    def plan(observed: Observed) -> Plan:
        found = observed.probes.get(probe)
        if found is None or found.outcome != "found":
            return Plan(probes=[probe])
        pods = [pod for pod in observed.view.owned(observed.obj.uid, POD) if pod.status.phase == "Running"]  # type: ignore[attr-defined]
        name = f"pod{len(pods)}"
        write = Create(kind=POD, namespace="default", name=name, body=lambda: child(name, observed))
        return Plan(stages=[[write]]) if len(pods) < 3 else Plan()

    assert [c["metadata"]["name"] for c in rendered(build_raycluster("rc"), stub(plan)).children] == [
        "pod0",
        "pod1",
        "pod2",
    ]


def test_what_a_plan_removes_again_is_not_a_child() -> None:
    def plan(observed: Observed) -> Plan:
        if observed.obj.status.get("state"):
            return Plan(stages=[[Delete(kind=POD, namespace="default", name="gone", uid="")]])
        writes = [
            Create(kind=POD, namespace="default", name="gone", body=child("gone", observed)),
            Apply(kind=POD, namespace="default", name="kept", body=child("kept", observed)),
        ]
        return Plan(stages=[[*writes]], status={"state": "x"})

    assert [c["metadata"]["name"] for c in rendered(build_raycluster("rc"), stub(plan)).children] == ["kept"]


def test_a_plan_that_never_settles_ends_all_the_same() -> None:
    numbers = iter(range(10_000))

    def plan(_observed: Observed) -> Plan:
        return Plan(status={"state": str(next(numbers))}, events=[Event("Again", "and again", type="Warning")])

    result = rendered(build_raycluster("rc"), stub(plan))
    assert result.problems == ["and again"]
    assert len(result.events) == 1


def test_serve_runs_what_it_is_given_and_nothing_before() -> None:
    config = '{"applications":[{"name":"a","deployments":[{"name":"d"}]},{"name":""}]}'
    put = ServeConfigCall("head:8265", config)
    ask, elsewhere, health = ServeProbe("head:8265"), ServeProbe("other:8265"), ProxyHealthProbe("10.0.0.1:8000")
    seen: list[list[str]] = []

    def plan(observed: Observed) -> Plan:
        answer = observed.probes.get(ask)
        seen.append(sorted(answer.value["applications"]) if answer else ["?"])
        probes = [ask, elsewhere, health]
        if answer is not None:
            probes.append(put)
        if answer is None or not answer.value["applications"]:
            return Plan(probes=probes)  # type: ignore[arg-type]
        assert observed.probes[health].value == {"healthy": True}
        assert observed.probes[elsewhere].value == {"applications": {}}
        app = answer.value["applications"]["a"]
        assert app == {"status": "RUNNING", "message": "", "deployments": {"d": {"status": "HEALTHY", "message": ""}}}
        serves = {"activeServiceStatus": {"rayClusterName": "rc"}}
        return Plan(probes=probes, status=serves, waiting="no requests come")  # type: ignore[arg-type]

    result = rendered(build_rayservice("rs"), {RAYSERVICE: plan})
    assert seen[0] == ["?"]
    assert [] in seen
    assert seen[-1] == ["a", "default"]
    assert result.notes == [f"PUT http://head:8265/api/serve/applications/ {config}"]


def test_what_a_rayservice_waits_for_is_noted() -> None:
    result = rendered(build_rayservice("rs"), {RAYSERVICE: lambda _: Plan(waiting="there is no head")})
    assert result.notes == ["RayService rs: there is no head"]
