"""Waiting for a state of the world, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable


def eventually(check: Callable[[], bool], seconds: float, what: str) -> None:
    """Look every second until *check* holds; fails with *what* when it does not within *seconds*."""
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, f"{what}: not within {seconds:.0f} s"
        time.sleep(1)
