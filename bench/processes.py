"""What a process has cost so far, from /proc: CPU seconds and peak resident memory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU in seconds (user + system, all threads), memory in MB."""

    cpu: float
    peak_rss: float


def cost(pid: int) -> Cost:
    """Cost of a live process. Raises FileNotFoundError when it is gone."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    cpu = (int(fields[11]) + int(fields[12])) / _TICK
    peak = 0.0
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            peak = int(line.split()[1]) / 1024
    return Cost(cpu, peak)


def find_component(component: str) -> int | None:
    """Pid of a component of the development cluster, by the command line of processes in its network namespace."""
    own = os.readlink("/proc/self/ns/net")
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes().split(b"\0")
            if len(command) > 1 and command[1] == component.encode() and os.readlink(entry / "ns/net") == own:
                return int(entry.name)
        except OSError:
            continue
    return None
