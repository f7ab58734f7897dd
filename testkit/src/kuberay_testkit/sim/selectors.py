"""Whether an object matches a label selector or a field selector, as strings in query parameters say it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kuberay.api.kinds import Kind

from kuberay_testkit.sim.status import bad_request

if TYPE_CHECKING:
    from kuberay_testkit.sim.store import Stored

Match = Callable[["Stored"], bool]

_SET = re.compile(r"^(?P<key>\S+)\s+(?P<op>in|notin)\s*\((?P<values>[^()]*)\)$")
_EQUAL = re.compile(r"^(?P<key>[^\s=!]+)\s*(?P<op>==|!=|=)\s*(?P<value>[^\s=!]*)$")
_EXISTS = re.compile(r"^(?P<no>!?)\s*(?P<key>[A-Za-z0-9][-A-Za-z0-9_./]*)$")

_EXTRA_FIELDS = {
    "Pod": {
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    },
    "Secret": {"type"},
    "Job": {"status.successful"},
    "Namespace": {"status.phase"},
    "Service": {"spec.clusterIP", "spec.type"},
    "Event": {"regarding.kind", "regarding.name", "regarding.namespace", "regarding.uid", "reason", "type"},
}


def _split(text: str) -> list[str]:
    """At commas outside parentheses."""
    parts, depth, current = [], 0, ""
    for char in text:
        if char == "," and depth == 0:
            parts.append(current)
            current = ""
            continue
        depth += (char == "(") - (char == ")")
        current += char
    parts.append(current)
    return [part.strip() for part in parts]


def _label_test(requirement: str) -> Callable[[Mapping[str, str]], bool]:
    if match := _SET.match(requirement):
        key, values = match["key"], frozenset(value.strip() for value in match["values"].split(","))
        if match["op"] == "in":
            return lambda labels: labels.get(key) in values
        # A missing key satisfies notin.
        return lambda labels: labels.get(key) not in values
    if match := _EQUAL.match(requirement):
        key, value = match["key"], match["value"]
        if match["op"] == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if match := _EXISTS.match(requirement):
        key, wanted = match["key"], not match["no"]
        return lambda labels: (key in labels) == wanted
    raise bad_request(f"unable to parse requirement: {requirement!r}")


def match_labels(selector: str) -> Match | None:
    """A test for *selector*, None for an empty one. Raises a 400 `APIError` when it cannot be parsed."""
    if not selector:
        return None
    tests = [_label_test(requirement) for requirement in _split(selector)]

    return lambda stored: all(test(stored.labels) for test in tests)


def _read(obj: Mapping[str, Any], path: tuple[str, ...]) -> str:
    value: Any = obj
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def match_fields(selector: str, kind: Kind) -> Match | None:
    """Like `match_labels` for ``fieldSelector``; only the fields the real server indexes for *kind* are known."""
    if not selector:
        return None
    tests: list[tuple[tuple[str, ...], str, bool]] = []
    for requirement in _split(selector):
        found = _EQUAL.match(requirement)
        if not found:
            raise bad_request(f"invalid field selector: {requirement!r}")
        name = found["key"]
        if name not in {"metadata.name", "metadata.namespace"} | _EXTRA_FIELDS.get(kind.kind, set()):
            raise bad_request(f"field label not supported: {name}")
        tests.append((tuple(name.split(".")), found["value"], found["op"] != "!="))
    return lambda stored: all((_read(stored.body, path) == value) == equal for path, value, equal in tests)


def both(first: Match | None, second: Match | None) -> Match | None:
    if first is None or second is None:
        return first or second
    return lambda stored: first(stored) and second(stored)
