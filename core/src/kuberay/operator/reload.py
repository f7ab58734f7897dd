"""Reads the configuration file again when it changes, takes what may change while the operator runs, and tells the rest.

A mounted ConfigMap changes by the swap of a symlink, up to a minute after it was edited; so the file is simply read every ten
seconds, beside the event loop, and compared byte by byte. A file that is wrong changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kuberay.kube.clock import Clock
from kuberay.operator.effective import told
from kuberay.operator.reload_rules import Change, compare
from kuberay.operator.settings import Settings, SettingsError, read_file, read_settings

log = logging.getLogger("setup")

EVERY = 10.0
"""Seconds between two readings. The kubelet takes up to a minute to bring a ConfigMap, so that shorter would gain nothing, and
reading a few kilobytes takes a thread a tenth of a millisecond."""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """Where the settings came from: ``--config``, and the flags that count beside it."""

    path: str
    flags: Mapping[str, Any]


@dataclass(slots=True)
class ReloadState:
    """What came of the readings so far."""

    in_force: Settings
    """Not to be changed: each reload puts another one here."""
    file: str = ""
    """Empty: without a configuration file nothing is read again."""
    error: str = ""
    """Why what the file says now is not taken; empty when it is."""
    needs_restart: Sequence[Change] = ()
    """What the file says and this process does not do."""
    succeeded_at: datetime | None = None
    """When the file was last taken."""

    def page(self) -> dict[str, Any]:
        """For ``/configz``: plain data without secrets."""
        return {
            "inForce": told(self.in_force),
            "file": self.file,
            "lastReload": {
                "successful": not self.error,
                "error": self.error,
                "lastSuccess": self.succeeded_at.isoformat(timespec="seconds") if self.succeeded_at else None,
            },
            "needsRestart": [str(change) for change in self.needs_restart],
        }


Tell = Callable[[bool, str, str], None]
"""Whether it is a warning, the reason of an event in one word, and the sentence."""


class Reloader:
    """Run `run` as a task. *check* raises `SettingsError` for settings with which an operator would not start. *apply* is given settings that differ from those in force only in what may change; it raises
    `SettingsError` when a plugin refuses its part, and then has changed nothing. *tell* makes an event of what users should know.
    """

    def __init__(
        self,
        source: ConfigFile,
        state: ReloadState,
        *,
        clock: Clock,
        of_plugins: Mapping[str, Set[str]],
        apply: Callable[[Settings], Awaitable[None]],
        check: Callable[[Settings], None] = lambda _settings: None,
        tell: Tell = lambda _warning, _reason, _note: None,
        every: float = EVERY,
        first: bytes | None = None,
    ) -> None:
        """*first*: what the settings in force were read from; None: the first reading tells."""
        self._source = source
        self.state = state
        self._clock = clock
        self._of_plugins = of_plugins
        self._apply = apply
        self._check = check
        self._tell = tell
        self._every = every
        self._read: bytes | None = first
        self._now = asyncio.Event()
        state.file = source.path
        state.succeeded_at = clock.now()

    def soon(self) -> None:
        """Read at once; for SIGHUP."""
        self._now.set()

    async def run(self) -> None:
        """Read for ever."""
        while True:
            try:
                await self.look()
            except Exception:
                # Whatever is wrong with reading a file again must not end what runs.
                log.exception("the configuration file could not be read again")
            with suppress(TimeoutError):
                async with asyncio.timeout(self._every):
                    await self._now.wait()
            self._now.clear()

    async def look(self) -> None:
        """Read once, and take what changed."""
        before, self._read = self._read, None
        try:
            text = await asyncio.to_thread(read_file, self._source.path)
            self._read = text
            if text == before:
                return
            settings = await asyncio.to_thread(read_settings, text, self._source.path, self._source.flags)
            self._check(settings)
            await self._take(settings)
        except SettingsError as error:
            self._refuse(str(error))

    async def _take(self, settings: Settings) -> None:
        state = self.state
        found = compare(state.in_force, settings, self._of_plugins)
        if found.applied:
            await self._apply(found.in_force)
            state.in_force = found.in_force
        recovered, state.error = bool(state.error), ""
        state.succeeded_at = self._clock.now()
        if found.applied:
            note = f"taken from {self._source.path}: {', '.join(map(str, found.applied))}"
            log.info("%s", note)
            self._tell(False, "ConfigurationReloaded", note)
        elif recovered:
            log.info("%s can be used again, and changes nothing", self._source.path)
        for change in found.needs_restart:
            if change not in state.needs_restart:
                log.warning("%s", change)
                self._tell(True, "RestartNeeded", str(change))
        state.needs_restart = tuple(found.needs_restart)

    def _refuse(self, sentence: str) -> None:
        if self.state.error == sentence:
            return
        self.state.error = sentence
        log.error("the settings stay as they are: %s", sentence)
        self._tell(True, "ConfigurationRefused", f"the settings stay as they are: {sentence}")
