"""How much the operator's metrics moved while something happened, by name and labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kuberay.operator.metrics import Metrics
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


class MetricDeltas:
    """Values now, compared with those at a start.

    ``deltas = MetricDeltas(operator.metrics)``, then ``deltas("kuberay_plugin_failures_total", plugin="volcano")`` is how
    much that moved since, summed over all series that have these labels; ``deltas.restart()`` counts from now on.
    """

    def __init__(self, source: Metrics | CollectorRegistry | Callable[[], Metrics | None]) -> None:
        """*source* may be a function, for the metrics of an operator that is started again: a new process counts from
        zero."""
        self._source = source
        self._begun: Series = {}
        self.restart()

    def restart(self) -> None:
        """Count from now on."""
        self._begun = self._now()

    def __call__(self, name: str, **labels: str) -> float:
        """How much *name* moved, over all series with these *labels*. Raises ``KeyError`` when there is no such series now:
        a misspelt name must not read as zero. A counter that was never touched has no series; ask `value` then."""
        now = self._now()
        found = [key for key in now if _is(key, name, labels)]
        if not found:
            raise KeyError(f"no series {name} with {labels or 'any labels'}; there are: {', '.join(_names(now))}")
        return sum(now[key] - self._begun.get(key, 0.0) for key in found)

    def value(self, name: str, **labels: str) -> float:
        """The present value, summed over all series with these *labels*; zero without any."""
        return sum(value for key, value in self._now().items() if _is(key, name, labels))

    def moved(self) -> dict[str, float]:
        """Everything that moved, as ``name{label="value"}``."""
        changes = {key: value - self._begun.get(key, 0.0) for key, value in self._now().items()}
        return {_text(key): change for key, change in sorted(changes.items()) if change}

    def _now(self) -> Series:
        source: Any = self._source() if callable(self._source) else self._source
        if source is None:
            return {}
        text = source.exposition() if isinstance(source, Metrics) else generate_latest(source)
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for metric in text_string_to_metric_families(text.decode())
            for sample in metric.samples
        }


def _is(key: tuple[str, tuple[tuple[str, str], ...]], name: str, labels: dict[str, str]) -> bool:
    return key[0] == name and labels.items() <= dict(key[1]).items()


def _names(series: Series) -> list[str]:
    return sorted({name for name, _ in series})


def _text(key: tuple[str, tuple[tuple[str, str], ...]]) -> str:
    name, labels = key
    return name + ("{" + ",".join(f'{label}="{value}"' for label, value in labels) + "}" if labels else "")
