"""A cluster in memory that plans are played on: their writes change it at once, and nothing else ever does.

`kuberay render` starts from an empty one, `kuberay why` and `kuberay diff` from what is really there.
"""

from __future__ import annotations

import copy
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from kuberay.api.kinds import POD, Kind
from kuberay.api.objects import Object, from_dict
from kuberay.plan.model import Apply, Create, Delete, Patch, Write


class World:
    """A `View` that plans' writes change."""

    def __init__(self, born: str = "2026-01-01T00:00:00Z") -> None:
        self.bodies: dict[tuple[Kind, str, str], dict[str, Any]] = {}
        self.created: list[dict[str, Any]] = []
        self.born = born
        """When what is put in next was created (RFC 3339)."""
        self._version = 0

    def put(self, kind: Kind, namespace: str, body: dict[str, Any]) -> None:
        """Store *body*, with what the API server would add to its metadata."""
        self._version += 1
        metadata = body["metadata"]
        metadata.update(namespace=namespace, resourceVersion=str(self._version))
        metadata.setdefault("generation", 1)
        metadata.setdefault("uid", str(uuid.uuid5(uuid.NAMESPACE_URL, f"{kind}/{namespace}/{metadata['name']}")))
        metadata.setdefault("creationTimestamp", self.born)
        self.bodies[kind, namespace, metadata["name"]] = body

    def owned(self, uid: str, kind: Kind) -> Sequence[Object]:
        found = [from_dict(k, body) for (k, _, _), body in self.bodies.items() if k == kind]
        return sorted(
            (o for o in found if o.metadata.controller is not None and o.metadata.controller.uid == uid),
            key=lambda o: o.name,
        )

    def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        body = self.bodies.get((kind, namespace, name))
        return from_dict(kind, body) if body is not None else None

    def was_pod(self, namespace: str, name: str) -> bool:
        return False

    def serves(self, kind: Kind) -> bool:
        return True

    def perform(self, write: Write) -> bool:
        """Returns whether anything changed."""
        key = (write.kind, write.namespace, write.name)
        match write:
            case Create():
                if key in self.bodies:
                    return False
                self._create(write, write.body() if callable(write.body) else write.body)
            case Apply():
                if key in self.bodies:
                    return not write.create_only and self._change(key, _laid_over(self.bodies[key], write.body))
                self._create(write, write.body)
            case Delete():
                return self.bodies.pop(key, None) is not None
            case Patch():
                if key not in self.bodies:
                    return False
                if write.operations:
                    return self._change(key, _operated(self.bodies[key], write.operations))
                return self._change(key, _patched(self.bodies[key], write.body))
            case _:
                raise AssertionError(type(write).__name__)
        return True

    def _change(self, key: tuple[Kind, str, str], body: dict[str, Any]) -> bool:
        old = self.bodies[key]
        if body == old:
            return False
        if body.get("spec") != old.get("spec"):
            body["metadata"] = {**body["metadata"], "generation": old["metadata"].get("generation", 1) + 1}
        self.put(key[0], key[1], body)
        if body["metadata"].get("deletionTimestamp") and not body["metadata"].get("finalizers"):
            del self.bodies[key]
        return True

    def _create(self, write: Write, body: Mapping[str, Any]) -> None:
        manifest = {"apiVersion": write.kind.api_version, "kind": write.kind.kind, **without_nulls(dict(body))}
        self.created.append(copy.deepcopy(manifest))
        if write.kind == POD:
            manifest["status"] = _running(manifest, len(self.bodies))
        self.put(write.kind, write.namespace, manifest)


def without_nulls(value: Any) -> Any:
    """A copy as the API server would keep it: null means absent."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def _laid_over(live: Any, applied: Any) -> Any:
    """*live* with what is applied to it; lists are taken over as a whole."""
    if not isinstance(live, Mapping) or not isinstance(applied, Mapping):
        return without_nulls(applied)
    merged = {key: item for key, item in live.items() if key not in applied}
    over = {key: _laid_over(live.get(key), item) for key, item in applied.items() if item is not None}
    return {**{key: item for key, item in live.items() if key in merged or key in over}, **over}


def _patched(live: Any, patch: Any) -> Any:
    """A JSON merge patch (RFC 7386)."""
    if not isinstance(patch, Mapping):
        return copy.deepcopy(patch)
    result = dict(live) if isinstance(live, Mapping) else {}
    for key, item in patch.items():
        if item is None:
            result.pop(key, None)
        else:
            result[key] = _patched(result.get(key), item)
    return result


def _operated(live: Any, operations: Sequence[Mapping[str, Any]]) -> Any:
    """A JSON Patch (RFC 6902) as plans write them: tests, then values put in place or taken away. A test that fails
    changes nothing."""
    result = copy.deepcopy(live)
    for operation in operations:
        *way, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        node = result
        for part in way:
            node = node[int(part)] if isinstance(node, list) else node.setdefault(part, {})
        place: Any = int(last) if isinstance(node, list) and last != "-" else last
        present = (
            node[place]
            if isinstance(node, list) and last != "-"
            else None
            if isinstance(node, list)
            else node.get(last)
        )
        if operation["op"] == "test":
            if present != operation["value"]:
                return copy.deepcopy(live)
        elif operation["op"] == "remove":
            node.pop(place)
        elif isinstance(node, list) and operation["op"] == "add":
            node.insert(len(node) if place == "-" else place, operation["value"])
        else:
            node[place] = operation["value"]
    return result


def _running(pod: Mapping[str, Any], number: int) -> dict[str, Any]:
    names = [container["name"] for container in pod["spec"]["containers"]]
    return {
        "phase": "Running",
        "podIP": f"10.0.{number // 250}.{number % 250 + 1}",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": name, "ready": True, "state": {"running": {}}} for name in names],
    }
