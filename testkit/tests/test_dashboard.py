"""The fake dashboard behaves like Ray's, and fails in the ways dashboards fail."""

import asyncio

import pytest
from kuberay.api.kinds import JOB, POD, RAYJOB
from kuberay.ray.dashboard import (
    DashboardRefusedError,
    DashboardTarget,
    DashboardUnreachableError,
    SubmissionExistsError,
)
from kuberay_testkit.builders import build_pod_template, build_rayjob
from kuberay_testkit.dashboard import FakeDashboard
from kuberay_testkit.sim.clock import run_sim
from kuberay_testkit.sim.jobs import job_condition
from kuberay_testkit.sim.ray import SimRay
from kuberay_testkit.sim.world import SimWorld

HERE = DashboardTarget("head:8265")


def test_a_job_from_submission_to_its_end():
    async def main():
        dashboard = FakeDashboard()
        assert await dashboard.job_info(HERE, "j") is None
        assert await dashboard.submit_job(HERE, {"submission_id": "j", "entrypoint": "python x.py"}) == "j"
        with pytest.raises(SubmissionExistsError):
            await dashboard.submit_job(HERE, {"submission_id": "j"})
        info = await dashboard.job_info(HERE, "j")
        assert (info.status, info.entrypoint, info.start_time) == ("PENDING", "python x.py", 0)
        dashboard.set_job("head:8265", "j", "RUNNING")
        await asyncio.sleep(10)
        assert await dashboard.stop_job(HERE, "j") is True
        info = await dashboard.job_info(HERE, "j")
        assert info.status == "STOPPED"
        assert info.end_time - info.start_time == pytest.approx(10_000, abs=100)
        assert await dashboard.stop_job(HERE, "unknown") is False
        assert dashboard.count("job_info") == 3

    run_sim(main)


@pytest.mark.parametrize(
    ("mode", "error"),
    [
        ("refuse", DashboardUnreachableError),
        ("slow", DashboardUnreachableError),
        ("500", DashboardRefusedError),
        ("garbage", DashboardRefusedError),
    ],
)
def test_failures(mode, error):
    async def main():
        dashboard = FakeDashboard()
        dashboard.set_job("head:8265", "j", "RUNNING")
        dashboard.fail(mode, address="head:8265", times=2)
        for _ in range(2):
            with pytest.raises(error):
                await dashboard.job_info(HERE, "j")
        assert (await dashboard.job_info(HERE, "j")).status == "RUNNING"

    run_sim(main)


def test_a_lost_head_takes_its_jobs_with_it():
    async def main():
        dashboard = FakeDashboard()
        dashboard.set_job("head:8265", "j", "RUNNING")
        dashboard.down("head:8265")
        with pytest.raises(DashboardUnreachableError):
            await dashboard.job_info(HERE, "j")
        dashboard.fail("ok", address="head:8265")
        assert await dashboard.job_info(HERE, "j") is None

    run_sim(main)


def test_strangers_are_turned_away():
    async def main():
        dashboard = FakeDashboard(token="secret", strict=True)
        with pytest.raises(DashboardUnreachableError):
            await dashboard.job_info(HERE, "j")
        dashboard.up("head:8265")
        with pytest.raises(DashboardRefusedError, match="401"):
            await dashboard.job_info(HERE, "j")
        assert await dashboard.job_info(DashboardTarget("head:8265", token="secret"), "j") is None

    run_sim(main)


@pytest.mark.parametrize(("outcome", "condition"), [("SUCCEEDED", "Complete"), ("FAILED", "Failed")])
def test_a_submitter_runs_its_job(outcome, condition):
    async def main():
        async with SimWorld() as world:
            dashboard = FakeDashboard(clock=world.server.clock)
            ray = SimRay(world.server, world.kubelet, dashboard, runtime=(10, 10), outcome=lambda _: outcome)
            task = asyncio.create_task(ray.run())
            rayjob = world.server.create(build_rayjob("rj"))
            world.server.set_status(
                RAYJOB,
                "default",
                "rj",
                {"jobId": "rj-abc", "dashboardURL": "rj-head-svc.default.svc.cluster.local:8265"},
            )
            owner = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "rj", "uid": rayjob["metadata"]["uid"]}
            template = build_pod_template("ray-job-submitter", restartPolicy="Never")
            world.server.create(
                {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "metadata": {"name": "rj", "ownerReferences": [owner]},
                    "spec": {"template": template, "backoffLimit": 0},
                }
            )
            await world.pass_time(6)
            address = "rj-head-svc.default.svc.cluster.local:8265"
            assert dashboard.job(address, "rj-abc").status == "RUNNING"
            await world.pass_time(60)
            assert dashboard.job(address, "rj-abc").status == outcome
            assert job_condition(world.server.peek(JOB, "default", "rj"), condition)
            assert len(world.server.objects(POD)) == 1
            task.cancel()

    run_sim(main)
