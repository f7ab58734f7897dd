"""RayJobs in all modes, and RayCronJobs, while heads, nodes, submitters, dashboards, requests and operators fail: one run per attempt, and an
end that tells what the job really did (`kuberay_testkit.sim.job_rules`). `make sim` plays many more seeds.
"""

from __future__ import annotations

import pytest
from examples import LONG
from kuberay.api.kinds import POD, RAYJOB
from kuberay_testkit.builders import build_rayjob
from kuberay_testkit.sim.clock import run_sim
from kuberay_testkit.sim.heads_world import OUTCOMES, SECONDS, HeadsWorld
from kuberay_testkit.sim.job_rules import JobRules
from kuberay_testkit.sim.operator import SimOperator
from kuberay_testkit.sim.play import CALM, TROUBLES, play
from kuberay_testkit.sim.users import NAMESPACE

STORIES = range(1000, 1004 if LONG else 1002)
"""Seeds whose RayJobs are of all modes."""


@pytest.mark.parametrize("trouble", ["", "dashboards", "dashboards-and-kills", "dashboards-and-faults"])
@pytest.mark.parametrize("story", STORIES)
def test_rayjobs_end_as_their_jobs_did(story: int, trouble: str) -> None:
    """`play` checks the rules after every commit, every job that starts, and at rest."""
    play(story, TROUBLES.get(trouble, CALM), clusters=0, jobs=4, crons=1)


# The simulated Ray itself


def _play_one(mode: str, outcome: str, *, follower_fails: bool = False) -> tuple[dict[str, object], HeadsWorld]:
    """One RayJob in a calm cluster: its status in the end."""

    async def run() -> tuple[dict[str, object], HeadsWorld]:
        async with HeadsWorld(seed=1, follower_fails=follower_fails) as world:
            JobRules(world, patience=50.0, leaving=60.0)
            SimOperator(world=world).start()
            notes = {OUTCOMES: outcome, SECONDS: "12"}
            world.server.create(build_rayjob("rj", namespace=NAMESPACE, annotations=notes, submissionMode=mode))
            await world.rest(quiet=60)
            return (world.server.peek(RAYJOB, NAMESPACE, "rj") or {})["status"], world

    return run_sim(run, seed=1)


@pytest.mark.parametrize("outcome", ["SUCCEEDED", "FAILED"])
@pytest.mark.parametrize("mode", ["K8sJobMode", "HTTPMode", "SidecarMode"])
def test_a_job_runs_once_and_its_end_is_told(mode: str, outcome: str) -> None:
    status, world = _play_one(mode, outcome)
    assert [run.status for run in world.heads.runs] == [outcome]
    assert status["jobStatus"] == outcome
    assert status["jobDeploymentStatus"] == ("Complete" if outcome == "SUCCEEDED" else "Failed")


@pytest.mark.parametrize("follower_fails", [False, True])
def test_submitter_exits_as_the_ray_version_has_it(follower_fails: bool) -> None:
    _, world = _play_one("K8sJobMode", "FAILED", follower_fails=follower_fails)
    phases = {pod["status"]["phase"] for pod in world.server.objects(POD, NAMESPACE, "batch.kubernetes.io/job-name=rj")}
    assert ("Failed" in phases) == follower_fails
