"""How a Ray node is asked again and again what Serve has under way, in virtual time."""

from __future__ import annotations

import asyncio

from kuberay.plan.model import InFlightProbe
from kuberay_testkit.serve import serve_metrics
from kuberay_testkit.sim.virtual import in_virtual_time

from core.tests.operator.test_serve_probes import World

NODE = "10.0.0.1:8080"
ASK = InFlightProbe(NODE, "ns", "old-head")


@in_virtual_time
async def test_numbers_are_followed_and_only_changes_wake() -> None:
    world = World()
    world.dashboard.metrics[NODE] = serve_metrics(in_flight=2)
    world.want(ASK)
    await asyncio.sleep(60)
    assert (world.result(ASK).outcome, world.result(ASK).value) == ("found", {"inFlight": 2, "seen": 1})
    assert len(world.woken) == 1
    assert 12 <= world.dashboard.count("requests_in_flight") <= 15, "every five seconds"
    world.dashboard.metrics[NODE] = serve_metrics(in_flight=0, seen=3)
    await asyncio.sleep(5.1)
    first = world.result(ASK)
    assert (first.value, len(world.woken)) == ({"inFlight": 0, "seen": 3}, 2)
    await asyncio.sleep(30)
    later = world.result(ASK)
    assert (later.since, len(world.woken)) == (first.since, 2)
    assert (later.at - first.at).total_seconds() > 20, "the answers go on, and say the same"
    world.prober.stop()


@in_virtual_time
async def test_an_answer_that_is_missing_in_between_begins_a_new_time() -> None:
    world = World()
    world.dashboard.metrics[NODE] = serve_metrics()
    world.want(ASK)
    await asyncio.sleep(20)
    known = world.result(ASK)
    world.dashboard.metrics[NODE] = None
    await asyncio.sleep(60)
    failing = world.result(ASK)
    assert (failing.outcome, len(world.woken)) == ("error", 2)
    assert "connection refused" in failing.error
    world.dashboard.metrics[NODE] = serve_metrics()
    await asyncio.sleep(10.1)
    again = world.result(ASK)
    assert (again.outcome, again.value) == ("found", known.value)
    assert again.since is not None
    assert again.since > failing.at
    world.prober.stop()


@in_virtual_time
async def test_metrics_that_say_nothing_of_serve_or_cannot_be_read() -> None:
    world = World()
    world.dashboard.metrics[NODE] = "ray_node_cpu_count 8.0\n"
    world.want(ASK)
    await asyncio.sleep(1)
    assert world.result(ASK).outcome == "absent"
    world.dashboard.metrics[NODE] = "ray_serve_replica_processing_queries many\n"
    await asyncio.sleep(5.1)
    assert world.result(ASK).outcome == "error"
    world.prober.stop()
