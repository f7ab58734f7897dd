"""What is told of probes, by what they ask: how many answers of which sort, how long they took, and who fails now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import get_args

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from kuberay.operator import metric_table as table
from kuberay.operator.metric_families import Tally, of_counts, of_tallies
from kuberay.plan.model import (
    ActivityProbe,
    DrainProbe,
    InFlightProbe,
    JobInfoProbe,
    JobLogsProbe,
    ObjectProbe,
    Probe,
    ProbeResult,
    ProxyHealthProbe,
    ServeConfigCall,
    ServeProbe,
    StopJobCall,
    SubmitJobCall,
)

NAMES: dict[type[Probe], str] = {
    ActivityProbe: "activity",
    DrainProbe: "drain",
    InFlightProbe: "requests_in_flight",
    JobInfoProbe: "job_info",
    JobLogsProbe: "job_logs",
    ObjectProbe: "object",
    ProxyHealthProbe: "proxy_health",
    ServeConfigCall: "serve_config",
    ServeProbe: "serve_applications",
    StopJobCall: "stop_job",
    SubmitJobCall: "submit_job",
}
"""Values of the label ``probe``."""

OUTCOMES = ("absent", "error", "found")
assert set(NAMES) == set(get_args(Probe))


class ProbeMetrics(Collector):
    """A `kuberay.operator.prober.ProbeObserver`; *running* gives what is asked again and again, with the last answer."""

    def __init__(self) -> None:
        self.running: Callable[[], Iterable[tuple[Probe, ProbeResult | None]]] = tuple
        self._answers = {(name, outcome): 0 for name in NAMES.values() for outcome in OUTCOMES}
        self._seconds = {name: Tally(table.PROBE_SECONDS.buckets) for name in NAMES.values()}

    def asked(self, probe: Probe, result: ProbeResult, seconds: float) -> None:
        name = NAMES[type(probe)]
        self._answers[name, "error" if result.error else result.outcome] += 1
        self._seconds[name].add(seconds)

    def collect(self) -> Iterable[Metric]:
        running: Counter[str] = Counter()
        failing: Counter[str] = Counter()
        for probe, result in self.running():
            name = NAMES[type(probe)]
            running[name] += 1
            failing[name] += result is not None and bool(result.error)
        names = NAMES.values()
        return [
            of_counts(table.PROBE_REQUESTS, self._answers.items()),
            of_tallies(table.PROBE_SECONDS, (((name,), tally) for name, tally in self._seconds.items())),
            of_counts(table.PROBES_RUNNING, (((name,), running[name]) for name in names)),
            of_counts(table.PROBES_FAILING, (((name,), failing[name]) for name in names)),
        ]
