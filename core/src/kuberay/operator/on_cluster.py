"""One operator on a real cluster, from its first request to its last: whom it talks to, what it is made of, what starts when.

Whatever was opened on the way is closed at the end, the last one first, however far the start came.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import time
import uuid
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from datetime import tzinfo

import aiohttp
import tzlocal

from kuberay.api.kinds import ROUTE, SECRET, Kind
from kuberay.kube.client import Client
from kuberay.kube.clock import SystemClock
from kuberay.kube.connection import Connection, connect
from kuberay.kube.http import HttpTransport
from kuberay.kube.lease import Lease
from kuberay.kube.limits import RateLimit
from kuberay.operator.app import CHILD_KINDS, App, Parts, ray_kinds
from kuberay.operator.controller import PlanFunction
from kuberay.operator.environment import Environment, own_namespace
from kuberay.operator.health import Health, Servers
from kuberay.operator.log_levels import LOG_LEVELS
from kuberay.operator.metrics import Metrics
from kuberay.operator.preflight import StartError, check_cluster, check_gates, is_openshift, offers_resize
from kuberay.operator.reload import ConfigFile
from kuberay.operator.reload_apply import Running, found_at_start
from kuberay.operator.settings import Settings
from kuberay.operator.source import KopfSource
from kuberay.operator.traced import TracedHooks, TracedTransport
from kuberay.operator.tracing import NO_TRACING, Traced, Tracing, close_in_time
from kuberay.operator.upkeep import Upkeep
from kuberay.operator.webhooks.review import Reviewer
from kuberay.operator.webhooks.serving import Webhooks, webhooks
from kuberay.plan.config import PlanConfig
from kuberay.plugins.manager import PluginManager
from kuberay.ray.autoscaler_state import GrpcDrainClient
from kuberay.ray.connections import head_connector
from kuberay.ray.http import HttpDashboardClient

log = logging.getLogger("setup")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What is settled before the cluster is asked anything."""

    settings: Settings
    environment: Environment
    version: str
    """The operator's own."""
    plugins: PluginManager
    gates: Mapping[str, bool]
    plans: Mapping[Kind, PlanFunction]
    metrics: Metrics

    def plan_config(self, settings: Settings) -> PlanConfig:
        """What *settings* and the environment tell plans; nothing of it is known from the cluster."""
        return self.environment.plan_config(settings, self.version)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """All that reaches out of the process."""

    connection: Connection
    namespace: str
    """The operator's own; empty when it cannot be told."""
    client: Client
    limit: RateLimit
    """The one of *client*."""
    dashboard: HttpDashboardClient
    tracing: Tracing


async def run(chosen: Chosen, kubeconfig: str, source: ConfigFile | None) -> None:
    """Run until SIGTERM or SIGINT. *source*: the file that the settings came from, None when they came from flags alone.

    Raises `StartError` or `NoConnectionError`, with one sentence, for what keeps it from starting, and what `App.run` raises.
    """
    async with AsyncExitStack() as closing:
        connected = await _connect(chosen, kubeconfig, closing)
        config = await _look_at_cluster(chosen, connected)
        app = App(_parts(chosen, connected, config))
        if chosen.settings.enable_metrics:
            chosen.metrics.export_objects(app.store)
        health = Health(app.why_not_live, app.why_not_ready, chosen.metrics.loop_was_late)
        servers = Servers()
        closing.push_async_callback(servers.stop)
        admission = _admission(chosen, connected, app)
        if admission is not None:
            health.add_ready("webhooks", admission.why_not_ready)
            closing.push_async_callback(admission.stop)
        upkeep = _upkeep(chosen, connected, app, config, source)
        closing.push_async_callback(upkeep.stop)

        await _serve(chosen, servers, health, upkeep, admission)
        await _run_until_told(app, health, admission)


async def _connect(chosen: Chosen, kubeconfig: str, closing: AsyncExitStack) -> Connected:
    settings, metrics = chosen.settings, chosen.metrics
    connection = await connect(kubeconfig)
    metrics.running(chosen.version, chosen.gates, connection.server)
    metrics.watch_slow_plugins(chosen.plugins.slow_plugins)
    limit = RateLimit(settings.qps, settings.burst)
    tracing = _tracing(chosen.plugins, metrics)
    closing.push_async_callback(close_in_time, tracing)
    transport = HttpTransport(
        connection, user_agent=f"kuberay-operator/{chosen.version}", limit=limit, observer=metrics.requests
    )
    closing.push_async_callback(transport.close)
    session = _session_to_heads(chosen, connection)
    closing.push_async_callback(session.close)
    return Connected(
        connection=connection,
        namespace=own_namespace(connection.namespace, chosen.environment),
        client=Client(TracedTransport(transport, tracing) if tracing.on else transport),
        limit=limit,
        dashboard=_dashboard(settings, connection, session),
        tracing=tracing,
    )


def _tracing(manager: PluginManager, metrics: Metrics) -> Tracing:
    tracer = manager.tracer()
    if tracer is None:
        return NO_TRACING
    tracing = Traced(tracer)
    manager.observe(TracedHooks(metrics, tracing))
    return tracing


def _session_to_heads(chosen: Chosen, connection: Connection) -> aiohttp.ClientSession:
    ssl_context = connection.ssl_context() if chosen.settings.use_kubernetes_proxy else None
    connector = head_connector(chosen.plan_config(chosen.settings).cluster_domain, ssl_context)
    return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())


def _dashboard(settings: Settings, connection: Connection, session: aiohttp.ClientSession) -> HttpDashboardClient:
    if not settings.use_kubernetes_proxy:
        return HttpDashboardClient(session)
    return HttpDashboardClient(session, proxy_base=connection.server, proxy_authorization=connection.authorization)


async def _look_at_cluster(chosen: Chosen, connected: Connected) -> PlanConfig:
    """What plans are told, with what the cluster says of itself. Raises `StartError` when the operator cannot work on it."""
    settings, client, server = chosen.settings, connected.client, connected.connection.server
    children = [*CHILD_KINDS, *(watch.kind for watch in chosen.plugins.watches())]
    of_secrets = settings.secrets_in
    if of_secrets is not None:
        children = [kind for kind in children if kind != SECRET]
    await check_cluster(client, server, ray_kinds(chosen.gates), children, settings.namespaces)
    if of_secrets:
        await check_cluster(client, server, (), (SECRET,), of_secrets)
    await check_gates(client, chosen.gates)
    config = replace(
        chosen.plan_config(settings),
        operator_namespace=connected.namespace,
        local_zone=_local_zone(),
        resize_in_place=await offers_resize(client),
        openshift=await is_openshift(client),
    )
    if config.openshift:
        await check_cluster(client, server, (), (ROUTE,), settings.namespaces)
    return config


def _local_zone() -> tzinfo:
    """The time zone of the process, which schedules without one follow."""
    try:
        return tzlocal.get_localzone()
    except (LookupError, ValueError, OSError) as error:
        raise StartError(f"The time zone of the environment variable TZ or of /etc is unknown: {error}.") from error


def _parts(chosen: Chosen, connected: Connected, config: PlanConfig) -> Parts:
    settings = chosen.settings
    return Parts(
        client=connected.client,
        clock=SystemClock(),
        source=KopfSource(connected.connection, list(ray_kinds(chosen.gates)), settings.namespaces),
        dashboard=connected.dashboard,
        drain=GrpcDrainClient(),
        hooks=chosen.plugins,
        config=config,
        plans=chosen.plans,
        gates=chosen.gates,
        namespaces=settings.namespaces,
        workers=settings.workers,
        lease=_lease(settings, connected.client, connected.namespace),
        instance=socket.gethostname(),
        metrics=chosen.metrics,
        tracing=connected.tracing,
    )


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


def _admission(chosen: Chosen, connected: Connected, app: App) -> Webhooks | None:
    """None when nothing turns the webhooks on."""
    settings = chosen.settings
    if not chosen.environment.webhooks(settings):
        return None
    reviewer = Reviewer(
        now=SystemClock().now,
        hooks=chosen.plugins,
        config=lambda: app.config,
        gates=chosen.gates,
        namespaces=settings.namespaces,
    )
    return webhooks(settings, reviewer, connected.client, SystemClock(), connected.namespace, chosen.metrics.webhooks)


def _upkeep(chosen: Chosen, connected: Connected, app: App, config: PlanConfig, source: ConfigFile | None) -> Upkeep:
    settings = chosen.settings
    found = found_at_start(config, chosen.plan_config(settings))
    return Upkeep(
        app,
        Running(
            settings=settings,
            plugins=chosen.plugins,
            limit=connected.limit,
            levels=LOG_LEVELS,
            plan_config=lambda of: replace(chosen.plan_config(of), **found),
            use=app.use,
        ),
        source,
        client=connected.client,
        clock=SystemClock(),
        namespace=connected.namespace,
        lease_namespace=settings.leader_election_namespace or connected.namespace,
    )


async def _serve(chosen: Chosen, servers: Servers, health: Health, upkeep: Upkeep, admission: Webhooks | None) -> None:
    """Answer whoever asks the process itself. Raises `StartError` for an address that cannot be had."""
    settings = chosen.settings
    try:
        await servers.start(settings.metrics_addr, settings.probe_addr, chosen.metrics, health, upkeep.pages())
    except (OSError, ValueError) as error:
        raise StartError(f"Cannot listen on {settings.metrics_addr} or {settings.probe_addr}: {error}.") from error
    try:
        await upkeep.start()
    except OSError as error:
        raise StartError(f"Cannot listen on {settings.profiling_addr}: {error}.") from error
    if admission is not None:
        await admission.start()


async def _run_until_told(app: App, health: Health, admission: Webhooks | None) -> None:
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
