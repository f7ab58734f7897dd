"""What get, list and discovery answer: single objects, consistent chunks, and which resources are served."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

import orjson
from kuberay.api.kinds import POD, Kind

from kuberay_testkit.sim.registry import Registry, is_builtin_group
from kuberay_testkit.sim.resize import RESIZE
from kuberay_testkit.sim.selectors import Match, both, match_fields, match_labels
from kuberay_testkit.sim.status import APIError, bad_request, continue_expired, not_found
from kuberay_testkit.sim.store import Key, Store, Stored

VERSION = "v1.34.0"
"""What ``/version`` says."""
TOKEN_LIFE = timedelta(minutes=5)
"""How long a continue token stays good: etcd keeps old versions about that long."""


@dataclass(slots=True)
class _Snapshot:
    rv: int
    items: list[Stored]
    made: datetime
    scope: tuple[Any, ...]


def select(kind: Kind, params: Mapping[str, str]) -> Match | None:
    """The test that ``labelSelector`` and ``fieldSelector`` ask for."""
    return both(match_labels(params.get("labelSelector", "")), match_fields(params.get("fieldSelector", ""), kind))


class Reads:
    """All reading verbs over one store."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self._store = store
        self._registry = registry
        self._snapshots: dict[int, _Snapshot] = {}
        self._made = 0

    def get(self, key: Key) -> bytes:
        stored = self._store.get(key)
        if stored is None:
            raise not_found(key.kind, key.name)
        return stored.raw

    def page(self, kind: Kind, namespace: str | None, params: Mapping[str, str], now: datetime) -> bytes:
        """A list or one chunk of it. Raises 410 for an expired ``continue`` token, 400 for a malformed one."""
        limit = int(params.get("limit") or 0)
        scope = (kind, namespace, params.get("labelSelector", ""), params.get("fieldSelector", ""))
        token = params.get("continue", "")
        if token:
            number, start, snapshot = self._resume(token, scope, now)
        else:
            self._check_version(params)
            matches = select(kind, params)
            items = self._store.all_of(kind, namespace)
            if matches is not None:
                items = [stored for stored in items if matches(stored)]
            number, start, snapshot = -1, 0, _Snapshot(self._store.rv, items, now, scope)
        end = start + limit if limit else len(snapshot.items)
        chunk = snapshot.items[start:end]
        metadata: dict[str, Any] = {"resourceVersion": str(snapshot.rv)}
        left = len(snapshot.items) - end
        if left > 0:
            if number < 0:
                number = self._keep(snapshot, now)
            metadata["continue"] = base64.b64encode(
                orjson.dumps({"v": number, "rv": snapshot.rv, "start": end})
            ).decode()
            if not scope[2] and not scope[3]:
                metadata["remainingItemCount"] = left
        custom = self._registry.traits(kind).custom
        return b'{"kind":"%sList","apiVersion":"%s","metadata":%s,"items":[%s]}' % (
            kind.kind.encode(),
            kind.api_version.encode(),
            orjson.dumps(metadata),
            b",".join([stored.list_item(with_type=custom) for stored in chunk]),
        )

    def _check_version(self, params: Mapping[str, str]) -> None:
        version = params.get("resourceVersion", "")
        if version and not version.isdigit():
            raise bad_request(f"invalid resource version: {version}")
        if version and int(version) > self._store.rv:
            raise APIError(
                504,
                "Timeout",
                f"Timeout: Too large resource version: {version}, current: {self._store.rv}",
                details={"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]},
                retry_after=1,
            )

    def _keep(self, snapshot: _Snapshot, now: datetime) -> int:
        self._snapshots = {n: s for n, s in self._snapshots.items() if now - s.made <= TOKEN_LIFE}
        self._made += 1
        self._snapshots[self._made] = snapshot
        return self._made

    def _resume(self, token: str, scope: tuple[Any, ...], now: datetime) -> tuple[int, int, _Snapshot]:
        try:
            parsed = orjson.loads(base64.b64decode(token, validate=True))
            number, start = int(parsed["v"]), int(parsed["start"])
        except (ValueError, KeyError, TypeError) as error:
            raise bad_request("invalid continue token: continue key is not valid: illegal base64 data") from error
        snapshot = self._snapshots.get(number)
        if snapshot is None or now - snapshot.made > TOKEN_LIFE:
            raise continue_expired()
        if snapshot.scope != scope:
            raise bad_request("invalid continue token: continue key is not valid: it belongs to another list")
        return number, start, snapshot

    def expire_tokens(self) -> None:
        """Make every continue token given out so far answer 410."""
        self._snapshots.clear()

    # -- discovery

    def discover(self, path: str) -> dict[str, Any] | None:
        """The answer for ``/api``, ``/apis``, a group, a group version, ``/version`` and health paths, else None."""
        parts = path.strip("/").split("/")
        served = sorted(self._registry, key=lambda kind: (kind.group, kind.version, kind.plural))
        if parts == ["version"]:
            return {"major": "1", "minor": "34", "gitVersion": VERSION, "platform": "linux/amd64"}
        if parts == ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"]}
        if parts == ["apis"]:
            groups = [self._group(name, list(found)) for name, found in groupby(served, lambda k: k.group) if name]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        if parts[0] == "apis" and len(parts) == 2:
            found = [kind for kind in served if kind.group == parts[1]]
            return {"apiVersion": "v1", **self._group(parts[1], found)} if found else None
        group, version = ("", parts[-1]) if parts[0] == "api" else (parts[1] if len(parts) > 1 else "", parts[-1])
        if (parts[0], len(parts)) not in (("api", 2), ("apis", 3)):
            return None
        found = [kind for kind in served if (kind.group, kind.version) == (group, version)]
        return self._resources(group, version, found) if found else None

    @staticmethod
    def _group(name: str, found: list[Kind]) -> dict[str, Any]:
        versions = [
            {"groupVersion": f"{name}/{version}", "version": version} for version in sorted({k.version for k in found})
        ]
        return {"kind": "APIGroup", "name": name, "versions": versions, "preferredVersion": versions[0]}

    def _resources(self, group: str, version: str, found: list[Kind]) -> dict[str, Any]:
        verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
        resources: list[dict[str, Any]] = []
        for kind in found:
            entry = {"name": kind.plural, "singularName": kind.kind.lower(), "namespaced": kind.namespaced}
            resources.append({**entry, "kind": kind.kind, "verbs": verbs})
            if self._registry.traits(kind).status:
                part = {"name": f"{kind.plural}/status", "singularName": "", "namespaced": kind.namespaced}
                resources.append({**part, "kind": kind.kind, "verbs": ["get", "patch", "update"]})
            if kind == POD:
                part = {"name": f"{kind.plural}/{RESIZE}", "singularName": "", "namespaced": True}
                resources.append({**part, "kind": kind.kind, "verbs": ["get", "patch", "update"]})
        group_version = f"{group}/{version}" if group else version
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources}


def custom_resource_definition(kind: Kind) -> dict[str, Any] | None:
    """The CRD object of a registered custom kind, established; None for built-in kinds."""
    if is_builtin_group(kind.group):
        return None
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": {
                "kind": kind.kind,
                "plural": kind.plural,
                "singular": kind.kind.lower(),
                "listKind": f"{kind.kind}List",
            },
            "versions": [
                {
                    "name": kind.version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                }
            ],
        },
    }
