"""What is told of the store, by kind: how much is in it, how old it is, and what was missed. Read when somebody scrapes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from kuberay.kube.informer import Informer
from kuberay.kube.store import Store
from kuberay.operator import metric_table as table
from kuberay.operator.metric_families import loop_time, of_counts


class StoreMetrics(Collector):
    """A kind may have several informers, one for each namespace and selector: the worst of them is told."""

    def __init__(self, store: Store, informers: Sequence[Informer]) -> None:
        self._store = store
        self._informers: dict[str, list[Informer]] = {}
        for informer in informers:
            self._informers.setdefault(informer.scope.kind.kind, []).append(informer)

    def collect(self) -> Iterable[Metric]:
        now = loop_time()
        kinds = [((kind,), informers) for kind, informers in sorted(self._informers.items())]
        lists = [(kind, [i.last_list for i in found if i.last_list is not None]) for kind, found in kinds]
        return [
            of_counts(table.STORE_OBJECTS, ((k, self._store.count(found[0].scope.kind)) for k, found in kinds)),
            of_counts(
                table.STORE_AGE, ((kind, now - min(times)) for kind, times in lists if times and now is not None)
            ),
            of_counts(table.STORE_SYNCED, ((k, all(i.synced.is_set() for i in found)) for k, found in kinds)),
            of_counts(table.STORE_REPAIRS, ((k, sum(i.repairs for i in found)) for k, found in kinds)),
            of_counts(table.WATCH_FAILURES, ((k, sum(i.failures for i in found)) for k, found in kinds)),
        ]
