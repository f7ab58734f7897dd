"""PodGroups, labels and sizes of scheduler-plugins: as KubeRay makes them, except where that is known to be wrong."""

from __future__ import annotations

import copy
import json
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
from kuberay.operator.offline import render
from kuberay.operator.start import PLANS
from kuberay.plan.build.context import owner_context
from kuberay.plan.config import PlanConfig
from kuberay.plan.observed import FixedView, Observed
from kuberay.plugins.loader import PluginError, load
from kuberay.plugins.manager import PluginManager
from kuberay_scheduler_plugins.podgroup import ANNOTATION_SUBMITTER, POD_GROUP

DATA = Path(__file__).parent / "data"
GANG = {"ray.io/gang-scheduling-enabled": "true"}
POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
SCHEDULER = "scheduler-plugins-scheduler"
GPU = "nvidia.com/gpu"
SUBMITTER = {"cpu": "500m", "memory": "200Mi"}
HEAD = {"requests": {"cpu": "256m", "memory": "256Mi"}, "limits": {"cpu": "500m", "memory": "512Mi"}}
WORKER = {**HEAD, "limits": {**HEAD["limits"], GPU: "1"}}


@pytest.fixture
def hooks() -> PluginManager:
    return PluginManager(load(["scheduler-plugins"]))


def context(body: dict[str, Any], *children: dict[str, Any]) -> OwnerContext:
    """The context the operator would make for a RayCluster or RayJob that has *children*."""
    kind = RAYJOB if body["kind"] == "RayJob" else RAYCLUSTER
    body = copy.deepcopy(body)
    body["metadata"] = {"namespace": "lab", "uid": "u-1", **body["metadata"]}
    obj = from_dict(kind, body)
    assert isinstance(obj, RayObject)
    raw = obj.spec if kind == RAYCLUSTER else obj.spec.get("rayClusterSpec")
    submitter = kind == RAYJOB and obj.spec.get("submissionMode", "K8sJobMode") == "K8sJobMode"
    return owner_context(
        Observed(
            obj=obj, now=datetime(2026, 1, 1, tzinfo=UTC), view=FixedView([(POD_GROUP, child) for child in children])
        ),
        kind=kind,
        cluster_spec=None if raw is None else RayClusterSpec.parse(raw),
        lookups=[],
        submitter_requests=SUBMITTER if submitter else None,
    )


def body_of(kind: str = "RayCluster", *, hosts: int = 1, job: dict[str, Any] | None = None, **changes: Any) -> Any:
    """Fixture F of the specification with the gang label: one worker group, replicas 2, min 1, max 4."""
    labels, annotations = changes.pop("labels", GANG), changes.pop("annotations", {})
    status = changes.pop("status", {})
    group = {"groupName": "small", "replicas": 2, "minReplicas": 1, "maxReplicas": 4, "numOfHosts": hosts}
    group.update(changes.pop("group", {}))
    cluster = {
        "headGroupSpec": {"template": {"spec": {"containers": [{"name": "ray", "image": "ray", "resources": HEAD}]}}},
        "workerGroupSpecs": [
            {**group, "template": {"spec": {"containers": [{"name": "ray", "image": "ray", "resources": WORKER}]}}}
        ],
        **changes,
    }
    spec = cluster if kind == "RayCluster" else {"entrypoint": "x", "rayClusterSpec": cluster, **(job or {})}
    metadata = {"name": "demo", "labels": labels, "annotations": annotations}
    return {"apiVersion": "ray.io/v1", "kind": kind, "metadata": metadata, "spec": spec, "status": status}


def fixture(kind: str = "RayCluster", **changes: Any) -> OwnerContext:
    return context(body_of(kind, **changes))


def group_of(hooks: PluginManager, ctx: OwnerContext) -> dict[str, Any]:
    (manifest,) = asked(hooks, ctx)
    return manifest


def asked(hooks: PluginManager, ctx: OwnerContext) -> list[dict[str, Any]]:
    resources = hooks.pre_create_pods(ctx)
    assert not resources.failures
    assert not resources.waits
    return list(resources.manifests)


def size_of(manifest: dict[str, Any]) -> tuple[int, dict[str, str]]:
    return manifest["spec"]["minMember"], manifest["spec"]["minResources"]


def pod_of(hooks: PluginManager, ctx: OwnerContext, group: str, node_type: Any) -> dict[str, Any]:
    given = {"metadata": {"labels": {"own": "1"}}, "spec": {"containers": [{"name": "ray"}]}}
    mutated = hooks.mutate_pod(PodContext(owner=ctx, group=group, node_type=node_type), given)
    assert not mutated.failures
    return mutated.pod


def rendered(hooks: PluginManager, body: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """All that becomes of an object when it goes well, by kind."""
    made: dict[str, list[dict[str, Any]]] = {}
    for child in render(body, plans=PLANS, hooks=hooks, gates=DEFAULT_GATES, config=PlanConfig()).children:
        made.setdefault(child["kind"], []).append(child)
    return made


# What KubeRay makes


@pytest.mark.parametrize("case", ["schedplugins-gang", "schedplugins-plain"])
def test_children_are_kuberays(hooks: PluginManager, case: str) -> None:
    body = yaml.safe_load((DATA / case / "input.yaml").read_text())
    children = yaml.safe_load((DATA / case / "expected.yaml").read_text())["children"]
    owner = context(body)
    pods = [child for child in children if child["kind"] == "Pod"]
    assert len(pods) >= 2
    for expected in pods:
        labels = expected["metadata"]["labels"]
        pod = pod_of(hooks, owner, labels["ray.io/group"], labels["ray.io/node-type"])
        assert pod["spec"]["schedulerName"] == expected["spec"]["schedulerName"]
        theirs = {key: value for key, value in labels.items() if key == POD_GROUP_LABEL}
        assert pod["metadata"]["labels"] == {"own": "1", **theirs}
    groups = [child for child in children if child["kind"] == "PodGroup"]
    assert [_recorded(group) for group in asked(hooks, owner)] == groups


def _recorded(manifest: dict[str, Any]) -> dict[str, Any]:
    """A PodGroup as the golden files have it. Theirs is controlled by nobody (docs/differences.d/scheduler-plugins.md)."""
    (owner,) = manifest["metadata"]["ownerReferences"]
    assert owner["controller"] is True
    assert owner["blockOwnerDeletion"] is True
    plain = {key: owner[key] for key in ("apiVersion", "kind", "name")}
    return {**manifest, "metadata": {"name": manifest["metadata"]["name"], "ownerReferences": [plain]}}


SIZES: dict[str, tuple[dict[str, Any], tuple[int, dict[str, str]]]] = {
    "P24 hosts 1": ({}, (3, {"cpu": "768m", "memory": "768Mi", GPU: "2"})),
    "P24 hosts 2": ({"hosts": 2}, (5, {"cpu": "1280m", "memory": "1280Mi", GPU: "4"})),
    "SP-03 four hosts": ({"hosts": 4}, (9, {"cpu": "2304m", "memory": "2304Mi", GPU: "8"})),
    "SP-01 scaled down": ({"group": {"replicas": 1}}, (2, {"cpu": "512m", "memory": "512Mi", GPU: "1"})),
    "SP-01 suspended": ({"suspend": True}, (1, {})),
    "raised to the minimum": (
        {"group": {"replicas": 0, "minReplicas": 2}},
        (3, {"cpu": "768m", "memory": "768Mi", GPU: "2"}),
    ),
    "cut to the maximum": ({"group": {"replicas": 9}}, (5, {"cpu": "1280m", "memory": "1280Mi", GPU: "4"})),
    "group suspended": ({"group": {"suspend": True}}, (1, {"cpu": "256m", "memory": "256Mi"})),
    "autoscaled": ({"enableInTreeAutoscaling": True}, (2, {"cpu": "512m", "memory": "512Mi", GPU: "1"})),
    "empty label": (
        {"labels": {"ray.io/gang-scheduling-enabled": ""}},
        (3, {"cpu": "768m", "memory": "768Mi", GPU: "2"}),
    ),
}


@pytest.mark.parametrize("case", SIZES)
def test_sizes(hooks: PluginManager, case: str) -> None:
    changes, expected = SIZES[case]
    assert size_of(group_of(hooks, fixture(**changes))) == expected


def test_an_administrator_may_reserve_what_the_autoscaler_wants(hooks: PluginManager) -> None:
    hooks.configure({"scheduler-plugins": {"autoscaling_reserve": "desired"}})
    manifest = group_of(hooks, fixture(enableInTreeAutoscaling=True))
    assert size_of(manifest) == (3, {"cpu": "768m", "memory": "768Mi", GPU: "2"})


@pytest.mark.parametrize(
    ("labels", "in_gang"), [(GANG, True), ({"ray.io/gang-scheduling-enabled": "false"}, True), ({}, False)]
)
@pytest.mark.parametrize("node_type", ["head", "worker"])
def test_pods_p25(hooks: PluginManager, labels: dict[str, str], in_gang: bool, node_type: str) -> None:
    """P25: the presence of the label decides, and every pod goes to the scheduler."""
    pod = pod_of(hooks, fixture(labels=labels), "small", node_type)
    assert pod["spec"]["schedulerName"] == SCHEDULER
    assert pod["metadata"]["labels"].get(POD_GROUP_LABEL) == ("demo" if in_gang else None)


def test_the_scheduler_name_is_a_setting_sp_03(hooks: PluginManager) -> None:
    """SP-03: also for a cluster whose own scheduler does the coscheduling."""
    hooks.configure({"scheduler-plugins": {"scheduler_name": "default-scheduler"}})
    assert pod_of(hooks, fixture(), "small", "worker")["spec"]["schedulerName"] == "default-scheduler"
    assert hooks.diagnose(fixture())[0].startswith("default-scheduler starts pods only when")


@pytest.mark.parametrize("name", ["", "With Capitals", "-a"])
def test_a_scheduler_name_that_no_pod_may_have_is_refused(hooks: PluginManager, name: str) -> None:
    with pytest.raises(PluginError, match=r"plugins\.scheduler-plugins\.scheduler_name"):
        hooks.configure({"scheduler-plugins": {"scheduler_name": name}})


def test_without_the_label_there_is_no_group(hooks: PluginManager) -> None:
    assert asked(hooks, fixture(labels={})) == []
    finished = hooks.finish(FinishContext(owner=fixture(labels={}), reason="Suspended", cluster_alive=True))
    assert finished.manifests == []


def test_a_group_whose_label_was_taken_off_holds_nobody_back(hooks: PluginManager) -> None:
    """Pods that wait and name it would never start without it."""
    group = group_of(hooks, fixture())
    group["metadata"]["uid"] = "g-1"
    (left,) = asked(hooks, context(body_of(labels={}), group))
    assert size_of(left) == (1, {})
    assert left["metadata"]["name"] == "demo"


def test_a_suspended_cluster_asks_for_nothing_and_gets_it_back_before_its_pods(hooks: PluginManager) -> None:
    """SP-01. The kind allows no size below 1."""
    finished = hooks.finish(FinishContext(owner=fixture(suspend=True), reason="Suspended", cluster_alive=True))
    (manifest,) = finished.manifests
    assert size_of(manifest) == (1, {})
    assert size_of(group_of(hooks, fixture(group={"replicas": 4})))[0] == 5


# RayJobs, which KubeRay never starts with this scheduler


@pytest.mark.parametrize("mode", ["K8sJobMode", "HTTPMode", "SidecarMode", "InteractiveMode"])
def test_a_rayjob_runs_in_every_mode_and_its_submitter_is_in_no_gang(hooks: PluginManager, mode: str) -> None:
    job = {"submissionMode": mode}
    made = rendered(hooks, body_of("RayJob", job=job))
    (cluster,), (group,) = made["RayCluster"], made["PodGroup"]
    name = cluster["metadata"]["name"]
    assert group["metadata"]["name"] == name
    assert group["metadata"]["ownerReferences"][0]["name"] == name
    assert group["spec"]["minMember"] == 3
    assert {pod["metadata"]["labels"][POD_GROUP_LABEL] for pod in made["Pod"]} == {name}
    assert {pod["spec"]["schedulerName"] for pod in made["Pod"]} == {SCHEDULER}
    submitters = [each["spec"]["template"] for each in made.get("Job", ())]
    assert len(submitters) == (mode == "K8sJobMode")
    for template in submitters:
        assert template["spec"]["schedulerName"] == SCHEDULER
        assert POD_GROUP_LABEL not in template["metadata"].get("labels", {})


def test_a_rayjob_has_no_group_of_its_own(hooks: PluginManager) -> None:
    ctx = fixture("RayJob", status={"rayClusterName": "demo-x"})
    assert asked(hooks, ctx) == []
    assert hooks.finish(FinishContext(owner=ctx, reason="Complete", cluster_alive=True)).manifests == []


def test_a_gang_starts_only_where_its_submitter_fits_too(hooks: PluginManager) -> None:
    """Else gangs could take all room, and each wait for ever for a submitter that finds none."""
    bare = {"metadata": {"name": "demo-x", "annotations": {"a": "1"}}, "spec": {}}
    changed = hooks.mutate_cluster(PodContext(owner=fixture("RayJob"), group="", node_type="head"), bare)
    annotations = changed.pod["metadata"]["annotations"]
    assert annotations == {"a": "1", ANNOTATION_SUBMITTER: '{"cpu":"500m","memory":"200Mi"}'}
    starting = group_of(hooks, fixture(annotations=annotations))
    assert size_of(starting) == (3, {"cpu": "1268m", "memory": "968Mi", GPU: "2"})
    provisioned = {"conditions": [{"type": "RayClusterProvisioned", "status": "True"}]}
    running = group_of(hooks, fixture(annotations=annotations, status=provisioned))
    assert size_of(running) == (3, {"cpu": "768m", "memory": "768Mi", GPU: "2"}), "it has its place by now"


def test_a_rayjob_without_the_label_says_nothing_to_its_cluster(hooks: PluginManager) -> None:
    bare = {"metadata": {"name": "demo-x"}, "spec": {}}
    changed = hooks.mutate_cluster(PodContext(owner=fixture("RayJob", labels={}), group="", node_type="head"), bare)
    assert changed.pod == bare


@pytest.mark.parametrize("text", ["500m", "[]", '{"cpu":"much"}'])
def test_a_note_about_the_submitter_that_nobody_can_read_is_told(hooks: PluginManager, text: str) -> None:
    problems, failures = hooks.validate(fixture(annotations={ANNOTATION_SUBMITTER: text}))
    assert not failures
    assert [problem.path for problem in problems] == [f"metadata.annotations[{ANNOTATION_SUBMITTER}]"]
    assert hooks.validate(fixture(annotations={ANNOTATION_SUBMITTER: json.dumps(SUBMITTER)})) == ([], [])


def test_a_job_on_a_foreign_cluster_runs_and_is_told_that_its_label_has_no_effect(hooks: PluginManager) -> None:
    spec = {"clusterSelector": {"ray.io/cluster": "shared"}, "entrypoint": "python a.py"}
    metadata = {"name": "guest", "labels": GANG}
    ctx = context({"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": metadata, "spec": spec})
    assert asked(hooks, ctx) == []
    pod = pod_of(hooks, ctx, "submittergroup", "submitter")
    assert pod == {
        "metadata": {"labels": {"own": "1"}},
        "spec": {"containers": [{"name": "ray"}], "schedulerName": SCHEDULER},
    }
    warnings, failures = hooks.warn(ctx)
    assert not failures
    (warning,) = warnings
    assert warning.problem.path == "metadata.labels[ray.io/gang-scheduling-enabled]"
    assert "put the label on that RayCluster" in warning.problem.message
    assert hooks.warn(fixture("RayJob")) == ([], [])


def test_each_cluster_of_a_rayservice_is_a_gang_of_its_own(hooks: PluginManager) -> None:
    cluster = body_of()["spec"]
    config = "applications:\n- name: app\n  import_path: app:v1\n"
    service = {
        "apiVersion": "ray.io/v1",
        "kind": "RayService",
        "metadata": {"name": "svc", "labels": GANG},
        "spec": {"serveConfigV2": config, "rayClusterConfig": cluster},
    }
    made = rendered(hooks, service)
    (ray_cluster,), (group,) = made["RayCluster"], made["PodGroup"]
    assert group["metadata"]["name"] == ray_cluster["metadata"]["name"]
    assert size_of(group)[0] == 3


# What the operator is asked for


def test_rights_cover_what_applying_needs(hooks: PluginManager) -> None:
    (rule,) = hooks.rbac_rules()["scheduler-plugins"]
    assert (rule.api_groups, rule.resources) == (("scheduling.x-k8s.io",), ("podgroups",))
    assert {"get", "list", "watch", "create", "patch"} <= set(rule.verbs)


def test_it_is_a_batch_scheduler_and_watches_its_groups(hooks: PluginManager) -> None:
    (plugin,) = hooks.plugins
    assert plugin.hooks["batch_scheduler"]() == SCHEDULER
    (watch,) = hooks.watches()
    assert (watch.kind, watch.prune, watch.create_only) == (POD_GROUP, False, False)


def test_a_waiting_owner_is_told_what_the_scheduler_waits_for(hooks: PluginManager) -> None:
    (reason,) = hooks.diagnose(fixture())
    assert reason == (
        "scheduler-plugins-scheduler starts pods only when there is room for 3 together "
        "(768m cpu, 768Mi memory, 2 nvidia.com/gpu): see PodGroup demo."
    )
    assert hooks.diagnose(fixture(suspend=True)) == []
    assert hooks.diagnose(fixture(labels={})) == []
    assert hooks.validate(fixture(labels={})) == ([], [])


def test_problems_are_told_in_one_sentence(hooks: PluginManager) -> None:
    problems, _ = hooks.validate(fixture(annotations={ANNOTATION_SUBMITTER: "x"}))
    assert problems == [
        Problem(
            f"metadata.annotations[{ANNOTATION_SUBMITTER}]",
            'must be a JSON object of quantities, like {"cpu":"500m"}, not \'x\'',
        )
    ]
