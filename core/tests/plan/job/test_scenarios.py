"""Replays the recorded K8sJobMode scenarios: states, lives of objects, checkpoints and the end must be KubeRay's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from kuberay.api.kinds import JOB, RAYCLUSTER, RAYJOB, SERVICE

SCENARIOS = Path(__file__).parents[2] / "data" / "golden" / "scenarios" / "rayjob"
KINDS = {"RayJob": RAYJOB, "RayCluster": RAYCLUSTER, "Job": JOB, "Service": SERVICE}
TOLD = ("jobDeploymentStatus", "jobStatus", "reason", "message", "failed", "succeeded")


@pytest.mark.parametrize("case", sorted(path.name for path in SCENARIOS.iterdir()))
def test_scenario(case: str, empty_world: Any, masks: Any) -> None:
    script = yaml.safe_load((SCENARIOS / case / "scenario.yaml").read_text())
    expected = yaml.safe_load((SCENARIOS / case / "expected.yaml").read_text())
    world = empty_world()
    world.settings.update(script.get("world") or {})
    for manifest in script["manifests"]:
        world.create(manifest)
    checkpoints: list[dict[str, Any]] = []
    for step in script["steps"]:
        _play(world, step, checkpoints)
    names = masks("j")
    names.learn(world.transitions)

    failing_counts = any("statusCheckFailing" in state for state in expected["transitions"])
    assert _states(names.mask(world.transitions), failing_counts) == expected["transitions"]
    assert names.mask(world.lifecycle_of_interest()) == expected["lifecycle"]
    assert [_sorted(item) for item in names.mask(checkpoints)] == [
        _sorted(item) for item in expected.get("checkpoints", [])
    ]
    assert _sorted(names.mask(_final(world))) == _sorted(expected["final"])
    stops = [post for dashboard in world.dashboards.values() for post in dashboard.posts]
    recorded = [
        request["call"]
        for requests in expected["requests"].values()
        for request in requests
        if request["call"].startswith("POST")
    ]
    if case.startswith(("delete", "selector-delete")):
        assert names.mask(stops) == recorded


def _sorted(found: dict[str, Any]) -> dict[str, Any]:
    objects = {kind: sorted(names) if isinstance(names, list) else names for kind, names in found["objects"].items()}
    return {**found, "objects": objects}


def _states(transitions: list[dict[str, Any]], failing_counts: bool) -> list[dict[str, Any]]:
    states: list[dict[str, Any]] = []
    for state in transitions:
        failing = state["statusCheckFailing"]
        kept = {key: value for key, value in state.items() if key != "statusCheckFailing"}
        if failing and failing_counts:
            kept["statusCheckFailing"] = True
        if not states or states[-1] != kept:
            states.append(kept)
    return states


def _play(world: Any, step: dict[str, Any], checkpoints: list[dict[str, Any]]) -> None:
    ((verb, value),) = step.items()
    match verb:
        case "wait":
            world.until(lambda: _reached(world, value), value.get("timeout", 60))
        case "sleep":
            world.run(value)
        case "check":
            checkpoint = {"at": value, "objects": world.live()}
            if suspended := _suspended_groups(world):
                checkpoint["suspendedGroups"] = suspended
            if selectors := _selectors(world):
                checkpoint["selectors"] = selectors
            checkpoints.append(checkpoint)
        case "job" if value == "unknown":
            world.dashboard().jobs.clear()
        case "job":
            world.set_job(**(value if isinstance(value, dict) else {"status": value}))
        case "submitter":
            world.end_submitter(value)
        case "world":
            world.settings.update(value)
        case "edit":
            world.edit(value["set"])
        case "delete":
            name = value.get("name", "j")
            world.delete(KINDS[value.get("kind", "RayJob")], name)
        case "dashboard":
            world.refuse = value.get("refuse", world.refuse)
            world.slow = value.get("slow", {}).get("*", 0)
        case "pods":
            pods = world.pods[world.status["rayClusterName"]]
            for pod in [pod for pod in pods if pod.startswith(value["which"])]:
                del pods[pod]
        case _:
            raise AssertionError(step)


def _reached(world: Any, wanted: dict[str, Any]) -> bool:
    for what, value in wanted.items():
        match what:
            case "status":
                if not all(_matches(world.status.get(path), item) for path, item in value.items()):
                    return False
            case "pods":
                live = world.live().get("Pod", {})
                for role, count in value.items():
                    if role == "submitter":
                        continue
                    if sum(found["count"] for name, found in live.items() if name.endswith(role)) != count:
                        return False
            case "objects":
                if any(len(world.live().get(kind, [])) != count for kind, count in value.items()):
                    return False
            case "cluster":
                if world.cluster.get("status", {}).get("state") != value:
                    return False
            case "gone":
                if (RAYJOB, "j") in world.objects:
                    return False
            case "timeout":
                pass
            case _:
                raise AssertionError(wanted)
    return True


def _matches(found: Any, wanted: Any) -> bool:
    if wanted is None:
        return not found
    return bool(found) if wanted == "*" else found == wanted


def _selectors(world: Any) -> dict[str, Any]:
    return {
        name: body["spec"]["selector"]
        for (kind, name), body in world.objects.items()
        if kind == SERVICE and body["metadata"]["ownerReferences"][0]["kind"] == "RayJob"
    }


def _final(world: Any) -> dict[str, Any]:
    final: dict[str, Any] = {"exists": (RAYJOB, "j") in world.objects}
    if final["exists"]:
        status = world.status
        final["finalizers"] = world.job["metadata"]["finalizers"]
        final["status"] = {key: status[key] for key in TOLD if key in status}
        times = [key for key in ("startTime", "endTime") if key in status]
        times += [f"rayJobInfo.{key}" for key in ("startTime", "endTime") if key in status.get("rayJobInfo", {})]
        final["times"] = times
    final["objects"] = world.live()
    if suspended := _suspended_groups(world):
        final["suspendedGroups"] = suspended
    if selectors := _selectors(world):
        final["selectors"] = selectors
    return final


def _suspended_groups(world: Any) -> dict[str, list[str]]:
    found = {
        name: [group["groupName"] for group in body["spec"].get("workerGroupSpecs", []) if group.get("suspend")]
        for (kind, name), body in world.objects.items()
        if kind == RAYCLUSTER
    }
    return {name: groups for name, groups in found.items() if groups}
