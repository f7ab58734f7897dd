"""Keeps pytest-asyncio from making an event loop of its own that nobody closes.

It asks asyncio for the loop to restore after each test; on Python 3.11 the first question makes one, and the warning
about it fails the run. Once a loop has been set, even to none, nothing is made.
"""

from __future__ import annotations

import asyncio

asyncio.set_event_loop(None)
