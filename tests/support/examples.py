"""How much is tried of what could be tried without end: a part of it by default, all of it where somebody can wait.

``LONG=1`` (`make test-all` and `make sim` set it) tries all: examples that hypothesis makes up, seeds, recorded cases that are
replayed a second time in another way.
"""

from __future__ import annotations

import os

LONG = os.environ.get("LONG", "") == "1"
PART = 5


def examples(count: int) -> int:
    """How many examples hypothesis makes up: *count*, or a fifth of them, at least ten."""
    return count if LONG else max(min(count, 10), count // PART)
