"""``kuberay migrate check`` on recorded objects of KubeRay: what it tells about each, and its exit codes."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result
from kube_world import CHILD_KINDS
from kuberay.api.kinds import RAYJOB, RAYSERVICE
from kuberay.cli.main import app
from kuberay_testkit.golden import Manifest
from sim_takeover import CHANGED, Takeover, play
from typer.testing import CliRunner

KINDS = {kind.kind: kind for kind in (*CHILD_KINDS, RAYJOB, RAYSERVICE)}


def recorded(name: str) -> list[Manifest]:
    """Everything of a recorded case, as ``kubectl get -o yaml`` would write it."""
    found: list[Manifest] = []

    async def story(takeover: Takeover) -> None:
        await takeover.load()
        found.extend(
            {"apiVersion": KINDS[kind].api_version, "kind": kind, **copy.deepcopy(body)}
            for (kind, _), body in takeover.before.items()
        )

    play(name, story)
    return found


@pytest.fixture
def check(tmp_path: Path) -> Callable[..., Result]:
    def _check(objects: list[Manifest], *words: str) -> Result:
        file = tmp_path / "objects.yaml"
        file.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": objects}))
        return CliRunner().invoke(app, ["migrate", "check", "-f", str(file), *words])

    return _check


def of_kind(objects: list[Manifest], kind: str) -> Manifest:
    (found,) = [each for each in objects if each["kind"] == kind]
    return found


def told(result: Result, kind: str) -> dict[str, Any]:
    (found,) = [each for each in json.loads(result.stdout) if each["kind"] == kind]
    return dict(found)


@pytest.mark.parametrize(
    "name",
    [
        "raycluster/one-group",
        "raycluster/autoscale-default",
        "raycluster/autoscale-own-sa",
        "raycluster/gcsft-value",
        "raycluster/auth-token",
        "raycluster/ingress-plain",
        "raycluster/multihost-indexed",
        "raycluster/template-change-recreate",
        "rayjob/job-http",
        "rayjob/job-minimal",
        "rayservice/svc-minimal",
    ],
)
def test_what_goes_on_untouched(check: Callable[..., Result], name: str) -> None:
    """The same as tests/sim/test_takeover.py sees happen."""
    result = check(recorded(name))
    assert result.exit_code == 0, result.output
    assert result.stdout.endswith("all that runs goes on untouched.\n")


@pytest.mark.parametrize("name", ["raycluster/group-removed", "raycluster/suspend-field-removed"])
def test_what_is_foretold_is_what_happens(check: Callable[..., Result], name: str) -> None:
    result = check(recorded(name), "-o", "json")
    assert result.exit_code == 1, result.output
    cluster = told(result, "RayCluster")
    assert cluster["verdict"] == "changes"
    deleted = [each.split()[1] + " " + each.split()[2] for each in cluster["changes"] if each.startswith("deletes ")]
    made = [each.split()[1] for each in cluster["changes"] if each.startswith("makes ")]
    assert sorted(deleted) == sorted(CHANGED[name].get("deleted", ()))
    assert sorted(made) == sorted(CHANGED[name].get("made", ()))


def test_what_files_do_not_hold_is_taken_for_granted_and_told(check: Callable[..., Result]) -> None:
    objects = [each for each in recorded("raycluster/autoscale-own-sa") if each["kind"] != "ServiceAccount"]
    result = check(objects, "--all")
    assert result.exit_code == 0
    assert "was not read, and is taken to be there: ServiceAccount pilot" in result.stdout


def test_ports_that_move_are_told_with_their_fields(check: Callable[..., Result]) -> None:
    result = check(recorded("raycluster/params-ports"))
    assert result.exit_code == 1
    assert "RayCluster g-params-ports/ports would be changed\n  changes Service ports-head-svc: " in result.stdout
    assert "spec.ports[client].port" in result.stdout


def test_what_is_written_beside_is_listed_on_request(check: Callable[..., Result]) -> None:
    result = check(recorded("rayservice/svc-minimal"), "--all")
    assert result.exit_code == 0
    assert "writes RayCluster shop-k7x2p: metadata.annotations[ray.io/hash-without-replicas" in result.stdout


def test_an_edit_that_was_not_rolled_out_is_told(check: Callable[..., Result]) -> None:
    """RS-02 the other way round: here the configuration really is another one, so a second RayCluster would come."""
    objects = recorded("rayservice/svc-minimal")
    config = of_kind(objects, "RayService")["spec"]["rayClusterConfig"]
    config["headGroupSpec"]["template"]["spec"]["containers"][0]["image"] += "-next"
    result = check(objects, "-o", "json")
    assert result.exit_code == 1
    assert any(
        each.startswith(("makes RayCluster", "changes RayCluster")) for each in told(result, "RayService")["changes"]
    )


def test_what_would_be_refused_is_told_with_the_field(check: Callable[..., Result]) -> None:
    objects = recorded("raycluster/one-group")
    group = of_kind(objects, "RayCluster")["spec"]["workerGroupSpecs"][0]
    group["minReplicas"], group["maxReplicas"] = 4, 3
    result = check(objects)
    assert result.exit_code == 1
    assert "would be refused; what runs goes on as it is" in result.stdout
    assert "RayClusterSpecValid" in result.stdout
    assert "minReplicas" in result.stdout


def test_a_plugin_that_will_be_missing_is_told(check: Callable[..., Result]) -> None:
    result = check(recorded("raycluster/autoscale-default"), "--plugins=mtls")
    assert result.exit_code == 1
    assert "says PluginMissing (PluginNotEnabled)" in result.stdout


def test_without_its_pods_nothing_can_be_told(check: Callable[..., Result]) -> None:
    result = check([each for each in recorded("raycluster/one-group") if each["kind"] != "Pod"])
    assert result.exit_code == 2
    assert "cannot be judged: its pods are not among the objects that were read" in result.stdout


def test_what_another_controller_manages_is_left_alone(check: Callable[..., Result]) -> None:
    objects = recorded("raycluster/one-group")
    of_kind(objects, "RayCluster")["spec"]["managedBy"] = "kueue.x-k8s.io/multikueue"
    result = check(objects, "--all")
    assert result.exit_code == 0
    assert "is left alone: spec.managedBy names another controller" in result.stdout


def test_cron_jobs_without_their_gate_are_told(check: Callable[..., Result]) -> None:
    cron = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCronJob",
        "metadata": {"name": "nightly", "namespace": "default"},
        "spec": {"schedule": "0 0 * * *", "jobTemplate": {}},
    }
    result = check([cron])
    assert result.exit_code == 1
    assert "--feature-gates=RayCronJob=true" in result.stdout


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["-f", "/nowhere.yaml"], "Cannot read /nowhere.yaml"),
        (["-f", "-", "-o", "table"], "--output must be text or json"),
        (["-f", "-"], "There is no RayCluster, RayJob, RayService or RayCronJob in -."),
        (["--kubeconfig", "/nowhere"], "/nowhere"),
    ],
)
def test_what_cannot_be_told_is_exit_code_2(words: list[str], sentence: str) -> None:
    result = CliRunner().invoke(app, ["migrate", "check", *words], input="kind: Pod\n")
    assert result.exit_code == 2
    assert sentence in result.output
