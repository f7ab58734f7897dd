"""A small world for RayCronJob plans: one RayCronJob, the RayJobs it makes, and a clock. It follows the controller's loop."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from typing import Any

import pytest
from kuberay.api.gates import DEFAULT_GATES
from kuberay.api.kinds import RAYCRONJOB, RAYJOB
from kuberay.api.objects import RayObject, from_dict
from kuberay.api.times import format_time, parse_time
from kuberay.plan.config import PlanConfig
from kuberay.plan.cronjob import plan_cronjob
from kuberay.plan.model import Create, Delete, Event, Plan, WriteFailure
from kuberay.plan.observed import FixedView, Observed
from kuberay_testkit.builders import build_raycronjob

START = datetime(2024, 1, 1, tzinfo=UTC)
NS = "default"
Body = dict[str, Any]


@dataclass
class World:
    """`run` is one pass as the controller makes it; what it did is in the attributes."""

    cron: Body
    now: datetime = START
    jobs: dict[str, Body] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    made: list[Body] = field(default_factory=list)
    """Every RayJob there ever was."""
    created: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    statuses: int = 0
    refuse: str = ""
    """Why the API server takes no RayJob."""
    lose_status: bool = False
    """The process ends before a status is written."""
    zone: tzinfo = UTC

    def at(self, text: str) -> World:
        self.now = parse_time(text)
        return self

    def run(self) -> Plan:
        plan = Plan()
        for _ in range(4):
            plan = self._plan()
            failure = None
            changed = False
            for stage in plan.stages:
                for write in stage:
                    if isinstance(write, Create) and self.refuse:
                        failure = WriteFailure(write.kind.kind, write.name, "", self.refuse, "Forbidden")
                        assert write.failed is not None
                        self.events.append(write.failed(self.refuse))
                        break
                    changed = True
                    self._perform(write)
                if failure is not None:
                    break
            if failure is not None:
                plan = self._plan(failure)
                break
            if not changed:
                break
        if plan.status is not None:
            if self.lose_status:
                raise SystemExit("the process ends here")
            self.cron["status"] = plan.status
            self.statuses += 1
        return plan

    def settle(self) -> Plan:
        """Passes until the status stands."""
        plan = self.run()
        while plan.status is not None:
            plan = self.run()
        return plan

    def edit(self, **spec: Any) -> None:
        self.cron["spec"].update(spec)
        self.cron["metadata"]["generation"] += 1

    def end(self, name: str, state: str = "Complete", job: str = "SUCCEEDED") -> None:
        self.jobs[name]["status"] = {
            "jobDeploymentStatus": state,
            "jobStatus": job,
            "endTime": format_time(self.now),
        }

    @property
    def status(self) -> Body:
        found: Body = self.cron.get("status") or {}
        return found

    @property
    def told(self) -> list[tuple[str, str]]:
        return list(dict.fromkeys((event.reason, event.note) for event in self.events))

    @property
    def conditions(self) -> dict[str, tuple[str, str, str]]:
        return {c["type"]: (c["status"], c["reason"], c["message"]) for c in self.status.get("conditions") or ()}

    def _plan(self, failure: WriteFailure | None = None) -> Plan:
        obj = from_dict(RAYCRONJOB, copy.deepcopy(self.cron))
        assert isinstance(obj, RayObject)
        view = FixedView((RAYJOB, copy.deepcopy(body)) for body in self.jobs.values())
        plan = plan_cronjob(
            Observed(
                obj=obj,
                now=self.now,
                view=view,
                gates=DEFAULT_GATES,
                failure=failure,
                config=PlanConfig(local_zone=self.zone),
            )
        )
        self.events += [event for event in plan.events if event not in self.events]
        return plan

    def _perform(self, write: Any) -> None:
        if isinstance(write, Create):
            assert write.name not in self.jobs, "already exists"
            body = write.body() if callable(write.body) else write.body
            assert body["metadata"]["name"] == write.name
            body["metadata"] |= {"uid": write.name, "creationTimestamp": format_time(self.now)}
            self.jobs[write.name] = body
            self.created.append(write.name)
            self.made.append(body)
        elif isinstance(write, Delete):
            assert self.jobs[write.name]["metadata"]["uid"] == write.uid
            del self.jobs[write.name]
            self.deleted.append(write.name)
        else:
            raise AssertionError(type(write).__name__)
        if write.done is not None:
            self.events.append(write.done)


def _world(schedule: str = "*/5 * * * *", *, status: Mapping[str, Any] | None = None, **options: Any) -> World:
    cron = build_raycronjob("cron", schedule, namespace=NS, **options)
    cron["metadata"] |= {"uid": "cron-uid", "generation": 1, "creationTimestamp": format_time(START)}
    if status is not None:
        cron["status"] = dict(status)
    return World(cron)


@pytest.fixture(scope="session")
def make_world() -> Callable[..., World]:
    """As `world`, for tests that hypothesis repeats."""
    return _world


@pytest.fixture
def world() -> Callable[..., World]:
    """Makes a world whose RayCronJob ``cron`` was created at 2024-01-01T00:00:00Z."""
    return _world
