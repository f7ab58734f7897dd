"""What is only remembered for a while: the oldest entries of an ordered dictionary go, and the room they took with them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def without_old(entries: OrderedDict[K, V], is_old: Callable[[V], bool]) -> OrderedDict[K, V]:
    """*entries*, oldest first, without those at their head that are old."""
    count = len(entries)
    while entries and is_old(next(iter(entries.values()))):
        entries.popitem(last=False)
    # A dictionary stays as large as it ever was; its copy is as large as what is in it.
    return entries.copy() if len(entries) < count else entries
