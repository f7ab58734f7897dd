"""How scenarios wait: in turns of the event loop rather than by the clock alone."""

from __future__ import annotations

import asyncio

LOOK = 0.25
"""Seconds after which a wait looks again although nothing was told."""


async def pause(seconds: float) -> None:
    """Sleep in short turns. Where the machine is too slow for its event loop each turn takes longer, and so this does: it
    gives the operator, which runs in the same loop, as many turns as it would have had."""
    for _ in range(int(seconds / LOOK)):
        await asyncio.sleep(LOOK)
    await asyncio.sleep(seconds % LOOK)
