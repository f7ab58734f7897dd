"""How fast the operator may ask the API server: one token bucket for the whole client, off when the rate is zero."""

from __future__ import annotations

import asyncio


class RateLimit:
    """Token bucket: *rate* requests per second on average, up to *burst* at once. Waiters are served in order."""

    def __init__(self, rate: float, burst: int) -> None:
        self.change(rate, burst)

    def change(self, rate: float, burst: int) -> None:
        """From now on; who waits already waits no longer and no shorter. The bucket is full again."""
        self._rate = rate
        self._burst = max(1, burst)
        self._tokens = float(self._burst)
        self._last: float | None = None

    @property
    def on(self) -> bool:
        """Whether anything has to wait at all: the rate is not zero."""
        return self._rate > 0

    async def take(self) -> None:
        """Wait for a token; not to be called while it is off."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        if self._last is not None:
            self._tokens = min(self._burst, self._tokens + (now - self._last) * self._rate)
        self._last = now
        self._tokens -= 1
        if self._tokens < 0:
            # The debt is the waiter's place in the line: each later caller owes one token more.
            await asyncio.sleep(-self._tokens / self._rate)
