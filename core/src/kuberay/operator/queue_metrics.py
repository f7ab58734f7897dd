"""What is told of the work queue, by controller: how much waits, how long it waited, and how long it is worked on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from kuberay.kube.queue import WorkQueue
from kuberay.operator import metric_table as table
from kuberay.operator.keys import Key
from kuberay.operator.metric_families import Tally, loop_time, of_counts, of_tallies

_KINDS = ("RayCluster", "RayJob", "RayService", "RayCronJob")
CONTROLLERS = tuple(kind.lower() for kind in _KINDS)
"""Values of the label ``controller``, which are KubeRay's (spec operator.md 8)."""

_CONTROLLER = dict(zip(_KINDS, CONTROLLERS, strict=True))


def controller_of(kind: str) -> str:
    """``raycluster`` of ``RayCluster``."""
    return _CONTROLLER.get(kind) or kind.lower()


class QueueMetrics(Collector):
    """A `kuberay.kube.queue.QueueObserver`. Series of all controllers are there from the start."""

    def __init__(self) -> None:
        self._queue: WorkQueue[Key] | None = None
        self._adds = dict.fromkeys(CONTROLLERS, 0)
        self._retries = dict.fromkeys(CONTROLLERS, 0)
        self._waited = {name: Tally(table.QUEUE_WAIT.buckets) for name in CONTROLLERS}
        self._worked = {name: Tally(table.QUEUE_WORK.buckets) for name in CONTROLLERS}

    def watch(self, queue: WorkQueue[Key]) -> None:
        """Tell of that queue from now on."""
        self._queue = queue
        queue.observer = self

    def added(self, key: Key) -> None:
        self._adds[controller_of(key.kind.kind)] += 1

    def retried(self, key: Key) -> None:
        self._retries[controller_of(key.kind.kind)] += 1

    def taken(self, key: Key, seconds: float) -> None:
        self._waited[controller_of(key.kind.kind)].add(seconds)

    def done(self, key: Key, seconds: float) -> None:
        self._worked[controller_of(key.kind.kind)].add(seconds)

    def collect(self) -> Iterable[Metric]:
        depth: Counter[str] = Counter()
        taking: dict[str, list[float]] = {name: [] for name in CONTROLLERS}
        if self._queue is not None:
            depth.update(controller_of(key.kind.kind) for key in self._queue.waiting())
            under_way = self._queue.taken_at()
            now = loop_time()
            for key, began in under_way.items():
                taking[controller_of(key.kind.kind)].append(now - began if now is not None else 0.0)
        names = [((name, name), name) for name in CONTROLLERS]
        return [
            of_counts(table.QUEUE_DEPTH, ((labels, depth[name]) for labels, name in names)),
            of_counts(table.QUEUE_ADDS, ((labels, self._adds[name]) for labels, name in names)),
            of_tallies(table.QUEUE_WAIT, ((labels, self._waited[name]) for labels, name in names)),
            of_tallies(table.QUEUE_WORK, ((labels, self._worked[name]) for labels, name in names)),
            of_counts(table.QUEUE_UNFINISHED, ((labels, sum(taking[name])) for labels, name in names)),
            of_counts(table.QUEUE_LONGEST, ((labels, max(taking[name], default=0.0)) for labels, name in names)),
            of_counts(table.QUEUE_RETRIES, ((labels, self._retries[name]) for labels, name in names)),
        ]
