"""At which of its requests an operator is killed in a test that tries one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from examples import LONG

Kills = Callable[[int], Iterable[int]]
"""What the fixture ``kills`` gives: of so many request boundaries, those that this run of the test tries."""

SHARE = 1 if LONG else 3
"""Every which of them is tried by default. Which these are differs from test to test, as their stories do."""


def share_of(seed: int, seeds: int) -> Kills:
    """Boundaries are shared out among the seeds, so that as many are tried whatever their number."""
    return lambda boundaries: range(1 + seed % seeds, boundaries, SHARE * seeds)
