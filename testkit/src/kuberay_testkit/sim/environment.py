"""What reading and writing verbs share: the server's store, registry, clock and randomness, and the result of a write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Any, Protocol

from kuberay.api.kinds import Kind

from kuberay_testkit.sim.registry import Registry
from kuberay_testkit.sim.status import conflict, modified
from kuberay_testkit.sim.store import Store, Stored

Admit = Callable[[Kind, Mapping[str, Any]], None]
"""Raises `APIError` to refuse an object about to be stored."""


class Environment(Protocol):
    """What writes need to know of their server."""

    store: Store
    registry: Registry
    random: Random
    pod_grace: float
    admissions: list[tuple[Kind | None, Admit]]

    def now(self) -> datetime: ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a write: the object (or a ``Status`` body), the code, and what was done."""

    code: int
    raw: bytes
    created: bool = False
    changed: bool = True


def stamp(moment: datetime) -> str:
    """RFC 3339 in seconds, as Kubernetes writes times."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def check_preconditions(stored: Stored, wanted: Mapping[str, Any]) -> None:
    """Raise a 409 when *wanted* has another ``uid`` or ``resourceVersion`` than the object."""
    uid = wanted.get("uid")
    if uid and uid != stored.uid:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {stored.uid}"
        raise conflict(stored.key.kind, stored.key.name, why)
    check_version(stored, wanted)


def check_version(stored: Stored, wanted: Mapping[str, Any]) -> None:
    """Raise a 409 when *wanted* has another ``resourceVersion`` than the object."""
    version = wanted.get("resourceVersion")
    if version and version != stored.metadata["resourceVersion"]:
        raise modified(stored.key.kind, stored.key.name)
