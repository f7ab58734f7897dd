"""Whose turn it is to ask the outside world: bounds on requests under way, such that a dashboard that hangs delays nobody.

Whoever has not been answered soon gives its place up to others; an address that failed last time waits among its like.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

PATIENCE = 0.25
"""Seconds a request holds one of the places. A head that hangs is waited for longer, but beside them, so that hundreds
that begin to hang at once hold up the others by a second or two, once."""

AT_ONE_ADDRESS = 4
"""Requests under way to one address: many RayJobs may use one RayCluster."""


@dataclass(slots=True)
class _Address:
    """What is remembered of an address while anybody asks there."""

    room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONE_ADDRESS))
    failing: bool = False
    users: int = 0


@dataclass(slots=True)
class _Place:
    """One of the usual places, which is given back once: when its holder is answered, or before."""

    places: asyncio.Semaphore
    held: bool = True

    def give_back(self) -> None:
        if self.held:
            self.held = False
            self.places.release()


class Turns:
    """Hands out turns: *places* to those that are expected to be answered, and as many to addresses that are failing."""

    def __init__(self, places: int) -> None:
        self._usual = asyncio.Semaphore(places)
        self._failing = asyncio.Semaphore(places)
        self._addresses: dict[str, _Address] = {}

    def enter(self, address: str) -> None:
        """From now on somebody asks at *address*; to be called once for each `leave`."""
        self._addresses.setdefault(address, _Address()).users += 1

    def leave(self, address: str) -> None:
        """Nobody of those who entered is left: what is known of the address is forgotten."""
        known = self._addresses[address]
        known.users -= 1
        if not known.users:
            del self._addresses[address]

    def told(self, address: str, *, failing: bool) -> None:
        """How the last request ended."""
        self._addresses[address].failing = failing

    @asynccontextmanager
    async def turn(self, address: str) -> AsyncIterator[None]:
        """The time of one request. *address* is empty for the API server, which is waited for as long as it takes."""
        if not address:
            async with self._usual:
                yield
            return
        known = self._addresses[address]
        async with known.room:
            if known.failing:
                async with self._failing:
                    yield
                return
            await self._usual.acquire()
            place = _Place(self._usual)
            late = asyncio.get_running_loop().call_later(PATIENCE, place.give_back)
            try:
                yield
            finally:
                late.cancel()
                place.give_back()
