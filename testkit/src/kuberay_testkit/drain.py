"""A Ray that drains nodes without being there: workers are busy for a while, and the ways in which draining fails.

Implements `kuberay.ray.drain.DrainClient` for all clusters of a simulation at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Literal

from kuberay.ray.drain import DrainError, DrainState, GcsTarget, LeavingNode

from kuberay_testkit.sim.clock import VirtualClock

Mode = Literal["ok", "refuse", "unreachable", "hang"]
"""``refuse``: Ray does not want to drain a node; ``unreachable``: connection refused; ``hang``: no answer until callers
give up."""


class FakeDrain:
    """Every pod is a Ray node that is idle, until told otherwise."""

    def __init__(self, *, clock: VirtualClock | None = None, timeout: float = 2.0, latency: float = 0.01) -> None:
        """*timeout* in seconds is when callers give up."""
        self.clock = clock or VirtualClock()
        self.timeout = timeout
        self.latency = latency
        self.mode: Mode = "ok"
        self.failures_left: int | None = None
        """After so many failing calls the mode is ``ok`` again; None: it stays."""
        self.busy_seconds = 0.0
        """How long a node still works after it was asked to drain."""
        self.busy: dict[str, float] = {}
        """The same for single pods, by name."""
        self.token: str | None = None
        """With a token set, others are refused."""
        self.asked: dict[str, float] = {}
        """By pod name: when Ray began to drain it, in seconds of the simulation."""
        self.drained: dict[str, float] = {}
        """By pod name: when it had nothing left to do."""
        self.calls = 0

    def fail(self, mode: Mode, *, times: int | None = None) -> None:
        """Let *times* calls fail, or all until `fail("ok")`."""
        self.mode, self.failures_left = mode, times

    async def drain(self, target: GcsTarget, nodes: Sequence[LeavingNode]) -> Mapping[str, DrainState]:
        self.calls += 1
        await asyncio.sleep(self.latency)
        mode = self.mode
        if mode != "ok" and self.failures_left is not None:
            self.failures_left -= 1
            if self.failures_left <= 0:
                self.mode, self.failures_left = "ok", None
        match mode:
            case "unreachable":
                raise DrainError(f"the GCS at {target.host}:{target.port} cannot be asked: connection refused")
            case "hang":
                await asyncio.sleep(self.timeout)
                raise DrainError(f"the GCS at {target.host}:{target.port} did not answer within {self.timeout:g} s")
            case "refuse":
                return {node.pod: "refused" for node in nodes}
        if self.token is not None and target.token != self.token:
            raise DrainError(f"the GCS at {target.host}:{target.port} refuses: InvalidAuthToken")
        return {node.pod: self._ask(node.pod) for node in nodes}

    def _ask(self, pod: str) -> DrainState:
        now = self.clock.elapsed()
        begun = self.asked.setdefault(pod, now)
        if now - begun < self.busy.get(pod, self.busy_seconds):
            return "draining"
        self.drained.setdefault(pod, now)
        return "drained"
