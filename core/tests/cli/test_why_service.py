"""``kuberay why rayservice/NAME``: where a service stands, what it waits for and what comes next."""

from __future__ import annotations

import pytest
from kuberay.cli.main import app
from typer.testing import CliRunner

from core.tests.cli.service_reports import Told, ahead, chain, whats, why
from core.tests.cli.service_server import ServiceServer, edit_image
from core.tests.plan.service.worlds import new_world, running, serving

HEAD = "The head of RayCluster default/{} is not ready."


def test_a_service_that_serves(told: Told) -> None:
    report = told(serving())
    assert (report["state"], report["findings"], report["ahead"], report["then"]) == ("ready", [], [], [])
    assert report["summary"] == (
        "RayCluster A serves: 2 pods are behind service s-serve-svc. upgradeStrategy.type is not set."
    )
    assert chain(report) == {
        "RayCluster A (active)": "ready",
        "application app on RayCluster A": "RUNNING",
        "requests": "2 pods are behind service s-serve-svc",
    }


def test_as_text(service_server: ServiceServer) -> None:
    world = serving()
    service_server.show(world)
    assert why().splitlines()[:3] == [
        "RayService default/s: ready",
        f"RayCluster {world.active} serves: 2 pods are behind service s-serve-svc. upgradeStrategy.type is not set.",
        "",
    ]
    edit_image(world)
    service_server.show(world.settle())
    lines = why().splitlines()
    assert "What follows if all goes well" in lines
    assert f"  RayCluster {world.active} is deleted 60 s later" in lines


def test_one_that_no_operator_has_looked_at(told: Told) -> None:
    report = told(new_world())
    assert report["state"] == "not seen yet"
    assert whats(report) == ["No operator has looked at this object yet."]
    assert report["ahead"] == report["then"] == [], "nothing is foretold without an operator"


def test_the_first_start(told: Told) -> None:
    world = new_world().settle()
    report = told(world)
    assert (report["state"], report["summary"]) == ("starting", "Nothing serves yet; RayCluster P is prepared.")
    assert HEAD.format("P") in whats(report)
    assert report["then"] == ["Serve of RayCluster P is given its configuration", "RayCluster P becomes the active one"]


def test_the_initializing_timeout_is_foretold(told: Told) -> None:
    world = new_world(annotations={"ray.io/initializing-timeout": "10m"}).settle()
    assert ahead(told(world.advance(60))) == [
        (600, "the RayService gives up: it has not served within its initializing timeout"),
        (600, "RayCluster P is no longer prepared"),
        (660, "RayCluster P is deleted"),
    ]
    report = told(world.advance(600).settle())
    assert report["state"] == "gave up"
    assert "within the configured timeout" in report["summary"]
    assert [finding["lasting"] for finding in report["findings"]] == ["terminal"]


def test_an_upgrade_to_another_cluster(told: Told) -> None:
    world = serving()
    edit_image(world)
    report = told(world)
    assert whats(report)[0].startswith("No operator has looked at the latest version of the spec yet: it is 2")
    assert report["ahead"][0]["what"].endswith(" is made")
    world.settle()
    report = told(world)
    assert report["state"] == "upgrading"
    assert "RayCluster A serves: 2 pods" in report["summary"]
    assert "RayCluster P is to take over" in report["summary"]
    assert report["then"] == [
        "Serve of RayCluster P is given its configuration",
        "RayCluster P becomes the active one: requests go there instead of to RayCluster A",
        "RayCluster A is deleted 60 s later",
    ]
    assert report["ahead"] == [], "nothing of it comes by itself"


def test_the_reasons_of_the_prepared_cluster_are_told(told: Told) -> None:
    world = serving()
    edit_image(world)
    world.settle().add_pods(world.settle().pending, ready=False)
    report = told(world.advance(400).settle())
    assert any(what.startswith("RayCluster P: head pod P-head: ContainersNotReady") for what in whats(report))
    assert "HeadNotReady" not in [finding["reason"] for finding in report["findings"]], "its own words say more"
    assert {pod["name"] for pod in report["pods"]} == {"P-head", "P-worker-0"}


@pytest.mark.parametrize(("word", "lasting"), [("DEPLOY_FAILED", "terminal"), ("UNHEALTHY", "transient")])
def test_applications_that_fail(told: Told, word: str, lasting: str) -> None:
    world = serving()
    edit_image(world)
    world.settle().add_pods(world.pending)
    world.after_put = running(word, "first\nModuleNotFoundError: mod")
    report = told(world.settle())
    (finding,) = report["findings"]
    assert finding["what"] == f"application app of RayCluster default/P is {word}: first\n     ModuleNotFoundError: mod"
    assert (finding["lasting"], finding["advice"] != "") == (lasting, True)
    assert chain(report)["application app on RayCluster P"] == word


def test_applications_that_are_still_deploying(told: Told) -> None:
    """No condition tells of them for five minutes; the message of the deployment is told as well."""
    world = serving()
    world.applications[world.active] = {
        "app": {
            "status": "DEPLOYING",
            "message": "",
            "deployments": {"D": {"status": "UPDATING", "message": "waits for\n2 CPUs"}},
        }
    }
    (finding,) = told(world.settle())["findings"]
    assert finding["what"] == "application app of RayCluster A is DEPLOYING; deployment D is UPDATING: waits for 2 CPUs"


def test_the_old_cluster_goes_at_its_time(told: Told) -> None:
    """RS-15."""
    world = serving(rayClusterDeletionDelaySeconds=90)
    edit_image(world)
    world.settle().add_pods(world.pending)
    world.settle().follow_selector()
    report = told(world.settle())
    assert report["state"] == "ready"
    assert chain(report)["RayCluster OLD (no longer used)"] == "is deleted at 2024-01-01T00:01:30Z"
    assert ahead(report) == [(90, "RayCluster OLD is deleted")]


def test_a_paused_upgrade(told: Told) -> None:
    world = serving()
    world.annotate(upgrade_paused="true")
    edit_image(world)
    world.settle().add_pods(world.pending)
    report = told(world.settle())
    (finding,) = report["findings"]
    assert "paused by annotation ray.io/upgrade-paused" in finding["what"]
    assert finding["advice"].endswith("kubectl annotate rayservice s -n default ray.io/upgrade-paused-")
    assert report["ahead"] == report["then"] == []


def test_annotations_that_hold_nothing_at_the_moment(told: Told) -> None:
    world = serving()
    world.annotate(upgrade_aborted="true")
    report = told(world.settle())
    assert report["state"] == "ready, with problems"
    assert whats(report) == [
        "Annotation ray.io/upgrade-aborted is set: an upgrade goes back, and no other RayCluster is prepared."
    ]


def test_an_aborted_upgrade(told: Told) -> None:
    world = serving()
    world.annotate(upgrade_aborted="true")
    edit_image(world)
    (finding,) = told(world.settle())["findings"]
    assert "is not what rayClusterConfig asks for, and stays while annotation ray.io/upgrade-aborted" in finding["what"]
    assert "ray.io/upgrade-aborted-" in finding["advice"]


def test_edits_that_are_not_rolled_out(told: Told) -> None:
    world = serving(upgradeStrategy={"type": "None"})
    edit_image(world)
    report = told(world.settle())
    assert "upgradeStrategy.type is None." in report["summary"]
    (finding,) = report["findings"]
    assert (finding["reason"], finding["lasting"]) == ("NotRolledOut", "terminal")


def test_a_dashboard_that_is_away(told: Told) -> None:
    """Nothing is foretold that Serve would have to take."""
    world = serving()
    world.silent = {world.active}
    world.settle().advance(60).settle()
    world.edit(serveConfigV2="applications:\n- name: app\n  import_path: mod.other\n")
    report = told(world.settle())
    assert [finding["reason"] for finding in report["findings"]] == ["DashboardAway"]
    assert report["ahead"] == []
    assert report["then"] == ["Serve of RayCluster A is given its configuration"]


def test_refused(told: Told) -> None:
    world = serving()
    world.edit(upgradeStrategy={"type": "Bogus"})
    report = told(world.settle())
    assert (report["state"], report["summary"]) == (
        "refused",
        "The spec is refused; RayCluster A goes on with what it has.",
    )
    (finding,) = report["findings"]
    assert "Bogus is invalid" in finding["what"]


def test_a_plugin_that_is_missing_is_told_once(told: Told) -> None:
    gates = {"RayServiceIncrementalUpgrade": True, "RayClusterStatusConditions": True}
    options = {"gatewayClassName": "c", "stepSizePercent": 50, "intervalSeconds": 1}
    world = new_world(
        world={"gates": gates},
        cluster={"enableInTreeAutoscaling": True},
        upgradeStrategy={"type": "NewClusterWithIncrementalUpgrade", "clusterUpgradeOptions": options},
    ).settle()
    report = told(world)
    assert [finding["reason"] for finding in report["findings"]] == ["PluginNotEnabled"]
    assert "pip install kuberay-gateway-upgrade" in report["findings"][0]["what"]


def test_suspended(told: Told) -> None:
    world = serving()
    world.edit(suspend=True)
    report = told(world.settle())
    assert (report["state"], report["summary"]) == ("suspended", "spec.suspend is true; everything was given back.")
    assert report["findings"] == []


def test_deleted(told: Told) -> None:
    world = serving()
    world.service["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:00Z"
    report = told(world)
    assert (report["state"], report["summary"]) == (
        "being deleted",
        "It was deleted; RayClusters still going: A.",
    )
    assert whats(report) == ["Finalizers hold it: ray.io/rayservice-finalizer."]


def test_managed_elsewhere(told: Told) -> None:
    world = new_world(managedBy="kueue.x-k8s.io/multikueue")
    report = told(world)
    assert (report["state"], report["findings"]) == ("managed elsewhere", [])


@pytest.mark.parametrize("plural", ["rayclusters", "services", "endpointslices"])
def test_what_may_not_be_read_is_said_and_nothing_is_foretold(
    told: Told, service_server: ServiceServer, plural: str
) -> None:
    world = serving()
    edit_image(world)
    world.settle()
    service_server.forbidden = {plural}
    report = told(world)
    assert any(plural in note for note in report["notes"])
    assert report["ahead"] == report["then"] == []


def test_one_that_is_not_there(service_server: ServiceServer) -> None:
    service_server.objects = {"rayservices": []}
    result = CliRunner().invoke(app, ["why", "rayservice/s"])
    assert (result.exit_code, result.stderr) == (1, "kuberay: There is no RayService s in namespace default.\n")
