"""Makes the client library's metrics from definitions, and counts what is counted too often for the library's own histograms.

A histogram of the library takes several locks for each value. What happens once a request or more often is tallied with a few
additions from the event loop, and made into series when somebody scrapes.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString

from kuberay.operator.metric_table import Definition


def counter(definition: Definition, registry: CollectorRegistry) -> Counter:
    return Counter(definition.name, definition.meaning, definition.labels, registry=registry)


def gauge(definition: Definition, registry: CollectorRegistry) -> Gauge:
    return Gauge(definition.name, definition.meaning, definition.labels, registry=registry)


def histogram(definition: Definition, registry: CollectorRegistry) -> Histogram:
    return Histogram(
        definition.name, definition.meaning, definition.labels, buckets=definition.buckets, registry=registry
    )


def loop_time() -> float | None:
    """The clock of the event loop; None outside of one, where nothing is under way and ages mean nothing."""
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        return None


class Tally:
    """A histogram of one set of labels; for one thread."""

    __slots__ = ("_bounds", "_counts", "_total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._total += value

    def add_to(self, family: HistogramMetricFamily, labels: Sequence[str]) -> None:
        seen, buckets = 0, []
        for bound, count in zip((*map(floatToGoString, self._bounds), "+Inf"), self._counts, strict=True):
            seen += count
            buckets.append((bound, float(seen)))
        family.add_metric(labels, buckets, self._total)


def of_counts(definition: Definition, counts: Iterable[tuple[Sequence[str], float]]) -> Metric:
    """A counter or gauge by label values."""
    family: CounterMetricFamily | GaugeMetricFamily
    if definition.type == "counter":
        name = definition.name.removesuffix("_total")
        family = CounterMetricFamily(name, definition.meaning, labels=definition.labels)
    else:
        family = GaugeMetricFamily(definition.name, definition.meaning, labels=definition.labels)
    for labels, count in counts:
        family.add_metric(labels, count)
    return family


def of_tallies(definition: Definition, tallies: Iterable[tuple[Sequence[str], Tally]]) -> Metric:
    """A histogram by label values."""
    family = HistogramMetricFamily(definition.name, definition.meaning, labels=definition.labels)
    for labels, tally in tallies:
        tally.add_to(family, labels)
    return family
