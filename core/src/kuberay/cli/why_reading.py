"""How ``kuberay why`` reads: what may not be read becomes a note, so that the rest is told all the same."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import orjson

from kuberay.api.kinds import EVENT, POD, Kind
from kuberay.api.objects import Object, RayObject, decode
from kuberay.api.times import parse_time
from kuberay.kube.errors import ApiError, ForbiddenError, NotFoundError, raise_for_status
from kuberay.kube.transport import TransportError

_MOST_EVENTS_ABOUT = 6
"""Objects whose events are read."""
_LOG_LINES = 15
_LONGEST_LOG = 16_384


class CannotTellError(Exception):
    """The text is one sentence for the user."""


class Reader:
    """One namespace, read with the user's own credentials. *notes* says what could not be read."""

    def __init__(self, client: Any, namespace: str, notes: list[str] | None = None) -> None:
        self.client = client
        self.namespace = namespace
        self.notes: list[str] = [] if notes is None else notes

    async def subject(self, kind: Kind, name: str) -> dict[str, Any]:
        """The object that is asked about. Raises `CannotTellError`."""
        try:
            return dict(orjson.loads(await self.client.get(kind, self.namespace, name)))
        except NotFoundError as error:
            if error.reason == "NotFound" and name in error.message:
                raise CannotTellError(f"There is no {kind.kind} {name} in namespace {self.namespace}.") from error
            raise CannotTellError(
                f"This cluster does not know the kind {kind.kind}; install it: "
                "kuberay crds | kubectl apply --server-side -f -"
            ) from error
        except ForbiddenError as error:
            raise CannotTellError(f"{kind.kind} {self.namespace}/{name} cannot be read: {error}.") from error

    async def find(self, kind: Kind, name: str) -> dict[str, Any] | None:
        """An object that may be there or not; None too, and a note, when it may not be read."""
        try:
            return dict(orjson.loads(await self.client.get(kind, self.namespace, name)))
        except NotFoundError:
            return None
        except ForbiddenError as error:
            self.notes.append(f"{kind.kind} {name} cannot be read, so nothing is said about it: {error}")
            return None

    async def find_all(self, kind: Kind, **selectors: str) -> list[Any] | None:
        """Objects of *kind*; None, and a note, when they may not be read."""
        found: list[Any] = []
        try:
            async for page in self.client.list_pages(kind, self.namespace, **selectors):
                found += [decode(kind, raw) for raw in page.items]
        except ForbiddenError as error:
            self.notes.append(f"{kind.plural} cannot be read, so nothing is said about them: {error}")
            return None
        except NotFoundError:
            return []
        return found

    async def events(self, *about: tuple[str, str]) -> list[dict[str, Any]] | None:
        """Events about the first few of *about*: kinds and names."""
        events: list[dict[str, Any]] = []
        for kind, name in about[:_MOST_EVENTS_ABOUT]:
            found = await self.find_all(EVENT, field_selector=f"regarding.kind={kind},regarding.name={name}")
            if found is None:
                return None
            events += [event.body() for event in found]
        return events

    async def log(self, pod: str, container: str) -> list[str]:
        """The last lines of a container's log; none, and a note, when it cannot be read."""
        parameters = {"container": container, "tailLines": str(_LOG_LINES), "limitBytes": str(_LONGEST_LOG)}
        try:
            response = await self.client.transport.request(
                "GET", POD.path(self.namespace, pod, "log"), params=parameters
            )
            raise_for_status(response)
        except (ApiError, TransportError) as error:
            told = " ".join(str(error).split()).rstrip(".")
            self.notes.append(f"the log of pod {pod} cannot be read ({told}): kubectl logs {pod} -c {container}")
            return []
        return bytes(response.body).decode(errors="replace").splitlines()[-_LOG_LINES:]


def conditions_of(obj: RayObject) -> list[Mapping[str, Any]]:
    """The conditions of a Ray object's status."""
    return list(obj.status.get("conditions") or ())


def time_in(text: Any) -> datetime | None:
    """A time of Kubernetes; None where it is none."""
    try:
        return parse_time(str(text))
    except ValueError:
        return None


def owned_by(uid: str, found: list[Any] | None) -> list[Any] | None:
    """Those of *found* that the object with *uid* controls."""
    if found is None:
        return None
    return [child for child in found if isinstance(child, Object) and _controller(child) == uid]


def _controller(child: Object) -> str:
    owner = child.metadata.controller
    return owner.uid if owner is not None else ""
