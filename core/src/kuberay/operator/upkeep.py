"""What goes on beside the operator's work while it runs: its configuration file, the profiling listener, and signals.

Nothing of it can end the process: what fails here is told, and the work goes on.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from kuberay.kube.client import Client
from kuberay.kube.clock import Clock
from kuberay.kube.events import EventRecorder
from kuberay.operator.app import App
from kuberay.operator.log_levels import LOG_LEVELS
from kuberay.operator.own_object import own_object
from kuberay.operator.profiling import Profiling
from kuberay.operator.reload import ConfigFile, Reloader, ReloadState
from kuberay.operator.reload_apply import Running
from kuberay.operator.reload_metrics import ReloadMetrics
from kuberay.operator.reload_rules import reloaded_fields
from kuberay.operator.summary import summarize

log = logging.getLogger("setup")

CONTROLLER = "kuberay-operator"
"""Who reports events about the operator itself."""


class Upkeep:
    """Of *app*, which was started with ``running.settings``. *source*: None when they came from flags alone."""

    def __init__(
        self,
        app: App,
        running: Running,
        source: ConfigFile | None,
        *,
        client: Client,
        clock: Clock,
        namespace: str,
        lease_namespace: str,
    ) -> None:
        self._client = client
        # Not the app's, which is for the leader alone: each replica has a file and a pod of its own.
        self._recorder = EventRecorder(client, clock, instance=socket.gethostname(), senders=1)
        self._namespace, self._lease_namespace = namespace, lease_namespace
        self._running = running
        self._profiling = Profiling(LOG_LEVELS, lambda: summarize(app))
        running.listen = self._profiling.listen
        self.state = ReloadState(running.settings)
        self._tasks: set[asyncio.Task[None]] = set()
        self._reloader: Reloader | None = None
        if source is not None:
            self._reloader = Reloader(
                source,
                self.state,
                clock=clock,
                of_plugins=reloaded_fields(running.plugins.settings_models()),
                apply=running.take,
                check=running.check,
                tell=self._tell,
            )
            app.metrics.registry.register(ReloadMetrics(self.state))

    def pages(self) -> Mapping[str, Callable[[], Any]]:
        """What may be read beside the probes."""
        return {"/configz": self.state.page}

    async def start(self) -> None:
        """Raises OSError when the profiling listener cannot listen."""
        await self._profiling.listen(self._running.settings.profiling_addr)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self._hung_up)
        loop.add_signal_handler(signal.SIGUSR1, _toggle_debug)
        if self._reloader is not None:
            self._keep(asyncio.create_task(self._recorder.run(), name="own events"))
            self._keep(asyncio.create_task(self._reloader.run(), name="configuration file"))

    async def stop(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task
        await self._profiling.stop()

    def _hung_up(self) -> None:
        if self._reloader is None:
            log.info("there is no configuration file to be read again; flags and variables hold until a restart")
            return
        log.info("reading %s again", self.state.file)
        self._reloader.soon()

    def _tell(self, warning: bool, reason: str, note: str) -> None:
        self._keep(asyncio.create_task(self._emit("Warning" if warning else "Normal", reason, note), name="own event"))

    async def _emit(self, type_: str, reason: str, note: str) -> None:
        about = await own_object(self._client, self._namespace, socket.gethostname(), self._lease_namespace)
        if about is not None:
            self._recorder.emit(about, type_=type_, reason=reason, action="Reload", note=note, controller=CONTROLLER)

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _toggle_debug() -> None:
    level = LOG_LEVELS.toggle_debug()
    log.warning("logging from level %s on, until SIGUSR1 comes again or the settings change", level)
