"""Which replica acts: a coordination.k8s.io Lease, held by conditional writes and judged by the local monotonic clock.

This is coordination, not fencing: two holders may overlap for moments, so every write must be safe on its own (names,
UIDs, resourceVersions). Timing and name are KubeRay's, so both implementations exclude each other (operator.md 4).
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

import orjson

from kuberay.api.kinds import LEASE
from kuberay.kube.client import Client
from kuberay.kube.clock import Clock
from kuberay.kube.errors import ApiError, ConflictError, NotFoundError
from kuberay.kube.transport import TransportError

log = logging.getLogger("kuberay.kube.lease")

LEASE_NAME = "ray-operator-leader"


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
    ) -> None:
        self._client = client
        self._clock = clock
        self._namespace = namespace
        self._name = name
        self._times = times or LeaseTimes()
        self._identity = identity
        self._seen: tuple[str, str] | None = None
        self._seen_at = 0.0
        self._held: dict[str, Any] | None = None
        """The Lease as we last wrote it; its resourceVersion makes the next write conditional."""

    async def acquire(self) -> None:
        """Wait until this candidate holds the lease."""
        while not await self._try():
            await asyncio.sleep(self._times.retry)
        log.info("leading as %s", self._identity)

    async def hold(self) -> None:
        """Renew until that has failed for the renew deadline; then this candidate leads no more."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._times.renew_deadline
        while loop.time() < deadline:
            await asyncio.sleep(min(self._times.retry, deadline - loop.time()))
            try:
                # Bounded as a whole, so that we have stopped well before others may take an expired lease.
                async with asyncio.timeout_at(deadline):
                    asked = loop.time()
                    if await self._try():
                        deadline = asked + self._times.renew_deadline
            except TimeoutError:
                break
        log.error("the lease %s/%s could not be renewed in time", self._namespace, self._name)

    async def release(self) -> None:
        """Give the lease up, after all workers have ended, so that the next one need not wait for it to expire."""
        try:
            lease = orjson.loads(await self._client.get(LEASE, self._namespace, self._name))
            if lease["spec"].get("holderIdentity") == self._identity:
                lease["spec"].update(holderIdentity="", leaseDurationSeconds=1, renewTime=self._now())
                await self._client.replace(LEASE, self._namespace, self._name, lease)
        except (ApiError, TransportError) as error:
            log.warning("the lease could not be released: %s", error)

    async def _try(self) -> bool:
        """One attempt to take or renew. False: somebody else holds it, or the API server did not answer."""
        try:
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
        except (ApiError, TransportError) as error:
            log.debug("lease attempt failed: %s", error)
            return False
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
        now = asyncio.get_running_loop().time()
        record = (str(spec.get("holderIdentity")), str(spec.get("renewTime")))
        if record != self._seen:
            self._seen, self._seen_at = record, now
            return False
        return now - self._seen_at > float(spec.get("leaseDurationSeconds") or self._times.duration)

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
