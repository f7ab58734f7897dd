"""``kuberay why rayservice/NAME`` while requests move step by step: what is foretold, and that it comes."""

from __future__ import annotations

import pytest
from kuberay.operator.settings import load_settings
from kuberay.operator.start import assemble_plugins

from core.tests.cli.service_reports import Told, ahead, chain
from core.tests.cli.service_server import accept_gateways, edit_image
from core.tests.plan.service.worlds import START, World, new_world, running

SIDES = ("activeServiceStatus", "pendingServiceStatus")


def test_traffic_that_moves_step_by_step(told: Told) -> None:
    """GW-01, foretold: the next steps at their times, capacity before requests."""
    world = _incremental()
    report = told(world)
    assert report["findings"] == []
    assert chain(report)["RayCluster P (pending)"] == "ready, 50 % of its capacity, 25 % of the requests"
    assert ahead(report) == [
        (30, "50 % of the requests go to RayCluster P, 50 % to RayCluster A"),
        (35, "RayCluster A runs 50 % of its capacity (from 100 %)"),
        (35, "RayCluster P runs 100 % of its capacity (from 50 %)"),
        (60, "75 % of the requests go to RayCluster P, 25 % to RayCluster A"),
        (90, "100 % of the requests go to RayCluster P, 0 % to RayCluster A"),
        (95, "RayCluster A runs 0 % of its capacity (from 50 %)"),
        (95, "RayCluster P becomes the active one"),
        (155, "RayCluster A is deleted"),
    ]


def test_what_is_foretold_comes(told: Told) -> None:
    """GW-01: the plan itself, played to the end on the world, does at those times what was said."""
    world = _incremental()
    names = {"A": world.active, "P": world.pending}
    for seconds, what in ahead(told(world)):
        world.now = START
        world.advance(seconds)
        for name in world.clusters():
            world.follow_selector(f"{name}-serve-svc")
        accept_gateways(world)
        world.settle()
        shares = {
            side["rayClusterName"]: side for side in (world.status[key] for key in SIDES) if side.get("rayClusterName")
        }
        if what.startswith("RayCluster A is deleted"):
            assert names["A"] not in world.clusters()
        elif what.endswith("the active one"):
            assert world.active == names["P"]
        elif "requests" in what and world.pending:
            assert shares[names["P"]]["trafficRoutedPercent"] == int(what.split()[0])


def test_applications_that_fail_hold_the_steps(told: Told) -> None:
    world = _incremental()
    world.applications[world.pending] = running("UNHEALTHY", "no")
    report = told(world.settle())
    assert report["ahead"] == [], "nothing moves by itself"
    assert report["then"][0] == "50 % of the requests go to RayCluster P, 50 % to RayCluster A 30 s later"


def test_without_the_plugin_nothing_is_foretold(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    world = _incremental()
    monkeypatch.setattr("kuberay.plugins.loader._entry_points", list)
    report = told(world)
    assert report["notes"] == [
        "what comes next cannot be told without the package kuberay-gateway-upgrade: pip install it here as well"
    ]
    assert report["ahead"] == report["then"] == []


def _incremental() -> World:
    """An upgrade a quarter of the requests into its way."""
    flags = {"plugins": {"enabled": ["gateway-upgrade"]}, "feature_gates": "RayServiceIncrementalUpgrade=true"}
    hooks, gates = assemble_plugins(load_settings("", flags))
    options = {"gatewayClassName": "c", "maxSurgePercent": 50, "stepSizePercent": 25, "intervalSeconds": 30}
    world = new_world(
        world={"hooks": hooks, "gates": gates},
        cluster={"enableInTreeAutoscaling": True},
        upgradeStrategy={"type": "NewClusterWithIncrementalUpgrade", "clusterUpgradeOptions": options},
    ).settle()
    world.add_pods(world.pending)
    world.settle()
    edit_image(world)
    world.settle()
    world.add_pods(world.pending)
    world.settle()
    accept_gateways(world)
    for name in world.clusters():
        world.follow_selector(f"{name}-serve-svc")
    return world.settle()
