"""``kuberay diff`` for RayServices that run: what an edit does from where they are, and that it does so."""

from __future__ import annotations

import copy
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from kuberay.api.gates import DEFAULT_GATES
from kuberay.cli.diff_job_world import Rules
from kuberay.cli.service_world import running
from kuberay.hooks.calls import NoHooks
from kuberay.plan.config import PlanConfig

from core.tests.cli.service_edits import (
    FROM_FILE,
    Manifest,
    answer,
    effects,
    service,
)
from core.tests.cli.service_server import ServiceServer, edit_image
from core.tests.plan.service.worlds import START, World, serving


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    server = ServiceServer()

    async def connect(kubeconfig: str) -> Any:
        return server.connection

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
            return server.now

    monkeypatch.setattr("kuberay.kube.connection.connect", connect)
    monkeypatch.setattr("kuberay.kube.http.HttpTransport", lambda *_, **__: server)
    monkeypatch.setattr("kuberay.cli.diff.datetime", Clock)

    def _live(world: World, new: Manifest) -> Manifest:
        server.show(world)
        kept = {key: value for key, value in new["metadata"].items() if key in ("name", "namespace", "annotations")}
        (tmp_path / "new").write_text(yaml.safe_dump({**new, "metadata": kept, "status": None}))
        return answer(["diff", "-f", str(tmp_path / "new")])

    return _live


def changed(world: World, **spec: Any) -> Manifest:
    """The RayService as somebody would apply it."""
    new = copy.deepcopy(world.service)
    new["spec"].update(spec)
    return new


def other_image(world: World, tag: str) -> Manifest:
    """``rayClusterConfig`` with another image; the world stays as it is."""
    return edit_image(copy.deepcopy(world), tag)


def test_what_runs_is_where_it_starts_from(live: Any) -> None:
    world = serving()
    told = live(world, changed(world, rayClusterConfig=other_image(world, "x:y")))
    assert told["servingCluster"] == "A"
    assert told["atOnce"] == ["RayCluster B is made"]
    assert FROM_FILE not in told["notes"]


def test_what_is_foretold_is_what_a_pass_does(live: Any) -> None:
    """The world goes on as was said, with the very RayCluster that was named."""
    world = serving()
    config = other_image(world, "x:y")
    server_said = live(world, changed(world, rayClusterConfig=config))
    world.edit(rayClusterConfig=config)
    world.settle()
    assert server_said["then"][-1] == "60 s later: RayCluster A is deleted"
    old = world.active
    world.add_pods(world.pending)
    world.settle().follow_selector()
    assert world.settle().active != old
    assert old in world.advance(59).settle().clusters()
    assert old not in world.advance(1).settle().clusters()


def test_an_edit_during_an_upgrade(live: Any) -> None:
    """RS-04: what is prepared is replaced; taking the edit back ends the upgrade."""
    world = serving()
    before = copy.deepcopy(world.service)
    edit_image(world)
    prepared = world.settle().pending
    told = live(world, changed(world, rayClusterConfig=other_image(world, "x:y")))
    assert f"RayCluster {prepared} is no longer prepared" in told["atOnce"]
    assert "RayCluster B is made" in told["atOnce"]
    assert f"An upgrade is under way already: RayCluster {prepared} is being prepared." in told["notes"]
    back = {**before, "spec": copy.deepcopy(before["spec"])}
    told = live(world, back)
    assert told["newClusters"] == []
    assert told["atOnce"] == [f"RayCluster {prepared} is no longer prepared"]
    assert told["then"] == [f"60 s later: RayCluster {prepared} is deleted"]


def test_a_pause_ends(live: Any) -> None:
    world = serving()
    world.annotate(upgrade_paused="true")
    edit_image(world)
    world.settle().add_pods(world.pending)
    prepared = world.settle().pending
    new = changed(world)
    new["metadata"]["annotations"]["ray.io/upgrade-paused"] = "false"
    told = live(world, new)
    assert (
        f"RayCluster {prepared} becomes the active one: requests go there instead of to RayCluster A" in told["atOnce"]
    )
    assert effects(told) == {"metadata.annotations[ray.io/upgrade-paused]": "in-place"}


def test_a_world_made_of_a_file_serves() -> None:
    """What ``--against`` starts from has come to rest: nothing is left to do in it."""
    rules = Rules(config=PlanConfig(), gates=DEFAULT_GATES, hooks=NoHooks(), now=START)
    body = service()
    body["metadata"] |= {"namespace": "default"}
    situation = running(body, rules)
    assert situation.active
    conditions = {each["type"]: each["status"] for each in situation.service["status"]["conditions"]}
    assert conditions == {"Ready": "True", "UpgradeInProgress": "False"}
    assert situation.foresight(rules).look_ahead(START) == []
