"""When two specs say the same although they are not written the same: defaults of schemas, and what Go's encoder adds.

Source: spec rayservice.md 2.6 and 8 ("hash bytes"); cases.md RS-02.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kuberay.api import quantity
from kuberay.api.cluster import MAX_REPLICAS

_DEFAULTS: Mapping[str, Any] = {
    "numOfHosts": 1,
    "priority": 0,
    "replicas": 0,
    "minReplicas": 0,
    "maxReplicas": MAX_REPLICAS,
}
"""Of worker groups, in this operator's CRD or in KubeRay's."""
_AMOUNTS = ("limits", "requests")
_NAMES = ("groupName", "name")


def canonical(value: Any, key: str = "") -> Any:
    """*value* without what says nothing: nulls, defaults that the schemas fill in, and empty members that Go writes."""
    if isinstance(value, Mapping):
        found = {name: canonical(item, name) for name, item in value.items()}
        return {name: item for name, item in found.items() if not _says_nothing(name, item, found, key)}
    if isinstance(value, list):
        return [canonical(item, key) for item in value]
    return value


def _says_nothing(name: str, item: Any, within: Mapping[str, Any], key: str) -> bool:
    if item is None or name == "creationTimestamp":
        return True
    if key == "workerGroupSpecs" and name in _DEFAULTS:
        return bool(item == _DEFAULTS[name])
    match name:
        case "resources" | "metadata" | "rayStartParams":
            return not item
        case "protocol":
            return item == "TCP" and ("containerPort" in within or "port" in within)
        case "mode":
            return item == "DenyAll" and key == "networkPolicy"
        case "name" | "service":
            return item == "" and key not in ("labels", "annotations", "nodeSelector")
    return False


def asks_no_more(asked: Any, there: Any, key: str = "") -> bool:
    """Whether *there* has all that is *asked*, whatever it has beyond that. What is empty, zero or false may be absent."""
    if isinstance(asked, Mapping):
        if not isinstance(there, Mapping):
            return not asked and not there
        return all(
            asks_no_more(item, there[name], key=key if key in _AMOUNTS else name) if name in there else not item
            for name, item in asked.items()
        )
    if isinstance(asked, list):
        return _list_asks_no_more(asked, there if isinstance(there, list) else [], key)
    if asked == there:
        return True
    return key in _AMOUNTS and _same_amount(asked, there)


def _list_asks_no_more(asked: Sequence[Any], there: Sequence[Any], key: str) -> bool:
    if key == "workerGroupSpecs" or not all(isinstance(item, Mapping) and "name" in item for item in (*asked, *there)):
        return len(asked) == len(there) and all(map(asks_no_more, asked, there))
    # Named things, in the order asked for: others may stand between them (sidecars that webhooks add).
    rest = iter(there)
    return all(any(item["name"] == found["name"] and asks_no_more(item, found) for found in rest) for item in asked)


def _same_amount(one: Any, other: Any) -> bool:
    try:
        return bool(quantity.canonical(one) == quantity.canonical(other))
    except ValueError:
        return False
