"""Counts requests to the API server under client-go's names: how many, how long, how large, and how long they had to wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from kuberay.operator import metric_table as table
from kuberay.operator.metric_families import Tally, of_counts, of_tallies

NO_ANSWER = "<error>"
"""``code`` of a request that was not answered, as client-go has it."""

_VERBS = ("DELETE", "GET", "PATCH", "POST", "PUT")


class _Verb:
    """What is measured of the requests with one HTTP method."""

    __slots__ = ("received", "seconds", "sent", "waited")

    def __init__(self) -> None:
        self.seconds = Tally(table.REQUEST_SECONDS.buckets)
        self.sent = Tally(table.REQUEST_BYTES.buckets)
        self.received = Tally(table.RESPONSE_BYTES.buckets)
        self.waited = Tally(table.LIMIT_SECONDS.buckets)


class RequestMetrics(Collector):
    """A `kuberay.kube.http.RequestObserver`. *host* is the API server's, known once the operator has found it."""

    def __init__(self) -> None:
        self.host = ""
        self._codes: Counter[tuple[str, str]] = Counter()
        self._repeats: Counter[tuple[str, str]] = Counter()
        self._resources: Counter[tuple[str, str]] = Counter()
        self._verbs = {verb: _Verb() for verb in _VERBS}
        self._resolved = Tally(table.DNS_SECONDS.buckets)

    def answered(self, method: str, path: str, code: int, seconds: float, sent: int, received: int) -> None:
        self._codes[str(code), method] += 1
        self._resources[verb_and_resource(method, path)] += 1
        verb = self._verbs[method]
        verb.seconds.add(seconds)
        verb.sent.add(sent)
        verb.received.add(received)

    def unanswered(self, method: str) -> None:
        self._codes[NO_ANSWER, method] += 1

    def repeated(self, method: str, code: int) -> None:
        self._repeats[str(code), method] += 1

    def waited(self, method: str, seconds: float) -> None:
        self._verbs[method].waited.add(seconds)

    def resolved(self, seconds: float) -> None:
        self._resolved.add(seconds)

    def collect(self) -> Iterable[Metric]:
        verbs = [((verb, self.host), measured) for verb, measured in self._verbs.items()]
        return [
            of_counts(table.REQUESTS, self._with_host(self._codes)),
            of_tallies(table.REQUEST_SECONDS, ((labels, verb.seconds) for labels, verb in verbs)),
            of_tallies(table.REQUEST_BYTES, ((labels, verb.sent) for labels, verb in verbs)),
            of_tallies(table.RESPONSE_BYTES, ((labels, verb.received) for labels, verb in verbs)),
            of_tallies(table.LIMIT_SECONDS, ((labels, verb.waited) for labels, verb in verbs)),
            of_tallies(table.DNS_SECONDS, [((self.host,), self._resolved)]),
            of_counts(table.REQUEST_RETRIES, self._with_host(self._repeats)),
            of_counts(table.API_REQUESTS, self._resources.items()),
        ]

    def _with_host(self, counts: Counter[tuple[str, str]]) -> Iterable[tuple[Sequence[str], float]]:
        return [((*labels, self.host), count) for labels, count in counts.items()]


def verb_and_resource(method: str, path: str) -> tuple[str, str]:
    """``("patch", "rayclusters/status")`` from a request line; lists count as ``list``."""
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        parts = parts[2:]
    resource = "/".join([parts[0], *parts[2:]]) if parts else "discovery"
    verb = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}.get(method)
    return verb or ("get" if len(parts) > 1 else "list"), resource
