"""Decides how a cluster is kept together by control groups, so that `down` finds every process it ever started.

Works where version 2 is mounted (alone, or beside version 1 as `unified`); the kubelet's own groups lie below ours."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from devcluster.layout import Cluster


def _hierarchies() -> list[tuple[str, Path]]:
    """Type and mount point of each control group hierarchy of this machine."""
    found = []
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, mount_point, kind, *_ = line.split()
        if kind in ("cgroup", "cgroup2"):
            found.append((kind, Path(mount_point)))
    return found


def groups(cluster: Cluster) -> list[Path]:
    """The cluster's group in each hierarchy, whether it exists or not."""
    return [mount_point / cluster.cgroup for _, mount_point in _hierarchies()]


def _unified_group(cluster: Cluster) -> Path | None:
    return next((mount_point / cluster.cgroup for kind, mount_point in _hierarchies() if kind == "cgroup2"), None)


def create(cluster: Cluster) -> None:
    """Make the cluster's groups: the kubelet wants the one it is given to exist in every hierarchy."""
    for group in groups(cluster):
        group.mkdir(exist_ok=True)
    unified = _unified_group(cluster)
    if unified is not None:
        (unified / "components").mkdir(exist_ok=True)
        if len(groups(cluster)) > 1:
            return  # beside version 1, which has the controllers
        for parent in (unified.parent, unified):
            with contextlib.suppress(OSError):
                controllers = (parent / "cgroup.controllers").read_text().split()
                (parent / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in controllers))


def joining(cluster: Cluster) -> list[str]:
    """Words to put before a command so that it (and all that it starts) is in the cluster's group."""
    unified = _unified_group(cluster)
    if unified is None:
        return []
    return ["sh", "-c", f'echo $$ > "{unified}/components/cgroup.procs"; exec "$@"', "sh"]


def kill_all(cluster: Cluster) -> None:
    """End every process in the cluster's groups, at once."""
    unified = _unified_group(cluster)
    if unified is not None:
        with contextlib.suppress(OSError):
            (unified / "cgroup.kill").write_text("1")
    deadline = time.monotonic() + 10
    while members(cluster) and time.monotonic() < deadline:
        for pid in members(cluster):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def members(cluster: Cluster) -> set[int]:
    """The pids in the cluster's groups and all groups below them."""
    found: set[int] = set()
    for group in groups(cluster):
        for folder, _, files in os.walk(group):
            if "cgroup.procs" in files:
                with contextlib.suppress(OSError):
                    found.update(map(int, (Path(folder) / "cgroup.procs").read_text().split()))
    return found


def remove(cluster: Cluster, seconds: float = 3.0) -> None:
    """Remove the cluster's groups, children first. A group is busy until its last process has been reaped."""
    deadline = time.monotonic() + seconds
    while True:
        for group in groups(cluster):
            for folder, _, _ in os.walk(group, topdown=False):
                with contextlib.suppress(OSError):
                    Path(folder).rmdir()
        if not any(group.exists() for group in groups(cluster)) or time.monotonic() > deadline:
            return
        time.sleep(0.05)
