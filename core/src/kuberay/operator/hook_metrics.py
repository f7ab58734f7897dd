"""Counts calls of plugins' hooks for ``/metrics``: how many, how long, and how many failed, by plugin and hook.

A histogram of the client library takes several locks for each value, a third of what the call of a small hook costs
altogether; here a call is a few additions, made into series when somebody scrapes.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

_BOUNDS = (0.0001, 0.001, 0.01, 0.1, 1.0)
_LABELS = ("plugin", "hook")


class _Calls:
    __slots__ = ("buckets", "failures", "seconds")

    def __init__(self) -> None:
        self.buckets = [0] * (len(_BOUNDS) + 1)
        self.seconds = 0.0
        self.failures = 0


class HookMetrics(Collector):
    """Used from any thread."""

    def __init__(self) -> None:
        self._calls: dict[tuple[str, str], _Calls] = {}
        self._lock = threading.Lock()

    def called(self, plugin: str, hook: str, seconds: float, failed: bool) -> None:
        """One call ended."""
        with self._lock:
            calls = self._calls.get((plugin, hook))
            if calls is None:
                calls = self._calls[plugin, hook] = _Calls()
            calls.buckets[bisect_left(_BOUNDS, seconds)] += 1
            calls.seconds += seconds
            calls.failures += failed

    def collect(self) -> Iterable[Metric]:
        times = HistogramMetricFamily(
            "kuberay_plugin_hook_duration_seconds", "Duration of plugin hook calls", labels=_LABELS
        )
        failures = CounterMetricFamily("kuberay_plugin_failures", "Plugin hook calls that failed", labels=_LABELS)
        with self._lock:
            for names, calls in self._calls.items():
                total, buckets = 0, []
                for bound, count in zip((*map(str, _BOUNDS), "+Inf"), calls.buckets, strict=True):
                    total += count
                    buckets.append((bound, float(total)))
                times.add_metric(names, buckets, calls.seconds)
                if calls.failures:
                    failures.add_metric(names, calls.failures)
        return [times, failures]
