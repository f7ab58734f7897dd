"""A RayService's plan never raises, whatever spec, status, children and answers say, and never deletes what is in use.

The schema vouches for the types of what a status holds, and for nothing else.
"""

from __future__ import annotations

import copy
from datetime import timedelta
from typing import Any

import orjson
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kuberay.api import names
from kuberay.api.conditions import ServiceReason, is_true
from kuberay.api.gates import DEFAULT_GATES
from kuberay.api.kinds import ENDPOINT_SLICE, POD, RAYCLUSTER, RAYSERVICE, SERVICE, Kind
from kuberay.api.objects import RayObject, from_dict
from kuberay.api.times import format_time
from kuberay.plan.model import Delete, Plan, ProbeResult, WriteFailure
from kuberay.plan.observed import FixedView, Observed
from kuberay.plan.service import plan_service

from core.tests.plan.service.worlds import CONFIG, NS, START, Body, ray_service

MOST_STEPS = 12
"""Statuses that may follow from each other while nothing around the RayService changes."""

GOOD = ray_service()["spec"]["rayClusterConfig"]
OTHER = ray_service(groups={"workers": 2, "late": 1}, cluster={"suspend": True})["spec"]["rayClusterConfig"]
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**31), 2**31 - 1),
    st.text(max_size=5),
    st.lists(st.integers(0, 3), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(0, 3), max_size=2),
)
TIMES = st.one_of(
    st.integers(-400, 40).map(lambda seconds: format_time(START + timedelta(seconds=seconds))),
    st.sampled_from(("0001-01-01T00:00:00Z", "yesterday", "")),
)
CLUSTERS = st.sampled_from(("s-one", "s-one", "s-two", "s-two", "gone", ""))


def members(**optional: st.SearchStrategy[Any]) -> st.SearchStrategy[Body]:
    """Any of the members."""
    return st.fixed_dictionaries({}, optional=optional)


def loosely(**optional: st.SearchStrategy[Any]) -> st.SearchStrategy[Body]:
    """Any of the members, one of them now and then of a wrong type."""
    wrong = st.one_of(
        st.just({}), st.just({}), st.tuples(st.sampled_from(sorted(optional)), ODD).map(lambda pair: dict([pair]))
    )
    return st.tuples(members(**optional), wrong).map(lambda pair: pair[0] | pair[1])


def conditions(*types: str) -> st.SearchStrategy[list[Body]]:
    return st.lists(
        st.fixed_dictionaries(
            {
                "type": st.sampled_from(types),
                "status": st.sampled_from(("True", "False", "Unknown")),
                "reason": st.sampled_from((*ServiceReason, "Odd")),
                "message": st.sampled_from(("", "x")),
                "lastTransitionTime": TIMES,
            }
        ),
        max_size=3,
        unique_by=lambda condition: condition["type"],
    )


SPECS = loosely(
    rayClusterConfig=st.sampled_from((GOOD, GOOD, OTHER, {}, {"headGroupSpec": {"template": {}}})),
    serveConfigV2=st.sampled_from((CONFIG, CONFIG, CONFIG, "", "a: [", "- a", "applications: []", "&a {a: *a}")),
    upgradeStrategy=loosely(
        type=st.sampled_from(
            ("NewCluster", "NewCluster", "None", "Rolling", "Recreate", "NewClusterWithIncrementalUpgrade", "Sideways")
        ),
        clusterUpgradeOptions=members(stepSizePercent=st.just(10), intervalSeconds=st.just(1)),
    ),
    rayClusterDeletionDelaySeconds=st.sampled_from((0, 0, 1, 1, 600, -1)),
    serveService=st.sampled_from(({}, {"metadata": {"name": "mine"}}, {"spec": {"ports": [{"name": "x", "port": 1}]}})),
    excludeHeadPodFromServeSvc=st.booleans(),
    suspend=st.sampled_from((False, False, False, True)),
    managedBy=st.sampled_from(("ray.io/kuberay-operator",) * 9 + ("kueue.x-k8s.io/multikueue",)),
)
SIDES = members(
    rayClusterName=CLUSTERS,
    rayClusterStatus=st.sampled_from(({}, {"state": "ready"})),
    applicationStatuses=st.sampled_from(({}, {"app": {"status": "RUNNING"}})),
    targetCapacity=st.sampled_from((0, 50, 100)),
    trafficRoutedPercent=st.sampled_from((0, 50, 100)),
    lastTrafficMigratedTime=TIMES,
)
STATUSES = members(
    activeServiceStatus=SIDES,
    pendingServiceStatus=SIDES,
    serviceStatus=st.sampled_from(("", "Running")),
    numServeEndpoints=st.integers(0, 2),
    observedGeneration=st.integers(0, 3),
    conditions=conditions(
        "Ready", "UpgradeInProgress", "RollbackInProgress", "Suspending", "Suspended", "PluginFailed"
    ),
)
SERVICE_ANNOTATIONS = st.dictionaries(
    st.sampled_from(
        (
            names.ANNOTATION_INITIALIZING_TIMEOUT,
            names.ANNOTATION_UPGRADE_PAUSED,
            names.ANNOTATION_UPGRADE_ABORTED,
            names.ANNOTATION_DELETE_DRAINED,
        )
    ),
    st.sampled_from(("", "true", "30s", "300")),
)
CLUSTER_ANNOTATIONS = st.dictionaries(
    st.sampled_from(
        (
            names.ANNOTATION_CLUSTER_HASH,
            names.ANNOTATION_WORKER_GROUPS,
            names.ANNOTATION_OPERATOR_VERSION,
            names.ANNOTATION_SERVE_CONFIG,
            names.ANNOTATION_DELETE_AFTER,
        )
    ),
    st.one_of(st.sampled_from(("", "1-a-b", "1-a-b-suspended", "x", CONFIG)), TIMES),
)
CLUSTER_STATUSES = members(
    state=st.sampled_from(("ready", "", "suspended")),
    head=members(serviceName=st.sampled_from(("", "x"))),
    conditions=st.one_of(
        conditions("HeadPodReady", "PodsWaiting", "RollingUpgrade", "RayClusterSpecValid"),
        st.just([{"type": "HeadPodReady", "status": "True", "lastTransitionTime": format_time(START)}]),
    ),
)
ANSWERS = st.one_of(
    st.none(),
    st.builds(
        ProbeResult,
        st.sampled_from(("found", "absent", "error")),
        st.integers(-60, 0).map(lambda seconds: START + timedelta(seconds=seconds)),
        loosely(
            healthy=st.booleans(),
            inFlight=st.integers(0, 1),
            applications=st.sampled_from(
                ({}, {"app": {"status": "RUNNING"}}, {"app": {"status": "ODD", "deployments": {"D": {}}}})
            ),
        ).filter(lambda value: isinstance(value.get("applications", {}), dict)),
        st.just("error text"),
        st.one_of(st.none(), st.just(START - timedelta(seconds=90))),
        st.one_of(st.none(), st.just(START - timedelta(seconds=70))),
    ),
)


def _owner(kind: str, name: str) -> Body:
    return {"apiVersion": "ray.io/v1", "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}


@st.composite
def worlds(draw: st.DrawFn) -> list[tuple[Kind, Body]]:
    """RayClusters with and without pods, services and endpoints."""
    found: list[tuple[Kind, Body]] = []
    for name in draw(st.sets(st.sampled_from(("s-one", "s-two", "s-three")), min_size=1)):
        metadata: Body = {
            "name": name,
            "namespace": NS,
            "uid": f"uid-{name}",
            "resourceVersion": "3",
            "creationTimestamp": format_time(START - timedelta(seconds=500)),
            "labels": {names.LABEL_ORIGIN_NAME: "s", names.LABEL_ORIGIN_CRD: "RayService"},
            "annotations": draw(CLUSTER_ANNOTATIONS),
            "ownerReferences": draw(st.sampled_from(([_owner("RayService", "s")],) * 5 + ([],))),
        }
        if draw(st.integers(0, 5)) == 5:
            metadata["deletionTimestamp"] = format_time(START)
        spec = draw(st.sampled_from((GOOD, OTHER, {"headGroupSpec": {}})))
        found.append((RAYCLUSTER, {"metadata": metadata, "spec": spec, "status": draw(CLUSTER_STATUSES)}))
        labels = {names.LABEL_CLUSTER: name, names.LABEL_NODE_TYPE: "head"}
        pod: Body = {"name": f"{name}-head", "namespace": NS, "uid": f"uid-{name}-head", "labels": labels}
        pod["ownerReferences"] = [_owner("RayCluster", name)]
        ready = {"phase": "Running", "podIP": draw(st.sampled_from(("", "10.0.0.1", "fd00::1")))}
        found.append((POD, {"metadata": pod, "spec": {"containers": [{"name": "ray-head"}]}, "status": ready}))
        if draw(st.booleans()):
            ports = draw(st.sampled_from(([{"name": "dashboard", "port": 8265}], [], None)))
            svc: Body = {"name": f"{name}-head-svc", "namespace": NS, "uid": f"uid-{name}-svc"}
            svc["ownerReferences"] = [_owner("RayCluster", name)]
            found.append((SERVICE, {"metadata": svc, "spec": {"ports": ports}}))
    if draw(st.booleans()):
        svc = {"name": "s-serve-svc", "namespace": NS, "uid": "uid-serve", "labels": {names.LABEL_SERVE: "s-serve"}}
        svc["ownerReferences"] = draw(st.sampled_from(([_owner("RayService", "s")], [])))
        selector = draw(st.sampled_from(({names.LABEL_CLUSTER: "s-one"}, {}, None)))
        found.append((SERVICE, {"metadata": svc, "spec": {"selector": selector}}))
        piece: Body = {"name": "x", "namespace": NS, "uid": "uid-x", "ownerReferences": [_owner("Service", "serve")]}
        piece["ownerReferences"][0]["uid"] = "uid-serve"
        ready_endpoint = {"conditions": {"ready": True}, "targetRef": {"uid": "uid-s-one-head"}}
        found.append((ENDPOINT_SLICE, {"metadata": piece, "endpoints": [ready_endpoint, {}]}))
    return found


@st.composite
def observations(draw: st.DrawFn) -> Observed:
    metadata: Body = {
        "name": "s",
        "namespace": NS,
        "uid": "uid-s",
        "generation": draw(st.integers(1, 3)),
        "resourceVersion": "5",
        "annotations": draw(SERVICE_ANNOTATIONS),
        "finalizers": draw(st.sampled_from(([names.RAYSERVICE_FINALIZER],) * 9 + ([],))),
    }
    if draw(st.integers(0, 9)) == 9:
        metadata["deletionTimestamp"] = format_time(START - timedelta(seconds=draw(st.integers(0, 600))))
    spec = {"rayClusterConfig": GOOD, "serveConfigV2": CONFIG, **draw(SPECS)}
    obj = from_dict(RAYSERVICE, copy.deepcopy({"metadata": metadata, "spec": spec, "status": draw(STATUSES)}))
    assert isinstance(obj, RayObject)
    view = FixedView(copy.deepcopy(draw(worlds())))
    failure = WriteFailure("Service", "s-serve-svc", "", "no", "Forbidden") if draw(st.integers(0, 9)) == 9 else None
    observed = Observed(obj=obj, now=START, view=view, gates=dict(DEFAULT_GATES), failure=failure)
    answers: dict[Any, ProbeResult] = {}
    for _ in range(3):
        for probe in plan_service(with_answers(observed, answers)).probes:
            if probe not in answers and (answer := draw(ANSWERS)) is not None:
                answers[probe] = answer
    return with_answers(observed, answers)


def with_answers(observed: Observed, answers: dict[Any, ProbeResult], status: Body | None = None) -> Observed:
    """The same with answers, and with another status when one is given."""
    obj = observed.obj
    if status is not None:
        again = from_dict(
            RAYSERVICE,
            {
                "metadata": orjson.loads(_metadata(obj)),
                "spec": copy.deepcopy(obj.spec),
                "status": copy.deepcopy(status),
            },
        )
        assert isinstance(again, RayObject)
        obj = again
    return Observed(
        obj=obj,
        now=observed.now,
        view=observed.view,
        probes=answers or observed.probes,
        gates=observed.gates,
        failure=observed.failure,
    )


def _metadata(obj: RayObject) -> bytes:
    meta = obj.metadata
    body = {
        "name": meta.name,
        "namespace": meta.namespace,
        "uid": meta.uid,
        "generation": meta.generation,
        "resourceVersion": meta.resource_version,
        "annotations": meta.annotations,
        "finalizers": meta.finalizers,
    }
    if meta.deletion_timestamp is not None:
        body["deletionTimestamp"] = format_time(meta.deletion_timestamp)
    return orjson.dumps(body)


def in_use(observed: Observed) -> set[str]:
    status = observed.obj.status
    sides = (status.get("activeServiceStatus") or {}, status.get("pendingServiceStatus") or {})
    return {side["rayClusterName"] for side in sides if side.get("rayClusterName")}


@settings(
    max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(observations())
def test_no_plan_raises_and_none_deletes_what_is_in_use(observed: Observed) -> None:
    before = copy.deepcopy(observed.obj.status), copy.deepcopy(observed.obj.spec)
    plan = plan_service(observed)
    assert (observed.obj.status, observed.obj.spec) == before, "what is observed is not changed"
    suspending = is_true(observed.obj.status.get("conditions") or (), "Suspending")
    if not observed.obj.deleting and not suspending:
        deleted = {write.name for write in writes(plan) if isinstance(write, Delete) and write.kind == RAYCLUSTER}
        assert not deleted & in_use(observed)


@settings(
    max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(observations())
def test_statuses_come_to_rest(observed: Observed) -> None:
    """While nothing around the RayService changes, its status soon does not either."""
    for _ in range(MOST_STEPS):
        status = plan_service(observed).status
        if status is None:
            return
        orjson.dumps(status)
        observed = with_answers(observed, dict(observed.probes), status)
    raise AssertionError("the status never comes to rest")


def writes(plan: Plan) -> list[Any]:
    return [write for stage in plan.stages for write in stage]
