"""A RayJob's plan never raises, whatever spec, status, children and answers say.

Statuses are of each state and mode, such as KubeRay or a hand may have left them. The schema vouches for the types of what
a status holds, and for nothing else.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import orjson
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kuberay.api.gates import DEFAULT_GATES
from kuberay.api.job import DeletionPolicy, JobDeploymentStatus, JobFailedReason, JobStatus, JobSubmissionMode
from kuberay.api.kinds import JOB, POD, RAYCLUSTER, RAYJOB, SERVICE, Kind
from kuberay.api.names import ANNOTATION_SILENCED, RAYJOB_FINALIZER
from kuberay.api.objects import RayObject, from_dict
from kuberay.api.times import format_time
from kuberay.plan.job import plan_job
from kuberay.plan.model import Plan, ProbeResult, WriteFailure
from kuberay.plan.observed import FixedView, Observed

from .conftest import CLUSTER_SPEC, NS, START

Body = dict[str, Any]

MOST_STEPS = 12
"""Statuses that may follow from each other while nothing around the RayJob changes: a whole attempt."""

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
    st.just("0001-01-01T00:00:00Z"),
    st.just("yesterday"),
)
SECONDS = st.sampled_from((-1, 0, 1, 30, 300, 2**31 - 1))
WORDS = st.sampled_from(("", "x", "ray-1", "j-abcde"))


def members(**optional: st.SearchStrategy[Any]) -> st.SearchStrategy[Body]:
    """Any of the members."""
    return st.fixed_dictionaries({}, optional=optional)


def loosely(**optional: st.SearchStrategy[Any]) -> st.SearchStrategy[Body]:
    """Any of the members, each now and then of a wrong type."""
    return members(**{key: st.one_of(value, value, value, value, value, ODD) for key, value in optional.items()})


CONDITIONS = st.lists(
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(("Submitted", "Accepted", "HeadStarted", "PodsWaiting")),
            "status": st.sampled_from(("True", "False", "Unknown")),
            "reason": WORDS,
            "message": WORDS,
            "lastTransitionTime": TIMES,
        }
    ),
    max_size=2,
    unique_by=lambda condition: condition["type"],
)
POLICIES = st.sampled_from((*DeletionPolicy, "DeleteAll"))
SPECS = loosely(
    entrypoint=st.sampled_from(("", "python a.py", "echo 'a", 'echo \\" "b c" $x', "\\" * 50)),
    rayClusterSpec=st.sampled_from((CLUSTER_SPEC, {}, {"headGroupSpec": {"template": {"spec": {"containers": []}}}})),
    clusterSelector=st.sampled_from(({}, {"ray.io/cluster": "ray-1"}, {"ray.io/cluster": ""}, {"a": "b"})),
    submissionMode=st.sampled_from((*JobSubmissionMode, "", "OtherMode")),
    jobId=WORDS,
    metadata=st.sampled_from(({}, {"a": "b"})),
    runtimeEnvYAML=st.sampled_from(
        ("", "a: b", "a: [", "- a", "&a {a: *a}", "a: !!binary aGk=", "a: .nan", "a: !!int x")
    ),
    entrypointNumCpus=st.sampled_from((0, 0.5, -1)),
    entrypointResources=st.sampled_from(("", "{}", "[", '{"a": NaN}', '{"a": 1e999}', "[" * 5000)),
    submitterPodTemplate=st.sampled_from(({}, {"spec": None}, {"spec": {"containers": [{"name": "x", "env": None}]}})),
    submitterConfig=st.sampled_from(({}, {"backoffLimit": 0})),
    backoffLimit=st.sampled_from((0, 1, 3)),
    activeDeadlineSeconds=SECONDS,
    preRunningDeadlineSeconds=SECONDS,
    shutdownAfterJobFinishes=st.booleans(),
    ttlSecondsAfterFinished=SECONDS,
    deletionStrategy=st.one_of(
        st.fixed_dictionaries({key: st.fixed_dictionaries({"policy": POLICIES}) for key in ("onSuccess", "onFailure")}),
        st.fixed_dictionaries(
            {
                "deletionRules": st.lists(
                    st.fixed_dictionaries(
                        {"policy": POLICIES, "condition": members(jobStatus=st.just("FAILED"), ttlSeconds=SECONDS)}
                    ),
                    max_size=2,
                )
            }
        ),
    ),
    suspend=st.booleans(),
    managedBy=st.sampled_from(("ray.io/kuberay-operator", "kueue.x-k8s.io/multikueue")),
)
CLUSTER_STATUSES = members(
    state=st.sampled_from(("ready", "", "suspended")),
    head=members(serviceName=WORDS, podName=WORDS),
    conditions=CONDITIONS,
    endpoints=st.just({"dashboard": "8265"}),
)
STATUSES = members(
    jobDeploymentStatus=st.sampled_from((*JobDeploymentStatus, "Sleeping")),
    jobStatus=st.sampled_from((*JobStatus, "WAITING")),
    jobId=WORDS,
    rayClusterName=st.sampled_from(("", "ray-1", "ray-1", "ray-1", "gone")),
    dashboardURL=st.sampled_from(("", "ray-1-head-svc.default.svc.cluster.local:8265")),
    reason=st.sampled_from(tuple(JobFailedReason)),
    message=WORDS,
    startTime=TIMES,
    endTime=TIMES,
    succeeded=st.integers(0, 2),
    failed=st.integers(0, 2),
    rayClusterStatus=CLUSTER_STATUSES,
    rayJobInfo=members(startTime=TIMES, endTime=TIMES),
    jobStatusCheckFailureStartTime=TIMES,
    conditions=CONDITIONS,
)
ANSWERS = st.one_of(
    st.none(),
    st.builds(
        ProbeResult,
        st.sampled_from(("found", "absent", "error")),
        st.integers(-60, 0).map(lambda seconds: START + timedelta(seconds=seconds)),
        members(
            status=st.sampled_from((*JobStatus, "ODD")),
            message=WORDS,
            start_time=st.integers(0, 2**63),
            end_time=st.integers(0, 2**63),
            lines=st.text(max_size=5),
            stopped=st.booleans(),
        ),
    ),
)


def owner(kind: str, uid: str) -> Body:
    return {"apiVersion": "ray.io/v1", "kind": kind, "name": "j", "uid": uid, "controller": True}


def metadata(name: str, owners: list[Body], **more: Any) -> Body:
    made = {"name": name, "namespace": NS, "uid": f"uid-{name}", "creationTimestamp": format_time(START), **more}
    return {**made, "ownerReferences": owners, "resourceVersion": "1", "generation": 2}


DELETED = st.sampled_from(({}, {}, {}, {"deletionTimestamp": format_time(START)}))
OWNERS = st.sampled_from(([owner("RayJob", "uid-j")], [owner("RayJob", "uid-j")], [owner("RayJob", "uid-o")], []))
MODE_LABELS = st.sampled_from((*JobSubmissionMode, "")).map(lambda word: {"ray.io/job-submission-mode": word})
CLUSTERS = st.builds(
    lambda owners, deleted, labels, spec, status: {
        "metadata": metadata("ray-1", owners, labels=labels, **deleted),
        "spec": spec,
        "status": status,
    },
    OWNERS,
    DELETED,
    MODE_LABELS,
    st.sampled_from(
        (CLUSTER_SPEC, {}, {**CLUSTER_SPEC, "enableInTreeAutoscaling": True, "authOptions": {"mode": "token"}})
    ),
    st.fixed_dictionaries(
        {}, optional={"state": st.just("ready"), "head": st.just({"serviceName": "x"}), "conditions": st.just([])}
    ),
)
SUBMITTERS = st.builds(
    lambda owners, deleted, suspend, silenced, conditions, failed: {
        "metadata": metadata("j", owners, annotations={ANNOTATION_SILENCED: "true"} if silenced else {}, **deleted),
        "spec": {"suspend": suspend},
        "status": {"conditions": conditions, "failed": failed},
    },
    OWNERS,
    DELETED,
    st.booleans(),
    st.booleans(),
    st.sampled_from(
        (
            [],
            [{"type": "Complete", "status": "True"}],
            [{"type": "Failed", "status": "True", "lastTransitionTime": format_time(START - timedelta(seconds=40))}],
        )
    ),
    st.integers(0, 1),
)
HEADS = st.builds(
    lambda phase, state, containers: {
        "metadata": metadata("head", [owner("RayCluster", "uid-ray-1")], labels={"ray.io/node-type": "head"}),
        "spec": {"containers": [{"name": "ray-head"}, {"name": "ray-job-submitter"}][:containers]},
        "status": {
            "phase": phase,
            "containerStatuses": [
                {"name": "ray-head", "ready": True, "restartCount": 1},
                {"name": "ray-job-submitter", "restartCount": 3, "state": state, "lastState": state},
            ][:containers],
        },
    },
    st.sampled_from(("", "Pending", "Running", "Failed")),
    st.sampled_from(({}, {"running": {}}, {"terminated": {"exitCode": 1}}, {"terminated": {"exitCode": 0}})),
    st.integers(0, 2),
)
HEAD_SERVICES = st.sampled_from(({}, {"ports": [{"name": "dashboard", "port": 8265}]}, {"ports": [{"port": 1}]}))


@st.composite
def situations(draw: st.DrawFn) -> tuple[Observed, ProbeResult | None]:
    """What may be seen in one pass, and the answer of every question it asks."""
    objects: list[tuple[Kind, Body]] = []
    for kind, strategy in ((RAYCLUSTER, CLUSTERS), (JOB, SUBMITTERS), (POD, HEADS)):
        body = draw(st.one_of(strategy, st.none()))
        if body is not None:
            objects.append((kind, body))
    service = {"metadata": metadata("ray-1-head-svc", []), "spec": draw(HEAD_SERVICES)}
    deleted = draw(DELETED)
    job = {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": metadata("j", [], finalizers=draw(st.sampled_from(([], [RAYJOB_FINALIZER], ["other"]))), **deleted),
        "spec": draw(SPECS),
        "status": draw(STATUSES),
    }
    view = FixedView([*objects, (SERVICE, service)])
    obj = from_dict(RAYJOB, job)
    assert isinstance(obj, RayObject)
    gates = dict.fromkeys(DEFAULT_GATES, True) if draw(st.booleans()) else DEFAULT_GATES
    failure = draw(st.sampled_from((None, None, None, WriteFailure("Job", "j", "", "refused"))))
    return Observed(obj=obj, now=START, view=view, gates=gates, failure=failure), draw(ANSWERS)


def look(observed: Observed, answer: ProbeResult | None) -> tuple[Observed, Plan]:
    """The plan once what it asks has been answered."""
    plan = plan_job(observed)
    for _ in range(2):
        if answer is not None and plan.probes:
            observed = replace(observed, probes=dict.fromkeys(plan.probes, answer))
            plan = plan_job(observed)
    return observed, plan


def wrong_times(before: Body, after: Body) -> list[Body]:
    """Conditions that changed although their time did not, or the other way round."""
    known = {condition["type"]: condition for condition in before.get("conditions") or []}
    return [
        condition
        for condition in after.get("conditions") or []
        if (old := known.get(condition["type"])) is not None
        and (old["status"] == condition["status"]) != (old["lastTransitionTime"] == condition["lastTransitionTime"])
        and condition["lastTransitionTime"] != format_time(START)
    ]


@settings(max_examples=examples(250), deadline=None, suppress_health_check=list(HealthCheck))
@given(situations())
def test_no_plan_raises_and_each_settles(situation: tuple[Observed, ProbeResult | None]) -> None:
    """What a plan says is JSON; and planned again on what it has told, a RayJob comes to rest: no two rules undo each other."""
    observed, answer = situation
    over = False
    for _ in range(MOST_STEPS):
        observed, plan = look(observed, answer)
        for write in (write for stage in plan.stages for write in stage):
            body = getattr(write, "body", None)
            orjson.dumps(body() if callable(body) else body)
        for pod in plan.expected_pods:
            orjson.dumps(pod.build())
        assert plan.requeue_after is None or plan.requeue_after >= timedelta(0)
        if plan.status is None:
            return
        before, status = observed.obj.status, orjson.loads(orjson.dumps(plan.status))
        assert not wrong_times(before, status)
        assert not over or status["jobDeploymentStatus"] in ("Complete", "Failed")
        over = status.get("jobDeploymentStatus") in ("Complete", "Failed")
        observed = replace(observed, obj=msgspec.structs.replace(observed.obj, status=status))
    raise AssertionError(f"it never settles: {observed.obj.status}")
