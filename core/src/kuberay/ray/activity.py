"""Whether anything uses a Ray cluster: which questions its dashboard is asked, and what the answers mean.

Asked in this order, until one says yes: drivers, submitted jobs, actors, tasks, Serve applications. Ray's own actors (of
its Serve controller, its proxies and its job agent) are no use by themselves.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec

from kuberay.api.times import format_time, from_milliseconds
from kuberay.ray.jobinfo import TERMINAL

_T = TypeVar("_T")

MAX_ACTORS = 1000
"""Actors looked at. Ray's own are a few per node; more than this is somebody's use."""

_SUPERVISORS = "SUPERVISOR_ACTOR_RAY_NAMESPACE"
_INTERNAL = "_ray_internal_"
_SERVE = "serve"
_SERVE_CONTROLLER = "ServeController"
_SERVE_ACTORS = frozenset({_SERVE_CONTROLLER, "ProxyActor", "HTTPProxyActor"})


@dataclass(frozen=True, slots=True)
class Activity:
    """The answer; small and unchanged while nothing changes, so that it can be compared."""

    active: bool
    reason: str = ""
    """What uses the cluster, in a few words without numbers; only while it is active."""
    last_end: str = ""
    """When the last driver or job ended, as Ray tells it; empty while active or when there never was one. Another time
    means that something ran unseen."""

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as a probe result carries it to a plan."""
        if self.active:
            return {"active": True, "reason": self.reason}
        return {"active": False, "lastEnd": self.last_end}


class _Component(msgspec.Struct):
    is_active: str
    reason: str | None = None
    last_activity_at: float | None = None


class _Job(msgspec.Struct):
    status: str = ""
    end_time: int | None = None


class _Actor(msgspec.Struct):
    class_name: str = ""
    ray_namespace: str = ""

    @property
    def internal(self) -> bool:
        if self.ray_namespace == _SUPERVISORS or self.ray_namespace.startswith(_INTERNAL):
            return True
        return self.ray_namespace == _SERVE and self.class_name in _SERVE_ACTORS


class _Listed(msgspec.Struct):
    result: list[_Actor]
    num_filtered: int = 0


class _Data(msgspec.Struct):
    result: _Listed


class _StateAnswer(msgspec.Struct):
    result: bool
    msg: str = ""
    data: _Data | None = None


class _Serve(msgspec.Struct):
    applications: dict[str, Any] = {}


def _state_query(kind: str, limit: int, *filters: tuple[str, str, str]) -> str:
    query = [("limit", str(limit))]
    for key, predicate, value in filters:
        query += [("filter_keys", key), ("filter_predicates", predicate), ("filter_values", value)]
    return f"/api/v0/{kind}?{urlencode(query)}"


COMPONENTS = "/api/component_activities"
JOBS = "/api/jobs/"
ACTORS = _state_query("actors", MAX_ACTORS, ("state", "!=", "DEAD"))
TASKS = _state_query("tasks", 1, ("type", "=", "NORMAL_TASK"), ("state", "!=", "FINISHED"), ("state", "!=", "FAILED"))
"""Tasks of actors need an actor and so need no question; those of Ray's own actors never end."""
APPLICATIONS = "/api/serve/applications/"
"""Only asked when a Serve controller is there: without one, Ray takes seconds to answer."""

Get = Callable[[str], Awaitable[bytes]]
"""Gets a path of the dashboard; raises whatever an unusable answer is."""


async def ask_activity(get: Get) -> Activity:
    """Ask until something is found to be in use, else all. Raises ValueError when an answer is not as expected."""
    ends: list[float] = []
    for name, component in _parse(await get(COMPONENTS), dict[str, _Component], COMPONENTS).items():
        if component.is_active == "ACTIVE":
            return Activity(True, "a driver is connected" if name == "driver" else f"{name} is active")
        if component.is_active != "INACTIVE":
            raise ValueError(f"Ray cannot tell the activity of {name}: {component.reason}")
        ends.append(component.last_activity_at or 0)
    for job in _parse(await get(JOBS), list[_Job], JOBS):
        if job.status not in TERMINAL:
            return Activity(True, "a submitted job has not ended")
        ends.append((job.end_time or 0) / 1000)
    actors, more = _listed(await get(ACTORS), ACTORS)
    if more or not all(actor.internal for actor in actors):
        return Activity(True, "an actor is alive")
    tasks, _ = _listed(await get(TASKS), TASKS)
    if tasks:
        return Activity(True, "a task is waiting or running")
    serves = any(actor.class_name == _SERVE_CONTROLLER for actor in actors)
    if serves and _parse(await get(APPLICATIONS), _Serve, APPLICATIONS).applications:
        return Activity(True, "Serve applications are deployed")
    last = max(ends, default=0)
    return Activity(False, last_end=format_time(from_milliseconds(last * 1000)) if last else "")


def _listed(body: bytes, path: str) -> tuple[Sequence[_Actor], bool]:
    """What the state API listed, and whether there is more of it."""
    answer = _parse(body, _StateAnswer, path)
    if not answer.result or answer.data is None:
        raise ValueError(f"{path} failed: {answer.msg}")
    listed = answer.data.result
    return listed.result, listed.num_filtered > len(listed.result)


def _parse(body: bytes, kind: type[_T], path: str) -> _T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise ValueError(f"the answer to {path} is not as expected: {error}") from error
