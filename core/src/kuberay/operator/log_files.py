"""The log file: a new one after 500 MB, ten former ones kept, none of them longer than 30 days (KubeRay's numbers).

It has what is told at info and above, whatever standard error has.
"""

from __future__ import annotations

import logging
import logging.handlers
import time
from collections.abc import Callable
from pathlib import Path

LARGEST = 500 * 2**20
"""Bytes."""
KEPT = 10
OLDEST = 30 * 24 * 3600.0
"""Seconds since the last line of a former file."""


class LogFile(logging.handlers.RotatingFileHandler):
    """Former files have a number behind their name, 1 the youngest. Raises OSError when *path* cannot be written.

    *clock* returns the time in seconds since 1970, as the times of files do.
    """

    def __init__(
        self, path: str, *, largest: int = LARGEST, kept: int = KEPT, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__(path, maxBytes=largest, backupCount=kept, encoding="utf-8")
        self.setLevel(logging.INFO)
        self._clock = clock
        self._forget_old()

    def doRollover(self) -> None:  # noqa: N802  the library's name
        """Begin a new file."""
        super().doRollover()
        self._forget_old()

    def _forget_old(self) -> None:
        for number in range(1, self.backupCount + 1):
            former = Path(f"{self.baseFilename}.{number}")
            try:
                if self._clock() - former.stat().st_mtime > OLDEST:
                    former.unlink()
            except OSError:
                continue  # not there, or not ours to delete: the log itself goes on
