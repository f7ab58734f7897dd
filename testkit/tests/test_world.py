"""Operators in a simulated cluster: killed at any request boundary, raced by another, watched by invariants."""

import asyncio
import contextlib

import orjson
import pytest
from kuberay.api.kinds import POD, RAYCLUSTER
from kuberay.kube.client import Client
from kuberay.kube.errors import AlreadyExistsError, ApiError
from kuberay.kube.lease import Lease
from kuberay.kube.transport import TransportError
from kuberay_testkit.builders import build_pod_template, build_raycluster
from kuberay_testkit.sim.clock import run_sim
from kuberay_testkit.sim.faults import Faults
from kuberay_testkit.sim.world import SimWorld


async def tiny_operator(transport):
    """One pod per RayCluster with a deterministic name, and a status once it is there."""
    client = Client(transport)
    while True:
        with contextlib.suppress(ApiError, TransportError):
            async for page in client.list_pages(RAYCLUSTER, None):
                for raw in page.items:
                    await reconcile(client, orjson.loads(bytes(raw)))
        await asyncio.sleep(1)


async def reconcile(client, cluster):
    metadata = cluster["metadata"]
    owner = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": metadata["name"], "uid": metadata["uid"]}
    name = f"{metadata['name']}-head"
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "ownerReferences": [owner]},
        **build_pod_template(),
    }
    with contextlib.suppress(AlreadyExistsError):
        await client.create(POD, metadata["namespace"], body)
    status = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": metadata["name"]}}
    await client.apply(
        RAYCLUSTER,
        metadata["namespace"],
        metadata["name"],
        {**status, "status": {"state": "ready"}},
        subresource="status",
    )


def at_most_one_pod(server, change):
    assert len(server.objects(POD)) <= 2, "more pods than clusters"


def converged(server):
    clusters = server.objects(RAYCLUSTER)
    return len(server.objects(POD)) == len(clusters) == 2 and all(
        (each.get("status") or {}).get("state") == "ready" for each in clusters
    )


@pytest.mark.parametrize("boundary", range(1, 14))
def test_killed_at_any_boundary_it_still_converges(boundary):
    async def main():
        async with SimWorld(seed=boundary) as world:
            world.always(at_most_one_pod)
            for name in "ab":
                world.server.create(build_raycluster(name))
            process = world.start(tiny_operator, crash_at=boundary)
            assert await process.wait_crash()
            calls = len(world.server.calls)
            await world.pass_time(5)
            assert len(world.server.calls) == calls, "a killed process still talks"
            world.start(tiny_operator)
            await world.until(lambda: converged(world.server), within=60)

    run_sim(main, seed=boundary)


@pytest.mark.parametrize("seed", range(5))
def test_two_operators_and_faults_still_converge(seed):
    async def main():
        faults = Faults.mixture(seed, intensity=0.4, until=60)
        async with SimWorld(seed=seed, faults=faults) as world:
            world.always(at_most_one_pod)
            for name in "ab":
                world.server.create(build_raycluster(name))
            world.start(tiny_operator, client="one")
            world.start(tiny_operator, client="two")
            await world.until(lambda: converged(world.server), within=300)
            for name in "ab":
                world.server.delete(RAYCLUSTER, "default", name)
            await world.until(lambda: world.server.objects(POD) == [], within=60)
            assert {call.client for call in world.server.calls} == {"one", "two"}

    run_sim(main, seed=seed)


def test_a_broken_invariant_fails_the_run():
    def never(server, change):
        assert change.stored.key.kind != POD, "a pod appeared"

    async def main():
        async with SimWorld() as world:
            world.always(never)
            world.server.create(build_raycluster("a"))
            world.start(tiny_operator)
            await world.pass_time(30)

    with pytest.raises(AssertionError, match="a pod appeared") as caught:
        run_sim(main)
    assert "ADDED" in caught.value.__notes__[0]


def test_an_operator_that_dies_by_itself_fails_the_run():
    async def main():
        async with SimWorld() as world:

            async def broken(transport):
                raise ZeroDivisionError

            world.start(broken)
            await world.pass_time(1)

    with pytest.raises(RuntimeError, match="operator ended with an error"):
        run_sim(main)


def test_every_task_of_a_killed_process_ends():
    async def main():
        async with SimWorld() as world:
            ticks = []

            async def child():
                while True:
                    ticks.append(1)
                    await asyncio.sleep(1)

            async def operator(transport):
                keep = asyncio.create_task(child())
                await asyncio.create_task(asyncio.sleep(1000))
                await keep

            process = world.start(operator)
            await world.pass_time(5)
            await process.kill()
            seen = len(ticks)
            await world.pass_time(5)
            assert seen == len(ticks) > 3
            with pytest.raises(TransportError):
                await process.transport.request("GET", "/api/v1/pods")

    run_sim(main)


def test_stopping_lets_an_operator_clean_up():
    async def main():
        async with SimWorld() as world:

            async def operator(transport):
                try:
                    await asyncio.sleep(1000)
                finally:
                    await transport.request("GET", "/api/v1/pods")

            process = world.start(operator)
            await world.pass_time(1)
            await process.stop()
            assert world.server.count(verb="list", resource="pods") == 1

    run_sim(main)


def test_waiting_tells_what_did_not_come_true():
    async def main():
        async with SimWorld() as world:
            await world.until(lambda: False, within=10, what="the impossible")

    with pytest.raises(AssertionError, match="the impossible did not come true within 10 virtual seconds"):
        run_sim(main)


def test_a_lease_has_one_holder_at_a_time():
    async def main():
        async with SimWorld(seed=3) as world:
            holders, log = set(), []

            def candidate(identity):
                async def operator(transport):
                    client = Client(transport)
                    lease = Lease(client, world.server.clock, namespace="default", identity=identity)
                    await lease.acquire()
                    holders.add(identity)
                    log.append(identity)
                    assert len(holders) == 1
                    await lease.hold()

                return operator

            first = world.start(candidate("one"), client="one")
            await world.pass_time(5)
            world.start(candidate("two"), client="two")
            await world.pass_time(60)
            assert log == ["one"]
            await first.kill()
            holders.clear()
            await world.pass_time(30)
            assert log == ["one", "two"]

    run_sim(main)
