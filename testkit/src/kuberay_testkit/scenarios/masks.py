"""Replaces what differs from run to run: names of clusters, job ids, minutes in names, times, addresses, the namespace.

Names get their number by order of appearance.
"""

from __future__ import annotations

import re
from typing import Any

_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| [+-]\d{4} [A-Z]+|[+-]\d\d:\d\d)?")
_ADDRESS = re.compile(r"\b\d{1,3}(\.\d{1,3}){3}\b")
_SCHEDULED = re.compile(r"(?P<name>.+-)(?P<minutes>\d{6,})")


class Masks:
    """What was seen so far."""

    def __init__(self, namespace: str, given: frozenset[str]) -> None:
        """*given* are names the scenario itself chose, which stay as they are."""
        self._namespace = namespace
        self._given = given
        self._known: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def cluster(self, name: str) -> None:
        """A RayCluster of that name has appeared."""
        if name and name not in self._given and name not in self._known:
            self._known[name] = self._next("cluster")

    def job_id(self, job_id: str) -> None:
        """A submission id has appeared."""
        if job_id and job_id not in self._given and job_id not in self._known:
            self._known[job_id] = self._next("job-id")

    def scheduled(self, name: str) -> None:
        """An object has appeared that may be named after the minute it was scheduled for."""
        found = _SCHEDULED.fullmatch(name)
        if found is not None and name not in self._given and name not in self._known:
            self._known[name] = found["name"] + self._next("minutes")

    def _next(self, what: str) -> str:
        self._counts[what] = self._counts.get(what, 0) + 1
        return f"<{what}-{self._counts[what]}>"

    def text(self, text: str) -> str:
        """*text* with all masks put on."""
        # Longest first: the name of a scheduled object is part of the names of its clusters.
        for name in sorted(self._known, key=len, reverse=True):
            text = text.replace(name, self._known[name])
        text = _ADDRESS.sub("<ip>", _TIME.sub("<time>", text))
        return re.sub(rf"\b{re.escape(self._namespace)}\b", "<namespace>", text)

    def put_on(self, value: Any) -> Any:
        """Plain data with all masks put on, keys too."""
        match value:
            case str():
                return self.text(value)
            case dict():
                return {self.text(key): self.put_on(item) for key, item in value.items()}
            case list():
                return [self.put_on(item) for item in value]
        return value
