"""A day of an operator, on the virtual clock: ``python -m kuberay_testkit.sim.day``. Objects come, are edited, fail and go all
day, more of them by day than by night; the operator must need no more memory in the evening than in the morning.

The last quarter of each hour is quiet: everything but the residents is gone, and has been for longer than the operator
remembers anything. Then it is measured. What happens is made of the stories that the random scripts tell (`users`).
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from kuberay.api.gates import CRON_JOB, DEFAULT_GATES
from kuberay.api.kinds import EVENT, POD, RAYCLUSTER, RAYCRONJOB, RAYJOB, RAYSERVICE
from kuberay.hooks.types import OwnerContext
from kuberay.kube.informer import InformerTimes
from kuberay.kube.store import REMEMBERED
from kuberay.plugins.loader import load
from kuberay.plugins.manager import PluginManager
from prometheus_client.parser import text_string_to_metric_families

from kuberay_testkit.plugins import plugin_from
from kuberay_testkit.sim.autoscaled_story import AutoscaledStory
from kuberay_testkit.sim.calls import Call
from kuberay_testkit.sim.clock import run_sim
from kuberay_testkit.sim.cluster_story import ClusterStory
from kuberay_testkit.sim.cron_story import CronStory
from kuberay_testkit.sim.day_world import DayWorld
from kuberay_testkit.sim.footprint import Footprint, caches, holders, measure, process_bytes
from kuberay_testkit.sim.job_story import JobStory
from kuberay_testkit.sim.operator import SimOperator, operator_rules
from kuberay_testkit.sim.play import AUTOSCALER, GATEWAY_UPGRADE
from kuberay_testkit.sim.residents import residents, settled, troubles
from kuberay_testkit.sim.service_story import ServiceStory
from kuberay_testkit.sim.story import NAMESPACE, Action
from kuberay_testkit.sim.users import Script

HOUR = 3600.0
STORIES_BEGIN = 0.45
"""Part of an hour in which stories begin."""
CLEARED = 300.0
"""Seconds that everything but the residents has to go."""
STILL = REMEMBERED + 240.0
"""Seconds before a measurement in which nothing happens and the operator writes nothing; then it has forgotten what has gone."""
QUIET = CLEARED + STILL
FLAT = 0.05
"""By which part the memory of two hours may differ."""
MOST_CACHED = 4_000_000
"""Bytes that caches may have together. Each has a bound of its own in entries; they fill up in the first hours."""
MOST_SERIES = 100
"""How many series that name no object may come up in a day: another answer of the API server, another reason of a condition."""
SWING = 0.6
"""By which part the load of the busiest hour is above the mean, and that of the quietest below."""

_BUSIEST = 14
_KINDS = (RAYCRONJOB, RAYJOB, RAYSERVICE, RAYCLUSTER)
_WRITES = ("create", "update", "patch", "apply", "delete", "deletecollection")


def prefix_of(number: int) -> str:
    """How the names of everything in the story of that number begin. No other name and no other text begins so."""
    return f"d{number:05d}"


@dataclass(slots=True)
class Sample:
    """The end of one hour."""

    hour: int
    objects: int
    """Ray objects that were made in it."""
    requests: int
    """Of the operator, lists and watches left out."""
    population: dict[str, int]
    """What there is in the cluster, by kind."""
    footprint: Footprint
    containers: dict[str, int]
    """Entries of what the operator keeps."""
    series: int
    object_series: int
    """Those of them that name an object."""
    rss: int
    """Bytes of the whole process, simulator included."""


@dataclass(slots=True)
class Day:
    """What came of it."""

    samples: list[Sample] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    checked: dict[str, int] = field(default_factory=dict)
    returns: int = 0

    def expect_flat(self, first: int = 2) -> None:
        """What the operator holds after every hour from *first* on is what it held after hour *first*, within `FLAT`. Populations
        and the series that name objects are equal; caches stay below `MOST_CACHED`, and other series are at most `MOST_SERIES`
        more. The process as a whole has the simulator in it and is only told."""
        base = next(sample for sample in self.samples if sample.hour == first)
        for sample in self.samples:
            if sample.hour < first:
                continue
            assert sample.footprint.caches < MOST_CACHED, (
                f"caches of {sample.footprint.caches:,} bytes: {sample.containers}"
            )
            assert sample.population == base.population, (
                f"hour {sample.hour} cannot be compared: {sample.population}, in hour {first} {base.population}"
            )
            assert sample.object_series == base.object_series, f"{sample.object_series} series after hour {sample.hour}"
            assert sample.series - base.series <= MOST_SERIES, f"{sample.series} series, then {base.series}"
            more = (sample.footprint.by_type - base.footprint.by_type).most_common(5)
            here, there = sample.footprint.state, base.footprint.state
            assert abs(here - there) <= FLAT * there, (
                f"{here:,} bytes after hour {sample.hour}, {there:,} after hour {first}; more of {more}; {sample.containers}"
            )


def run_day(
    *, hours: int = 24, per_hour: float = 20.0, seed: int = 0, plugins: Sequence[str] = (), told: bool = False
) -> Day:
    """Simulate *hours* hours with *per_hour* stories in each, on average. Raises `AssertionError` for what must never be."""
    return run_sim(lambda: _Day(hours, per_hour, seed, plugins, told).run(), seed=seed, limit=hours * HOUR + 10.0)


class _Day:
    def __init__(self, hours: int, per_hour: float, seed: int, plugins: Sequence[str], told: bool) -> None:
        self.hours, self.per_hour, self.told = hours, per_hour, told
        self.random = Random(f"day {seed}")
        self.autoscaler, self.gateway = AUTOSCALER in plugins, GATEWAY_UPGRADE in plugins
        manager = PluginManager([*load(plugins), plugin_from("grumbler", warn=_grumble)], observer=self, clock=_seconds)
        rules = [rule for rules in manager.rbac_rules().values() for rule in rules]
        self.world = DayWorld(seed, "operator")
        self.operator = SimOperator(
            world=self.world,
            hooks=manager,
            gates={**DEFAULT_GATES, CRON_JOB: True},
            times=InformerTimes(),
            workers=16,
            exports_objects=True,
        )
        self.world.server.restrict("operator", operator_rules(rules))
        self.day = Day()
        self.stories = 0
        self.requests = 0

    def hook_called(self, plugin: str, hook: str, seconds: float, failed: bool) -> None:
        """What the plugin manager tells its observer."""
        assert self.operator.metrics is not None
        self.operator.metrics.hook_called(plugin, hook, seconds, failed)

    async def run(self) -> Day:
        world = self.world
        async with world:
            for manifest in residents(autoscaler=self.autoscaler):
                world.server.create(manifest)
            self.operator.start()
            for hour in range(1, self.hours + 1):
                begun = time.monotonic()
                made = await self._live(hour)
                sample = self._measure(hour, made)
                self.day.samples.append(sample)
                if self.told:
                    sys.stdout.write(f"{line(sample)}  {time.monotonic() - begun:5.1f} s\n")
                    sys.stdout.flush()
        steadiness = world.steadiness
        self.day.checked, self.day.returns = dict(steadiness.checked), steadiness.returns
        return self.day

    async def _live(self, hour: int) -> int:
        """One hour. Returns how many stories it had."""
        world, clock = self.world, self.world.server.clock
        start = (hour - 1) * HOUR
        busy = HOUR - QUIET
        count = self._poisson(self.per_hour * (1 + SWING * math.cos(2 * math.pi * (hour - 1 - _BUSIEST) / 24)))
        tales = [asyncio.create_task(self._tell(self.random.uniform(0, STORIES_BEGIN * HOUR))) for _ in range(count)]
        tales.append(asyncio.create_task(self._trouble(count // 2, busy * 0.9)))
        await asyncio.sleep(max(0.0, start + busy - clock.elapsed()))
        late = [task for task in tales if not task.done()]
        assert not late, f"{len(late)} stories of hour {hour} were not over after {busy:g} s"
        for task in tales:
            task.result()
        try:
            await world.until(lambda: settled(world) and not self._left(), within=CLEARED)
        except AssertionError as error:
            world.verify()
            left = ", ".join(self._left()) or "nothing"
            raise AssertionError(f"after hour {hour} {left} is left; the residents rest: {settled(world)}") from error
        await asyncio.sleep(max(0.0, start + HOUR - STILL - clock.elapsed()))
        self._trim()
        await asyncio.sleep(STILL)
        self._expect_still(hour)
        world.verify()
        return count

    async def _trouble(self, events: int, span: float) -> None:
        await Script(actions=troubles(self.random, events=events, span=span)).play(self.world)

    async def _tell(self, delay: float) -> None:
        """The story of one object from its creation until nothing of it is left."""
        prefix, span = prefix_of(self.stories), self.random.uniform(60, 300)
        self.stories += 1
        actions = list(self._story(prefix, Random(f"{prefix} {self.random.random()}"), span))
        await asyncio.sleep(delay)
        await Script(actions=actions).play(self.world)
        await asyncio.sleep(self.random.uniform(1, 60))
        server = self.world.server
        for kind in (*_KINDS, POD):
            for obj in server.objects(kind, NAMESPACE):
                name, owned = obj["metadata"]["name"], obj["metadata"].get("ownerReferences")
                if name.startswith(prefix) and not owned:
                    server.delete(kind, NAMESPACE, name)

    def _story(self, prefix: str, random: Random, span: float) -> Iterator[Action]:
        kinds = {"cluster": 5, "job": 6, "service": 2, "cron": 1, "autoscaled": 2 if self.autoscaler else 0}
        match random.choices(list(kinds), list(kinds.values()))[0]:
            case "cluster":
                yield from ClusterStory(f"{prefix}-c", random, span).actions
            case "job":
                yield from JobStory(f"{prefix}-j", random, span).actions
            case "service":
                incremental = self.autoscaler and self.gateway
                yield from ServiceStory(f"{prefix}-s", random, span, incremental=incremental).actions
            case "cron":
                yield from CronStory(f"{prefix}-n", random, span).actions
            case "autoscaled":
                yield from AutoscaledStory(f"{prefix}-a", random, span).actions

    def _poisson(self, mean: float) -> int:
        """As a sum of waiting times, which `Random` has."""
        count, passed = 0, self.random.expovariate(mean)
        while passed < 1.0:
            count, passed = count + 1, passed + self.random.expovariate(mean)
        return count

    # -- the end of an hour

    def _left(self) -> list[str]:
        """What stories left behind."""
        found = (stored.key for stored in self.world.server.store if stored.key.kind != EVENT)
        return [f"{key.kind.kind} {key.name}" for key in found if key.name.startswith("d0")]

    def _trim(self) -> None:
        """The simulator forgets, too: API servers keep events for an hour, and nobody reads old requests again."""
        server = self.world.server
        for event in server.store.all_of(EVENT):
            server.store.remove(event)
        self.requests = len(self._own(("get", *_WRITES)))
        server.calls.clear()
        server.compact()
        self.world.watched.forget()
        if self.operator.process is not None:
            self.operator.process.transport.writes.clear()

    def _own(self, verbs: Sequence[str]) -> list[Call]:
        calls = self.world.server.calls
        return [
            call for call in calls if call.client == "operator" and call.verb in verbs and call.resource != "leases"
        ]

    def _expect_still(self, hour: int) -> None:
        idle = [str(call) for call in self._own(_WRITES)]
        assert not idle, f"the operator wrote in the last {STILL:g} s of hour {hour}, when nothing happened: {idle[:5]}"

    def _measure(self, hour: int, made: int) -> Sample:
        world, operator = self.world, self.operator
        assert operator.app is not None
        assert operator.metrics is not None
        assert operator.process is not None
        parts = [operator.app, operator.metrics, operator.hooks]
        tasks = list(operator.process.tasks)
        # Idle tasks have their last key or event in hand.
        held = holders(parts, world.gone)
        assert not held, f"what is gone is still remembered after hour {hour}: " + "; ".join(held)
        names, series, of_objects = _series(operator.metrics.exposition())
        named = [text for text in names if text in world.gone]
        assert not named, f"series of objects that are gone after hour {hour}: {named[:5]}"
        there: dict[str, int] = {}
        for stored in world.server.store:
            if stored.key.kind != EVENT:
                there[stored.key.kind.kind] = there.get(stored.key.kind.kind, 0) + 1
        weight = measure([*parts, *tasks])
        world.gone.clear()
        return Sample(
            hour,
            made,
            self.requests,
            dict(sorted(there.items())),
            weight,
            _containers(operator),
            series,
            of_objects,
            process_bytes(),
        )


def _seconds() -> float:
    return asyncio.get_running_loop().time()


def _grumble(ctx: OwnerContext) -> list[Any]:
    """A plugin that fails for some, each time in other words."""
    if ctx.name.endswith(("-c", "-j")) and int(ctx.name[1:6]) % 3 == 0:
        raise RuntimeError(f"no idea about {ctx.name}")
    return []


def _series(exposition: bytes) -> tuple[set[str], int, int]:
    """All values of labels, how many series there are, and how many of them name an object."""
    values: set[str] = set()
    count = objects = 0
    for family in text_string_to_metric_families(exposition.decode()):
        for sample in family.samples:
            count += 1
            objects += "name" in sample.labels and "namespace" in sample.labels
            values.update(sample.labels.values())
    return values, count, objects


def _containers(operator: SimOperator) -> dict[str, int]:
    """Entries of every dictionary, list, set and cache that the runtime's parts keep, the empty ones left out."""
    app, found = operator.app, {}
    assert app is not None
    assert operator.process is not None
    found["tasks"] = len(operator.process.tasks)
    parts = {"store": app.store, "events": app.recorder, "queue": app.controller.queue, "prober": app.controller.prober}
    parts |= {"executor": app.controller._executor, "references": app.controller._references, "hooks": operator.hooks}
    for name, part in parts.items():
        for key, value in vars(part).items():
            if hasattr(value, "__len__") and len(value):
                found[f"{name}.{key.strip('_')}"] = len(value)
    for name, cache in caches().items():
        info = getattr(cache, "cache_info", None)
        if info is not None and info().currsize:
            found[name.removeprefix("kuberay.")] = info().currsize
    return found


def line(sample: Sample) -> str:
    """One row of a report."""
    weight = sample.footprint
    return (
        f"hour {sample.hour:2}: {sample.objects:3} stories, {sample.requests:6,} requests, "
        f"{weight.state / 1e6:7.3f} MB state, {weight.caches / 1e6:6.3f} MB caches, {weight.objects:7,} objects, "
        f"{sample.series:4} series ({sample.object_series} of objects), {sample.rss / 1e6:4.0f} MB process"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m kuberay_testkit.sim.day", description=__doc__)
    parser.add_argument("--hours", type=int, default=24, help="default: %(default)s")
    parser.add_argument(
        "--per-hour", type=float, default=20.0, help="stories per hour on average (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    parser.add_argument("--containers", action="store_true", help="show what the operator keeps at the end")
    parser.add_argument("--plugin", action="append", default=[], dest="plugins", help="run with this installed plugin")
    args = parser.parse_args(arguments)
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of sets must not differ between a run and its replay.
        words = sys.argv[1:] if arguments is None else arguments
        command = [sys.executable, "-m", "kuberay_testkit.sim.day", *words]
        return subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": "0"}, check=False).returncode  # noqa: S603
    logging.disable(logging.CRITICAL)
    gc.set_threshold(50_000, 20, 100)
    begun = time.process_time()
    try:
        day = run_day(hours=args.hours, per_hour=args.per_hour, seed=args.seed, plugins=args.plugins, told=True)
        if args.containers:
            sys.stdout.write(f"{day.samples[-1].containers}\n{day.samples[-1].population}\n")
        if args.hours > 2:
            day.expect_flat()
    except AssertionError as error:
        sys.stdout.write(f"{error}\n" + "".join(f"  {note}\n" for note in getattr(error, "__notes__", ())))
        return 1
    stories, requests = sum(s.objects for s in day.samples), sum(s.requests for s in day.samples)
    sys.stdout.write(
        f"{args.hours} hours, {stories:,} stories, {requests:,} requests, {time.process_time() - begun:.0f} s of CPU; "
        f"compared: {day.checked}; {day.returns} fields of a status went back, each with a cause; memory is flat\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
