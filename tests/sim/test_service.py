"""RayServices over time: upgrades that are interrupted anywhere, second thoughts, heads that go, deletion delays, proxies.

`ServiceRules` checks after every commit that who is served goes on being served.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import yaml
from kuberay.api.kinds import HTTP_ROUTE, POD, RAYCLUSTER, RAYSERVICE, SERVICE
from kuberay.api.names import ANNOTATION_DELETE_DRAINED, HEAD, LABEL_NODE_TYPE, LABEL_SERVE, WORKER
from kuberay_testkit.builders import build_group, build_rayservice
from kuberay_testkit.sim import service_rest
from kuberay_testkit.sim.clock import run_sim
from kuberay_testkit.sim.faults import Faults
from kuberay_testkit.sim.invariants import watch_over
from kuberay_testkit.sim.operator import SimOperator, operator_rules
from kuberay_testkit.sim.play import AUTOSCALER, GATEWAY_UPGRADE, Plugins
from kuberay_testkit.sim.serve import SECONDS
from kuberay_testkit.sim.serve_world import ServeWorld
from kuberay_testkit.sim.service_facts import INCREMENTAL, backends, cluster_of, route_weights, served, side
from kuberay_testkit.sim.service_rules import ServiceRules
from kuberay_testkit.sim.store import Key, Stored
from kuberay_testkit.sim.users import NAMESPACE

FT = {"gcsFaultToleranceOptions": {"redisAddress": "redis:6379"}}
STEPS = {"stepSizePercent": 50, "maxSurgePercent": 100, "intervalSeconds": 1, "gatewayClassName": "sim"}


def config(version: str, *, seconds: float = 2.0, replicas: int = 2) -> str:
    application = {
        "name": "app",
        "import_path": f"app:{version}",
        "args": {SECONDS: seconds},
        "deployments": [{"name": "Model", "num_replicas": replicas}],
    }
    return yaml.safe_dump({"applications": [application]}, sort_keys=False)


class Lab:
    """One RayService ``sv`` and one operator; the rules are those of `operator_rules`."""

    def __init__(self, world: ServeWorld, *, kills: bool, plugins: Plugins) -> None:
        self.world = world
        self.server = world.server
        self.kills = 0
        watch_over(world, memory=60.0)
        patience = 60.0 if kills else 5.0
        self.rules = ServiceRules(world, patience=patience, extra_puts=lambda: self.kills)
        self.operator = SimOperator(world=world, hooks=plugins.hooks)
        self.server.restrict(self.operator.name, operator_rules(plugins.rules))
        self.manifest: dict[str, Any] = {}

    def create(self, *, groups: Any = 2, cluster: dict[str, Any] | None = None, **spec: Any) -> None:
        spec = {"serveConfigV2": config("v1"), "rayClusterDeletionDelaySeconds": 10, **spec}
        self.manifest = build_rayservice("sv", namespace=NAMESPACE, groups=groups, cluster=cluster, **spec)
        self.server.create(self.manifest)

    def edit(self, **spec: Any) -> None:
        self.server.patch(RAYSERVICE, NAMESPACE, "sv", {"spec": spec})

    def edit_image(self, tag: str, **spec: Any) -> None:
        cluster = copy.deepcopy(self.manifest["spec"]["rayClusterConfig"])
        for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
            group["template"]["spec"]["containers"][0]["image"] += tag
        self.edit(rayClusterConfig=cluster, **spec)

    @property
    def service(self) -> Stored:
        found = self.server.store.get(Key(RAYSERVICE, NAMESPACE, "sv"))
        assert found is not None
        return found

    @property
    def active(self) -> str:
        return cluster_of(self.service, "active")

    @property
    def pending(self) -> str:
        return cluster_of(self.service, "pending")

    def clusters(self) -> set[str]:
        return {each["metadata"]["name"] for each in self.server.objects(RAYCLUSTER, NAMESPACE)}

    def pods(self, node_type: str, cluster: str = "") -> list[Stored]:
        name = cluster or self.active or self.pending
        found = self.server.store.all_of(POD, NAMESPACE)
        return [p for p in found if p.labels.get("ray.io/cluster") == name and p.labels[LABEL_NODE_TYPE] == node_type]

    async def serving(self) -> None:
        await self.world.until(lambda: bool(self.active) and served(self.world, self.service), within=120)
        await self.world.pass_time(20)

    async def rest(self, quiet: float = 90.0) -> None:
        await self.world.rest(quiet=quiet)
        service_rest.expect_rest(self.world)

    async def kill(self) -> None:
        await self.operator.kill()
        self.kills += 1
        self.operator.start()


def play(
    story: Callable[[Lab], Awaitable[Any]],
    *,
    seed: int = 1,
    kills: bool = False,
    faults: Faults | None = None,
    plugins: Plugins | None = None,
) -> Any:
    async def run() -> Any:
        async with ServeWorld(seed=seed, faults=faults) as world:
            return await story(Lab(world, kills=kills, plugins=plugins or Plugins()))

    return run_sim(run, seed=seed)


# Killed anywhere


def _interrupted(crash_at: int | None, incremental: bool) -> Any:
    """An upgrade to another image and configuration, in which the operator is killed at one request boundary. Returns which
    different configurations each RayCluster was given in which order, and the boundaries that were passed from the edit until
    the old RayCluster was gone."""
    spec: dict[str, Any] = {}
    if incremental:
        spec = {
            "groups": [build_group("g", 2)],
            "cluster": {"enableInTreeAutoscaling": True},
            "upgradeStrategy": {"type": INCREMENTAL, "clusterUpgradeOptions": STEPS},
        }

    async def story(lab: Lab) -> Any:
        lab.operator.start()
        lab.create(**spec)
        await lab.serving()
        first = lab.active
        await lab.operator.kill()
        process = lab.operator.start(crash_at=crash_at)
        await lab.world.pass_time(3)
        begun = process.transport.boundaries
        lab.edit_image("-2", serveConfigV2=config("v2"))
        await lab.world.until(lambda: process.transport.crashed.is_set() or first not in lab.clusters(), within=200)
        boundaries = range(begun, process.transport.boundaries + 1)
        if process.transport.crashed.is_set():
            await lab.kill()
        await lab.rest(quiet=30)
        assert lab.active != first
        given: dict[str, list[Any]] = {}
        for put in lab.world.heads.puts:
            told = given.setdefault(put.cluster, [])
            if not told or told[-1] != put.config:
                told.append(put.config)
        return list(given.values()), boundaries

    return play(story, kills=crash_at is not None, plugins=_plugins(incremental))


@functools.cache
def _undisturbed(incremental: bool) -> Any:
    return _interrupted(None, incremental)


def _plugins(incremental: bool) -> Plugins | None:
    return Plugins.load([AUTOSCALER, GATEWAY_UPGRADE]) if incremental else None


@pytest.mark.parametrize("incremental", [False, True], ids=["NewCluster", "incremental"])
def test_killed_at_any_boundary_an_upgrade_ends_the_same(
    incremental: bool, seed: int, request: pytest.FixtureRequest
) -> None:
    """RS-09. The boundaries are shared out among the seeds, so that each is tried whatever their number."""
    expected, boundaries = _undisturbed(incremental)
    seeds = request.config.getoption("--sim-seeds") if request.config.getoption("--sim-seed") is None else 1
    for boundary in boundaries[seed % seeds :: seeds]:
        assert _interrupted(boundary, incremental)[0] == expected, f"killed at boundary {boundary}"


def test_a_restart_in_a_rollback_sends_the_active_cluster_nothing_new() -> None:
    """RS-09: a third configuration is applied while an upgrade is undone, and the operator restarts."""

    async def story(lab: Lab) -> None:
        lab.operator.start()
        steps = {**STEPS, "stepSizePercent": 10, "maxSurgePercent": 20, "intervalSeconds": 5}
        lab.create(
            groups=[build_group("g", 2)],
            cluster={"enableInTreeAutoscaling": True},
            upgradeStrategy={"type": INCREMENTAL, "clusterUpgradeOptions": steps},
        )
        await lab.serving()
        first = lab.active
        lab.edit_image("-2", serveConfigV2=config("v2"))
        await lab.world.until(lambda: (side(lab.service, "pending").get("trafficRoutedPercent") or 0) >= 30, within=300)
        lab.edit_image("-3", serveConfigV2=config("v3"))
        await lab.world.until(lambda: "RollbackInProgress" in str(lab.service.body["status"]), within=30)
        await lab.kill()
        await lab.world.until(lambda: (side(lab.service, "active").get("trafficRoutedPercent") or 0) == 100, within=300)
        sent = {put.config["applications"][0]["import_path"] for put in lab.world.heads.puts if put.cluster == first}
        assert sent == {"app:v1"}
        await lab.rest()
        assert lab.active != first

    play(story, kills=True, plugins=_plugins(True))


# Second thoughts


@pytest.mark.parametrize("back", [False, True])
def test_an_edit_while_an_upgrade_is_under_way(back: bool) -> None:
    """RS-10: the pending RayCluster makes way for the newest spec, or for none, and is not forgotten."""

    async def story(lab: Lab) -> None:
        lab.operator.start()
        lab.create()
        await lab.serving()
        first = lab.active
        lab.edit_image("-2")
        await lab.world.until(lambda: bool(lab.pending), within=10)
        second = lab.pending
        lab.edit(rayClusterConfig=lab.manifest["spec"]["rayClusterConfig"]) if back else lab.edit_image("-3")
        await lab.world.pass_time(1)
        assert lab.active == first
        assert lab.pending != second
        await lab.rest()
        assert (lab.active == first) == back
        assert lab.clusters() == {lab.active}
        assert lab.rules.checks > 0
        images = {pod.body["spec"]["containers"][0]["image"][-2:] for pod in lab.pods(WORKER)}
        assert images == ({".0"} if back else {"-3"})

    play(story)


def test_an_edit_in_the_very_moment_of_the_first_switch() -> None:
    """Requests reach the pending RayCluster, but a write failed before the status said so: it is not thrown away for an edit."""

    async def story(lab: Lab) -> None:
        lab.operator.start()
        lab.create()
        there = Key(SERVICE, NAMESPACE, "sv-serve-svc")
        await lab.world.until(lambda: lab.server.store.get(there) is not None, within=60, every=0.01)
        await lab.world.pass_time(16)
        assert not lab.active
        assert served(lab.world, lab.service)
        lab.edit_image("-2")
        await lab.world.pass_time(5)
        lab.server.faults.stop()
        await lab.rest()
        assert lab.rules.checks > 0

    play(story, faults=Faults(1).add("refuse", resource="services", name="sv-head-svc"))


def test_paused_it_stands_still_and_goes_on() -> None:
    async def story(lab: Lab) -> None:
        lab.operator.start()
        lab.create()
        await lab.serving()
        first = lab.active
        lab.server.patch(RAYSERVICE, NAMESPACE, "sv", {"metadata": {"annotations": {"ray.io/upgrade-paused": "true"}}})
        lab.edit_image("-2")
        await lab.world.pass_time(120)
        assert lab.active == first
        lab.server.patch(RAYSERVICE, NAMESPACE, "sv", {"metadata": {"annotations": {"ray.io/upgrade-paused": None}}})
        await lab.rest()
        assert lab.active != first

    play(story)


def images(lab: Lab) -> set[str]:
    """The last letters of the images of all pods there are of the active RayCluster."""
    pods = [*lab.pods(HEAD), *lab.pods(WORKER)]
    return {pod.body["spec"]["containers"][0]["image"][-2:] for pod in pods}


async def _break_off(lab: Lab, type_: str | None) -> str:
    """Choose *type_* while a rolling upgrade is half done; the name of its RayCluster."""
    lab.operator.start()
    lab.create(
        groups=[build_group("g", 3)],
        cluster={"enableInTreeAutoscaling": True} if type_ == INCREMENTAL else None,
        upgradeStrategy={"type": "Rolling", "allowHeadRestart": True},
    )
    await lab.serving()
    first = lab.active
    lab.edit_image("-2")
    await lab.world.until(lambda: len(images(lab)) == 2, within=120, every=0.1)
    options = {"clusterUpgradeOptions": STEPS} if type_ == INCREMENTAL else {}
    lab.edit(upgradeStrategy={"type": type_, "maxUnavailable": None, "allowHeadRestart": None, **options})
    return first


@pytest.mark.parametrize("type_", ["Recreate", "NewCluster", None, INCREMENTAL])
@pytest.mark.parametrize("kills", [False, True])
def test_another_type_takes_a_half_done_rolling_upgrade_over(type_: str | None, kills: bool) -> None:
    """No pod of the former spec is left: Recreate has all of them made anew, the others prepare another RayCluster."""

    async def story(lab: Lab) -> None:
        first = await _break_off(lab, type_)
        if kills:
            await lab.kill()
        await lab.rest()
        assert images(lab) == {"-2"}
        assert (lab.active == first) == (type_ == "Recreate")
        assert lab.clusters() == {lab.active}

    play(story, plugins=_plugins(type_ == INCREMENTAL), kills=kills)


@pytest.mark.parametrize("after", ["Rolling", "NewCluster", None])
def test_none_stops_a_half_done_rolling_upgrade_and_says_so(after: str | None) -> None:
    async def story(lab: Lab) -> None:
        first = await _break_off(lab, "None")
        await lab.rest()
        assert (lab.active, lab.clusters()) == (first, {first})
        assert images(lab) == {".0", "-2"}
        told = next(
            each for each in lab.service.body["status"]["conditions"] if each["type"] == "RayClusterConfigEditIgnored"
        )
        assert told["message"].startswith(f"rayClusterConfig: RayCluster {NAMESPACE}/{first} has pods of a former one")
        lab.edit(upgradeStrategy={"type": after, "allowHeadRestart": True})
        await lab.rest()
        assert images(lab) == {"-2"}
        assert (lab.active == first) == (after == "Rolling")
        conditions = {each["type"] for each in lab.service.body["status"]["conditions"]}
        assert "RayClusterConfigEditIgnored" not in conditions

    play(story)


@pytest.mark.parametrize("type_", ["NewCluster", "None", "Rolling"])
@pytest.mark.parametrize("share", [0, 50, 100])
def test_who_comes_through_the_gateway_is_served_after_the_type_was_changed(type_: str, share: int) -> None:
    """The weights of an upgrade that is in the middle are nobody's any more: the route follows the serve service, now and in the
    next upgrade."""

    async def story(lab: Lab) -> None:
        lab.operator.start()
        steps = {**STEPS, "intervalSeconds": 20}
        lab.create(
            groups=[build_group("g", 2)],
            cluster={"enableInTreeAutoscaling": True},
            upgradeStrategy={"type": INCREMENTAL, "clusterUpgradeOptions": steps},
        )
        await lab.serving()

        def routed() -> dict[str, int]:
            return lab.world.gateways.weights(NAMESPACE, "sv-httproute")

        async def always_answered(seconds: int) -> None:
            for _ in range(2 * seconds):
                await lab.world.pass_time(0.5)
                for front, weight in routed().items():
                    assert not weight or backends(lab.world, NAMESPACE, front), front

        if share:
            lab.edit_image("-2")
            wanted = lambda: (side(lab.service, "pending").get("trafficRoutedPercent") or 0) >= share  # noqa: E731
            await lab.world.until(wanted, within=300, every=0.1)
        lab.edit(upgradeStrategy={"type": type_, "clusterUpgradeOptions": None})
        await always_answered(120)
        assert routed() == {"sv-serve-svc": 100}
        first = lab.active
        lab.edit_image("-3")
        await always_answered(120)
        await lab.rest()
        assert routed() == {"sv-serve-svc": 100}
        assert (lab.active != first) == (type_ == "NewCluster")

    play(story, plugins=_plugins(True))


# Heads


def test_a_head_serves_when_its_proxy_does() -> None:
    """RS-11: not from birth, and not while its proxy does not answer."""

    async def story(lab: Lab) -> None:
        labels: list[tuple[str, bool]] = []

        def observe(server: Any, change: Any) -> None:
            pod = change.stored
            if pod.key.kind == POD and pod.labels.get(LABEL_NODE_TYPE) == HEAD and server.acting == lab.operator.name:
                label = pod.labels[LABEL_SERVE]
                if not labels or labels[-1][0] != label:
                    labels.append((label, lab.world.heads.proxy_answers(pod)))

        lab.world.always(observe)
        lab.operator.start()
        lab.create()
        await lab.serving()
        assert labels == [("false", False), ("true", True)]
        lab.world.heads.break_proxy(lab.pods(HEAD)[0], 30)
        await lab.world.pass_time(10)
        assert [label for label, _ in labels] == ["false", "true", "false"]
        assert len(backends(lab.world, NAMESPACE, "sv-serve-svc")) == 2
        await lab.world.pass_time(40)
        assert [label for label, _ in labels] == ["false", "true", "false", "true"]

    play(story)


def test_a_head_that_goes_is_replaced_where_it_was() -> None:
    """RS-12: with GCS fault tolerance workers serve on, the state stays, and no other RayCluster is made."""

    async def story(lab: Lab) -> None:
        lab.operator.start()
        lab.create(cluster=FT)
        await lab.serving()
        first, sent = lab.active, len(lab.world.heads.puts)
        lab.server.delete(POD, NAMESPACE, lab.pods(HEAD)[0].key.name)
        for _ in range(120):
            await lab.world.pass_time(0.5)
            assert len(backends(lab.world, NAMESPACE, "sv-serve-svc")) >= 2
            assert not lab.pending
        assert (lab.active, lab.clusters()) == (first, {first})
        assert len(lab.world.heads.puts) == sent
        await lab.rest()

    play(story)


def test_a_head_that_lost_its_state_is_told_once() -> None:
    async def story(lab: Lab) -> None:
        lab.operator.start()
        lab.create()
        await lab.serving()
        first = lab.active
        lab.server.delete(POD, NAMESPACE, lab.pods(HEAD)[0].key.name)
        await lab.rest()
        assert lab.active == first
        assert [put.config for put in lab.world.heads.puts] == [yaml.safe_load(config("v1"))] * 2

    play(story)


# What was used before


@pytest.mark.parametrize(("delay", "expected"), [(600, 600), (0, 0), (None, 60)])
@pytest.mark.parametrize("restarted", [False, True])
def test_the_old_cluster_stays_for_the_delay(delay: int | None, expected: int, restarted: bool) -> None:
    """RS-15: from the switch on, not from an operator's start."""

    async def story(lab: Lab) -> None:
        lab.operator.start()
        lab.create(rayClusterDeletionDelaySeconds=delay)
        await lab.serving()
        first = lab.active
        lab.edit_image("-2")
        await lab.world.until(lambda: lab.active not in ("", first), within=120, every=0.1)
        switched = lab.server.clock.elapsed()
        if expected:
            await lab.world.pass_time(expected / 2)
            assert first in lab.clusters()
            if restarted:
                await lab.kill()
        await lab.world.until(lambda: first not in lab.clusters(), within=700, every=0.1)
        took = lab.server.clock.elapsed() - switched
        assert expected - 0.5 <= took <= expected + 8, took
        await lab.rest()

    play(story, kills=restarted)


@pytest.mark.parametrize("seconds", [0, 90, 1000], ids=["idle", "busy for a while", "busy for ever"])
@pytest.mark.parametrize("restarted", [False, True])
def test_a_drained_cluster_goes_before_its_time_where_that_is_asked_for(seconds: int, restarted: bool) -> None:
    """At the latest after the delay of 300 s."""

    async def story(lab: Lab) -> None:
        lab.operator.start()
        lab.create(rayClusterDeletionDelaySeconds=300)
        note = {"metadata": {"annotations": {ANNOTATION_DELETE_DRAINED: "true"}}}
        lab.server.patch(RAYSERVICE, NAMESPACE, "sv", note)
        await lab.serving()
        first = lab.active
        requests = lab.world.heads.in_flight
        requests[f"{NAMESPACE}/{first}"] = 2
        lab.edit_image("-2")
        await lab.world.until(lambda: lab.active not in ("", first), within=120, every=0.1)
        switched = lab.server.clock.elapsed()
        if seconds:
            await lab.world.pass_time(min(seconds, 200))
            assert first in lab.clusters(), "requests are under way"
        if restarted:
            await lab.kill()
        if seconds <= 200:
            requests.clear()
        drained = lab.server.clock.elapsed()
        await lab.world.until(lambda: first not in lab.clusters(), within=700, every=0.1)
        now = lab.server.clock.elapsed()
        if seconds > 200:
            assert 299 <= now - switched <= 308
        else:
            assert 25 <= now - drained <= 50
        await lab.rest()

    play(story, kills=restarted)


# Without a second RayCluster


@pytest.mark.parametrize("head", [False, True])
@pytest.mark.parametrize("surge", [0, 1])
@pytest.mark.parametrize("workers", [2, 3])
def test_workers_that_serve_has_no_use_for_yet_hold_nothing_up(workers: int, surge: int, head: bool) -> None:
    """A new worker has no replica and so no proxy, and is not ready; Serve uses it only once an older one goes. The head, which
    comes last, must not wait for it either."""

    async def story(lab: Lab) -> None:
        lab.operator.start()
        strategy = {"type": "Rolling", "maxSurge": surge, "maxUnavailable": 1 - surge, "allowHeadRestart": head}
        lab.create(groups=workers, upgradeStrategy=strategy)
        await lab.serving()
        first = lab.active
        if head:
            lab.edit_image("-2", serveConfigV2=config("v2"))
        else:
            cluster = copy.deepcopy(lab.manifest["spec"]["rayClusterConfig"])
            cluster["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]["image"] += "-2"
            lab.edit(rayClusterConfig=cluster)
        await lab.rest()
        assert (lab.active, lab.clusters()) == (first, {first})

    play(story)


# What stands between


def test_without_a_gateway_nothing_moves() -> None:
    async def story(lab: Lab) -> None:
        lab.operator.start()
        lab.create(
            groups=[build_group("g", 2)],
            cluster={"enableInTreeAutoscaling": True},
            upgradeStrategy={"type": INCREMENTAL, "clusterUpgradeOptions": STEPS},
        )
        await lab.serving()
        first = lab.active
        lab.world.gateways.refuse()
        lab.edit_image("-2")
        await lab.world.pass_time(120)
        assert (side(lab.service, "pending")["targetCapacity"], lab.active) == (0, first)
        lab.world.gateways.serve()
        await lab.rest()
        assert lab.active != first
        route = lab.server.store.get(Key(HTTP_ROUTE, NAMESPACE, "sv-httproute"))
        assert route is not None
        assert route_weights(route) == {f"{lab.active}-serve-svc": 100}

    play(story, plugins=_plugins(True))


@pytest.mark.parametrize("how", ["hang", "fall_behind", "restart_dashboard"])
def test_a_dashboard_that_is_unwell_takes_nobody_out_of_service(how: str) -> None:
    async def story(lab: Lab) -> None:
        lab.operator.start()
        lab.create()
        await lab.serving()
        await lab.world.pass_time(60)
        first, sent = lab.active, len(lab.world.heads.puts)
        getattr(lab.world.heads, how)(NAMESPACE, first, 60.0)
        for _ in range(60):
            await lab.world.pass_time(1)
            assert len(backends(lab.world, NAMESPACE, "sv-serve-svc")) == 3
        lab.world.calm()
        await lab.rest()
        assert (lab.active, len(lab.world.heads.puts)) == (first, sent)

    play(story)
