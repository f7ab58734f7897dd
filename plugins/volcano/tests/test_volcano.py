"""PodGroups, marks and clean-up: equal to what KubeRay makes, except where that is known to be wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from kuberay.api.cluster import RayClusterSpec
from kuberay.api.gates import DEFAULT_GATES
from kuberay.api.kinds import RAYCLUSTER, RAYJOB
from kuberay.api.objects import RayObject, from_dict
from kuberay.hooks import FinishContext, OwnerContext, PodContext, Problem
from kuberay.hooks.types import GroupSize
from kuberay.operator.offline import render
from kuberay.operator.start import PLANS
from kuberay.plan.build.context import group_sizes, owner_context, pod_requests
from kuberay.plan.config import PlanConfig
from kuberay.plan.observed import Observed
from kuberay.plugins.loader import load
from kuberay.plugins.manager import PluginManager
from kuberay_volcano.podgroup import POD_GROUP

DATA = Path(__file__).parent / "data"
DEFAULT_SUBMITTER = {"cpu": "500m", "memory": "200Mi"}
HEAD = {"requests": {"cpu": "256m", "memory": "256Mi"}, "limits": {"cpu": "500m", "memory": "512Mi"}}
WORKER = {**HEAD, "limits": {**HEAD["limits"], "nvidia.com/gpu": "1"}}


@pytest.fixture
def hooks() -> PluginManager:
    return PluginManager(load(["volcano"]))


def context(body: dict[str, Any]) -> OwnerContext:
    """The context the operator would make for a RayCluster or RayJob."""
    kind = RAYJOB if body["kind"] == "RayJob" else RAYCLUSTER
    body = json.loads(json.dumps({**body, "metadata": {"namespace": "lab", "uid": "u-1", **body["metadata"]}}))
    body["metadata"].pop("ownerReferences", None)
    obj = from_dict(kind, body)
    assert isinstance(obj, RayObject)
    raw = obj.spec if kind == RAYCLUSTER else obj.spec.get("rayClusterSpec")
    submitter = kind == RAYJOB and obj.spec.get("submissionMode", "K8sJobMode") == "K8sJobMode"
    return owner_context(
        Observed(obj=obj, now=datetime(2026, 1, 1, tzinfo=UTC)),
        kind=kind,
        cluster_spec=None if raw is None else RayClusterSpec.parse(raw),
        lookups=[],
        submitter_requests=DEFAULT_SUBMITTER if submitter else None,
    )


def fixture(kind: str = "RayCluster", *, hosts: int = 1, job: dict[str, Any] | None = None, **changes: Any) -> Any:
    """Fixture F of the specification: one worker group, replicas 2, min 1, max 4."""
    labels, annotations = changes.pop("labels", {}), changes.pop("annotations", {})
    status = changes.pop("status", {})
    group = {"groupName": "small", "replicas": 2, "minReplicas": 1, "maxReplicas": 4, "numOfHosts": hosts}
    group.update(changes.pop("group", {}))
    cluster = {
        "headGroupSpec": {"template": {"spec": {"containers": [{"name": "ray", "resources": HEAD}]}}},
        "workerGroupSpecs": [{**group, "template": {"spec": {"containers": [{"name": "ray", "resources": WORKER}]}}}],
        **changes,
    }
    spec = cluster if kind == "RayCluster" else {"rayClusterSpec": cluster, **(job or {})}
    name = "raycluster-sample" if kind == "RayCluster" else "rayjob-sample"
    metadata = {"name": name, "labels": labels, "annotations": annotations}
    return context({"apiVersion": "ray.io/v1", "kind": kind, "metadata": metadata, "spec": spec, "status": status})


def group_of(hooks: PluginManager, ctx: OwnerContext) -> dict[str, Any]:
    resources = hooks.pre_create_pods(ctx)
    assert not resources.failures
    assert not resources.waits
    (manifest,) = resources.manifests
    return manifest


def size_of(manifest: dict[str, Any]) -> tuple[int, dict[str, str]]:
    return manifest["spec"]["minMember"], manifest["spec"]["minResources"]


def golden(case: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The last document of the input, and the recorded children."""
    documents = [doc for doc in yaml.safe_load_all((DATA / case / "input.yaml").read_text()) if doc]
    return documents[-1], yaml.safe_load((DATA / case / "expected.yaml").read_text())["children"]


def recorded(manifest: dict[str, Any]) -> dict[str, Any]:
    """A manifest as the golden files have it."""
    metadata = {key: value for key, value in manifest["metadata"].items() if value not in ({}, "lab")}
    owners = [{key: value for key, value in owner.items() if key != "uid"} for owner in metadata["ownerReferences"]]
    return {**manifest, "metadata": {**metadata, "ownerReferences": owners}}


@pytest.mark.parametrize(
    "case", ["volcano-cluster", "volcano-autoscale", "volcano-legacy-flag", "volcano-scale", "volcano-job"]
)
def test_the_pod_group_is_kuberays(hooks, case):
    body, children = golden(case)
    (expected,) = [child for child in children if child["kind"] == "PodGroup"]
    assert recorded(group_of(hooks, context(body))) == expected


@pytest.mark.parametrize("case", ["volcano-cluster", "volcano-autoscale", "volcano-legacy-flag", "volcano-scale"])
def test_pods_are_marked_as_kuberay_does(hooks, case):
    body, children = golden(case)
    owner = context(body)
    pods = [child for child in children if child["kind"] == "Pod"]
    for expected in pods:
        labels = expected["metadata"]["labels"]
        _check_marks(hooks, owner, labels["ray.io/group"], labels["ray.io/node-type"], expected)
    assert len(pods) >= 2


def test_the_pods_of_a_job_are_marked_as_kuberay_does(hooks):
    body, children = golden("volcano-job")
    job = context(body)
    (cluster,) = [child for child in children if child["kind"] == "RayCluster"]
    (submitter,) = [child["spec"]["template"] for child in children if child["kind"] == "Job"]
    _check_marks(hooks, job, "submittergroup", "submitter", submitter)
    for pod in (child for child in children if child["kind"] == "Pod"):
        labels = pod["metadata"]["labels"]
        _check_marks(hooks, context(cluster), labels["ray.io/group"], labels["ray.io/node-type"], pod)
    bare = {"metadata": {"name": "new"}, "spec": {"headGroupSpec": {"template": {"spec": {}}}}}
    changed = hooks.mutate_cluster(PodContext(owner=job, group="", node_type="submitter"), bare)
    assert changed.pod["metadata"]["annotations"] == cluster["metadata"]["annotations"]
    assert changed.pod["metadata"]["labels"].items() <= cluster["metadata"]["labels"].items()
    assert changed.pod["spec"] == bare["spec"]
    assert hooks.pre_create_pods(context(cluster)).manifests == []


def _check_marks(hooks: PluginManager, owner: OwnerContext, group: str, node_type: Any, expected: Any) -> None:
    ctx = PodContext(owner=owner, group=group, node_type=node_type)
    mutated = hooks.mutate_pod(ctx, {"metadata": {"labels": {"own": "1"}}, "spec": {"containers": [{"name": "ray"}]}})
    assert not mutated.failures
    pod = mutated.pod
    assert pod["spec"]["schedulerName"] == expected["spec"]["schedulerName"] == "volcano"
    ours = ("scheduling.k8s.io/group-name", "volcano.sh/task-spec")
    annotations = expected["metadata"]["annotations"]
    assert pod["metadata"]["annotations"] == {key: annotations[key] for key in ours}
    copied = ("volcano.sh/queue-name", "ray.io/priority-class-name")
    labels = {key: value for key, value in expected["metadata"]["labels"].items() if key in copied}
    assert pod["metadata"]["labels"] == {"own": "1", **labels}
    assert "priorityClassName" not in pod["spec"]
    assert mutated.changes["volcano"]


@pytest.mark.parametrize(
    ("mode", "cpu", "memory"),
    [
        ("K8sJobMode", "1200m", "1224Mi"),
        ("SidecarMode", "1200m", "1224Mi"),
        ("HTTPMode", "700m", "1Gi"),
        ("InteractiveMode", "700m", "1Gi"),
    ],
)
def test_the_pod_group_of_a_rayjob_as_the_operator_makes_it(hooks, mode, cpu, memory):
    """P4 and P5: the submitter's resources count once, wherever it runs, and its pod never."""
    head = {"requests": {"cpu": "300m", "memory": "512Mi"}}
    worker = {"requests": {"cpu": "200m", "memory": "256Mi"}}
    group = {"groupName": "small", "replicas": 2, "minReplicas": 1, "maxReplicas": 4}
    cluster = {
        "headGroupSpec": {"template": {"spec": {"containers": [{"name": "h", "image": "ray", "resources": head}]}}},
        "workerGroupSpecs": [
            {**group, "template": {"spec": {"containers": [{"name": "w", "image": "ray", "resources": worker}]}}}
        ],
    }
    spec = {"entrypoint": "python x.py", "submissionMode": mode, "rayClusterSpec": cluster}
    job = {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "j"}, "spec": spec}
    rendered = render(job, plans=PLANS, hooks=hooks, gates=DEFAULT_GATES, config=PlanConfig())
    (made,) = [child for child in rendered.children if child["kind"] == "PodGroup"]
    assert size_of(made) == (3, {"cpu": cpu, "memory": memory})


GPU = "nvidia.com/gpu"
SIZES = {
    "P1 hosts 1": (fixture, {}, (3, {"cpu": "768m", "memory": "768Mi", GPU: "2"})),
    "P2 hosts 2": (fixture, {"hosts": 2}, (5, {"cpu": "1280m", "memory": "1280Mi", GPU: "4"})),
    "P3 autoscaling": (fixture, {"enableInTreeAutoscaling": True}, (2, {"cpu": "512m", "memory": "512Mi", GPU: "1"})),
    "P4 HTTPMode": (
        fixture,
        {"kind": "RayJob", "job": {"submissionMode": "HTTPMode"}},
        (3, {"cpu": "768m", "memory": "768Mi", GPU: "2"}),
    ),
    "P5 K8sJobMode": (fixture, {"kind": "RayJob"}, (3, {"cpu": "1268m", "memory": "968Mi", GPU: "2"})),
    "P5 SidecarMode": (
        fixture,
        {"kind": "RayJob", "job": {"submissionMode": "SidecarMode"}},
        (3, {"cpu": "1268m", "memory": "968Mi", GPU: "2"}),
    ),
    "P6 hosts 2": (fixture, {"kind": "RayJob", "hosts": 2}, (5, {"cpu": "1780m", "memory": "1480Mi", GPU: "4"})),
    "raised to the minimum": (
        fixture,
        {"group": {"replicas": 0, "minReplicas": 2}},
        (3, {"cpu": "768m", "memory": "768Mi", GPU: "2"}),
    ),
    "cut to the maximum": (
        fixture,
        {"group": {"replicas": 9}},
        (5, {"cpu": "1280m", "memory": "1280Mi", GPU: "4"}),
    ),
    "group suspended": (fixture, {"group": {"suspend": True}}, (1, {"cpu": "256m", "memory": "256Mi"})),
    "autoscaled from zero": (
        fixture,
        {"enableInTreeAutoscaling": True, "group": {"minReplicas": 0}},
        (1, {"cpu": "256m", "memory": "256Mi"}),
    ),
    "VO-04 cluster suspended": (fixture, {"suspend": True}, (0, {})),
}


@pytest.mark.parametrize("case", SIZES)
def test_sizes(hooks, case):
    make, arguments, expected = SIZES[case]
    manifest = group_of(hooks, make(**arguments))
    assert size_of(manifest) == expected
    (owner,) = manifest["metadata"]["ownerReferences"]
    assert owner["kind"] == arguments.get("kind", "RayCluster")
    assert owner["controller"] is owner["blockOwnerDeletion"] is True


def test_an_administrator_may_reserve_what_the_autoscaler_wants(hooks):
    ctx = fixture(enableInTreeAutoscaling=True)
    hooks.configure({"volcano": {"autoscaling_reserve": "desired"}})
    assert size_of(group_of(hooks, ctx)) == (3, {"cpu": "768m", "memory": "768Mi", GPU: "2"})


TOPOLOGY = "volcano.sh/network-topology-mode"
TIER = "volcano.sh/network-topology-highest-tier-allowed"


@pytest.mark.parametrize(
    ("labels", "spec"),
    [
        ({}, {}),
        ({TOPOLOGY: "soft", TIER: "3"}, {"networkTopology": {"mode": "soft", "highestTierAllowed": 3}}),
        ({TOPOLOGY: "hard"}, {"networkTopology": {"mode": "hard"}}),
        ({TIER: "3"}, {}),
        ({"volcano.sh/queue-name": "q", "ray.io/priority-class-name": "p"}, {"queue": "q", "priorityClassName": "p"}),
        ({"volcano.sh/queue-name": "", "ray.io/priority-class-name": ""}, {}),
    ],
)
def test_labels_shape_the_group(hooks, labels, spec):
    manifest = group_of(hooks, fixture(labels=labels))
    size = {"minMember": 3, "minResources": {"cpu": "768m", "memory": "768Mi", GPU: "2"}}
    assert manifest["spec"] == {**size, **spec}
    assert "labels" not in manifest["metadata"]
    assert "status" not in manifest


@pytest.mark.parametrize("kind", ["RayCluster", "RayJob"])
def test_a_bad_tier_is_told_with_its_place(hooks, kind):
    labels = {TOPOLOGY: "soft", TIER: "two"}
    expected = Problem(f"metadata.labels[{TIER}]", "must be a whole number, not 'two'")
    assert hooks.validate(fixture(kind, labels=labels)) == ([expected], [])
    assert hooks.validate(fixture(kind, labels={TIER: "two"})) == ([], [])


def test_kuberays_case_of_a_bad_tier_is_refused_and_makes_nothing(hooks):
    body, children = golden("volcano-bad-tier")
    problems, _ = hooks.validate(context(body))
    assert [problem.path for problem in problems] == [f"metadata.labels[{TIER}]"]
    assert [child["kind"] for child in children] == ["Service"]


@pytest.mark.parametrize(
    ("given", "copied"),
    [
        ({}, {}),
        ({"a": "1", "b": "2"}, {"a": "1", "b": "2"}),
        ({"a": "1", "kubectl.kubernetes.io/last-applied-configuration": "{}"}, {"a": "1"}),
    ],
)
def test_annotations_are_copied(hooks, given, copied):
    assert group_of(hooks, fixture(annotations=given))["metadata"]["annotations"] == copied


FROM_JOB = {"ray.io/originated-from-crd": "RayJob", "ray.io/originated-from-cr-name": "daily"}


@pytest.mark.parametrize(
    ("kind", "labels", "name"),
    [
        ("RayCluster", {}, "ray-raycluster-sample-pg"),
        ("RayJob", {}, "ray-rayjob-sample-pg"),
        ("RayCluster", FROM_JOB, "ray-daily-pg"),
        ("RayCluster", {**FROM_JOB, "ray.io/originated-from-cr-name": ""}, "ray-raycluster-sample-pg"),
        ("RayCluster", {**FROM_JOB, "ray.io/originated-from-crd": "RayService"}, "ray-raycluster-sample-pg"),
        ("RayJob", {"ray.io/originated-from-crd": "RayCronJob", **FROM_JOB}, "ray-rayjob-sample-pg"),
    ],
)
def test_names(hooks, kind, labels, name):
    ctx = fixture(kind, labels=labels)
    pod = hooks.mutate_pod(PodContext(owner=ctx, group="small", node_type="worker"), {"metadata": {}, "spec": {}}).pod
    assert pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == name


# Jobs on a cluster they do not own (VO-05)


def selector_job(**labels: str) -> OwnerContext:
    metadata = {"name": "guest", "labels": {"volcano.sh/queue-name": "night", **labels}}
    spec = {"clusterSelector": {"ray.io/cluster": "shared"}, "entrypoint": "python a.py"}
    return context({"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": metadata, "spec": spec})


def test_a_job_on_a_foreign_cluster_has_no_gang_and_is_not_held_up(hooks):
    """VO-05"""
    ctx = selector_job()
    resources = hooks.pre_create_pods(ctx)
    assert (resources.manifests, resources.waits, resources.failures) == ([], [], [])
    template = {"metadata": {}, "spec": {}}
    pod = hooks.mutate_pod(PodContext(owner=ctx, group="submittergroup", node_type="submitter"), template).pod
    assert pod == {"metadata": {"labels": {"volcano.sh/queue-name": "night"}}, "spec": {"schedulerName": "volcano"}}
    assert hooks.diagnose(ctx) == []
    assert hooks.warn(ctx) == ([], [])


def test_a_gang_label_on_it_is_told_to_have_no_effect(hooks):
    """VO-05"""
    gang = {"ray.io/gang-scheduling-enabled": "true"}
    warnings, failures = hooks.warn(selector_job(**gang))
    assert not failures
    (warning,) = warnings
    assert warning.problem.path == "metadata.labels[ray.io/gang-scheduling-enabled]"
    assert warning.problem.message.startswith("has no effect: the RayJob runs on a RayCluster it does not own")
    assert hooks.warn(fixture("RayJob", labels=gang)) == ([], [])


# Clean-up (VO-02, VO-03, VO-04; P13 to P18)


def live(**changes: Any) -> list[GroupSize]:
    ctx = fixture(**changes)
    return list(ctx.groups)


def sidecar_head() -> list[GroupSize]:
    extra = {"name": "submitter", "resources": {"requests": {"cpu": "200m", "memory": "200Mi"}}}
    head = pod_requests({"spec": {"containers": [{"name": "ray", "resources": HEAD}, extra]}})
    return [GroupSize("headgroup", 1, 1, head), *live()[1:]]


GONE = (0, {})
JOB = {"kind": "RayJob", "status": {"rayClusterName": "rayjob-sample-x"}}
FINISHED = {
    "P13 cluster gone": (JOB, "Complete", False, [], GONE),
    "P14 cluster alive": (JOB, "Complete", True, live(), (3, {"cpu": "768m", "memory": "768Mi", GPU: "2"})),
    "P15 workers deleted": (
        JOB,
        "Failed",
        True,
        live(group={"suspend": True}),
        (1, {"cpu": "256m", "memory": "256Mi"}),
    ),
    "P18 sidecar in the head": (
        JOB,
        "Complete",
        True,
        sidecar_head(),
        (3, {"cpu": "968m", "memory": "968Mi", GPU: "2"}),
    ),
    "VO-02 autoscaled": (
        {**JOB, "enableInTreeAutoscaling": True},
        "Complete",
        True,
        live(),
        (2, {"cpu": "512m", "memory": "512Mi", GPU: "1"}),
    ),
    "VO-03 suspended": (JOB, "Suspended", False, [], GONE),
    "retried": (JOB, "Retrying", False, [], GONE),
    "VO-04 cluster suspended": ({"suspend": True}, "Suspended", True, live(), GONE),
}


@pytest.mark.parametrize("case", FINISHED)
def test_what_the_gang_gives_back(hooks, case):
    owner, reason, alive, groups, expected = FINISHED[case]
    ctx = fixture(**owner)
    finished = hooks.finish(FinishContext(owner=ctx, reason=reason, cluster_alive=alive, cluster_groups=groups))
    assert not finished.failures
    (manifest,) = finished.manifests
    assert size_of(manifest) == expected
    before = group_of(hooks, fixture(**{**owner, "suspend": False}))
    assert manifest["metadata"] == before["metadata"]


@pytest.mark.parametrize(
    ("owner", "reason"),
    [
        ({"kind": "RayJob", "status": {}}, "Complete"),
        (JOB, "Deleted"),
        ({}, "Complete"),
        ({"labels": FROM_JOB, "suspend": True}, "Suspended"),
    ],
)
def test_nothing_to_give_back(hooks, owner, reason):
    finished = hooks.finish(
        FinishContext(owner=fixture(**owner), reason=reason, cluster_alive=True, cluster_groups=live())
    )
    assert (finished.manifests, finished.failures) == ([], [])


def test_nothing_to_give_back_for_a_foreign_cluster(hooks):
    ctx = selector_job()
    assert hooks.finish(FinishContext(owner=ctx, reason="Complete", cluster_alive=True)).manifests == []


# A RayJob that runs (VO-07)


def test_the_gang_of_a_job_that_runs_follows_its_cluster(hooks):
    """VO-07: an edit of ``rayClusterSpec`` resizes it, as it does before the job runs."""
    running = {"kind": "RayJob", "status": {"jobDeploymentStatus": "Running"}, "group": {"replicas": 3}}
    (manifest,) = hooks.extra_resources(fixture(**running)).manifests
    assert manifest == group_of(hooks, fixture(**running))
    assert size_of(manifest)[0] == 4
    for state in ("Initializing", "Complete"):
        status = {"jobDeploymentStatus": state}
        assert hooks.extra_resources(fixture(**{**running, "status": status})).manifests == []
    assert hooks.extra_resources(fixture()).manifests == []


# Volcano is not installed (VO-06)


def absent(ctx: OwnerContext) -> OwnerContext:
    """The same where the CRD of PodGroups is missing."""
    return replace(ctx, serves=lambda kind: kind != POD_GROUP)


ASKING = ({"ray.io/gang-scheduling-enabled": "true"}, {"volcano.sh/queue-name": "night"}, {TOPOLOGY: "soft"})


@pytest.mark.parametrize("kind", ["RayCluster", "RayJob"])
def test_without_volcano_others_are_scheduled_as_if_it_were_off(hooks, kind):
    """VO-06"""
    ctx = absent(fixture(kind))
    assert hooks.pre_create_pods(ctx).manifests == []
    assert hooks.finish(FinishContext(owner=ctx, reason="Suspended", cluster_alive=True)).manifests == []
    pod = {"metadata": {"labels": {"own": "1"}}, "spec": {"containers": [{"name": "ray"}]}}
    assert hooks.mutate_pod(PodContext(owner=ctx, group="small", node_type="worker"), pod).pod == pod
    assert hooks.mutate_cluster(PodContext(owner=ctx, group="", node_type="head"), pod).pod == pod
    assert hooks.diagnose(ctx) == []


@pytest.mark.parametrize("labels", ASKING)
@pytest.mark.parametrize("kind", ["RayCluster", "RayJob"])
def test_without_volcano_those_that_ask_for_it_wait(hooks, kind, labels):
    """VO-06"""
    ctx = absent(fixture(kind, labels=labels))
    assert size_of(group_of(hooks, ctx)) == size_of(group_of(hooks, fixture(kind, labels=labels)))
    pod = hooks.mutate_pod(PodContext(owner=ctx, group="small", node_type="worker"), {"metadata": {}, "spec": {}}).pod
    assert pod["spec"]["schedulerName"] == "volcano"


# What the operator is asked for


def test_it_is_a_batch_scheduler(hooks):
    (plugin,) = hooks.plugins
    assert plugin.hooks["batch_scheduler"]() == "volcano"


def test_rights_cover_what_applying_needs(hooks):
    (rule,) = hooks.rbac_rules()["volcano"]
    assert (rule.api_groups, rule.resources) == (("scheduling.volcano.sh",), ("podgroups",))
    assert {"get", "list", "watch", "create", "patch"} <= set(rule.verbs)


def test_pod_groups_are_watched_and_never_pruned(hooks):
    (watch,) = hooks.watches()
    assert (watch.kind, watch.prune, watch.create_only) == (POD_GROUP, False, False)


def test_a_waiting_owner_is_told_what_volcano_waits_for(hooks):
    (reason,) = hooks.diagnose(fixture(labels={"volcano.sh/queue-name": "night"}))
    assert reason == (
        "Volcano starts pods only when queue 'night' has room for 3 together (768m cpu, 768Mi memory, 2 nvidia.com/gpu): "
        "see PodGroup ray-raycluster-sample-pg."
    )
    assert hooks.diagnose(fixture(suspend=True)) == []
    assert hooks.diagnose(fixture("RayJob")) == []


def test_group_sizes_are_those_of_the_core():
    raw = fixture().cluster_spec
    assert raw is not None
    assert [(g.name, g.desired, g.minimum) for g in group_sizes(RayClusterSpec.parse(raw))] == [
        ("headgroup", 1, 1),
        ("small", 2, 1),
    ]
