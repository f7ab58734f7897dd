"""Recorded scenarios: what is read, how dashboards answer, what masks hide, and that no difference that counts is missed."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from kuberay.ray.dashboard import DashboardTarget, DashboardUnreachableError, SubmissionExistsError
from kuberay.ray.http import HttpDashboardClient
from kuberay_testkit.builders import build_rayjob
from kuberay_testkit.scenarios.compare import as_yaml, differences
from kuberay_testkit.scenarios.dashboards import Conduct, Dashboards, PlayedSession
from kuberay_testkit.scenarios.masks import Masks
from kuberay_testkit.scenarios.record import Played
from kuberay_testkit.scenarios.replay import request_matches
from kuberay_testkit.scenarios.script import Scenario, UnsupportedStepError, load_scenario
from kuberay_testkit.scenarios.sim import play_in_sim
from kuberay_testkit.sim.clock import VirtualClock, run_sim


def state(name: str, job: str = "", **members: Any) -> dict[str, Any]:
    base = {"jobDeploymentStatus": name, "jobStatus": job, "reason": "", "failed": 0, "succeeded": 0}
    return {**base, "cluster": "<cluster-1>", "jobId": "<job-id-1>", **members}


EXPECTED: dict[str, Any] = {
    "transitions": [
        state("Initializing"),
        state("Running", "RUNNING"),
        state("Retrying", "FAILED", failed=1),
        state("Complete", "SUCCEEDED"),
    ],
    "lifecycle": {"RayCluster": ["created <cluster-1>", "gone <cluster-1>"]},
    "requests": {
        "<cluster-1>": [
            {"call": "GET /api/jobs/<job-id-1>"},
            {"call": "POST /api/jobs/", "body": {"entrypoint": "python a.py"}},
        ]
    },
    "events": {"RayJob j": ["Normal Created", "Normal Updated", "Normal Deleted"]},
    "checkpoints": [{"at": "running", "objects": {"Service": ["a", "b"]}}],
    "final": {
        "exists": True,
        "status": {"message": "timeout of 300s"},
        "objects": {"Pod": {"<cluster-1> head": {"count": 1}}},
    },
}


def at(second: float, text: str) -> tuple[str, str]:
    return f"2026-01-01T00:00:{second:09.6f}Z", text


def as_played() -> Played:
    told = copy.deepcopy(EXPECTED)
    told["transitions"] = [{**each, "statusCheckFailing": False} for each in told["transitions"]]
    events = {"RayJob j": [at(1, "Normal Created"), at(20, "Normal Updated"), at(40, "Normal Deleted")]}
    return Played(**{**told, "events": events})


SCENARIO = Scenario(
    name="rayjob/made-up",
    about="",
    manifests=[{"kind": "RayJob", "metadata": {"name": "j"}, "spec": {}}],
    world={},
    steps=[],
    start=None,
    expected=EXPECTED,
)


def less(played: Played) -> None:
    played.requests["<cluster-1>"] = [played.requests["<cluster-1>"][1]]
    del played.events["RayJob j"][1]
    del played.transitions[2]
    played.checkpoints[0]["objects"]["Service"].reverse()


def in_another_order_within_a_pass(played: Played) -> None:
    played.events["RayJob j"] = [at(1.5, "Normal Updated"), at(2, "Normal Created"), at(2.5, "Normal Deleted")]


def told_more_often(played: Played) -> None:
    played.events["RayJob j"].insert(1, at(10, "Normal Created"))
    played.requests["<cluster-1>"].append({"call": "GET /api/jobs/<job-id-1>"})
    played.requests["<cluster-1>"].append(copy.deepcopy(EXPECTED["requests"]["<cluster-1>"][1]))


@pytest.mark.parametrize("change", [less, in_another_order_within_a_pass, told_more_often])
def test_what_may_differ_does_not_count(change: Callable[[Played], None]) -> None:
    played = as_played()
    change(played)
    assert differences(SCENARIO, played) == {}


def set_transition(played: Played) -> None:
    played.transitions[3]["reason"] = "AppFailed"


def drop_transition(played: Played) -> None:
    del played.transitions[1]


def add_transition(played: Played) -> None:
    played.transitions.append(state("Failed"))


def swap_transitions(played: Played) -> None:
    played.transitions[0], played.transitions[1] = played.transitions[1], played.transitions[0]


def drop_life(played: Played) -> None:
    played.lifecycle["RayCluster"].pop()


def add_life(played: Played) -> None:
    played.lifecycle["Job"] = ["created j"]


def drop_request(played: Played) -> None:
    played.requests["<cluster-1>"].pop()


def change_body(played: Played) -> None:
    played.requests["<cluster-1>"][1]["body"]["entrypoint"] = "python b.py"


def add_stop(played: Played) -> None:
    played.requests["<cluster-1>"].append({"call": "POST /api/jobs/<job-id-1>/stop"})


def other_event(played: Played) -> None:
    played.events["RayJob j"].append(at(50, "Warning Trouble"))


def event_of_another_object(played: Played) -> None:
    played.events["RayCluster <cluster-1>"] = [at(1, "Normal Created")]


def misplaced_event(played: Played) -> None:
    played.events["RayJob j"] = [at(1, "Normal Updated"), at(20, "Normal Created")]


def checkpoint(played: Played) -> None:
    played.checkpoints[0]["objects"]["Service"].append("c")


def pods_left(played: Played) -> None:
    played.final["objects"]["Pod"]["<cluster-1> head"]["count"] = 2


def message(played: Played) -> None:
    played.final["status"]["message"] = "timeout of 25s"


@pytest.mark.parametrize(
    ("change", "section"),
    [
        (set_transition, "transitions"),
        (drop_transition, "transitions"),
        (add_transition, "transitions"),
        (swap_transitions, "transitions"),
        (drop_life, "lifecycle"),
        (add_life, "lifecycle"),
        (drop_request, "requests"),
        (change_body, "requests"),
        (add_stop, "requests"),
        (other_event, "events"),
        (event_of_another_object, "events"),
        (misplaced_event, "events"),
        (checkpoint, "checkpoints"),
        (pods_left, "final"),
        (message, "final"),
    ],
)
def test_what_may_not_differ_is_told(change: Callable[[Played], None], section: str) -> None:
    played = as_played()
    change(played)
    assert list(differences(SCENARIO, played)) == [section]


def test_a_shorter_limit_is_another_text_in_messages_only() -> None:
    played = as_played()
    message(played)
    assert differences(SCENARIO, played, {"300s": "25s"}) == {}


def test_failing_checks_count_where_the_case_is_about_them() -> None:
    failing = {**state("Running", "RUNNING"), "statusCheckFailing": True}
    played = as_played()
    played.transitions.insert(2, failing)
    assert differences(SCENARIO, played) == {}
    expected = {**EXPECTED, "transitions": [*EXPECTED["transitions"][:2], failing, *EXPECTED["transitions"][2:]]}
    assert differences(replace(SCENARIO, expected=expected), played) == {}
    assert "transitions" in differences(replace(SCENARIO, expected=expected), as_played())


def test_a_run_written_down_is_what_is_expected_of_the_next() -> None:
    played = as_played()
    add_stop(played)
    other_event(played)
    written = yaml.safe_load(
        as_yaml(played, ("requests", "events", "transitions", "lifecycle", "checkpoints", "final"))
    )
    assert differences(replace(SCENARIO, expected=written), played) == {}


def test_masks_number_names_by_appearance() -> None:
    masks = Masks("ns-1", frozenset({"j", "shared"}))
    for name in ("j-abcde", "shared", "", "j-fghij"):
        masks.cluster(name)
    masks.job_id("j-xyzzy")
    masks.scheduled("c-29000000")
    masks.cluster("c-29000000-qwert")
    told = {"c-29000000-qwert": ["ns-1/j-fghij of shared", "c-29000000 at 10.16.0.3, 2026-01-01 00:00:02 +0000 UTC"]}
    assert masks.put_on(told) == {"<cluster-3>": ["<namespace>/<cluster-2> of shared", "c-<minutes-1> at <ip>, <time>"]}
    assert masks.text("j-xyzzy in j-abcde since 2026-01-01T00:00:02Z") == "<job-id-1> in <cluster-1> since <time>"


def scenario_in(folder: Path, **script: Any) -> Path:
    manifest = build_rayjob("j")
    (folder / "scenario.yaml").write_text(f"# What it shows.\n{yaml.safe_dump({'manifests': [manifest], **script})}")
    (folder / "expected.yaml").write_text(yaml.safe_dump({"transitions": [], "final": {"exists": True}}))
    return folder


def test_a_scenario_is_read_with_what_is_ours(tmp_path: Path) -> None:
    folder = scenario_in(tmp_path, steps=[{"sleep": 3}], start=[2, 30])
    ours = tmp_path / "ours.yaml"
    ours.write_text("final: {exists: false}")
    scenario = load_scenario(folder, ours=ours)
    assert (scenario.about, scenario.start, scenario.main_kind, scenario.main_name) == (
        "What it shows.",
        (2, 30),
        "RayJob",
        "j",
    )
    assert scenario.expected["final"] == {"exists": False}
    assert scenario.differing == {"final"}


def test_a_section_nobody_knows_is_an_error(tmp_path: Path) -> None:
    folder = scenario_in(tmp_path, steps=[])
    (tmp_path / "ours.yaml").write_text("finale: {}")
    with pytest.raises(ValueError, match="finale"):
        load_scenario(folder, ours=tmp_path / "ours.yaml")


@pytest.mark.parametrize(
    ("script", "what"),
    [
        ({"steps": [{"upgrade": "now"}]}, "upgrade"),
        ({"steps": [], "world": {"gateway": "away"}}, "gateway"),
        ({"steps": [], "world": {"weather": "fine"}}, "weather"),
        ({"steps": [{"wait": {"endpoints": 1}}]}, "endpoints"),
        ({"steps": [], "world": {"dashboard": {"colour": "red"}}}, "colour"),
        ({"steps": [{"delete": {"kind": "ConfigMap"}}]}, "ConfigMap"),
    ],
)
def test_what_cannot_be_played_yet_is_told(tmp_path: Path, script: dict[str, Any], what: str) -> None:
    folder = scenario_in(tmp_path, **script)
    with pytest.raises(UnsupportedStepError, match=what):
        play_in_sim(load_scenario(folder))


def test_a_wait_that_never_comes_true_names_its_step(tmp_path: Path) -> None:
    folder = scenario_in(tmp_path, steps=[{"wait": {"status": {"jobDeploymentStatus": "Nowhere"}, "timeout": 5}}])
    with pytest.raises(AssertionError, match=r"step 1 of .*Nowhere"):
        play_in_sim(load_scenario(folder))


def test_another_outcome_than_expected_is_seen_in_a_whole_run(tmp_path: Path) -> None:
    steps = [{"wait": {"status": {"jobStatus": "RUNNING"}}}, {"check": "running"}]
    played = play_in_sim(load_scenario(scenario_in(tmp_path, steps=steps, world={"job": "RUNNING"})))
    assert [each["jobStatus"] for each in played.transitions][-1] == "RUNNING"
    assert played.checkpoints[0]["objects"]["Pod"]["<cluster-1> head"] == {"count": 1}
    assert set(differences(load_scenario(tmp_path), played)) == {
        "transitions",
        "lifecycle",
        "events",
        "checkpoints",
        "final",
    }


def test_requests_are_matched_by_method_and_path() -> None:
    assert request_matches("POST /api/jobs/", "POST ^/api/jobs/?$")
    assert not request_matches("GET /api/jobs/", "POST ^/api/jobs/?$")
    assert not request_matches("POST /api/jobs/x/stop", "POST ^/api/jobs/?$")


TARGET = DashboardTarget("c-head-svc.ns.svc.cluster.local:8265")


def on_dashboards(check: Callable[[HttpDashboardClient, Dashboards], Any], *, alive: bool = True) -> Any:
    async def run() -> Any:
        boards = Dashboards(VirtualClock(), lambda _cluster: alive, lambda _cluster: alive)
        route = {"c-head-svc.ns.svc.cluster.local": (boards, "c")}.get
        return await check(HttpDashboardClient(PlayedSession(route)), boards)  # type: ignore[arg-type]

    return run_sim(run)


def test_a_dashboard_takes_a_job_once_and_stops_it() -> None:
    async def check(client: HttpDashboardClient, boards: Dashboards) -> None:
        assert await client.job_info(TARGET, "a") is None
        assert await client.submit_job(TARGET, {"entrypoint": "x", "submission_id": "a"}) == "a"
        with pytest.raises(SubmissionExistsError):
            await client.submit_job(TARGET, {"entrypoint": "x", "submission_id": "a"})
        info = await client.job_info(TARGET, "a")
        assert info is not None
        assert (info.status, info.entrypoint) == ("RUNNING", "x")
        assert await client.stop_job(TARGET, "a")
        info = await client.job_info(TARGET, "a")
        assert info is not None
        assert info.status == "STOPPED"
        assert not await client.stop_job(TARGET, "b")
        boards.forget()
        assert await client.job_info(TARGET, "a") is None
        assert boards.of("c").requests[1] == {
            "call": "POST /api/jobs/",
            "body": {"entrypoint": "x", "submission_id": "a"},
        }

    on_dashboards(check)


def test_a_job_nobody_told_of_stands_for_a_submission() -> None:
    async def check(client: HttpDashboardClient, boards: Dashboards) -> None:
        boards.status_of_unknown = "SUCCEEDED"
        info = await client.job_info(TARGET, "a")
        assert info is not None
        assert info.terminal
        assert info.end_time

    on_dashboards(check)


@pytest.mark.parametrize(("how", "seconds"), [("refuse", 0), ("slow", 2)])
def test_a_dashboard_that_does_not_answer(how: str, seconds: float) -> None:
    async def check(client: HttpDashboardClient, boards: Dashboards) -> None:
        boards.conduct = Conduct(refuse=how == "refuse", slow={"*": 5.0} if how == "slow" else {})
        begun = asyncio.get_running_loop().time()
        with pytest.raises(DashboardUnreachableError):
            await client.job_info(TARGET, "a")
        assert asyncio.get_running_loop().time() - begun == seconds

    on_dashboards(check)


def test_a_head_that_is_gone_and_a_name_nobody_has_refuse() -> None:
    async def check(client: HttpDashboardClient, boards: Dashboards) -> None:
        for target in (TARGET, DashboardTarget("other.ns.svc.cluster.local:8265")):
            with pytest.raises(DashboardUnreachableError):
                await client.job_info(target, "a")
        assert boards.by_cluster == {}

    on_dashboards(check, alive=False)
