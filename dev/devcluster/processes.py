"""Decides which processes belong to a cluster: by recorded pid and start time, by control group and by network.

A recorded pid counts only while the process that has it started when the recorded one did."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from devcluster import cgroups
from devcluster.layout import Cluster
from devcluster.steps import StepFailed


@dataclass(frozen=True)
class Process:
    """One component of a cluster as it was started."""

    name: str
    pid: int
    start_ticks: int

    @property
    def alive(self) -> bool:
        return start_ticks(self.pid) == self.start_ticks


def start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None when there is none or it is only waiting to be reaped."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def start(
    cluster: Cluster,
    name: str,
    argv: Sequence[str | Path],
    *,
    enter: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> Process:
    """Start a component in the background, in the cluster's control group, with its output in the cluster's log."""
    cluster.logs.mkdir(parents=True, exist_ok=True)
    cluster.pids.mkdir(parents=True, exist_ok=True)
    join = cgroups.joining(cluster)
    with (cluster.logs / f"{name}.log").open("ab") as log:
        child = subprocess.Popen(
            [*join, *enter, *map(str, argv)],
            cwd=cluster.state,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    ticks = start_ticks(child.pid)
    process = Process(name, child.pid, ticks if ticks is not None else -1)
    (cluster.pids / f"{name}.json").write_text(json.dumps({"pid": process.pid, "start_ticks": process.start_ticks}))
    _children.append(child)
    return process


_children: list[subprocess.Popen[bytes]] = []  # kept so that an ended child is noticed and reaped


def recorded(cluster: Cluster, name: str) -> Process | None:
    try:
        data = json.loads((cluster.pids / f"{name}.json").read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return Process(name, data["pid"], data["start_ticks"])


def running(cluster: Cluster, name: str) -> Process | None:
    """The component's process when it is alive."""
    process = recorded(cluster, name)
    return process if process is not None and process.alive else None


def all_recorded(cluster: Cluster) -> list[Process]:
    names = sorted(path.stem for path in cluster.pids.glob("*.json"))
    return [process for name in names if (process := recorded(cluster, name)) is not None]


def wait_for(cluster: Cluster, name: str, ready: Callable[[], bool], seconds: float, what: str) -> None:
    """Poll until ready; a component that ends meanwhile, or time running out, fails with the end of its log."""
    log = cluster.logs / f"{name}.log"
    deadline = time.monotonic() + seconds
    while not ready():
        for child in _children:
            child.poll()
        if running(cluster, name) is None:
            raise StepFailed(
                f"{name} ended before {what}", log=log, advice=f"dev/cluster --name {cluster.name} down, then up"
            )
        if time.monotonic() > deadline:
            raise StepFailed(
                f"{what}: not after {seconds:.0f} s", log=log, advice="look at the log; is the machine busy?"
            )
        time.sleep(0.1)


def stop(cluster: Cluster, processes: Iterable[Process], *, seconds: float = 5.0) -> None:
    """End components politely, then for good, and forget their pids."""
    processes = list(processes)
    _signal(processes, signal.SIGTERM)
    if not _gone(processes, seconds):
        _signal(processes, signal.SIGKILL)
        _gone(processes, 5.0)
    for process in processes:
        (cluster.pids / f"{process.name}.json").unlink(missing_ok=True)


def _signal(processes: Iterable[Process], number: signal.Signals) -> None:
    for process in processes:
        if process.alive:
            os.kill(process.pid, number)


def _gone(processes: Sequence[Process], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while True:
        for child in _children:
            child.poll()
        if not any(process.alive for process in processes):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)


def wait_until_reaped(processes: Iterable[Process], seconds: float = 3.0) -> None:
    """Wait until ended processes are gone from the process table too; the first process of the machine sees to that."""
    deadline = time.monotonic() + seconds
    pids = [process.pid for process in processes]
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)


def in_network(network: str, *, marked: str | None = None) -> list[Process]:
    """Every process in a network namespace, except this one and those it was started from.

    With ``marked`` only those that have this `NAME=value` in their environment: the number of a namespace that is gone
    may be that of another one now."""
    own = _ancestry(os.getpid())
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) in own or network_of(int(entry.name)) != network:
            continue
        if marked is not None and marked.encode() not in _read(entry / "environ").split(b"\0"):
            continue
        ticks = start_ticks(int(entry.name))
        if ticks is not None:
            command = _read(entry / "cmdline").replace(b"\0", b" ").decode(errors="replace").strip()[:80]
            found.append(Process(command, int(entry.name), ticks))
    return found


def network_of(pid: int) -> str | None:
    """The network namespace of a process, as `net:[4026531840]`."""
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _ancestry(pid: int) -> set[int]:
    line = set()
    while pid > 1:
        line.add(pid)
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            break
    return line
