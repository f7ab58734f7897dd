"""Asking Ray to drain nodes: what is asked, and what can come of it.

`DrainClient` is the contract; `kuberay.ray.autoscaler_state` has the real one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

DrainState = Literal["draining", "drained", "refused"]
"""``draining``: Ray gives the node no new work and lets the present finish; ``drained``: no such node is alive (any
more); ``refused``: Ray does not want to drain it."""


@dataclass(frozen=True, slots=True)
class GcsTarget:
    """Which Ray cluster to ask: the GCS of its head."""

    host: str
    port: int
    token: str | None = field(default=None, repr=False)
    """Bearer token when the cluster wants one. Never logged."""


@dataclass(frozen=True, slots=True)
class LeavingNode:
    """A Ray node that is to leave, as Kubernetes knows it."""

    pod: str
    """Pod name, which Ray knows as instance id."""
    ip: str
    """Tells the node where no instance id does."""
    deadline: datetime
    """When it will go whatever runs on it."""


class DrainError(Exception):
    """No usable answer; its text is one sentence."""


class DrainClient(Protocol):
    """The one call the operator makes."""

    async def drain(self, target: GcsTarget, nodes: Sequence[LeavingNode]) -> Mapping[str, DrainState]:
        """Have *nodes* drained, and tell by pod name how far each is. Asking again changes nothing and tells the news.
        Returns at once, not when they are drained. Raises `DrainError` when Ray cannot be asked."""
        ...
