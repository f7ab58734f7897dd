"""Ends a container's process with SIGKILL from outside, as a crash does: tests share the process table of their one node."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

PROC = Path("/proc")


def kill(pod: dict[str, Any], container: str) -> None:
    """Kill the first process of a container of *pod*, and with it all of the container."""
    (status,) = (each for each in pod["status"]["containerStatuses"] if each["name"] == container)
    container_id = status["containerID"].rpartition("/")[2]
    (first,) = (pid for pid in _processes(container_id) if _is_first(pid))
    os.kill(first, signal.SIGKILL)


def _processes(container_id: str) -> list[int]:
    """Processes in the container's control group."""
    found = []
    for path in PROC.glob("[0-9]*/cgroup"):
        try:
            if container_id in path.read_text():
                found.append(int(path.parent.name))
        except OSError:
            continue  # It has ended meanwhile.
    return found


def _is_first(pid: int) -> bool:
    """Whether the process is number 1 of its container."""
    try:
        lines = (PROC / str(pid) / "status").read_text().splitlines()
    except OSError:
        return False
    (numbers,) = (line.split()[1:] for line in lines if line.startswith("NSpid:"))
    return numbers[-1] == "1" and len(numbers) > 1
