"""What the Serve demo shows of an incremental upgrade: a row for each pair of weights, with the requests sent meanwhile."""

from __future__ import annotations

import json
import subprocess
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from rich.table import Table

from dev.demo.traffic import Count


@dataclass(frozen=True)
class Shares:
    """Percent of the old and of the new RayCluster."""

    weights: tuple[int, int] = (100, 0)
    """As the HTTPRoute has them."""
    capacities: tuple[int, int] = (100, 0)
    """Which part of its replicas Serve was told to run."""

    @classmethod
    def read(cls, service: dict[str, Any], route: dict[str, Any] | None, old: str) -> Self:
        """From the RayService's status and the HTTPRoute, *old* being the RayCluster that served before."""
        backends = (route or {}).get("spec", {}).get("rules", [{}])[0].get("backendRefs", [])
        weights = {ref["name"]: ref.get("weight", 1) for ref in backends}
        status = service.get("status", {})
        sides = [status.get(f"{each}ServiceStatus", {}) for each in ("active", "pending")]
        capacities = {side.get("rayClusterName", ""): side.get("targetCapacity", 0) for side in sides}
        return cls(_old_and_new(weights, f"{old}-serve-svc"), _old_and_new(capacities, old))


def _old_and_new(values: dict[str, int], old: str) -> tuple[int, int]:
    return values.get(old, 0), sum(value for name, value in values.items() if name and name != old)


class Sender:
    """`dev.demo.traffic` as a process inside the cluster's network."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._count = Count()

    def __enter__(self) -> Self:
        self._child = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def ended(self) -> bool:
        return self._child.poll() is not None

    def count(self) -> Count:
        """As it was a moment ago."""
        return self._count

    def stop(self) -> Count:
        """Ends it once all requests have an answer."""
        if self._child.poll() is None:
            self._child.terminate()
        try:
            self._child.wait(60)
        except subprocess.TimeoutExpired:
            self._child.kill()
        self._reader.join(5)
        if self._child.stdout is not None:
            self._child.stdout.close()
        return self._count

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            read = json.loads(line)
            counters = {key: Counter(read[key]) for key in ("versions", "clusters")}
            self._count = Count(**(read | counters))


@dataclass
class Row:
    """A time in which the shares stayed the same."""

    after: float
    """Seconds since the edit."""
    shares: Shares
    begin: Count
    end: Count

    @property
    def requests(self) -> int:
        return self.end.sent - self.begin.sent

    @property
    def failed(self) -> int:
        return self.end.failed - self.begin.failed

    def answered_by(self, version: str) -> int:
        return self.end.versions[version] - self.begin.versions[version]

    def in_words(self, versions: tuple[str, str]) -> str:
        """A line of the table for where no table can be drawn anew."""
        old, new = versions
        (old_weight, new_weight), (old_capacity, new_capacity) = self.shares.weights, self.shares.capacities
        return (
            f"weights {old_weight:>3} : {new_weight:<3}  capacity {old_capacity:>3} : {new_capacity:<3}  "
            f"{self.requests} requests, {self.failed} failed, answered {self.answered_by(old)} : {self.answered_by(new)}"
        )


@dataclass
class View:
    """All rows so far."""

    versions: tuple[str, str]
    rows: list[Row] = field(default_factory=list)

    def see(self, after: float, shares: Shares, count: Count) -> Row | None:
        """Take a look at the world into account; the row that ended by it."""
        ended = None
        if self.rows:
            self.rows[-1].end = count
            if self.rows[-1].shares == shares:
                return None
            ended = self.rows[-1]
        self.rows.append(Row(after, shares, count, count))
        return ended

    def table(self) -> Table:
        old, new = self.versions
        title = f"requests through the gateway, from {old} to {new}"
        table = Table(title=title, title_justify="left", title_style="bold")
        for name in ("after", "weights", "capacity", "requests", "failed", old, new):
            table.add_column(name, justify="right", style=name if name in versions_with_colour(self.versions) else None)
        for row in self.rows:
            numbers = [row.requests, row.failed, row.answered_by(old), row.answered_by(new)]
            shares = [" : ".join(f"{each:>3}" for each in pair) for pair in (row.shares.weights, row.shares.capacities)]
            table.add_row(f"{row.after:.0f} s", *shares, *map(str, numbers), style="bold red" if row.failed else None)
        return table


def versions_with_colour(versions: tuple[str, str]) -> tuple[str, ...]:
    """Versions that are called as colours are shown in them."""
    return tuple(version for version in versions if version in ("blue", "green"))
