"""The operator as a process: its logs, plugins and feature gates from its settings, and its exit code.

What it does then is `on_cluster`. Whatever keeps it from starting is one clear sentence on standard error and exit code 1.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import uvloop

from kuberay.api.gates import KUBERNETES_WAS
from kuberay.api.kinds import RAYCLUSTER, RAYCRONJOB, RAYJOB, RAYSERVICE, Kind
from kuberay.kube.connection import NoConnectionError
from kuberay.operator import on_cluster
from kuberay.operator.app import LeadershipLostError
from kuberay.operator.beside import THREAD_PREFIX
from kuberay.operator.controller import PlanFunction
from kuberay.operator.effective import in_effect
from kuberay.operator.environment import read_environment
from kuberay.operator.logs import set_up_logging
from kuberay.operator.metrics import Metrics
from kuberay.operator.on_cluster import Chosen
from kuberay.operator.preflight import StartError
from kuberay.operator.reload import ConfigFile
from kuberay.operator.settings import Settings
from kuberay.plan.cluster import plan_cluster
from kuberay.plan.cronjob import plan_cronjob
from kuberay.plan.job import plan_job
from kuberay.plan.service import plan_service
from kuberay.plugins.gates import FeatureGates, GateError
from kuberay.plugins.loader import PluginError, list_installed, load
from kuberay.plugins.manager import PluginManager
from kuberay.plugins.schedulers import check_choice

log = logging.getLogger("setup")

PLANS: Mapping[Kind, PlanFunction] = {
    RAYCLUSTER: plan_cluster,
    RAYJOB: plan_job,
    RAYSERVICE: plan_service,
    RAYCRONJOB: plan_cronjob,
}


def operator_version() -> str:
    """Version of the installed core distribution."""
    try:
        return version("kuberay-core")
    except PackageNotFoundError:
        return "0.0.0"


def assemble_plugins(settings: Settings, metrics: Metrics | None = None) -> tuple[PluginManager, dict[str, bool]]:
    """Enabled plugins and the resulting feature gates. Raises `PluginError` or `GateError` with one sentence."""
    manager, gates = assemble(settings, metrics)
    return manager, dict(gates)


def assemble(settings: Settings, metrics: Metrics | None = None) -> tuple[PluginManager, FeatureGates]:
    """The same, with all that is known of the gates."""
    names, optional = settings.enabled_plugins()
    if settings.scheduler:
        check_choice(settings.scheduler)
    manager = PluginManager(load(names, optional=optional), observer=metrics)
    manager.choose_scheduler(settings.scheduler)
    sections: dict[str, Any] = settings.plugins.model_extra or {}
    manager.configure(sections)
    gates = FeatureGates(settings.feature_gates, manager.feature_gates())
    if gates[KUBERNETES_WAS] and manager.scheduler is not None:
        raise GateError(
            f"feature gate {KUBERNETES_WAS} and the batch scheduler {manager.scheduler.plugin!r} cannot both be on: "
            "gangs would be made twice"
        )
    return manager, gates


def _warn_of_settings(settings: Settings, manager: PluginManager, gates: FeatureGates) -> None:
    """What is taken, and probably not what was meant."""
    if settings.enable_batch_scheduler:
        log.warning("enableBatchScheduler is deprecated: use batchScheduler (--batch-scheduler=volcano)")
    enabled = [plugin.name for plugin in manager.plugins]
    for sentence in gates.without_effect([found.name for found in list_installed()], enabled):
        log.warning("%s", sentence)


def collect_garbage_less_often() -> None:
    """Spare the collector what lives as long as the process, and let it look at the rest less often.

    A pass makes thousands of short-lived containers and hardly any cycles, which is all the collector is for; with
    Python's defaults it looks at the whole store again and again, for a fifth of the operator's CPU time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def open_as_many_files_as_allowed() -> None:
    """Lift the soft limit of open files, often 1,024, to the hard one: each running job may keep a connection."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def run_operator(settings: Settings, kubeconfig: str = "", source: ConfigFile | None = None) -> int:
    """Run until SIGTERM or SIGINT; returns the process's exit code. *source*: the file that *settings* came from, which is
    read again when it changes."""
    code = _run_to_its_end(settings, kubeconfig, source)
    slow = [thread for thread in threading.enumerate() if thread.name.startswith(THREAD_PREFIX)]
    for thread in slow:
        # An idle one ends at once.
        thread.join(0.1)
    if any(thread.is_alive() for thread in slow):
        # The interpreter would wait for them, and Kubernetes would have to kill it.
        log.warning("a hook of a plugin is still running; the process ends without it")
        logging.shutdown()
        os._exit(code)
    return code


def _run_to_its_end(settings: Settings, kubeconfig: str, source: ConfigFile | None) -> int:
    collect_garbage_less_often()
    open_as_many_files_as_allowed()
    try:
        set_up_logging(
            level=settings.log_level,
            encoder=settings.log_stdout_encoder,
            log_file=settings.log_file,
            file_encoder=settings.log_file_encoder,
            levels=settings.log_levels,
        )
    except OSError as error:
        return _refuse(f"Cannot write the log file {settings.log_file}: {error.strerror or error}.")
    try:
        # uvloop: the same loop for a third less CPU per request (docs/performance.md).
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_run(settings, kubeconfig, source))
    except (StartError, NoConnectionError, PluginError, GateError) as error:
        return _refuse(str(error))
    except LeadershipLostError as error:
        log.error("%s", error)
        return 1
    except Exception:
        # Whatever ends the runtime ends the process: Kubernetes starts it again, and the log says why.
        log.exception("the operator cannot go on")
        return 1
    return 0


def _refuse(sentence: str) -> int:
    print(f"kuberay: {sentence}", file=sys.stderr)  # noqa: T201 - the one thing a user must read
    return 1


async def _run(settings: Settings, kubeconfig: str, source: ConfigFile | None) -> None:
    metrics = Metrics()
    manager, gates = assemble(settings, metrics)
    _warn_of_settings(settings, manager, gates)
    log.info("settings other than the defaults: %s", in_effect(settings))
    for plugin in manager.plugins:
        metrics.plugin_enabled(plugin.name, plugin.distribution, plugin.version, list(plugin.hooks))
        log.info("plugin %s %s is on", plugin.name, plugin.version)
    chosen = Chosen(
        settings=settings,
        environment=read_environment(),
        version=operator_version(),
        plugins=manager,
        gates=dict(gates),
        plans=PLANS,
        metrics=metrics,
    )
    await on_cluster.run(chosen, kubeconfig, source)
