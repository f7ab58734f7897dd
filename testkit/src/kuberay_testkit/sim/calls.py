"""What was asked of the API server: one record per request, for call budgets and for what RBAC must grant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Verb = Literal["get", "list", "watch", "create", "update", "patch", "apply", "delete", "deletecollection"]


@dataclass(frozen=True, slots=True)
class Call:
    """One request. ``verb`` is ``apply`` for server-side apply, which RBAC calls ``patch``."""

    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    status: int
    """0 when no answer was given."""
    manager: str
    client: str
    at: float
    """Seconds on the server's clock."""
    fault: str = ""
    """Name of the injected fault, if any."""
    created: bool = False
    """Whether it made a new object (an apply may)."""
    changed: bool = False
    """Whether anything was committed."""

    def matches(self, wanted: Mapping[str, Any]) -> bool:
        return all(getattr(self, name) == value for name, value in wanted.items())

    def __str__(self) -> str:
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        if self.subresource:
            resource += f"/{self.subresource}"
        return (
            f"{self.verb} {resource} {self.namespace}/{self.name} {self.status}{' ' + self.fault if self.fault else ''}"
        )


@dataclass(slots=True)
class Steps:
    """How much has happened in a simulated cluster. Leases and bookmarks, which come by themselves, do not count."""

    requests: int = 0
    """Requests that reached the server, whether or not their answer came back."""
    events: int = 0
    """Watch events delivered to a client."""
    commits: int = 0
    """Changes committed, whoever made them."""

    @property
    def total(self) -> int:
        return self.requests + self.events + self.commits


class Calls(list[Call]):
    """All requests in order."""

    def where(self, **wanted: Any) -> list[Call]:
        """Those whose fields equal *wanted* (``verb=``, ``resource=``, ``client=``, …)."""
        return [call for call in self if call.matches(wanted)]

    def tally(self, **wanted: Any) -> Counter[tuple[str, str]]:
        """How many of each (verb, resource or resource/subresource)."""
        counted: Counter[tuple[str, str]] = Counter()
        for call in self.where(**wanted):
            counted[call.verb, call.resource + (f"/{call.subresource}" if call.subresource else "")] += 1
        return counted


def _grants(rules: Iterable[Mapping[str, Any]], verb: str, group: str, resource: str, name: str) -> bool:
    for rule in rules:
        groups, resources, verbs = (rule.get(part) or () for part in ("apiGroups", "resources", "verbs"))
        names = rule.get("resourceNames") or ()
        if (
            ("*" in verbs or verb in verbs)
            and ("*" in groups or group in groups)
            and ("*" in resources or resource in resources)
            and (not names or name in names)
        ):
            return True
    return False


def missing_permissions(calls: Iterable[Call], rules: Sequence[Mapping[str, Any]]) -> set[tuple[str, str, str]]:
    """(verb, group, resource) that *calls* used and the RBAC *rules* do not grant."""
    missing: set[tuple[str, str, str]] = set()
    for call in calls:
        resource = call.resource + (f"/{call.subresource}" if call.subresource else "")
        verb = "patch" if call.verb == "apply" else call.verb
        needed = [verb, "create"] if call.verb == "apply" and call.created else [verb]
        for each in needed:
            name = "" if each in ("create", "list", "watch", "deletecollection") else call.name
            if not _grants(rules, each, call.group, resource, name):
                missing.add((each, call.group, resource))
    return missing
