"""``/metrics`` about the configuration file: whether its last reading succeeded, when, and whether a restart is needed.

Names follow Prometheus' own (``prometheus_config_last_reload_successful``), so that the usual alert can be written.
"""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from kuberay.operator import metric_table as table
from kuberay.operator.metric_families import of_counts
from kuberay.operator.reload import ReloadState


class ReloadMetrics(Collector):
    """Made when somebody scrapes, from *state*, which is kept up to date by its owner."""

    def __init__(self, state: ReloadState) -> None:
        self._state = state

    def collect(self) -> Iterable[Metric]:
        state = self._state
        taken = state.succeeded_at
        return [
            of_counts(table.CONFIG_SUCCESSFUL, [([], 0 if state.error else 1)]),
            of_counts(table.CONFIG_TAKEN, [] if taken is None else [([], taken.timestamp())]),
            of_counts(table.CONFIG_RESTART, [([], len(state.needs_restart))]),
        ]
