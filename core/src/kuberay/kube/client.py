"""The API server's verbs as typed calls over a `Transport`: create, get, list, apply, patch, delete.

Bodies go out as orjson, come back as bytes; callers decode what they need. Errors are those of `kuberay.kube.errors`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import msgspec
import orjson

from kuberay.api.kinds import Kind
from kuberay.api.names import COMPONENT
from kuberay.kube.errors import ConflictError, InvalidError, raise_for_status
from kuberay.kube.transport import APPLY_PATCH, JSON, JSON_PATCH, MERGE_PATCH, Transport


class ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class ListPage(msgspec.Struct):
    """One chunk of a list; items stay undecoded."""

    metadata: ListMeta
    items: list[msgspec.Raw] = []


_PAGE = msgspec.json.Decoder(ListPage)

_DOES_NOT_APPLY = "the server rejected our request due to an error in our request"
"""What the API server says of a JSON patch whose operations do not fit the object."""


class Client:
    """Stateless; safe to share between tasks."""

    def __init__(
        self, transport: Transport, *, field_manager: str = COMPONENT, gate: Callable[[], None] | None = None
    ) -> None:
        """*gate* is called before anything but a read is sent, and raises when it must not be."""
        self.transport = transport
        self._manager = field_manager
        self._gate = gate

    def gated(self, gate: Callable[[], None]) -> Client:
        """The same with a gate."""
        return Client(self.transport, field_manager=self._manager, gate=gate)

    async def get(self, kind: Kind, namespace: str, name: str) -> bytes:
        return await self._call("GET", kind.path(namespace, name))

    async def create(self, kind: Kind, namespace: str, body: Mapping[str, Any]) -> bytes:
        return await self._call("POST", kind.path(namespace), {"fieldManager": self._manager}, orjson.dumps(body), JSON)

    async def apply(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        body: Mapping[str, Any],
        *,
        subresource: str = "",
        force: bool = True,
    ) -> bytes:
        """Server-side apply, taking over fields others hold; without *force* those are a `ConflictError`. On ``status`` a
        missing object is a `NotFoundError`."""
        return await self._call(
            "PATCH",
            kind.path(namespace, name, subresource or None),
            {"fieldManager": self._manager, "force": "true" if force else "false"},
            orjson.dumps(body),
            APPLY_PATCH,
        )

    async def merge_patch(
        self, kind: Kind, namespace: str, name: str, body: Mapping[str, Any], *, subresource: str = ""
    ) -> bytes:
        return await self._call(
            "PATCH",
            kind.path(namespace, name, subresource or None),
            {"fieldManager": self._manager},
            orjson.dumps(body),
            MERGE_PATCH,
        )

    async def json_patch(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        operations: Sequence[Mapping[str, Any]],
        *,
        subresource: str = "",
    ) -> bytes:
        """Patch by *operations* (RFC 6902). Ones that do not fit the object as it is, a ``test`` that does not hold among them,
        are a `ConflictError`: it has changed since they were made."""
        try:
            return await self._call(
                "PATCH",
                kind.path(namespace, name, subresource or None),
                {"fieldManager": self._manager},
                orjson.dumps(operations),
                JSON_PATCH,
            )
        except InvalidError as error:
            # The API server has no other word for it; what it says of an object that is invalid has causes.
            if error.causes or not error.message.startswith(_DOES_NOT_APPLY):
                raise
            raise ConflictError(409, "Conflict", "it has changed meanwhile, and the patch does not fit") from error

    async def replace(self, kind: Kind, namespace: str, name: str, body: Mapping[str, Any]) -> bytes:
        return await self._call(
            "PUT", kind.path(namespace, name), {"fieldManager": self._manager}, orjson.dumps(body), JSON
        )

    async def delete(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        *,
        uid: str,
        propagation: str = "Background",
        grace_seconds: int | None = None,
    ) -> bytes:
        """Delete that very object; another object of the same name is a `ConflictError`."""
        options: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": propagation,
            "preconditions": {"uid": uid},
        }
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        return await self._call("DELETE", kind.path(namespace, name), None, orjson.dumps(options), JSON)

    async def list_pages(
        self,
        kind: Kind,
        namespace: str | None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        chunk: int = 500,
    ) -> AsyncIterator[ListPage]:
        """A consistent list in chunks. An expired continue token is an `ExpiredError`: start again."""
        params = {"limit": str(chunk)}
        if label_selector:
            params["labelSelector"] = label_selector
        if field_selector:
            params["fieldSelector"] = field_selector
        while True:
            page = _PAGE.decode(await self._call("GET", kind.path(namespace), params))
            yield page
            if not page.metadata.continue_:
                return
            params["continue"] = page.metadata.continue_

    async def _call(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
    ) -> bytes:
        gate = self._gate if method != "GET" else None
        response = await self.transport.request(
            method, path, params=params, body=body, content_type=content_type, gate=gate
        )
        raise_for_status(response)
        return response.body
