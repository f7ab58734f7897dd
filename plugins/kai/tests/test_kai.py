"""Pods name KAI and their queue as KubeRay lets them, jobs run in every mode, and a queue that is missing is told."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from kuberay.api.cluster import RayClusterSpec
from kuberay.api.gates import DEFAULT_GATES
from kuberay.api.kinds import RAYCLUSTER, RAYJOB, RAYSERVICE
from kuberay.api.objects import RayObject, from_dict
from kuberay.hooks import OwnerContext, PodContext
from kuberay.operator.offline import Rendered, render
from kuberay.operator.start import PLANS
from kuberay.plan.build.context import owner_context
from kuberay.plan.config import PlanConfig
from kuberay.plan.observed import Observed
from kuberay.plugins.loader import load
from kuberay.plugins.manager import PluginManager
from kuberay_testkit.builders import build_group, build_pod_template, build_raycluster, build_rayjob, build_rayservice

DATA = Path(__file__).parent / "data"
QUEUE = "kai.scheduler/queue"
LABELS = {QUEUE: "test-queue"}
MODES = ("K8sJobMode", "SidecarMode", "HTTPMode", "InteractiveMode")
IN_SPEC = {"RayCluster": "", "RayJob": "rayClusterSpec", "RayService": "rayClusterConfig"}

Manifest = dict[str, Any]


@pytest.fixture
def hooks() -> PluginManager:
    return PluginManager(load(["kai-scheduler"]))


def context(body: Manifest) -> OwnerContext:
    """The context the operator would make for a RayCluster, RayJob or RayService."""
    kind = {kind.kind: kind for kind in (RAYCLUSTER, RAYJOB, RAYSERVICE)}[body["kind"]]
    body = copy.deepcopy(body)
    body["metadata"] = {**body["metadata"], "namespace": "lab", "uid": "u-1"}
    obj = from_dict(kind, body)
    assert isinstance(obj, RayObject)
    raw = obj.spec.get(IN_SPEC[kind.kind]) if kind != RAYCLUSTER else obj.spec
    ctx = owner_context(
        Observed(obj=obj, now=datetime(2026, 1, 1, tzinfo=UTC)),
        kind=kind,
        cluster_spec=None if raw is None else RayClusterSpec.parse(raw),
        lookups=[],
    )
    return OwnerContext(**{**{name: getattr(ctx, name) for name in ctx.__slots__}, "cluster_spec": raw})


def rendered(hooks: PluginManager, body: Manifest) -> Rendered:
    return render(body, plans=PLANS, hooks=hooks, gates=DEFAULT_GATES, config=PlanConfig())


def golden(case: str) -> tuple[Manifest, list[Manifest]]:
    documents = [doc for doc in yaml.safe_load_all((DATA / case / "input.yaml").read_text()) if doc]
    return documents[-1], yaml.safe_load((DATA / case / "expected.yaml").read_text())["children"]


def marks(manifest: Manifest) -> tuple[str, str | None]:
    """Scheduler and queue of a pod, a pod template or a RayCluster."""
    labels = (manifest.get("metadata") or {}).get("labels") or {}
    return manifest["spec"].get("schedulerName", ""), labels.get(QUEUE)


def by_place(children: list[Manifest]) -> dict[str, tuple[str, str | None]]:
    found = {}
    for child in children:
        if child["kind"] == "Pod":
            found[child["metadata"]["labels"]["ray.io/group"]] = marks(child)
        elif child["kind"] == "RayCluster":
            found["cluster"] = marks(child)
        elif child["kind"] == "Job":
            found["submitter"] = marks(child["spec"]["template"])
    return found


# As recorded, and P26


@pytest.mark.parametrize("case", ["kai-cluster", "kai-no-queue", "kai-job-http"])
def test_pods_are_marked_as_kuberay_does(hooks, case):
    body, children = golden(case)
    expected = by_place(children)
    assert by_place(rendered(hooks, body).children) == expected
    assert {scheduler for place, (scheduler, _) in expected.items() if place != "cluster"} == {"kai-scheduler"}


@pytest.mark.parametrize(("labels", "copied"), [(LABELS, "test-queue"), ({}, None), ({QUEUE: ""}, None)])
def test_p26_the_queue_is_copied_when_there_is_one(hooks, labels, copied):
    owner = context(build_raycluster(labels=labels))
    pod = {"metadata": {"labels": {"own": "1"}}, "spec": {"containers": [{"name": "ray"}], "schedulerName": "other"}}
    mutated = hooks.mutate_pod(PodContext(owner=owner, group="w", node_type="worker"), pod)
    assert not mutated.failures
    assert marks(mutated.pod) == ("kai-scheduler", copied)
    assert mutated.pod["metadata"]["labels"]["own"] == "1"


def test_annotations_for_gpu_sharing_are_the_users(hooks):
    template = build_pod_template(annotations={"gpu-fraction": "0.5"})
    result = rendered(hooks, build_raycluster(groups=[build_group("w", template=template)], labels=LABELS))
    (worker,) = [child for child in result.children if child["metadata"].get("labels", {}).get("ray.io/group") == "w"]
    assert worker["metadata"]["annotations"]["gpu-fraction"] == "0.5"


# RayJobs and RayServices


@pytest.mark.parametrize("mode", MODES)
def test_a_job_runs_in_every_mode(hooks, mode):
    """KA-01: the submitter is left to the default scheduler: KAI would count it into a gang of which it is no member."""
    result = rendered(hooks, build_rayjob(labels=LABELS, submissionMode=mode))
    expected = {"cluster": ("", "test-queue")} | dict.fromkeys(
        ("headgroup", "workers"), ("kai-scheduler", "test-queue")
    )
    if mode == "K8sJobMode":
        expected["submitter"] = ("", "test-queue")
    assert by_place(result.children) == expected
    assert not [event for event in result.events if event.type == "Warning"]


def test_the_recorded_job_runs(hooks):
    """KA-01: KubeRay's hook refuses it in each pass, without an event."""
    body, children = golden("kai-job")
    assert children == []
    assert by_place(rendered(hooks, body).children) == {
        "cluster": ("", "day"),
        "headgroup": ("kai-scheduler", "day"),
        "crew": ("kai-scheduler", "day"),
        "submitter": ("", "day"),
    }


def test_a_submitter_goes_to_the_scheduler_that_its_template_names(hooks):
    template = {
        "spec": {
            "schedulerName": "kai-scheduler",
            "restartPolicy": "Never",
            "containers": [{"name": "s", "image": "ray"}],
        }
    }
    result = rendered(hooks, build_rayjob(labels=LABELS, submitterPodTemplate=template))
    assert by_place(result.children)["submitter"] == ("kai-scheduler", "test-queue")


def test_a_job_on_somebody_elses_cluster_is_no_matter_of_kai(hooks):
    owner = context(build_rayjob(clusterSelector={"ray.io/cluster": "shared"}))
    assert hooks.warn(owner) == ([], [])
    mutated = hooks.mutate_pod(
        PodContext(owner=owner, group="submittergroup", node_type="submitter"), {"metadata": {}, "spec": {}}
    )
    assert (mutated.pod, mutated.failures) == ({"metadata": {}, "spec": {}}, [])


def test_the_cluster_of_a_service_is_in_its_queue(hooks):
    places = by_place(rendered(hooks, build_rayservice(labels=LABELS)).children)
    assert places["headgroup"] == places["workers"] == ("kai-scheduler", "test-queue")


# A queue that is missing (KA-03)

PATH = f"metadata.labels[{QUEUE}]"
DEFAULT = "to KAI's default-queue, and stay Pending where there is none"
QUEUES = {
    "nothing at all": ({}, f"{PATH}: is missing, so pods go {DEFAULT}"),
    "empty": ({"labels": {QUEUE: ""}}, f"{PATH}: is missing, so pods go {DEFAULT}"),
    "as an annotation": (
        {"annotations": LABELS},
        f"{PATH}: is missing; metadata.annotations[{QUEUE}] has no effect: make it the label {QUEUE} of this RayCluster",
    ),
    "by a former name": (
        {"labels": {"runai/queue": "q"}},
        f"{PATH}: is missing; metadata.labels[runai/queue] has no effect: make it the label {QUEUE} of this RayCluster",
    ),
    "as an annotation of a pod template": (
        {"groups": [build_group("w", template=build_pod_template(annotations=LABELS))]},
        f"{PATH}: is missing; the annotation {QUEUE} in the pod template of w has no effect: make it the label {QUEUE} of this "
        "RayCluster",
    ),
    "on some pods only": (
        {"groups": [build_group("w", template=build_pod_template(labels=LABELS)), build_group("x")]},
        f"{PATH}: is missing, so pods of headgroup, x go {DEFAULT}",
    ),
}


@pytest.mark.parametrize("case", QUEUES)
def test_a_missing_queue_is_told_with_its_place(hooks, case):
    """KA-03"""
    given, sentence = QUEUES[case]
    owner = context(build_raycluster(**given))
    warnings, failures = hooks.warn(owner)
    assert ([str(warning.problem) for warning in warnings], failures) == ([sentence], [])
    assert hooks.diagnose(owner)[0] == f"{sentence}."


def in_every_pod() -> Manifest:
    body = build_raycluster(groups=[build_group("w", template=build_pod_template(labels=LABELS))])
    body["spec"]["headGroupSpec"]["template"] = build_pod_template("ray-head", labels=LABELS)
    return body


@pytest.mark.parametrize(
    "body",
    [
        build_raycluster(labels=LABELS),
        build_raycluster(labels={"project": "p"}),
        in_every_pod(),
        build_rayjob(labels=LABELS),
    ],
)
def test_a_queue_that_kai_finds_is_not_warned_of(hooks, body):
    assert hooks.warn(context(body)) == ([], [])


# Groups that KAI cannot count


@pytest.mark.parametrize("make", [build_raycluster, build_rayjob, build_rayservice])
@pytest.mark.parametrize(
    ("group", "field", "sentence"),
    [
        (
            {"replicas": 1, "minReplicas": 2},
            "replicas",
            "1 is less than minReplicas (2), for which KAI makes no PodGroup, so that all pods stay Pending: set it to 2 or more",
        ),
        (
            {"replicas": 2, "suspend": True},
            "suspend",
            "KAI waits for the pods of suspended groups, too: set replicas and minReplicas to 0 as well",
        ),
    ],
)
def test_a_group_that_kai_counts_otherwise_is_told(hooks, make, group, field, sentence):
    body = make(groups=[build_group("fine", 2, minReplicas=1), build_group("w", **group)], labels=LABELS)
    part = IN_SPEC[body["kind"]]
    (warning,), failures = hooks.warn(context(body))
    path = ".".join(filter(None, ("spec", part, "workerGroupSpecs[1]", field)))
    assert (str(warning.problem), failures) == (f"{path}: {sentence}", [])


@pytest.mark.parametrize(
    ("groups", "spec", "pods"),
    [
        ([build_group("w", 3)], {}, 4),
        ([build_group("w", 3, minReplicas=1)], {}, 2),
        ([build_group("w", 3)], {"enableInTreeAutoscaling": True}, 1),
        ([build_group("w", 3, minReplicas=2, numOfHosts=4)], {"enableInTreeAutoscaling": True}, 9),
    ],
)
def test_a_waiting_cluster_is_told_what_it_waits_for(hooks, groups, spec, pods):
    body = build_raycluster(groups=groups, labels=LABELS, **spec)
    assert hooks.diagnose(context(body)) == [
        f"Pods that are Pending wait until queue 'test-queue' of KAI has room for {pods} pods together: see "
        "kubectl get queues.scheduling.run.ai; kubectl get podgroups.scheduling.run.ai -n lab."
    ]
    body["spec"]["suspend"] = True
    assert hooks.diagnose(context(body)) == []


def test_it_needs_no_permissions_and_no_kinds(hooks):
    assert not any(hooks.rbac_rules().values())
    assert list(hooks.watches()) == []
