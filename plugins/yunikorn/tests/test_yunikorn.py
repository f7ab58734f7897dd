"""Pods, RayClusters and submitters say what KubeRay lets them say to YuniKorn, except where that is known to be wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from kuberay.hooks import PodContext
from kuberay.plan.config import PlanConfig
from kuberay.plugins.loader import Plugin, PluginError, load
from kuberay.plugins.manager import PluginManager
from kuberay_testkit.builders import build_group, build_pod_template, build_raycluster, build_rayjob, build_rayservice

DATA = Path(__file__).parent / "data"
GANG = {"ray.io/gang-scheduling-enabled": "true"}
APP = {"yunikorn.apache.org/app-id": "job-1", "yunikorn.apache.org/queue": "root.default"}
GROUPS = "yunikorn.apache.org/task-groups"
NAME = "yunikorn.apache.org/task-group-name"
MODES = ("K8sJobMode", "SidecarMode", "HTTPMode", "InteractiveMode")

Manifest = dict[str, Any]


def golden(case: str) -> tuple[Manifest, list[Manifest]]:
    """The last document of the input, and the recorded children."""
    documents = [doc for doc in yaml.safe_load_all((DATA / case / "input.yaml").read_text()) if doc]
    return documents[-1], yaml.safe_load((DATA / case / "expected.yaml").read_text())["children"]


def marks(manifest: Manifest) -> Manifest:
    """What YuniKorn reads of a pod, a pod template or a RayCluster."""
    metadata = manifest.get("metadata") or {}
    found = {key: value for key, value in (metadata.get("labels") or {}).items() if key in ("applicationId", "queue")}
    annotations = metadata.get("annotations") or {}
    found |= {key: value for key, value in annotations.items() if key.startswith("yunikorn.apache.org/")}
    return {**found, "scheduler": manifest["spec"].get("schedulerName", "")}


def by_place(children: list[Manifest]) -> dict[str, Manifest]:
    """The marks of pods by group, of the RayCluster and of the submitter."""
    found = {}
    for child in children:
        if child["kind"] == "Pod":
            found[child["metadata"]["labels"]["ray.io/group"]] = marks(child)
        elif child["kind"] == "RayCluster":
            found["cluster"] = marks(child)
        elif child["kind"] == "Job":
            found["submitter"] = marks(child["spec"]["template"])
    return found


def groups_of(place: Manifest) -> dict[str, tuple[int, Manifest]]:
    """Size and resources of each task group."""
    return {group["name"]: (group["minMember"], group["minResource"]) for group in json.loads(place[GROUPS])}


def sizes_of(place: Manifest) -> dict[str, int]:
    return {name: size for name, (size, _) in groups_of(place).items()}


# As recorded


def test_pods_without_a_gang_are_marked_as_kuberay_does(rendered):
    body, children = golden("yunikorn-cluster")
    assert by_place(rendered(body).children) == by_place(children)


def test_a_jobs_cluster_pods_and_submitter_are_marked_as_kuberay_does(rendered):
    """But for the group ``crew``: its minReplicas is 0, and YuniKorn drops a gang with a minMember of 0 altogether."""
    body, children = golden("yunikorn-job")
    expected = by_place(children)
    for place in expected.values():
        place[GROUPS] = place[GROUPS].replace(
            '{"minResource":{"cpu":"1","memory":"2Gi"},"name":"crew","minMember":0},', ""
        )
    del expected["crew"][NAME]
    assert by_place(rendered(body).children) == expected
    assert set(expected) == {"headgroup", "crew", "cluster", "submitter"}


def test_the_recorded_job_is_equal_when_its_workers_have_a_minimum(rendered):
    body, children = golden("yunikorn-job")
    body["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["minReplicas"] = 1
    expected = json.loads(json.dumps(by_place(children)).replace('\\"minMember\\":0', '\\"minMember\\":1'))
    assert by_place(rendered(body).children) == expected


# The gang (P19 to P23)


@pytest.mark.parametrize(
    ("labels", "on"),
    [({"ray.io/gang-scheduling-enabled": value}, True) for value in ("true", "", "false")] + [({}, False)],
)
def test_p19_the_label_counts_by_its_presence(rendered, labels, on):
    for place in by_place(
        rendered(build_raycluster(groups=[build_group(minReplicas=1)], labels=labels)).children
    ).values():
        assert (GROUPS in place, NAME in place) == (on, on)
        assert place["scheduler"] == "yunikorn"


HEAD = '{"minResource":{"cpu":"1","memory":"1Gi"},"name":"headgroup","minMember":1}'
WORKERS = HEAD.replace("headgroup", "worker-group-1")
SUBMITTER = '{"minResource":{"cpu":"500m","memory":"200Mi"},"name":"submittergroup","minMember":1}'


def test_p20_the_annotation_of_a_cluster(rendered):
    places = by_place(
        rendered(build_raycluster(groups=[build_group("worker-group-1", minReplicas=1)], labels=GANG)).children
    )
    assert [place[GROUPS] for place in places.values()] == [f"[{HEAD},{WORKERS}]"] * 2
    assert {group: place[NAME] for group, place in places.items()} == {group: group for group in places}


def test_p21_the_annotation_of_a_job(rendered):
    places = by_place(
        rendered(build_rayjob(groups=[build_group("worker-group-1", minReplicas=1)], labels=GANG)).children
    )
    assert [place[GROUPS] for place in places.values()] == [f"[{HEAD},{WORKERS},{SUBMITTER}]"] * 4
    assert places["submitter"][NAME] == "submittergroup"
    assert NAME not in places["cluster"]
    assert places["cluster"]["scheduler"] == ""
    assert places["submitter"]["scheduler"] == "yunikorn"


@pytest.mark.parametrize(
    ("case", "group", "size"),
    [
        ("P22", {"replicas": 2, "minReplicas": 2, "numOfHosts": 3}, 6),
        ("YU-02", {"replicas": 2, "minReplicas": 2, "numOfHosts": 4}, 8),
        ("more wanted than the minimum", {"replicas": 5, "minReplicas": 2}, 2),
        ("raised to the minimum", {"replicas": 0, "minReplicas": 2}, 2),
    ],
)
def test_the_size_is_the_minimum_times_hosts(rendered, case, group, size):
    """YU-02"""
    body = build_raycluster(groups=[build_group("tpu", **group)], labels=GANG)
    for place in by_place(rendered(body).children).values():
        assert groups_of(place)["tpu"] == (size, {"cpu": "1", "memory": "1Gi"}), case


def test_p23_no_gang_but_application_and_queue(rendered):
    for place in by_place(rendered(build_raycluster(labels=APP)).children).values():
        assert place == {"applicationId": "job-1", "queue": "root.default", "scheduler": "yunikorn"}


@pytest.mark.parametrize("key", APP)
def test_an_empty_label_is_as_good_as_none(rendered, key):
    labels = {**APP, key: ""}
    for place in by_place(rendered(build_raycluster(labels=labels)).children).values():
        assert len(place) == 2


def test_groups_that_are_suspended_or_have_no_minimum_are_left_out(rendered):
    groups = [
        build_group("runs", 2, minReplicas=2),
        build_group("rests", 2, minReplicas=2, suspend=True),
        build_group("loose", 2, minReplicas=0),
    ]
    places = by_place(rendered(build_raycluster(groups=groups, labels=GANG)).children)
    assert sizes_of(places["headgroup"]) == {"headgroup": 1, "runs": 2}
    assert {group: place.get(NAME) for group, place in places.items()} == {
        "headgroup": "headgroup",
        "runs": "runs",
        "loose": None,
    }


def test_an_administrator_may_gang_all_replicas(hooks, rendered):
    hooks.configure({"yunikorn": {"gang_size": "desired"}})
    groups = [build_group("a", 3, minReplicas=0, numOfHosts=2), build_group("b", 9, minReplicas=1, maxReplicas=4)]
    places = by_place(rendered(build_raycluster(groups=groups, labels=GANG)).children)
    assert sizes_of(places["headgroup"]) == {"headgroup": 1, "a": 6, "b": 4}


def test_node_selectors_affinities_and_tolerations_are_the_templates(rendered):
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}
    tolerations = [{"key": "gpu", "operator": "Exists"}]
    template = build_pod_template(nodeSelector={"pool": "gpu"}, affinity=affinity, tolerations=tolerations)
    submitter = {
        "spec": {"containers": [{"name": "s", "image": "ray"}], "restartPolicy": "Never", "nodeSelector": {"a": "b"}}
    }
    body = build_rayjob(
        groups=[build_group("gpus", minReplicas=1, template=template)], labels=GANG, submitterPodTemplate=submitter
    )
    _, gpus, last = json.loads(by_place(rendered(body).children)["submitter"][GROUPS])
    assert list(gpus) == ["minResource", "nodeSelector", "affinity", "name", "tolerations", "minMember"]
    assert (gpus["nodeSelector"], gpus["affinity"], gpus["tolerations"]) == ({"pool": "gpu"}, affinity, tolerations)
    assert last == {"minResource": {}, "nodeSelector": {"a": "b"}, "name": "submittergroup", "minMember": 1}


OWN = '[{"name":"headgroup","minResource":{"cpu":"9"},"minMember":1}, {"name":"w","minResource":{},"minMember":7}]'


@pytest.mark.parametrize("make", [build_raycluster, build_rayjob])
def test_a_users_own_task_groups_are_taken_letter_by_letter(rendered, make):
    body = make(groups=[build_group("w"), build_group("x")], labels=GANG, annotations={GROUPS: OWN})
    places = by_place(rendered(body).children)
    assert {place[GROUPS] for place in places.values()} == {OWN}
    named = {group: place.get(NAME) for group, place in places.items() if group in ("headgroup", "w", "x")}
    assert named == {"headgroup": "headgroup", "w": "w", "x": None}


def test_style_and_timeout_of_the_gang_reach_the_pods(rendered):
    policy = "yunikorn.apache.org/schedulingPolicyParameters"
    body = build_raycluster(labels=GANG, annotations={policy: "gangSchedulingStyle=Hard"})
    assert {place[policy] for place in by_place(rendered(body).children).values()} == {"gangSchedulingStyle=Hard"}
    del body["metadata"]["labels"]
    assert not any(policy in place for place in by_place(rendered(body).children).values())


# Containers that others add


def adds_a_container(ctx: Any, pod: Manifest) -> Manifest:
    if ctx.node_type == "head":
        pod["spec"]["containers"].append(
            {"name": "extra", "resources": {"requests": {"cpu": "500m"}, "limits": {"memory": "512Mi"}}}
        )
    return pod


EXTRA = Plugin(
    name="extra",
    distribution="kuberay-extra",
    version="1",
    module=None,
    hooks={"mutate_pod": adds_a_container},
    api=(1, 0),
)


@pytest.mark.parametrize("make", [build_raycluster, build_rayjob])
def test_the_heads_place_is_as_large_as_the_pod_that_other_plugins_made_of_it(rendered, make):
    """A placeholder that is smaller than its pod is thrown away. The head is the pod that YuniKorn takes the gang from."""
    manager = PluginManager([*load(["yunikorn"]), EXTRA])
    places = by_place(rendered(make(groups=[build_group("w", minReplicas=1)], labels=GANG), manager=manager).children)
    assert groups_of(places["headgroup"])["headgroup"] == (1, {"cpu": "1500m", "memory": "1536Mi"})
    assert groups_of(places["headgroup"])["w"] == (1, {"cpu": "1", "memory": "1Gi"})


@pytest.mark.parametrize("make", [build_raycluster, build_rayjob])
def test_sidecars_of_the_operators_configuration_count(rendered, make):
    def sidecar(cpu: str) -> list[Manifest]:
        return [{"name": "logs", "image": "logs", "resources": {"requests": {"cpu": cpu}}}]

    config = PlanConfig(head_sidecars=sidecar("100m"), worker_sidecars=sidecar("50m"))
    places = by_place(rendered(make(groups=[build_group("w", minReplicas=2)], labels=GANG), config=config).children)
    for group in ("headgroup", "w"):
        found = groups_of(places[group])
        assert found["headgroup"] == (1, {"cpu": "1100m", "memory": "1Gi"})
        assert found["w"] == (2, {"cpu": "1050m", "memory": "1Gi"})
        assert found.get("submittergroup", (1, {"cpu": "500m", "memory": "200Mi"})) == (
            1,
            {"cpu": "500m", "memory": "200Mi"},
        )


# RayJobs in every mode


@pytest.mark.parametrize("mode", MODES)
def test_the_submitter_is_in_the_gang_only_where_it_is_a_pod(rendered, mode):
    """YU-04: in SidecarMode its resources are part of the head group."""
    body = build_rayjob("rj", groups=[build_group("w", minReplicas=1)], labels={**GANG, **APP}, submissionMode=mode)
    places = by_place(rendered(body).children)
    pods = [places["headgroup"], places["w"], *([places["submitter"]] if mode == "K8sJobMode" else [])]
    with_submitter = {"submittergroup": 1} if mode == "K8sJobMode" else {}
    for place in pods:
        assert sizes_of(place) == {"headgroup": 1, "w": 1, **with_submitter}
        assert (place["applicationId"], place["queue"]) == ("job-1", "root.default")
    head = {"cpu": "1500m", "memory": "1224Mi"} if mode == "SidecarMode" else {"cpu": "1", "memory": "1Gi"}
    assert groups_of(places["headgroup"])["headgroup"][1] == head
    assert (GROUPS in places["cluster"]) == (mode == "K8sJobMode")


def test_a_job_on_somebody_elses_cluster_has_no_gang(hooks, context):
    """YU-05: its submitter gets queue and application, and a warning says that there is no gang to form."""
    body = build_rayjob(labels={**GANG, **APP}, clusterSelector={"ray.io/cluster": "shared"})
    owner = context(body, submitter=True)
    mutated = hooks.mutate_pod(
        PodContext(owner=owner, group="submittergroup", node_type="submitter"), {"metadata": {}, "spec": {}}
    )
    assert not mutated.failures
    assert marks(mutated.pod) == {"applicationId": "job-1", "queue": "root.default", "scheduler": "yunikorn"}
    (warning,), failures = hooks.warn(owner)
    assert not failures
    assert str(warning.problem) == (
        "metadata.labels[ray.io/gang-scheduling-enabled]: has no effect: this RayJob runs on a cluster it does not own, so it has no gang"
    )


# Applications


def apps_of(places: dict[str, Manifest]) -> set[str]:
    return {place.get("applicationId", "") for place in places.values()}


@pytest.mark.parametrize(("labels", "expected"), [({}, {""}), (GANG, {"lab-demo"}), ({**GANG, **APP}, {"job-1"})])
def test_a_gang_without_an_application_gets_one_of_its_own(rendered, labels, expected):
    """In the one that YuniKorn makes for the namespace only the first cluster's task groups would count."""
    assert apps_of(by_place(rendered(build_raycluster("demo", namespace="lab", labels=labels)).children)) == expected


def test_pods_and_submitter_of_a_job_are_in_one_application(rendered):
    result = rendered(build_rayjob("train", labels=GANG))
    (cluster,) = [child["metadata"]["name"] for child in result.children if child["kind"] == "RayCluster"]
    assert apps_of(by_place(result.children)) == {f"default-{cluster}"}


def test_a_long_application_id_is_cut_and_stays_unique(rendered):
    namespace, pair = "n" * 50, ("c" * 40 + "a", "c" * 40 + "b")
    found = [
        apps_of(by_place(rendered(build_raycluster(name, namespace=namespace, labels=GANG)).children)) for name in pair
    ]
    assert found[0] != found[1]
    assert all(len(name) == 63 for (name,) in found)


def test_an_application_in_the_pod_template_stays(rendered):
    template = build_pod_template(labels={"applicationId": "mine"})
    places = by_place(rendered(build_raycluster(groups=[build_group("w", template=template)], labels=GANG)).children)
    assert places["w"]["applicationId"] == "mine"


def test_each_cluster_of_a_service_is_a_gang_of_its_own(rendered):
    """During an upgrade there are two; YuniKorn would read the task groups of the first and start the second one piecemeal."""
    result = rendered(build_rayservice("serve", labels={**GANG, **APP}))
    (cluster,) = [child["metadata"]["name"] for child in result.children if child["kind"] == "RayCluster"]
    pods = [marks(child) for child in result.children if child["kind"] == "Pod"]
    assert {pod["applicationId"] for pod in pods} == {f"job-1-{cluster[-5:]}"}
    assert {pod["queue"] for pod in pods} == {"root.default"}
    assert all(GROUPS in pod for pod in pods)
    plain = [
        marks(child) for child in rendered(build_rayservice("serve", labels=APP)).children if child["kind"] == "Pod"
    ]
    assert {pod["applicationId"] for pod in plain} == {"job-1"}


# What is told

WARNED = {
    "queue as an annotation": (
        {"annotations": {"yunikorn.apache.org/queue": "q"}},
        "metadata.annotations[yunikorn.apache.org/queue]: has no effect as an annotation: make it a label",
    ),
    "the short name": (
        {"labels": {"queue": "q"}},
        "metadata.labels[queue]: does not reach the pods: use the label yunikorn.apache.org/queue",
    ),
    "task groups without the label": (
        {"annotations": {GROUPS: OWN}},
        f"metadata.annotations[{GROUPS}]: has no effect without the label ray.io/gang-scheduling-enabled",
    ),
    "the label says false": (
        {"labels": {"ray.io/gang-scheduling-enabled": "False"}},
        "metadata.labels[ray.io/gang-scheduling-enabled]: turns gang scheduling on whatever its value is: remove the label to turn it off",
    ),
    "only the head": (
        {"labels": GANG, "groups": [build_group("w", 3)]},
        "metadata.labels[ray.io/gang-scheduling-enabled]: the gang is the head alone, because no worker group has minReplicas: "
        "set it to what must fit at once",
    ),
    "no JSON": (
        {"labels": GANG, "annotations": {GROUPS: "head: 1"}},
        f"metadata.annotations[{GROUPS}]: is no JSON list of objects, so YuniKorn forms no gang",
    ),
    "no members": (
        {
            "labels": GANG,
            "annotations": {
                GROUPS: '[{"name":"headgroup","minResource":{},"minMember":0},{"name":"w","minResource":{},"minMember":1}]'
            },
        },
        f"metadata.annotations[{GROUPS}]: task group 0 needs a minMember of 1 or more, or YuniKorn forms no gang",
    ),
    "another name": (
        {"labels": GANG, "annotations": {GROUPS: '[{"name":"headgroup","minResource":{},"minMember":1}]'}},
        f"metadata.annotations[{GROUPS}]: pods of w are in no task group of that name, so in no gang",
    ),
}


@pytest.mark.parametrize("case", WARNED)
def test_what_has_no_effect_is_told(hooks, context, case):
    given, sentence = WARNED[case]
    body = build_raycluster(**{"groups": [build_group("w", minReplicas=1)], **given})
    warnings, failures = hooks.warn(context(body))
    assert ([str(warning.problem) for warning in warnings], failures) == ([sentence], [])


@pytest.mark.parametrize("labels", [{}, APP, GANG, {**GANG, **APP}])
def test_what_is_right_is_not_warned_of(hooks, context, labels):
    for body in (
        build_raycluster(groups=[build_group("w", minReplicas=1)], labels=labels),
        build_raycluster(groups=[], labels=labels),
        build_rayjob(groups=[build_group("w", minReplicas=1)], labels=labels),
    ):
        assert hooks.warn(context(body)) == ([], [])


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (APP, "Pods that are Pending wait for YuniKorn to find room in queue 'root.default': see application 'job-1'."),
        (
            {},
            "Pods that are Pending wait for YuniKorn to find room in the queue that its placement rules choose: see the namespace's "
            "application.",
        ),
        (
            {**APP, **GANG},
            "Pods that are Pending wait until queue 'root.default' of YuniKorn has room for 4 together (4 cpu, 4Gi memory): see "
            "application 'job-1'.",
        ),
    ],
)
def test_a_waiting_cluster_is_told_what_it_waits_for(hooks, context, labels, sentence):
    body = build_raycluster("demo", groups=[build_group("w", 5, minReplicas=3)], labels=labels)
    assert hooks.diagnose(context(body)) == [sentence]
    body["spec"]["suspend"] = True
    assert hooks.diagnose(context(body)) == []


def test_it_needs_no_permissions_and_no_kinds(hooks):
    assert not any(hooks.rbac_rules().values())
    assert list(hooks.watches()) == []


def test_a_wrong_setting_is_refused(hooks):
    with pytest.raises(PluginError, match="gang_size"):
        hooks.configure({"yunikorn": {"gang_size": "most"}})
