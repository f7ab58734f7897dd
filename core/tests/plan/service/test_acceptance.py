"""Refused RayServices: what is said, what goes on, and how they recover (spec rayservice.md 6.1, rows 72 and 73)."""

from __future__ import annotations

from typing import Any

import pytest
from kuberay.api import names
from kuberay.api.kinds import POD, SERVICE
from kuberay.plan.config import PlanConfig
from kuberay.plan.model import Plan, ServeConfigCall

from core.tests.plan.service.worlds import NS, Body, World, new_world, serving

INVALID = "The RayService spec is invalid: "
SIDEWAYS = (
    f"{INVALID}Spec.UpgradeStrategy.Type value Sideways is invalid, valid options are "
    "NewClusterWithIncrementalUpgrade, NewCluster, or None"
)


def refused(**service: Any) -> World:
    """It serves, and was then edited into something wrong."""
    world = serving(**service)
    world.edit(upgradeStrategy={"type": "Sideways"})
    return world.settle()


def test_a_new_one_is_refused_with_kuberays_words_and_nothing_is_made() -> None:
    world = new_world(upgradeStrategy={"type": "Sideways"}).settle()
    assert world.condition("Ready") == ("False", "ValidationFailed")
    assert world.message("Ready") == SIDEWAYS
    assert world.notes("InvalidRayServiceSpec") == [f"{NS}/s: {SIDEWAYS}"]
    assert (world.clusters(), world.pending, world.active) == ([], "", "")
    assert world.service["metadata"]["finalizers"] == [names.RAYSERVICE_FINALIZER]
    world.advance(3600).settle()
    assert len(world.notes("InvalidRayServiceSpec")) == 1


def test_a_name_that_is_too_long_is_the_metadatas_fault() -> None:
    name = "s" * 48
    world = World(service_name=name)
    world.create(new_world(name=name, world={"service_name": name}).service)
    world.settle()
    (note,) = world.notes("InvalidRayServiceMetadata")
    assert note.endswith("RayService name should be no more than 47 characters")
    assert world.condition("Ready") == ("False", "ValidationFailed")


@pytest.mark.parametrize("spec", [{"serveConfigV2": 5}, {"suspend": "no"}, {"rayClusterConfig": {"headGroupSpec": 1}}])
def test_a_wrong_form_is_told_with_its_place(spec: Body) -> None:
    world = new_world(**spec).settle()
    assert world.condition("Ready") == ("False", "ValidationFailed")
    (place,) = spec
    assert f"spec.{place}" in world.message("Ready")
    assert world.clusters() == []


@pytest.mark.parametrize("timeout", [None, "30m"])
def test_a_corrected_one_starts_and_its_time_begins_then(timeout: str | None) -> None:
    told = {names.ANNOTATION_INITIALIZING_TIMEOUT: timeout} if timeout else {}
    world = new_world(upgradeStrategy={"type": "Sideways"}, annotations=told).settle()
    world.advance(7200).settle()
    world.edit(upgradeStrategy=None)
    world.settle()
    assert world.condition("Ready") == ("False", "Initializing")
    assert world.condition("UpgradeInProgress") == ("False", "Initializing")
    assert world.clusters() == [world.pending]
    world.advance(1799).settle()
    assert world.condition("Ready") == ("False", "Initializing")
    world.advance(2).settle()
    assert world.condition("Ready") == ("False", "InitializingTimeout" if timeout else "Initializing")


@pytest.mark.parametrize("pods_come", ["before the correction", "after it"])
def test_only_ready_begins_anew_when_it_is_corrected(pods_come: str) -> None:
    world = new_world().settle()
    started = {condition["type"]: condition["lastTransitionTime"] for condition in world.status["conditions"]}
    world.edit(upgradeStrategy={"type": "Sideways"})
    world.advance(60).settle()
    if pods_come == "before the correction":
        world.add_pods(world.pending)
    world.edit(upgradeStrategy=None)
    world.settle()
    corrected = {condition["type"]: condition["lastTransitionTime"] for condition in world.status["conditions"]}
    assert corrected["Ready"] > started["Ready"]
    assert world.condition("UpgradeInProgress")[0] == "False"
    assert corrected["UpgradeInProgress"] == started["UpgradeInProgress"], "it stayed False"


def test_one_that_serves_is_left_as_it_is_and_says_so_without_contradiction() -> None:
    world = refused()
    active = world.active
    assert world.condition("Ready") == ("False", "ValidationFailed")
    assert world.message("Ready") == SIDEWAYS
    assert "serviceStatus" not in world.status
    assert world.status["numServeEndpoints"] == 2
    assert world.status["observedGeneration"] == 2
    assert world.condition("UpgradeInProgress") == ("False", "NoPendingCluster")
    assert world.status["activeServiceStatus"]["applicationStatuses"]["app"]["status"] == "RUNNING"
    assert (world.active, world.clusters()) == (active, [active])
    writes = world.status_writes
    world.advance(600).settle()
    assert world.status_writes == writes, "nothing changes, nothing is written"
    assert len(world.notes("InvalidRayServiceSpec")) == 1


def test_another_reason_is_told_again() -> None:
    world = refused()
    world.edit(upgradeStrategy={"type": "Upwards"})
    world.settle()
    assert len(world.notes("InvalidRayServiceSpec")) == 2


def test_what_runs_is_still_looked_after() -> None:
    world = refused()
    head = f"{world.active}-head"
    world.unhealthy = {head}
    world.settle()
    assert world.objects[POD, head]["metadata"]["labels"][names.LABEL_SERVE] == "false"
    world.follow_selector()
    world.settle()
    assert world.status["numServeEndpoints"] == 1
    assert world.condition("Ready") == ("False", "ValidationFailed")


def test_nothing_of_a_refused_spec_reaches_what_runs() -> None:
    world = serving()
    active, selector = world.active, world.objects[SERVICE, "s-serve-svc"]["spec"]
    spec, puts = world.cluster(active)["spec"], list(world.puts)
    config = world.service["spec"]["rayClusterConfig"]
    config["workerGroupSpecs"][0] |= {"maxReplicas": 50}
    config["headGroupSpec"]["template"]["spec"]["containers"][0]["image"] = "ray:2"
    world.edit(
        upgradeStrategy={"type": "Sideways"},
        serveConfigV2="applications:\n- name: other\n  import_path: other.app\n",
        suspend=True,
    )
    world.settle()
    assert world.cluster(active)["spec"] == spec
    assert world.puts == puts
    assert not [probe for probe in world.last.probes if isinstance(probe, ServeConfigCall)]
    assert world.objects[SERVICE, "s-serve-svc"]["spec"] == selector
    assert (world.clusters(), world.pending) == ([active], "")


def test_serve_that_has_lost_its_state_is_given_what_it_had() -> None:
    world = serving()
    world.edit(
        upgradeStrategy={"type": "Sideways"}, serveConfigV2="applications:\n- name: other\n  import_path: other.app\n"
    )
    world.settle()
    before = world.puts[-1]
    world.applications[world.active] = {}
    for _ in range(10):
        world.advance(10).settle()
    assert world.puts[-1] == before
    assert len(world.puts) == 2


@pytest.mark.parametrize("wrong", [{"serveConfigV2": 5}, {"rayClusterDeletionDelaySeconds": "x"}])
def test_a_wrong_form_changes_nothing_of_what_can_be_read(wrong: Body) -> None:
    world = serving(excludeHeadPodFromServeSvc=True, serveService={"metadata": {"name": "mine"}})
    head = f"{world.active}-head"
    assert world.objects[POD, head]["metadata"]["labels"][names.LABEL_SERVE] == "false"
    world.edit(**wrong)
    world.settle()
    assert world.condition("Ready") == ("False", "ValidationFailed")
    assert world.objects[POD, head]["metadata"]["labels"][names.LABEL_SERVE] == "false"
    assert world.status["numServeEndpoints"] == 1


def test_correcting_it_makes_it_ready_again() -> None:
    world = refused()
    world.edit(upgradeStrategy=None)
    world.settle()
    assert world.condition("Ready") == ("True", "NonZeroServeEndpoints")
    assert world.status["serviceStatus"] == "Running"


def test_correcting_one_that_lost_its_endpoints_is_no_new_start() -> None:
    """Else the initializing timeout would take down a service that has served."""
    world = refused(annotations={names.ANNOTATION_INITIALIZING_TIMEOUT: "1m"})
    active = world.active
    world.set_endpoints("s-serve-svc", [])
    world.settle()
    world.edit(upgradeStrategy=None)
    world.settle()
    assert world.condition("Ready") == ("False", "ZeroServeEndpoints")
    world.advance(3600).settle()
    assert world.active == active


def test_an_abandoned_cluster_still_goes_while_the_spec_is_refused() -> None:
    world = serving()
    old = world.active
    world.service["spec"]["rayClusterConfig"]["rayVersion"] = "2.53.0"
    world.edited()
    world.settle()
    world.add_pods(world.pending)
    world.settle()
    assert world.active != old
    world.edit(upgradeStrategy={"type": "Sideways"})
    world.settle()
    assert old in world.clusters()
    world.advance(61).settle()
    assert world.clusters() == [world.active]


@pytest.mark.parametrize(
    ("managed_by", "ours"),
    [
        (None, True),
        ("ray.io/kuberay-operator", True),
        ("", False),
        ("kueue.x-k8s.io/multikueue", False),
        ("controller.com/invalid", False),
    ],
)
def test_rows_72_73_75_managed_by(managed_by: str | None, ours: bool) -> None:
    spec: Body = {} if managed_by is None else {"managedBy": managed_by}
    world = new_world(**spec)
    if ours:
        world.settle()
        assert world.service["metadata"]["finalizers"] == [names.RAYSERVICE_FINALIZER]
        assert world.clusters()
    else:
        assert world.plan() == Plan()


def test_a_token_that_cannot_be_had() -> None:
    """The setting ``secretNamespaces`` leaves the namespace out."""
    spec = new_world().service["spec"]["rayClusterConfig"]
    token = {**spec, "authOptions": {"mode": "token"}, "rayVersion": "2.55.0"}
    config = PlanConfig(secret_namespaces=frozenset({"other"}))
    world = new_world(rayClusterConfig=token, world={"config": config}).settle()
    assert world.condition("Ready") == ("False", "ValidationFailed")
    assert "authOptions.mode token needs a Secret" in world.message("Ready")
    assert world.clusters() == []
