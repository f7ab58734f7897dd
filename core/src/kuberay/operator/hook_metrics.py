"""Counts calls of plugins' hooks for ``/metrics``: how many, how long, and how many failed, by plugin and hook.

As in `metric_families.Tally` a call is a few additions, made into series when somebody scrapes: a histogram of the client
library takes a third of what the call of a small hook costs altogether.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from kuberay.operator import metric_table as table
from kuberay.operator.metric_families import Tally, of_counts, of_tallies


class HookMetrics(Collector):
    """Used from any thread. *slow* names the plugins that count as slow now."""

    def __init__(self) -> None:
        self.slow: Callable[[], Sequence[str]] = tuple
        self._plugins: set[str] = set()
        self._seconds: dict[tuple[str, str], Tally] = {}
        self._failures: dict[tuple[str, str], int] = {}
        self._lock = threading.Lock()

    def expect(self, plugin: str, hooks: Sequence[str]) -> None:
        """Series of these are there before the first call."""
        self._plugins.add(plugin)
        with self._lock:
            for hook in hooks:
                self._begin((plugin, hook))

    def called(self, plugin: str, hook: str, seconds: float, failed: bool) -> None:
        """One call ended."""
        with self._lock:
            tally = self._seconds.get((plugin, hook)) or self._begin((plugin, hook))
            tally.add(seconds)
            if failed:
                self._failures[plugin, hook] += 1

    def _begin(self, names: tuple[str, str]) -> Tally:
        tally = self._seconds[names] = Tally(table.HOOK_SECONDS.buckets)
        self._failures[names] = 0
        return tally

    def collect(self) -> Iterable[Metric]:
        slow = self.slow()
        with self._lock:
            return [
                of_tallies(table.HOOK_SECONDS, self._seconds.items()),
                of_counts(table.HOOK_FAILURES, self._failures.items()),
                of_counts(table.PLUGIN_SLOW, (((name,), name in slow) for name in sorted(self._plugins))),
            ]
