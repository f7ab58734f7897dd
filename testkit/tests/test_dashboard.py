"""The fake dashboard behaves like Ray's, and fails in the ways dashboards fail."""

import asyncio

import orjson
import pytest
from kuberay.api.kinds import JOB, POD, RAYJOB
from kuberay.ray.dashboard import (
    DashboardRefusedError,
    DashboardTarget,
    DashboardUnreachableError,
    SubmissionExistsError,
)
from kuberay.ray.serve import ServeDetails
from kuberay_testkit.builders import build_pod_template, build_rayjob
from kuberay_testkit.dashboard import FakeDashboard
from kuberay_testkit.serve import serve_metrics
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


def app(name: str = "a", **more: object) -> dict[str, object]:
    return {"name": name, "deployments": [{"name": "d"}], **more}


def put(dashboard: FakeDashboard, *applications: dict[str, object]):
    return dashboard.put_serve_config(HERE, orjson.dumps({"applications": applications}))


def statuses(details: ServeDetails) -> dict[str, str]:
    return {name: application.status for name, application in details.applications.items()}


def test_serve_deploys_what_it_is_given_and_removes_the_rest():
    async def main():
        dashboard = FakeDashboard()
        serve = dashboard.serve("head:8265")
        serve.seconds = 5.0
        assert statuses(await dashboard.serve_applications(HERE)) == {}
        await put(dashboard, app("a"), app("", route_prefix="/x"))
        assert statuses(await dashboard.serve_applications(HERE)) == {"a": "DEPLOYING", "default": "DEPLOYING"}
        await asyncio.sleep(6)
        told = await dashboard.serve_applications(HERE)
        assert statuses(told) == {"a": "RUNNING", "default": "RUNNING"}
        assert told.applications["a"].deployments["d"].status == "HEALTHY"
        serve.becomes = "DEPLOY_FAILED"
        await put(dashboard, app("a"), app("b"))
        assert statuses(await dashboard.serve_applications(HERE)) == {"a": "RUNNING", "b": "DEPLOYING"}
        await asyncio.sleep(6)
        assert statuses(await dashboard.serve_applications(HERE)) == {"a": "RUNNING", "b": "DEPLOY_FAILED"}
        serve.set("a", "UNHEALTHY", "out of memory")
        told = await dashboard.serve_applications(HERE)
        assert (told.applications["a"].status, told.applications["a"].message) == ("UNHEALTHY", "out of memory")
        serve.lose()
        assert statuses(await dashboard.serve_applications(HERE)) == {}
        await put(dashboard, app("a"))
        assert statuses(await dashboard.serve_applications(HERE)) == {"a": "DEPLOYING"}

    run_sim(main)


def test_a_lost_head_takes_its_applications_with_it():
    async def main():
        dashboard = FakeDashboard()
        await put(dashboard, app())
        dashboard.down("head:8265")
        with pytest.raises(DashboardUnreachableError):
            await put(dashboard, app())
        dashboard.fail("ok", address="head:8265")
        assert statuses(await dashboard.serve_applications(HERE)) == {}

    run_sim(main)


def test_a_configuration_can_be_refused():
    async def main():
        dashboard = FakeDashboard()
        dashboard.serve("head:8265").refusal = "no such module"
        with pytest.raises(DashboardRefusedError, match="UpdateDeployments fail: 400 Bad Request no such module"):
            await put(dashboard, app())
        assert dashboard.serve("head:8265").configs == []

    run_sim(main)


@pytest.mark.parametrize("strict", [False, True])
def test_proxies_are_healthy_until_told_otherwise_and_unknown_where_that_is_strict(strict):
    async def main():
        dashboard = FakeDashboard(strict=strict)
        if strict:
            with pytest.raises(DashboardUnreachableError):
                await dashboard.proxy_healthy("10.0.0.1:8000", "ns", "p")
        else:
            assert await dashboard.proxy_healthy("10.0.0.1:8000", "ns", "p") is True
        dashboard.proxies["10.0.0.1:8000"] = False
        assert await dashboard.proxy_healthy("10.0.0.1:8000", "ns", "p") is False
        dashboard.proxies["10.0.0.1:8000"] = None
        with pytest.raises(DashboardUnreachableError):
            await dashboard.proxy_healthy("10.0.0.1:8000", "ns", "p")
        assert dashboard.count("proxy_healthy") == 3

    run_sim(main)


@pytest.mark.parametrize("strict", [False, True])
def test_metrics_say_nothing_of_serve_until_told_otherwise_and_are_away_where_that_is_strict(strict):
    async def main():
        dashboard, node = FakeDashboard(strict=strict), "10.0.0.1:8080"
        if strict:
            with pytest.raises(DashboardUnreachableError):
                await dashboard.requests_in_flight(node, "ns", "p")
        else:
            assert await dashboard.requests_in_flight(node, "ns", "p") is None
        for proxy in (True, False):
            dashboard.metrics[node] = serve_metrics(in_flight=3, seen=8, proxy=proxy)
            found = await dashboard.requests_in_flight(node, "ns", "p")
            assert (found.in_flight, found.seen) == (3, 8)
        dashboard.metrics[node] = "ray_serve_replica_processing_queries many\n"
        with pytest.raises(DashboardRefusedError, match="the metrics of pod ns/p cannot be used"):
            await dashboard.requests_in_flight(node, "ns", "p")
        dashboard.metrics[node] = None
        with pytest.raises(DashboardUnreachableError):
            await dashboard.requests_in_flight(node, "ns", "p")
        assert dashboard.count("requests_in_flight") == 5

    run_sim(main)
