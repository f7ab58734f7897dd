"""How often a message is logged: of equal ones of a second the first hundred, and then each hundredth, as KubeRay's logger does.

Equal are messages of one logger, level and wording; names and numbers that are filled in do not count.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

FIRST = 100
"""So many of a second are logged whatever they say."""
EACH = 100
"""And of those that follow every so manieth."""

_MOST_WORDINGS = 4096
"""Wordings come from the code, so there are few; those of a library that fills in names itself must not pile up."""


class Sampling(logging.Filter):
    """One for each handler. A record that goes through after others were left out carries their number as ``left_out``.

    Debug messages are never left out: who asked for them wants all. *clock* returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._second = 0
        self._counts: dict[tuple[str, int, str], int] = {}
        self._left_out: dict[tuple[str, int, str], int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log it."""
        if record.levelno <= logging.DEBUG:
            return True
        second = int(self._clock())
        if second != self._second:
            self._second = second
            self._counts.clear()
            if len(self._left_out) > _MOST_WORDINGS:
                self._left_out.clear()
        key = (record.name, record.levelno, str(record.msg))
        count = self._counts[key] = self._counts.get(key, 0) + 1
        if count > FIRST and (count - FIRST) % EACH:
            self._left_out[key] = self._left_out.get(key, 0) + 1
            return False
        record.left_out = self._left_out.pop(key, 0) if self._left_out else 0
        return True
