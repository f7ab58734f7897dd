"""Starts the operator on a real cluster: settings to plugins to connection to checks to `App`, and the exit code.

Whatever keeps it from starting is one clear sentence on standard error and exit code 1.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import signal
import socket
import sys
import threading
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import tzinfo
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import aiohttp
import tzlocal
import uvloop

from kuberay.api.gates import KUBERNETES_WAS
from kuberay.api.kinds import RAYCLUSTER, RAYCRONJOB, RAYJOB, RAYSERVICE, ROUTE, SECRET, Kind
from kuberay.kube.client import Client
from kuberay.kube.clock import SystemClock
from kuberay.kube.connection import Connection, NoConnectionError, connect
from kuberay.kube.http import HttpTransport
from kuberay.kube.lease import Lease
from kuberay.kube.limits import RateLimit
from kuberay.operator.app import CHILD_KINDS, App, LeadershipLostError, Parts, ray_kinds
from kuberay.operator.beside import THREAD_PREFIX
from kuberay.operator.controller import PlanFunction
from kuberay.operator.effective import in_effect
from kuberay.operator.environment import own_namespace, read_environment
from kuberay.operator.health import Health, Servers
from kuberay.operator.log_levels import LOG_LEVELS
from kuberay.operator.logs import set_up_logging
from kuberay.operator.metrics import Metrics
from kuberay.operator.preflight import StartError, check_cluster, check_gates, is_openshift, offers_resize
from kuberay.operator.reload import ConfigFile
from kuberay.operator.reload_apply import Running, found_at_start
from kuberay.operator.settings import Settings
from kuberay.operator.source import KopfSource
from kuberay.operator.traced import TracedHooks, TracedTransport
from kuberay.operator.tracing import NO_TRACING, Traced, Tracing
from kuberay.operator.upkeep import Upkeep
from kuberay.operator.webhooks.review import Reviewer
from kuberay.operator.webhooks.serving import Webhooks, webhooks
from kuberay.plan.cluster import plan_cluster
from kuberay.plan.config import PlanConfig
from kuberay.plan.cronjob import plan_cronjob
from kuberay.plan.job import plan_job
from kuberay.plan.service import plan_service
from kuberay.plugins.gates import FeatureGates, GateError
from kuberay.plugins.loader import PluginError, list_installed, load
from kuberay.plugins.manager import PluginManager
from kuberay.plugins.schedulers import check_choice
from kuberay.ray.autoscaler_state import GrpcDrainClient
from kuberay.ray.connections import head_connector
from kuberay.ray.http import HttpDashboardClient

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
    manager, known_gates = assemble(settings, metrics)
    gates = dict(known_gates)
    _warn_of_settings(settings, manager, known_gates)
    log.info("settings other than the defaults: %s", in_effect(settings))
    for plugin in manager.plugins:
        metrics.plugin_enabled(plugin.name, plugin.distribution, plugin.version, list(plugin.hooks))
        log.info("plugin %s %s is on", plugin.name, plugin.version)
    environment = read_environment()
    connection = await connect(kubeconfig)
    metrics.running(operator_version(), gates, connection.server)
    metrics.watch_slow_plugins(manager.slow_plugins)
    namespace = own_namespace(connection.namespace, environment)
    limit = RateLimit(settings.qps, settings.burst)
    tracing = _tracing(manager, metrics)
    transport = HttpTransport(
        connection, user_agent=f"kuberay-operator/{operator_version()}", limit=limit, observer=metrics.requests
    )
    client = Client(TracedTransport(transport, tracing) if tracing.on else transport)
    servers = Servers()
    upkeep: Upkeep | None = None
    admission: Webhooks | None = None
    ssl_context = connection.ssl_context() if settings.use_kubernetes_proxy else None
    config = replace(environment.plan_config(settings, operator_version()), operator_namespace=namespace)
    connector = head_connector(config.cluster_domain, ssl_context)
    session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
    try:
        kinds = ray_kinds(gates)
        children = [*CHILD_KINDS, *(watch.kind for watch in manager.watches())]
        of_secrets = settings.secrets_in
        if of_secrets is not None:
            children = [kind for kind in children if kind != SECRET]
        await check_cluster(client, connection.server, kinds, children, settings.namespaces)
        if of_secrets:
            await check_cluster(client, connection.server, (), (SECRET,), of_secrets)
        await check_gates(client, gates)
        config = replace(config, local_zone=_local_zone(), resize_in_place=await offers_resize(client))
        if await is_openshift(client):
            config = replace(config, openshift=True)
            await check_cluster(client, connection.server, (), (ROUTE,), settings.namespaces)
        app = App(
            Parts(
                client=client,
                clock=SystemClock(),
                source=KopfSource(connection, list(kinds), settings.namespaces),
                dashboard=_dashboard(settings, connection, session),
                drain=GrpcDrainClient(),
                hooks=manager,
                config=config,
                plans=PLANS,
                gates=gates,
                namespaces=settings.namespaces,
                workers=settings.workers,
                lease=_lease(settings, client, namespace),
                instance=socket.gethostname(),
                metrics=metrics,
                tracing=tracing,
            )
        )
        if settings.enable_metrics:
            metrics.export_objects(app.store)
        health = Health(app.why_not_live, app.why_not_ready, metrics.loop_was_late)
        found = found_at_start(config, environment.plan_config(settings, operator_version()))

        def use(changed: PlanConfig) -> None:
            nonlocal config
            config = changed
            app.use(config)

        upkeep = Upkeep(
            app,
            Running(
                settings=settings,
                plugins=manager,
                limit=limit,
                levels=LOG_LEVELS,
                plan_config=lambda of: replace(environment.plan_config(of, operator_version()), **found),
                use=use,
            ),
            source,
            client=client,
            clock=SystemClock(),
            namespace=namespace,
            lease_namespace=settings.leader_election_namespace or namespace,
        )
        try:
            await servers.start(settings.metrics_addr, settings.probe_addr, metrics, health, upkeep.pages())
        except (OSError, ValueError) as error:
            raise StartError(f"Cannot listen on {settings.metrics_addr} or {settings.probe_addr}: {error}.") from error
        try:
            await upkeep.start()
        except OSError as error:
            raise StartError(f"Cannot listen on {settings.profiling_addr}: {error}.") from error
        if environment.webhooks(settings):
            reviewer = Reviewer(
                now=SystemClock().now, hooks=manager, config=lambda: config, gates=gates, namespaces=settings.namespaces
            )
            admission = webhooks(settings, reviewer, client, SystemClock(), namespace, metrics.webhooks)
            health.add_ready("webhooks", admission.why_not_ready)
            await admission.start()

        def stop() -> None:
            app.stop()
            if admission is not None:
                admission.leave()

        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop)
        beat = asyncio.create_task(health.run(), name="health")
        try:
            await app.run()
        finally:
            beat.cancel()
            with suppress(asyncio.CancelledError):
                await beat
        log.info("stopped")
    finally:
        if upkeep is not None:
            await upkeep.stop()
        if admission is not None:
            await admission.stop()
        await servers.stop()
        await session.close()
        await transport.close()
        await _close(tracing)


TRACES_SECONDS = 2.0
"""How long the end may wait for the last spans to be sent."""


def _tracing(manager: PluginManager, metrics: Metrics) -> Tracing:
    tracer = manager.tracer()
    if tracer is None:
        return NO_TRACING
    tracing = Traced(tracer)
    manager.observe(TracedHooks(metrics, tracing))
    return tracing


async def _close(tracing: Tracing) -> None:
    """In a thread that the process does not wait for: whom spans are sent to may hang."""
    if not tracing.on:
        return
    loop, closed = asyncio.get_running_loop(), asyncio.Event()

    def close() -> None:
        tracing.close()
        with suppress(RuntimeError):  # the loop may have ended meanwhile
            loop.call_soon_threadsafe(closed.set)

    threading.Thread(target=close, name="last spans", daemon=True).start()
    with suppress(TimeoutError):
        async with asyncio.timeout(TRACES_SECONDS):
            await closed.wait()


def _local_zone() -> tzinfo:
    """The time zone of the process, which schedules without one follow."""
    try:
        return tzlocal.get_localzone()
    except (LookupError, ValueError, OSError) as error:
        raise StartError(f"The time zone of the environment variable TZ or of /etc is unknown: {error}.") from error


def _lease(settings: Settings, client: Client, namespace: str) -> Lease | None:
    if not settings.enable_leader_election:
        return None
    where = settings.leader_election_namespace or namespace
    if not where:
        raise StartError(
            "Leader election needs a namespace for its Lease and the operator's own is not known; "
            "set --leader-election-namespace, or --enable-leader-election=false for a single local process."
        )
    return Lease(
        client,
        SystemClock(),
        namespace=where,
        identity=f"{socket.gethostname()}_{uuid.uuid4()}",
        monotonic=time.monotonic,
    )


def _dashboard(settings: Settings, connection: Connection, session: aiohttp.ClientSession) -> HttpDashboardClient:
    if not settings.use_kubernetes_proxy:
        return HttpDashboardClient(session)
    return HttpDashboardClient(session, proxy_base=connection.server, proxy_authorization=connection.authorization)
