"""Which replica acts: a coordination.k8s.io Lease, held by conditional writes and judged by the local monotonic clock.

A holder that was frozen or cut off knows by that clock that its time is over before it asks anybody (`may_act`). Still this is
no fence at the server: every write is safe on its own (names, UIDs, resourceVersions). Timing and name are KubeRay's, so both
implementations exclude each other (operator.md 4).
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from kuberay.api.kinds import LEASE
from kuberay.kube.client import Client
from kuberay.kube.clock import Clock
from kuberay.kube.errors import ApiError, ConflictError, NotFoundError, NotLeadingError
from kuberay.kube.transport import TransportError

log = logging.getLogger("kuberay.kube.lease")

LEASE_NAME = "ray-operator-leader"

TELL_EVERY = 60.0
"""Seconds between two log lines of a candidate that gets no answer."""


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Defaults of Kubernetes controllers, in seconds."""

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry: float = 2.0


class Lease:
    """One candidate. `acquire` returns when it leads, `hold` returns when it no longer does."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        *,
        namespace: str,
        identity: str,
        name: str = LEASE_NAME,
        times: LeaseTimes | None = None,
        monotonic: Callable[[], float] | None = None,
    ) -> None:
        """*monotonic* gives seconds that never go back. By default the event loop's time, which stands still while one callback
        runs, so that a process which was frozen in the midst of it would notice late."""
        self._client = client
        self._clock = clock
        self._namespace = namespace
        self._name = name
        self._times = times or LeaseTimes()
        self._identity = identity
        self._seen: tuple[str, str] | None = None
        self._seen_at = 0.0
        self._promised = self._times.duration
        self._held: dict[str, Any] | None = None
        """The Lease as we last wrote it; its resourceVersion makes the next write conditional."""
        self._monotonic = monotonic or (lambda: asyncio.get_running_loop().time())
        self._until = -math.inf
        """Until when, by the monotonic clock, this candidate leads without another renewal."""
        self._problem = ""
        """Why the last attempt came to nothing; empty when it was answered."""
        self._cut_off_at = -math.inf

    @property
    def name(self) -> str:
        """``namespace/name``."""
        return f"{self._namespace}/{self._name}"

    def may_act(self) -> bool:
        """Whether this candidate leads at this very moment, however long ago it was asked last."""
        return self._monotonic() < self._until

    def gate(self) -> None:
        """Raise `NotLeadingError` unless this candidate may act; for `Client.gated`."""
        if not self.may_act():
            raise NotLeadingError

    def was_cut_off(self, seconds: float) -> bool:
        """Whether an attempt of the last *seconds* got no answer: watches that began before may be dead without knowing."""
        return self._monotonic() - self._cut_off_at < seconds

    async def acquire(self) -> None:
        """Wait until this candidate holds the lease. Why it gets no answer is logged once a minute."""
        failures, told_at = 0, -math.inf
        while not await self._try():
            failures = failures + 1 if self._problem else 0
            # Once is nothing: of two that try at the same moment one is refused.
            if failures >= 2 and self._monotonic() - told_at >= TELL_EVERY:
                told_at = self._monotonic()
                log.warning("cannot ask for the lease %s, so nothing is done here: %s", self.name, self._problem)
            await asyncio.sleep(self._pause())
        log.info("leading as %s", self._identity)

    async def hold(self) -> None:
        """Renew until that has failed for the renew deadline; then this candidate leads no more."""
        loop = asyncio.get_running_loop()
        while self.may_act():
            left = self._until - self._monotonic()
            await asyncio.sleep(min(self._times.retry, left))
            if not self.may_act():
                break
            try:
                # Bounded as a whole, so that we have stopped well before others may take an expired lease.
                async with asyncio.timeout_at(loop.time() + self._until - self._monotonic()):
                    held = await self._try()
            except TimeoutError:
                self._problem = self._problem or "no answer"
                break
            if not held and not self._problem:
                self._problem = "somebody else holds it"
                break
            if not held:
                log.warning("the lease %s was not renewed, will try again: %s", self.name, self._problem)
        self._until = -math.inf
        why = f": {self._problem}" if self._problem else ""
        log.error("the lease %s could not be renewed in time%s", self.name, why)

    async def release(self) -> None:
        """Give the lease up, after all workers have ended, so that the next one need not wait for it to expire."""
        self._until = -math.inf
        try:
            lease = orjson.loads(await self._client.get(LEASE, self._namespace, self._name))
            if lease["spec"].get("holderIdentity") == self._identity:
                lease["spec"].update(holderIdentity="", leaseDurationSeconds=1, renewTime=self._now())
                await self._client.replace(LEASE, self._namespace, self._name, lease)
        except (ApiError, TransportError) as error:
            log.warning("the lease could not be released: %s", error)

    async def _try(self) -> bool:
        """One attempt to take or renew. False: somebody else holds it, or the API server did not answer (`_problem`)."""
        # Counted from before the request: others count from when they saw what it wrote.
        asked = self._monotonic()
        bound = self._times.renew_deadline / 2
        try:
            # A server that is silent is not waited for: the next attempt may meet another one.
            async with asyncio.timeout(bound) as limit:
                held = await self._ask()
        except (ApiError, TransportError, TimeoutError) as error:
            if isinstance(error, TimeoutError) and not limit.expired():
                raise
            self._problem = str(error) or f"no answer within {bound:g} s"
            log.debug("lease attempt failed: %s", self._problem)
            if not isinstance(error, ApiError):
                self._cut_off_at = self._monotonic()
            return False
        self._problem = ""
        if held:
            self._until = asked + self._times.renew_deadline
        return held

    async def _ask(self) -> bool:
        """Take or renew, with two requests at most; False: somebody else holds it."""
        if self._held is not None and await self._renew(self._held):
            return True
        try:
            lease = orjson.loads(await self._client.get(LEASE, self._namespace, self._name))
        except NotFoundError:
            self._held = orjson.loads(await self._client.create(LEASE, self._namespace, self._body({}, 0)))
            return True
        spec: dict[str, Any] = lease.get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        if holder not in ("", self._identity) and not self._expired(spec):
            return False
        transitions = int(spec.get("leaseTransitions") or 0)
        if holder == self._identity:
            lease["spec"] = {**spec, "renewTime": self._now()}
        else:
            lease["spec"] = self._body(spec, transitions + 1)["spec"]
        self._held = orjson.loads(await self._client.replace(LEASE, self._namespace, self._name, lease))
        return True

    async def _renew(self, held: dict[str, Any]) -> bool:
        """Renew what we wrote last, in one request; False when somebody else has written it since."""
        held["spec"]["renewTime"] = self._now()
        try:
            self._held = orjson.loads(await self._client.replace(LEASE, self._namespace, self._name, held))
        except (ConflictError, NotFoundError):
            self._held = None
            return False
        return True

    def _expired(self, spec: dict[str, Any]) -> bool:
        """Whether the record has not changed, as seen by our own clock, for the duration its holder promised."""
        now = self._monotonic()
        record = (str(spec.get("holderIdentity")), str(spec.get("renewTime")))
        self._promised = float(spec.get("leaseDurationSeconds") or self._times.duration)
        if record != self._seen:
            self._seen, self._seen_at = record, now
            return False
        return now - self._seen_at > self._promised

    def _pause(self) -> float:
        """Seconds until the next attempt to take the lease: not later than when what was seen last expires."""
        if self._seen is None:
            return self._times.retry
        left = self._seen_at + self._promised - self._monotonic()
        return min(self._times.retry, left + 0.01) if left > 0 else self._times.retry

    def _body(self, spec: dict[str, Any], transitions: int) -> dict[str, Any]:
        now = self._now()
        return {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": int(self._times.duration),
                "acquireTime": now,
                "renewTime": now,
                "leaseTransitions": transitions,
            },
        }

    def _now(self) -> str:
        return self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
