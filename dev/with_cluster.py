#!/usr/bin/env python3
"""Runs a command inside a development cluster of its own, and takes the cluster down whatever happens.

``dev/with_cluster.py --name N --nodes 0|1 [--gateway kinds|traefik] COMMAND...``; the exit code is the command's. Standard library only.
With ``--workers W`` the command is pytest, and gets W pytest-xdist workers, each inside a cluster of its own (``N-1``, ``N-2``, …):
an operator watches a whole cluster, so two workers in one cluster would act on each other's objects.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

CLUSTER = Path(__file__).resolve().parent / "cluster"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", required=True, help="name of the cluster; one that is left over is taken down first")
    parser.add_argument("--nodes", choices=("0", "1"), required=True)
    parser.add_argument(
        "--gateway", choices=("none", "kinds", "traefik"), default="none", help="as `dev/cluster up` has it"
    )
    parser.add_argument("--workers", type=int, help="run pytest with so many workers, each in a cluster of its own")
    parser.add_argument("--keep", action="store_true", help="leave the cluster up, to look around")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not command:
        parser.error("no command given")
    if arguments.workers is None:
        clusters = [[str(CLUSTER), "--name", arguments.name]]
        command = [*clusters[0], "exec", *command]
    else:
        clusters = [[str(CLUSTER), "--name", f"{arguments.name}-{n}"] for n in range(1, arguments.workers + 1)]
        command = [*command, *_workers(clusters, python=Path(command[0]).parent / "python")]
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGHUP, _end)
    try:
        for cluster in clusters:
            subprocess.run([*cluster, "down"], check=True, stderr=subprocess.DEVNULL)
        started = time.monotonic()
        for cluster in clusters:
            subprocess.run([*cluster, "up", "--nodes", arguments.nodes, "--gateway", arguments.gateway], check=True)
            print(f"cluster {cluster[-1]} is up after {time.monotonic() - started:.0f} s", flush=True)
        return _run(command)
    except subprocess.CalledProcessError as error:
        print(f"with_cluster: {' '.join(error.cmd)} ended with exit code {error.returncode}", file=sys.stderr)
        return error.returncode or 1
    except KeyboardInterrupt:
        return 130
    finally:
        if not arguments.keep:
            # Nobody may interrupt the cleaning up half-way.
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            for cluster in clusters:
                subprocess.run([*cluster, "down"], check=False)


def _workers(clusters: list[list[str]], python: Path) -> list[str]:
    """Words for pytest-xdist: one worker in each of *clusters*, whose interpreter is started there."""
    starts = [shlex.join([*cluster, "exec", str(python)]) for cluster in clusters]
    return [word for start in starts for word in ("--tx", f"popen//python={start}")]


def _run(command: list[str]) -> int:
    """The command's exit code; on a signal the command is asked to end first."""
    child = subprocess.Popen(command)
    try:
        return child.wait()
    finally:
        if child.poll() is None:
            child.terminate()
            try:
                child.wait(20)
            except subprocess.TimeoutExpired:
                child.kill()


def _end(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
