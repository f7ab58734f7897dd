"""Asks the slow outside world beside the queue: Ray dashboards and unwatched objects, with bounds, and tells by key.

A plan names the probes it wants; each runs until a later plan stops naming it. Only a changed answer wakes the key.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Protocol

import orjson

from kuberay.api.kinds import SECRET
from kuberay.kube.client import Client
from kuberay.kube.clock import Clock
from kuberay.kube.errors import ApiError, NotFoundError
from kuberay.kube.transport import TransportError
from kuberay.operator.keys import Key
from kuberay.operator.logs import log_context
from kuberay.operator.tracing import NO_TRACING, Tracing
from kuberay.operator.turns import Turns
from kuberay.plan.model import (
    ActivityProbe,
    AuthSecret,
    DrainProbe,
    InFlightProbe,
    JobInfoProbe,
    JobLogsProbe,
    ObjectProbe,
    Probe,
    ProbeResult,
    ProxyHealthProbe,
    ServeConfigCall,
    ServeProbe,
    StopJobCall,
    SubmitJobCall,
)
from kuberay.ray.dashboard import DashboardClient, DashboardError, DashboardTarget, SubmissionExistsError
from kuberay.ray.drain import DrainClient, DrainError, GcsTarget, LeavingNode

log = logging.getLogger("kuberay.operator.prober")

_TOKEN_SECONDS = 30.0
_SECOND_TRY = 0.1
"""Seconds until a head that could not be asked to drain is tried again: a user waits for the worker to go."""

_MOST_BACK_OFF = 30.0
"""An unreachable head is asked less often, but often enough to notice its return within half a minute."""
_MOST_SERVING_BACK_OFF = 10.0
"""The same for a head that serves: users wait for its return."""

_SOON, _SOONER = 0.0, 0.9
"""The shortest pause of a dashboard's probe after its first answer, and after others, as a part of its interval."""


_RepeatedCall = JobInfoProbe | StopJobCall | SubmitJobCall | ActivityProbe | ServeProbe | ServeConfigCall
_DashboardProbe = _RepeatedCall | JobLogsProbe
"""What a head's dashboard is asked."""
_RepeatedProbe = _RepeatedCall | ObjectProbe | DrainProbe | ProxyHealthProbe | InFlightProbe
_ACTS = (StopJobCall, SubmitJobCall, ServeConfigCall, DrainProbe)
"""What changes something in Ray, so that only the leader may do it."""
_SPREAD = (JobInfoProbe, ActivityProbe, ServeProbe, ServeConfigCall, ProxyHealthProbe, InFlightProbe)
"""What is asked for as long as an object lives, of all of them."""


class ProbeObserver(Protocol):
    """Is told of every answer; the operator's metrics implement it."""

    def asked(self, probe: Probe, result: ProbeResult, seconds: float) -> None: ...


class Prober:
    """Runs probes as tasks of the operator's loop; *concurrency* bounds the requests under way (`Turns`)."""

    def __init__(
        self,
        client: Client,
        dashboard: DashboardClient,
        clock: Clock,
        changed: Callable[[Key], None],
        *,
        drain: DrainClient | None = None,
        may_act: Callable[[], bool] = lambda: True,
        observer: ProbeObserver | None = None,
        tracing: Tracing = NO_TRACING,
        concurrency: int = 64,
    ) -> None:
        self._client = client
        self._dashboard = dashboard
        self._drain = drain
        self._clock = clock
        self._changed = changed
        self._may_act = may_act
        self._observer = observer
        self._tracing = tracing
        self._turns = Turns(concurrency)
        self._tasks: dict[Key, dict[Probe, asyncio.Task[None]]] = {}
        self._results: dict[Key, dict[Probe, ProbeResult]] = {}
        self._tokens: dict[AuthSecret, tuple[float, str]] = {}

    def results(self, key: Key) -> Mapping[Probe, ProbeResult]:
        """The newest answers for *key*."""
        return dict(self._results.get(key, {}))

    def running(self) -> Sequence[tuple[Probe, ProbeResult | None]]:
        """All that is asked now, each with its last answer."""
        return [(probe, self._results.get(key, {}).get(probe)) for key, found in self._tasks.items() for probe in found]

    def want(self, key: Key, probes: Sequence[Probe]) -> None:
        """From now on run exactly *probes* for *key*."""
        tasks = self._tasks.setdefault(key, {})
        wanted = set(probes)
        for probe in [p for p in tasks if p not in wanted]:
            tasks.pop(probe).cancel()
            self._results.get(key, {}).pop(probe, None)
        for probe in probes:
            if probe not in tasks:
                tasks[probe] = asyncio.create_task(self._run(key, probe), name=f"probe {key}")
        if not tasks:
            del self._tasks[key]
            self._results.pop(key, None)

    def forget_old(self) -> None:
        """Forget tokens that would be read again anyway, those of clusters that are gone among them."""
        now = asyncio.get_running_loop().time()
        self._tokens = {known: held for known, held in self._tokens.items() if now - held[0] < _TOKEN_SECONDS}

    def stop(self) -> None:
        """End all probes."""
        for tasks in self._tasks.values():
            for task in tasks.values():
                task.cancel()
        self._tasks.clear()
        self._results.clear()

    async def _run(self, key: Key, probe: Probe) -> None:
        address = _address(probe)
        self._turns.enter(address)
        try:
            # It outlives the pass that began it, and belongs to none.
            with log_context(reconcileID=None):
                await self._keep_asking(key, probe, address)
        finally:
            self._turns.leave(address)

    async def _keep_asking(self, key: Key, probe: Probe, address: str) -> None:
        failures = 0
        while True:
            async with self._turns.turn(address):
                began = asyncio.get_running_loop().time()
                result = await self._traced(probe, failures, address)
            if self._observer is not None:
                self._observer.asked(probe, result, asyncio.get_running_loop().time() - began)
            # A worker that is to be drained is waited for by a user, so its second try does not wait among those that fail.
            self._turns.told(address, failing=bool(result.error) and not isinstance(probe, DrainProbe))
            results = self._results.setdefault(key, {})
            before = results.get(probe)
            failures = failures + 1 if result.error else 0
            result = results[probe] = _continued(before, result)
            news = before is None or _tells(probe, before) != _tells(probe, result)
            if isinstance(probe, DrainProbe) and result.outcome == "error" and failures <= 2:
                log.warning("%s: workers cannot be drained: %s", key, result.error)
                # A plan gives up on draining when a second try has failed.
                news = True
            if news:
                self._changed(key)
            if isinstance(probe, JobLogsProbe) or _is_over(probe, result):
                return
            await asyncio.sleep(_pause(probe, failures, first=before is None))

    async def _traced(self, probe: Probe, failures: int, address: str) -> ProbeResult:
        attributes = {"kuberay.probe": type(probe).__name__, "server.address": address}
        with self._tracing.span("probe", attributes, root=True) as span:
            result = await self._ask(probe, failures)
            span.note("kuberay.outcome", result.outcome)
            if result.error:
                span.fail(result.error)
            return result

    async def _ask(self, probe: Probe, failures: int) -> ProbeResult:
        now = self._clock.now()
        if isinstance(probe, _ACTS) and not self._may_act():
            return _no_answer(probe, now, "not sent: this replica leads no more")
        try:
            match probe:
                case ObjectProbe():
                    await self._client.get(probe.kind, probe.namespace, probe.name)
                    return ProbeResult("found", now)
                case JobInfoProbe():
                    info = await self._dashboard.job_info(await self._target(probe), probe.job_id)
                    if info is None:
                        return ProbeResult("absent", now)
                    return ProbeResult("found", now, info.as_dict())
                case ActivityProbe():
                    activity = await self._dashboard.activity(await self._target(probe))
                    return ProbeResult("found", now, activity.as_dict())
                case JobLogsProbe():
                    lines = await self._dashboard.job_logs(await self._target(probe), probe.job_id)
                    return ProbeResult("found", now, {"lines": lines}) if lines else ProbeResult("absent", now)
                case StopJobCall():
                    stopped = await self._dashboard.stop_job(await self._target(probe), probe.job_id)
                    return ProbeResult("found", now, {"stopped": stopped})
                case SubmitJobCall():
                    return await self._submit(probe, again=failures > 0)
                case DrainProbe():
                    return ProbeResult("found", now, await self._drained(probe))
                case ServeProbe():
                    details = await self._dashboard.serve_applications(await self._target(probe))
                    return ProbeResult("found", now, details.as_dict())
                case ServeConfigCall():
                    await self._dashboard.put_serve_config(await self._target(probe), probe.config.encode())
                    # What was asked before the answer arrived knows nothing of the configuration.
                    return ProbeResult("found", self._clock.now())
                case ProxyHealthProbe():
                    healthy = await self._dashboard.proxy_healthy(probe.address, probe.namespace, probe.pod)
                    return ProbeResult("found", now, {"healthy": healthy})
                case InFlightProbe():
                    requests = await self._dashboard.requests_in_flight(probe.address, probe.namespace, probe.pod)
                    if requests is None:
                        return ProbeResult("absent", now)
                    return ProbeResult("found", now, requests.as_dict())
        except NotFoundError as error:
            if isinstance(probe, ObjectProbe):
                return ProbeResult("absent", now)
            return _no_answer(probe, now, str(error))
        except (ApiError, TransportError, DashboardError, DrainError) as error:
            return _no_answer(probe, now, str(error))
        except Exception as error:
            # An answer nobody thought of must not end the probe: its plan would wait for ever.
            log.exception("unexpected error of %s", type(probe).__name__)
            return _no_answer(probe, now, f"unexpected answer ({type(error).__name__})")

    async def _submit(self, call: SubmitJobCall, *, again: bool) -> ProbeResult:
        """The time of the answer is that of its arrival: what was asked before it knows nothing of the job."""
        target = await self._target(call)
        # A request that seemed to fail may have arrived (RJ-07).
        if not again or await self._dashboard.job_info(target, call.job_id) is None:
            try:
                await self._dashboard.submit_job(target, orjson.loads(call.request))
            except SubmissionExistsError:
                log.info("job %s was submitted before", call.job_id)
        return ProbeResult("found", self._clock.now())

    async def _target(self, probe: _DashboardProbe) -> DashboardTarget:
        token = await self._token(probe.auth) if probe.auth is not None else None
        return DashboardTarget(probe.address, probe.namespace, probe.service, token)

    async def _drained(self, probe: DrainProbe) -> dict[str, str]:
        """How far each pod is, by its UID."""
        if self._drain is None:
            raise DrainError("this operator does not speak with Ray")
        token = await self._token(probe.auth) if probe.auth is not None else None
        nodes = [LeavingNode(pod.name, pod.ip, pod.deadline) for pod in probe.pods]
        states = await self._drain.drain(GcsTarget(probe.host, probe.port, token), nodes)
        return {pod.uid: states[pod.name] for pod in probe.pods if pod.name in states}

    async def _token(self, secret: AuthSecret) -> str:
        now = asyncio.get_running_loop().time()
        cached = self._tokens.get(secret)
        if cached is not None and now - cached[0] < _TOKEN_SECONDS:
            return cached[1]
        body = orjson.loads(await self._client.get(SECRET, secret.namespace, secret.name))
        data = (body.get("data") or {}).get(secret.key)
        if not data:
            raise DashboardError(f"Secret {secret.namespace}/{secret.name} has no key {secret.key}")
        try:
            token = base64.b64decode(data, validate=True).decode().strip()
        except ValueError as error:
            raise DashboardError(f"Secret {secret.namespace}/{secret.name} key {secret.key} holds no text") from error
        self._tokens[secret] = (now, token)
        return token


def _no_answer(probe: Probe, now: datetime, error: str) -> ProbeResult:
    if isinstance(probe, ProxyHealthProbe):
        # A proxy that nobody can reach serves nobody.
        return ProbeResult("found", now, {"healthy": False}, error)
    return ProbeResult("error", now, error=error)


def _continued(before: ProbeResult | None, result: ProbeResult) -> ProbeResult:
    """*result* with what follows from the one before: since when it is so; and while it fails, what was known."""
    if result.outcome != "error":
        same = before is not None and (before.outcome, before.value) == (result.outcome, result.value)
        return replace(result, since=before.since if before is not None and same else result.at)
    if before is None:
        return replace(result, failing_since=result.at)
    return replace(result, value=before.value, since=before.since, failing_since=before.failing_since or result.at)


def _tells(probe: Probe, result: ProbeResult) -> tuple[object, ...]:
    """What a plan makes something of; an error that goes on is no news."""
    # Why a configuration is not taken is the user's to know: at first Serve may only not have been there.
    error = result.error if isinstance(probe, ServeConfigCall) else ""
    return result.outcome, result.value, error


def _is_over(probe: Probe, result: ProbeResult) -> bool:
    """Whether nothing more is asked after *result*."""
    match probe:
        case StopJobCall():
            return result.outcome != "error" or not probe.until_answered
        case SubmitJobCall() | ServeConfigCall():
            return result.outcome == "found"
        case _:
            return False


def _address(probe: Probe) -> str:
    """Whom a probe asks; empty for the API server."""
    match probe:
        case ObjectProbe():
            return ""
        case DrainProbe():
            return f"{probe.host}:{probe.port}"
        case _:
            return probe.address


def _pause(probe: _RepeatedProbe, failures: int, *, first: bool) -> float:
    """Seconds until a probe asks again. What all dashboards are asked is spread: after a restart, which asks all of them
    at once, and ever after."""
    seconds = probe.interval.total_seconds()
    if isinstance(probe, DrainProbe) and failures == 1:
        return _SECOND_TRY
    pause: float = min(seconds * 2 ** min(failures, 4), max(_most_back_off(probe, seconds), seconds))
    if isinstance(probe, _SPREAD):
        pause *= random.uniform(_SOON if first else _SOONER, 1.0)  # noqa: S311 - spreads requests, not a secret
    return pause


def _most_back_off(probe: Probe, interval: float) -> float:
    match probe:
        case ProxyHealthProbe():
            return 2 * interval
        case ServeProbe() | ServeConfigCall() | InFlightProbe():
            return _MOST_SERVING_BACK_OFF
        case _:
            return _MOST_BACK_OFF
