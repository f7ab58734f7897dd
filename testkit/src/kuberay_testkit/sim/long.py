"""Plays seed after seed of random scripts with faults until so many steps were made: ``python -m kuberay_testkit.sim.long``.

A step is one request that reached the simulated API server, one watch event that a client was told, or one change that was
committed; Leases and bookmarks, which come by themselves, do not count. Each seed is played undisturbed and then with
`TURNS` kinds of trouble; all runs of a seed must end alike. Odd seeds tell of RayServices, even ones of RayClusters and
RayJobs. The first failure ends everything with exit code 1.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import logging
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field

from kuberay_testkit.sim.calls import Steps
from kuberay_testkit.sim.play import CALM, TROUBLES, Plugins, Trouble, play

TURNS = 2
STORIES: Mapping[str, tuple[int, int]] = {"all": (0, 1), "clusters": (0, 2), "services": (1, 2)}
"""Which seeds tell of what: the first of them, and the distance to the next."""
PROGRESS = 15.0
"""Seconds between lines of progress."""


@dataclass(slots=True)
class Report:
    """What came of one seed."""

    seed: int
    runs: int = 0
    steps: Steps = field(default_factory=Steps)
    failure: str = ""


def troubles_of(seed: int) -> list[Trouble]:
    """The kinds of trouble a seed is played with; over the seeds each comes equally often, in all neighbourhoods."""
    kinds = list(TROUBLES.values())
    return [kinds[(seed * TURNS + turn) % len(kinds)] for turn in range(TURNS)]


def cast_of(seed: int) -> dict[str, int]:
    """How many objects of which kind a seed tells of."""
    return {"clusters": 1, "jobs": 0, "services": 2} if seed % 2 else {"clusters": 3, "jobs": 2}


def play_seed(seed: int, plugins: Sequence[str] = ()) -> Report:
    """All runs of one seed. A failure is told in the report, never raised."""
    report = Report(seed)
    expected = None
    for trouble in (CALM, *troubles_of(seed)):
        try:
            played = play(seed, trouble, Plugins.load(plugins), **cast_of(seed))
            expected = expected or played.shape
            assert played.shape == expected, f"ended with {played.shape}, undisturbed with {expected}"
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the outcome of this seed
            notes = "".join(f"\n  {note}" for note in getattr(error, "__notes__", ()))
            frames = "".join(traceback.format_tb(error.__traceback__)[-3:])
            report.failure = f"seed {seed}, {trouble}: {type(error).__name__}: {error}{notes}\n{frames}"
            return report
        report.runs += 1
        for name in Steps.__slots__:
            setattr(report.steps, name, getattr(report.steps, name) + getattr(played.steps, name))
    return report


def _prepare() -> None:
    """A worker process: quiet, and not forever looking for garbage among long-lived objects."""
    logging.disable(logging.CRITICAL)
    sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for the life of the process
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)


def _reports(seeds: Iterator[int], processes: int, plugins: Sequence[str]) -> Iterator[Report]:
    """Reports as they come, with twice as many seeds under way as there are processes."""
    with ProcessPoolExecutor(processes, initializer=_prepare) as pool:
        running: set[Future[Report]] = set()
        try:
            while True:
                for seed in itertools.islice(seeds, 2 * processes - len(running)):
                    running.add(pool.submit(play_seed, seed, plugins))
                if not running:
                    return
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        finally:
            for future in running:
                future.cancel()


def run(
    *,
    steps: int,
    first: int = 0,
    seeds: int | None = None,
    processes: int,
    plugins: Sequence[str],
    stories: str = "all",
) -> int:
    """Play *seeds* seeds of *stories* from *first* on, or as many as it takes to make *steps* steps. Returns the exit code."""
    begun = told = time.monotonic()
    total, runs, last = Steps(), 0, first
    enough = False

    def numbers() -> Iterator[int]:
        offset, distance = STORIES[stories]
        fitting = itertools.count(first + (offset - first) % distance, distance)
        for played, seed in enumerate(fitting):
            if enough or played == seeds:
                return
            yield seed

    for report in _reports(numbers(), processes, plugins):
        if report.failure:
            sys.stdout.write(f"{report.failure}\nto play it again: make sim SEED={report.seed}\n")
            return 1
        last, runs = max(last, report.seed), runs + report.runs
        for name in Steps.__slots__:
            setattr(total, name, getattr(total, name) + getattr(report.steps, name))
        enough = seeds is None and total.total >= steps
        now = time.monotonic()
        if now - told >= PROGRESS:
            told = now
            sys.stdout.write(f"{now - begun:6.0f} s: {total.total:>9,} steps, seeds {first} to {last}\n")
            sys.stdout.flush()
    sys.stdout.write(
        f"{total.total:,} steps over seeds {first} to {last}, {runs} runs, {time.monotonic() - begun:.0f} s: "
        f"{total.requests:,} requests, {total.events:,} watch events, {total.commits:,} commits; all invariants held\n"
    )
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m kuberay_testkit.sim.long", description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000, help="how many at least (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: %(default)s)")
    parser.add_argument("--seed", type=int, help="play only this one: the replay of a failure")
    parser.add_argument("--stories", choices=STORIES, default="all", help="only seeds that tell of these")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="default: one per core")
    parser.add_argument("--plugin", action="append", default=[], dest="plugins", help="run with this installed plugin")
    args = parser.parse_args(arguments)
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of sets must not differ between a run and its replay.
        command = [
            sys.executable,
            "-m",
            "kuberay_testkit.sim.long",
            *(sys.argv[1:] if arguments is None else arguments),
        ]
        return subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": "0"}, check=False).returncode  # noqa: S603
    if args.seed is not None:
        return run(steps=0, first=args.seed, seeds=1, processes=1, plugins=args.plugins)
    return run(steps=args.steps, first=args.first, processes=args.processes, plugins=args.plugins, stories=args.stories)


if __name__ == "__main__":
    sys.exit(main())
