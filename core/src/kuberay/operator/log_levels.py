"""From which level on each logger is heard: one level for all, others for those that are named, and both may change at run time.

Libraries that would tell what is no news to users of the operator are quieter, until somebody names them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Literal, get_args

Level = Literal["debug", "info", "warning", "error"]
LEVELS: tuple[str, ...] = get_args(Level)

QUIET: Mapping[str, str] = {
    # It tells of every event at debug and of its set-up at info.
    "kopf": "warning",
    # It warns that signals are not its own: they are ours.
    "kopf._core.reactor.running": "error",
    "aiohttp.access": "warning",
}
"""Unless ``logLevels`` says otherwise."""


class LogLevels:
    """The levels in force. `use` is called with what the settings say, `toggle_debug` and `override` until the next `use`."""

    def __init__(self) -> None:
        self.level = "info"
        self.levels: dict[str, str] = {}
        self._set: set[str] = set()

    def use(self, level: str, levels: Mapping[str, str]) -> None:
        """*level* for all loggers except those of *levels*, which are names and what is below them (``kuberay.kube``)."""
        self.level, self.levels = level, dict(levels)
        self._apply()

    def override(self, logger: str, level: str) -> None:
        """Another level for *logger*, or for all when it is empty. Raises ValueError with one sentence."""
        if level not in LEVELS:
            raise ValueError(f"{level!r} is no level: use {', '.join(LEVELS[:-1])} or {LEVELS[-1]}")
        if logger:
            self._apply(named={logger: level})
        else:
            self._apply(level)

    def toggle_debug(self) -> str:
        """Debug for all, or back to what the settings say. Returns which of them: ``debug``, or the level of the settings."""
        if logging.getLogger().level == logging.DEBUG and self.level != "debug":
            self._apply()
            return self.level
        self._apply("debug")
        return "debug"

    def in_force(self) -> dict[str, str]:
        """By logger, the empty name for all others."""
        known = {name: logging.getLogger(name).level for name in sorted(self._set)}
        return {"": _name(logging.getLogger().level)} | {name: _name(level) for name, level in known.items()}

    def _apply(self, level: str = "", named: Mapping[str, str] | None = None) -> None:
        wanted = {**QUIET, **self.levels, **(named or {})}
        for name in self._set - wanted.keys():
            logging.getLogger(name).setLevel(logging.NOTSET)
        for name, each in wanted.items():
            logging.getLogger(name).setLevel(each.upper())
        self._set = set(wanted)
        logging.getLogger().setLevel((level or self.level).upper())


def _name(level: int) -> str:
    return logging.getLevelName(level).lower()


LOG_LEVELS = LogLevels()
"""The process has one logging tree, so there is one of these."""
