"""Ray Serve as one Ray cluster runs it: what it was told to run, and how its applications come to run it.

The configuration itself says how an application fares, in its ``args`` (`FAILS`, `SECONDS`), so that a story needs no other way to tell.
"""

from __future__ import annotations

import asyncio
import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

FAILS = "sim-fails"
"""In an application's ``args``: true when it cannot be deployed."""
SECONDS = "sim-seconds"
"""In an application's ``args``: how long it takes to deploy."""

_GONE_AFTER = 1.0
"""Seconds until an application that is no longer wanted is gone."""


@dataclass(slots=True)
class Deployment:
    """A deployment of an application."""

    replicas: int
    """``num_replicas`` of the configuration."""
    running: int = 0
    status: str = "UPDATING"


@dataclass(slots=True)
class Application:
    """An application, as it was configured last."""

    config: dict[str, Any]
    status: str = "DEPLOYING"
    message: str = ""
    serves: bool = False
    """Whether some version of it has come to run, which goes on while another one is deployed."""
    version: dict[str, Any] | None = None
    """The configuration that has come to run."""
    added: bool = False
    """Whether it came to others that ran already, so that nobody misses it yet."""
    deployments: dict[str, Deployment] = field(default_factory=dict)

    @property
    def running(self) -> int:
        """How many replicas run, of the deployment that has the fewest."""
        return min((each.running for each in self.deployments.values()), default=0)


@dataclass(slots=True)
class Serve:
    """One Serve instance: it begins with the first configuration, and ends with what it stores its state in."""

    random: Random
    now: Callable[[], float]
    capacity: int | None = None
    """``target_capacity``: percent; None: all of it."""
    begun: float | None = None
    """When it was configured first."""
    over: bool = False
    applications: dict[str, Application] = field(default_factory=dict)
    placed: list[str] = field(default_factory=list)
    """On which node each running replica is."""
    told: list[tuple[float, dict[str, Any]]] = field(default_factory=list)
    """What a dashboard that is up to date would answer, since when."""

    def configure(self, config: Mapping[str, Any]) -> None:
        """Run what *config* says from now on. `ValueError` when it is no configuration."""
        wanted = {_named(each): copy.deepcopy(dict(each)) for each in _applications(config)}
        if self.begun is None:
            self.begun = self.now()
        capacity = config.get("target_capacity")
        rescaled = capacity != self.capacity
        self.capacity = capacity
        for name in self.applications.keys() - wanted.keys():
            self.applications[name].status = "DELETING"
            self._later(_GONE_AFTER, self._remove, name, self.applications[name])
        working = self.works
        for name, described in wanted.items():
            there = self.applications.get(name)
            if there is None or there.status == "DELETING":
                there = self.applications[name] = Application(
                    described, added=working, deployments=_deployments(described)
                )
            elif there.config != described or there.status == "DEPLOY_FAILED":
                there.config = described
                kept = {key: each.running for key, each in there.deployments.items()}
                there.deployments = _deployments(described)
                for key, each in there.deployments.items():
                    each.running = kept.get(key, 0)
            elif not rescaled:
                continue
            there.status, there.message = "DEPLOYING", ""
            for each in there.deployments.values():
                each.status = "UPDATING"
            seconds = (described.get("args") or {}).get(SECONDS)
            fallback = self.random.uniform(0.5, 4.0)
            self._later(float(seconds) if seconds is not None else fallback, self._deployed, there, described, capacity)
        self._tell()

    def _later(self, seconds: float, do: Callable[..., object], *args: object) -> None:
        asyncio.get_running_loop().call_later(seconds, do, *args)

    def _remove(self, name: str, application: Application) -> None:
        if self.applications.get(name) is application and application.status == "DELETING" and not self.over:
            del self.applications[name]
            self._tell()

    def _deployed(self, application: Application, config: dict[str, Any], capacity: int | None) -> None:
        """It has come to run *config* at *capacity*, if it is still to run that."""
        if self.over or application.status != "DEPLOYING":
            return
        if application.config is not config and application.config != config:
            return
        if capacity != self.capacity:
            return
        if (config.get("args") or {}).get(FAILS):
            application.status = "DEPLOY_FAILED"
            application.message = "Deploying app failed with exception: the application raised an error."
        else:
            application.status, application.serves = "RUNNING", True
            if application.version != config:
                # Other replicas, which look for places anew.
                self.placed.clear()
            application.version = config
        for each in application.deployments.values():
            if application.status == "RUNNING":
                each.status, each.running = "HEALTHY", scaled(each.replicas, self.capacity)
        self._tell()

    def fail(self) -> None:
        """Its running applications become unhealthy, as when their replicas crash."""
        for application in self.applications.values():
            if application.status == "RUNNING":
                application.status, application.message = "UNHEALTHY", "A replica's health check failed."
                for each in application.deployments.values():
                    each.status = "UNHEALTHY"
        self._tell()

    def heal(self) -> None:
        """What became unhealthy runs again."""
        for application in self.applications.values():
            if application.status == "UNHEALTHY":
                application.status, application.message = "RUNNING", ""
                for each in application.deployments.values():
                    each.status = "HEALTHY"
        self._tell()

    def end(self) -> None:
        """Nothing of it is left."""
        self.over = True
        self.applications.clear()

    @property
    def works(self) -> bool:
        """Whether a request that reaches it is answered by what was configured for it."""
        live = [
            each for each in self.applications.values() if each.status != "DELETING" and (each.serves or not each.added)
        ]
        return bool(live) and all(each.serves and each.running and each.status != "UNHEALTHY" for each in live)

    @property
    def running(self) -> int:
        """How many replicas run."""
        return sum(each.running for app in self.applications.values() for each in app.deployments.values())

    def place(self, nodes: list[str]) -> list[str]:
        """The nodes that replicas run on, when *nodes* are the workers that there are. A replica stays where it is until its
        node goes or another version of it is deployed; a new one goes where the fewest are."""
        self.placed = [node for node in self.placed if node in nodes][: self.running]
        while len(self.placed) < self.running and nodes:
            self.placed.append(min(nodes, key=self.placed.count))
        return list(dict.fromkeys(self.placed))

    @property
    def wanted(self) -> int:
        """How many replicas should."""
        return sum(
            scaled(each.replicas, self.capacity)
            for application in self.applications.values()
            for each in application.deployments.values()
            if application.status != "DELETING"
        )

    def answer(self, lag: float = 0.0) -> dict[str, Any]:
        """What ``GET /api/serve/applications/`` says that was true *lag* seconds ago."""
        before = self.now() - lag
        return copy.deepcopy(next((told for at, told in reversed(self.told) if at <= before), NOTHING))

    def _tell(self) -> None:
        told = {
            name: {
                "name": name,
                "status": application.status,
                "message": application.message,
                "route_prefix": application.config.get("route_prefix", "/"),
                "docs_path": None,
                "deployments": {
                    key: {"name": key, "status": each.status, "message": ""}
                    for key, each in application.deployments.items()
                },
            }
            for name, application in self.applications.items()
        }
        self.told.append((self.now(), {"deploy_mode": "MULTI_APP", "applications": told}))


NOTHING: dict[str, Any] = {"deploy_mode": "UNSET", "applications": {}}
"""What a dashboard says of a Serve that was never started."""


def scaled(replicas: int, capacity: int | None) -> int:
    """Replicas at a ``target_capacity``, rounded as Serve does: one at least, unless it is zero."""
    if capacity is None or capacity == 100:
        return replicas
    return max(1, math.floor(replicas * capacity / 100 + 0.5)) if capacity else 0


def _applications(config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    capacity, applications = config.get("target_capacity"), config.get("applications")
    if capacity is not None and not (isinstance(capacity, int | float) and 0 <= capacity <= 100):
        raise ValueError(f"target_capacity {capacity!r} is not between 0 and 100")
    if not isinstance(applications, list) or not all(isinstance(each, dict) for each in applications):
        raise ValueError("applications is not a list of applications")
    if any(not each.get("import_path") for each in applications):
        raise ValueError("an application has no import_path")
    return applications


def _named(config: Mapping[str, Any]) -> str:
    return str(config.get("name", "default"))


def _deployments(config: Mapping[str, Any]) -> dict[str, Deployment]:
    described = config.get("deployments") or [{"name": "Model"}]
    return {str(each["name"]): Deployment(int(each.get("num_replicas", 1))) for each in described}
