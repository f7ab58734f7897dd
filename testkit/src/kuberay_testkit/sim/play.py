"""One run of a random script with the real operator: what goes wrong in it, and what must be true in the end.

Used by `tests/sim` for a fixed slice of seeds and by `kuberay_testkit.sim.long` for many.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any

from kuberay.api.conditions import ClusterCondition
from kuberay.api.gates import CRON_JOB, DEFAULT_GATES
from kuberay.api.kinds import EVENT, POD, RAYCLUSTER, RAYCRONJOB, RAYJOB, RAYSERVICE
from kuberay.api.names import LABEL_CLUSTER, LABEL_GROUP, LABEL_NODE_TYPE, REDIS_CLEANUP
from kuberay.hooks.calls import Hooks, NoHooks
from kuberay.hooks.types import PolicyRule
from kuberay.plan.config import PlanConfig
from kuberay.plugins.loader import load
from kuberay.plugins.manager import PluginManager

from kuberay_testkit.drain import Mode
from kuberay_testkit.sim import service_rest
from kuberay_testkit.sim.calls import Steps, missing_permissions
from kuberay_testkit.sim.clock import run_sim
from kuberay_testkit.sim.cluster_story import ClusterStory
from kuberay_testkit.sim.cron_story import CronRules
from kuberay_testkit.sim.faults import Faults
from kuberay_testkit.sim.heads_world import HeadsWorld
from kuberay_testkit.sim.invariants import watch_over
from kuberay_testkit.sim.job_rules import JobRules
from kuberay_testkit.sim.operator import SimOperator, operator_rules
from kuberay_testkit.sim.podstatus import Wish
from kuberay_testkit.sim.serve_world import ServeWorld
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.service_rules import ServiceRules
from kuberay_testkit.sim.store import Change
from kuberay_testkit.sim.story import image_of
from kuberay_testkit.sim.users import NAMESPACE, Script, shape, write_script

TROUBLE = 150.0
"""Seconds in which things fail; then everything works again and the cluster must come to rest."""

AUTOSCALER = "autoscaler-v2"
GATEWAY_UPGRADE = "gateway-upgrade"

LATE = 3600.0
"""How old a spec may be that is acted on while watches fail."""

_IMPATIENT = PlanConfig(job_status_check_timeout=timedelta(seconds=100), job_transition_grace=timedelta(seconds=60))
"""So that all that anybody waits for comes to pass before the end."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """What goes wrong in a run besides what its script says."""

    faults: float = 0.0
    """How many requests and watch events meet one, about."""
    kills: bool = False
    """Whether operators are killed, at any request boundary."""
    replicas: int = 1
    """How many operators run; with two, they elect a leader."""
    clock_jumps: bool = False
    """Whether the wall clock is set forward now and then."""
    weather: float = 0.0
    """How many calls to Ray dashboards go wrong, about."""

    def __str__(self) -> str:
        words = [f"faults {self.faults:g}"] if self.faults else []
        words += ["kills"] if self.kills else []
        words += [f"{self.replicas} replicas"] if self.replicas > 1 else []
        words += ["clock jumps"] if self.clock_jumps else []
        words += [f"dashboards {self.weather:g}"] if self.weather else []
        return ", ".join(words) or "no faults"


CALM = Trouble()
TROUBLES: dict[str, Trouble] = {
    "faults": Trouble(faults=0.1),
    "many-faults": Trouble(faults=0.5),
    "kills": Trouble(kills=True),
    "faults-and-kills": Trouble(faults=0.2, kills=True),
    "replicas": Trouble(faults=0.1, kills=True, replicas=2),
    "clock-jumps": Trouble(faults=0.05, clock_jumps=True),
    "dashboards": Trouble(weather=0.3),
    "dashboards-and-kills": Trouble(weather=0.2, kills=True),
    "dashboards-and-faults": Trouble(faults=0.1, weather=0.2, kills=True),
}


_DRAIN_FAULTS: tuple[Mode, ...] = ("refuse", "unreachable", "hang")


def end_cleanups(pod: dict[str, Any]) -> Wish | None:
    """Clean-ups of Redis end well; other pods do what their annotations say."""
    cleans = (pod["metadata"].get("labels") or {}).get(LABEL_NODE_TYPE) == REDIS_CLEANUP
    return Wish("Succeeded", delay=4.0) if cleans else None


@dataclass(slots=True)
class Played:
    """What one run ended with."""

    shape: dict[str, Counter[str]]
    crashes: int
    steps: Steps


@dataclass(frozen=True, slots=True)
class Plugins:
    """What operators run with besides the core."""

    hooks: Hooks = field(default_factory=NoHooks)
    rules: Sequence[PolicyRule] = ()
    autoscaler: bool = False
    """Whether clusters with an autoscaler can be part of the script."""
    gateway: bool = False
    """Whether RayServices can be upgraded by a gateway."""

    @classmethod
    def load(cls, names: Sequence[str]) -> Plugins:
        """Installed plugins by name."""
        # Hooks take no time: how busy this machine is must not decide which plugins count as slow.
        manager = PluginManager(load(names), clock=lambda: 0.0)
        rules = [rule for rules in manager.rbac_rules().values() for rule in rules]
        return cls(manager, rules, AUTOSCALER in names, GATEWAY_UPGRADE in names)


def play(
    seed: int,
    trouble: Trouble = CALM,
    plugins: Plugins | None = None,
    *,
    clusters: int = 3,
    jobs: int = 2,
    crons: int = 0,
    services: int = 0,
) -> Played:
    """One run of the script of *seed*, with so many RayClusters, RayJobs, RayCronJobs and RayServices; every check that holds for
    all runs is made here."""
    return run_sim(lambda: _Run(seed, trouble, plugins or Plugins(), clusters, jobs, crons, services).run(), seed=seed)


class _Run:
    def __init__(
        self, seed: int, trouble: Trouble, plugins: Plugins, clusters: int, jobs: int, crons: int, services: int
    ) -> None:
        self.trouble = trouble
        self.plugins = plugins
        self.random = Random(f"trouble {seed}")
        self.script = write_script(
            seed,
            clusters=clusters,
            autoscaled=int(plugins.autoscaler and clusters > 0),
            jobs=jobs,
            crons=crons,
            services=services,
            incremental=plugins.autoscaler and plugins.gateway,
        )
        faults = Faults.mixture(seed, intensity=trouble.faults) if trouble.faults else None
        # A world without Serve is quicker.
        self.world = (ServeWorld if services else HeadsWorld)(
            seed=seed,
            faults=faults,
            weather=trouble.weather,
            follower_fails=Random(f"follower {seed}").random() < 0.5,
            pod_grace=2.0,
            behave=end_cleanups,
        )
        away = trouble.faults or trouble.kills
        self.jobs = JobRules(
            self.world,
            patience=100.0 if away else 50.0,
            leaving=None if away else 60.0,
            check_timeout=_IMPATIENT.job_status_check_timeout.total_seconds(),
        )
        self.services: ServiceRules | None = None
        if isinstance(self.world, ServeWorld):
            self.services = ServiceRules(self.world, patience=100.0 if away else 5.0, extra_puts=self._extra_puts)
        self.crashes = 0
        self.world.drain.busy_seconds = Random(f"drain {seed}").choice((0.0, 1.0, 20.0, 1000.0))
        if trouble.faults:
            self.world.drain.fail(self.random.choice(_DRAIN_FAULTS), times=self.random.randint(1, 5))
        names = ("operator",) if trouble.replicas == 1 else ("operator-a", "operator-b")
        self.operators = [
            SimOperator(
                world=self.world,
                name=name,
                hooks=plugins.hooks,
                gates={**DEFAULT_GATES, CRON_JOB: True},
                config=_IMPATIENT,
                elect=trouble.replicas > 1,
                may_lose_lease=True,
            )
            for name in names
        ]
        self.rules = operator_rules(plugins.rules)

    async def run(self) -> Played:
        trouble, world, script = self.trouble, self.world, self.script
        async with world:
            watch_over(world, memory=LATE if trouble.faults or trouble.kills else 5.0)
            world.always(self._one_leader)
            world.always(CronRules())
            for operator in self.operators:
                world.server.restrict(operator.name, self.rules)
            playing = world.start(lambda _: script.play(world), client="users").main
            crashes = await self._trouble(playing)
            await playing
            await world.pass_time(max(0.0, TROUBLE - world.server.clock.elapsed()))
            world.server.faults.stop()
            world.calm()
            for operator in self.operators:
                if not operator.running:
                    operator.start()
            await world.rest(quiet=150)
            expect_outcome(world, script)
            self.jobs.expect_rest()
            CronRules.expect_rest(world.server)
            if isinstance(world, ServeWorld) and self.services is not None:
                service_rest.expect_rest(world)
            outcome = shape(world.server, rayjobs=False)
            for operator in self.operators:
                missing = missing_permissions(operator.calls(), self.rules)
                assert not missing, f"permissions that were used and are not granted: {missing}"
                idle = [str(call) for call in await operator.idle_calls()]
                assert not idle, f"a settled cluster costs nothing, but there were {len(idle)} requests: {idle[:5]}"
            await self._delete_everything()
            return Played(outcome, crashes, world.server.steps)

    def _extra_puts(self) -> int:
        """How many configurations may have been sent again: an answer was lost, an operator died, a dashboard was behind."""
        unwell = sum(story.unwell for story in self.script.services)
        return self.world.heads.weather.went_wrong + self.crashes + 2 * unwell

    def _one_leader(self, _server: SimServer, _change: Change) -> None:
        if self.trouble.replicas > 1:
            leading = [operator.name for operator in self.operators if operator.leading]
            assert len(leading) <= 1, f"{' and '.join(leading)} lead at once"

    async def _trouble(self, playing: asyncio.Task[Any]) -> int:
        """Start the operators, and kill them until the script is over."""
        random, world = self.random, self.world
        if self.trouble.replicas == 1 and self.trouble.kills:
            operator = self.operators[0]
            while not playing.done() and self.crashes < 12:
                process = operator.start(crash_at=random.randint(1, 150))
                if await process.wait_crash():
                    self.crashes += 1
                await world.pass_time(random.uniform(0, 3))
        for operator in self.operators:
            if not operator.running:
                operator.start()
        while not playing.done() and (self.trouble.replicas > 1 or self.trouble.clock_jumps):
            await world.pass_time(random.uniform(1, 30))
            if self.trouble.clock_jumps:
                world.server.clock.advance(random.uniform(0, 60))
            if self.trouble.replicas > 1:
                await random.choice(self.operators).kill()
                self.crashes += 1
                await world.pass_time(random.uniform(0, 3))
            for operator in self.operators:
                if not operator.running:
                    operator.start()
        return self.crashes

    async def _delete_everything(self) -> None:
        """Deletion always ends, and takes everything with it but the bystanders."""
        server = self.world.server
        for kind in (RAYCRONJOB, RAYJOB, RAYSERVICE, RAYCLUSTER):
            for obj in server.objects(kind, NAMESPACE):
                server.delete(kind, NAMESPACE, obj["metadata"]["name"])
        await self.world.rest(quiet=150)
        left = [
            str(key)
            for key in (stored.key for stored in server.store)
            if key.namespace == NAMESPACE and key.kind != EVENT and not key.name.endswith("-bystander")
        ]
        assert not left, f"something was orphaned: {', '.join(left)}"


def expect_outcome(world: HeadsWorld, script: Script) -> None:
    """What is there is what the script leads to: pods, their images, states and counts of clusters, ends of jobs."""
    expected = script.pods
    for autoscaled in script.autoscaled:
        expected += autoscaled.pods(world)
    pods: Counter[tuple[str, str]] = Counter()
    images: dict[str, set[tuple[str, str]]] = {}
    bystanders = set()
    for pod in world.server.objects(POD, NAMESPACE):
        labels = pod["metadata"].get("labels") or {}
        cluster, group = labels.get(LABEL_CLUSTER, ""), labels.get(LABEL_GROUP, "")
        if pod["metadata"]["name"].endswith("-bystander"):
            bystanders.add(cluster)
        elif cluster.startswith(("rc", "as")):
            pods[cluster, group] += 1
            images.setdefault(cluster, set()).add((group, image_of(pod)))
    _expect("pods", dict(pods), dict(expected))
    _expect("pods that belong to nobody", bystanders, {story.name for story in script.clusters})
    for story in script.clusters:
        _expect_cluster(world, story, images.get(story.name, set()))
    for job in script.jobs:
        if job.end is not None:
            status = (world.server.peek(RAYJOB, NAMESPACE, job.name) or {}).get("status") or {}
            if status.get("reason") == "JobStatusCheckTimeoutExceeded" and world.heads.weather.went_wrong:
                continue  # So many calls may go wrong in a row that the operator gives up.
            found = (status.get("jobDeploymentStatus"), status.get("failed") or 0)
            _expect(f"end of {job.name}", found, job.end)


def _expect_cluster(world: HeadsWorld, story: ClusterStory, images: set[tuple[str, str]]) -> None:
    wanted, state, place = story.images(), story.state(), f"of {story.name}"
    if state == "ready":
        named = {(group, image) for group, image in images if group in wanted}
        there = {group for _, group in story.pods()}
        _expect(f"images {place}", named, {(group, image) for group, image in wanted.items() if group in there})
    found = world.server.peek(RAYCLUSTER, NAMESPACE, story.name)
    _expect(f"existence {place}", found is not None, bool(state))
    if found is None:
        return
    status, workers = found.get("status") or {}, story.pods().total() - 1
    _expect(f"state {place}", status.get("state"), state)
    if state == "ready":
        counts = [status.get(f"{what}WorkerReplicas") or 0 for what in ("desired", "ready", "available")]
        _expect(f"desired, ready and available workers {place}", counts, [workers] * 3)
    problems = [c["message"] for c in status.get("conditions") or () if c["type"] == ClusterCondition.SPEC_VALID]
    _expect(f"problems {place}", problems, [])


def _expect(what: str, found: object, wanted: object) -> None:
    assert found == wanted, f"{what}: {found}, where the script leads to {wanted}"
