"""A thin caller for conformance cases: raw status codes and parsed bodies over any `Transport`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson
from kuberay.api.kinds import Kind
from kuberay.kube.transport import APPLY_PATCH, JSON, JSON_PATCH, MERGE_PATCH, Transport

Body = dict[str, Any]


class Answer:
    """Status code and parsed body (empty for plain text)."""

    def __init__(self, status: int, raw: bytes) -> None:
        self.status = status
        try:
            self.body: Body = orjson.loads(raw)
        except orjson.JSONDecodeError:
            self.body = {}

    @property
    def reason(self) -> str:
        return str(self.body.get("reason", ""))

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))

    @property
    def version(self) -> str:
        return str(self.body["metadata"]["resourceVersion"])

    def __repr__(self) -> str:
        return f"<{self.status} {self.reason} {self.message}>"


class Api:
    """Every call returns an `Answer`, whatever the code."""

    def __init__(self, transport: Transport, namespace: str) -> None:
        self.transport = transport
        self.namespace = namespace

    async def call(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = JSON,
    ) -> Answer:
        raw = None if body is None else orjson.dumps(body)
        response = await self.transport.request(method, path, params=params, body=raw, content_type=content_type)
        return Answer(response.status, response.body)

    async def get(self, kind: Kind, name: str) -> Answer:
        return await self.call("GET", kind.path(self.namespace, name))

    async def find(self, kind: Kind, **params: str) -> Answer:
        return await self.call("GET", kind.path(self.namespace), params)

    async def create(self, kind: Kind, body: Body, **params: str) -> Answer:
        return await self.call("POST", kind.path(self.namespace), params, {**_typed(kind), **body})

    async def replace(self, kind: Kind, body: Body, subresource: str = "", **params: str) -> Answer:
        path = kind.path(self.namespace, body["metadata"]["name"], subresource or None)
        return await self.call("PUT", path, params, {**_typed(kind), **body})

    async def merge(self, kind: Kind, name: str, body: Body, subresource: str = "", **params: str) -> Answer:
        path = kind.path(self.namespace, name, subresource or None)
        return await self.call("PATCH", path, params, body, MERGE_PATCH)

    async def json_patch(self, kind: Kind, name: str, operations: Any, subresource: str = "", **params: str) -> Answer:
        return await self.call(
            "PATCH", kind.path(self.namespace, name, subresource or None), params, operations, JSON_PATCH
        )

    async def apply(
        self, kind: Kind, body: Body, *, manager: str, force: bool = False, subresource: str = ""
    ) -> Answer:
        params = {"fieldManager": manager, "force": str(force).lower()}
        path = kind.path(self.namespace, body["metadata"]["name"], subresource or None)
        return await self.call("PATCH", path, params, {**_typed(kind), **body}, APPLY_PATCH)

    async def delete(self, kind: Kind, name: str, options: Body | None = None, **params: str) -> Answer:
        body = None if options is None else {"apiVersion": "v1", "kind": "DeleteOptions", **options}
        return await self.call("DELETE", kind.path(self.namespace, name), params, body)

    async def watch(
        self, kind: Kind, version: str, *, count: int = 0, seconds: int = 2, **params: str
    ) -> list[tuple[str, Body]]:
        """Events from *version* on: the first *count*, or all within *seconds* when zero."""
        query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": str(seconds), **params}
        events: list[tuple[str, Body]] = []
        async with self.transport.stream(kind.path(self.namespace), params=query) as (status, lines):
            async for line in lines:
                event = orjson.loads(line)
                if status != 200:
                    return [("REFUSED", event)]
                events.append((event["type"], event["object"]))
                if count and len(events) >= count:
                    break
        return events

    async def until_gone(self, kind: Kind, name: str, *, seconds: float = 30.0) -> None:
        """Wait for a controller of the cluster to remove an object."""
        for _ in range(int(seconds * 5)):
            if (await self.get(kind, name)).status == 404:
                return
            await asyncio.sleep(0.2)
        raise AssertionError(f"{kind} {name} is still there after {seconds:g} s")


def _typed(kind: Kind) -> Body:
    return {"apiVersion": kind.api_version, "kind": kind.kind}


def owners_of(body: Body) -> list[str]:
    """Managers in ``managedFields`` as ``manager/operation`` or ``manager/operation/subresource``."""
    return sorted(
        "/".join(part for part in (entry["manager"], entry["operation"], entry.get("subresource", "")) if part)
        for entry in body["metadata"].get("managedFields") or ()
    )


def fields_of(body: Body, manager: str) -> Body:
    """The ``fieldsV1`` of the one entry of *manager*."""
    (entry,) = [each for each in body["metadata"]["managedFields"] if each["manager"] == manager]
    found: Body = entry["fieldsV1"]
    return found
