"""Counts requests to the webhooks under controller-runtime's names: how many, with which code, how long, and how many at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from kuberay.operator import metric_table as table
from kuberay.operator.metric_families import Tally, of_counts, of_tallies


class WebhookMetrics(Collector):
    """Nothing is there before the first request."""

    def __init__(self) -> None:
        self._codes: Counter[tuple[str, str]] = Counter()
        self._seconds: dict[tuple[str], Tally] = {}
        self._under_way: Counter[tuple[str]] = Counter()

    @contextmanager
    def under_way(self, path: str) -> Iterator[None]:
        """While one is answered."""
        self._under_way[path,] += 1
        try:
            yield
        finally:
            self._under_way[path,] -= 1

    def answered(self, path: str, code: int, seconds: float) -> None:
        self._codes[path, str(code)] += 1
        tally = self._seconds.get((path,))
        if tally is None:
            tally = self._seconds[path,] = Tally(table.WEBHOOK_SECONDS.buckets)
        tally.add(seconds)

    def collect(self) -> Iterable[Metric]:
        return [
            of_counts(table.WEBHOOK_REQUESTS, self._codes.items()),
            of_tallies(table.WEBHOOK_SECONDS, self._seconds.items()),
            of_counts(table.WEBHOOK_UNDER_WAY, self._under_way.items()),
        ]
