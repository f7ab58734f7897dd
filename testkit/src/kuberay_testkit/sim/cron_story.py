"""What people do to one RayCronJob, as seeded actions, and what must hold for the RayJobs it starts.

A story ends with the RayCronJob suspended or deleted: otherwise nothing would ever come to rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Any

from kuberay.api.kinds import RAYCRONJOB, RAYJOB
from kuberay.api.names import ANNOTATION_SCHEDULED_TIMESTAMP
from kuberay.api.times import parse_time

from kuberay_testkit.builders import build_raycronjob
from kuberay_testkit.sim.cluster_facts import controller_uid, live_children
from kuberay_testkit.sim.heads_world import OUTCOMES, SECONDS
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.status import APIError
from kuberay_testkit.sim.store import Change, Stored
from kuberay_testkit.sim.story import NAMESPACE, Action, Do
from kuberay_testkit.sim.world import SimWorld

_LIMITS = {"Complete": "successfulJobsHistoryLimit", "Failed": "failedJobsHistoryLimit"}


class CronStory:
    """Everything that happens to one RayCronJob: moves at random times, each of which `MOVES` names."""

    MOVES: Mapping[str, int] = {
        "suspend": 2,
        "resume": 3,
        "reschedule": 2,
        "limit": 1,
        "delete": 1,
        "replace": 1,
        "break_it": 1,
    }

    def __init__(self, name: str, random: Random, span: float) -> None:
        self.name = name
        self.random = random
        self.actions: list[Action] = []
        self.exists = False
        times = sorted(random.uniform(0, span * 0.9) for _ in range(random.randint(1, 4)))
        self.create(times[0])
        names, weights = list(self.MOVES), list(self.MOVES.values())
        for at in times[1:]:
            if self.exists:
                getattr(self, random.choices(names, weights)[0])(at)
            else:
                self.create(at)
        self.suspend(span)

    def create(self, at: float) -> None:
        random = self.random
        spec: dict[str, Any] = {}
        if random.random() < 0.6:
            spec["concurrencyPolicy"] = random.choice(("Allow", "Forbid", "Replace"))
        if random.random() < 0.5:
            spec |= {limit: random.randint(0, 2) for limit in _LIMITS.values()}
        if random.random() < 0.3:
            spec["startingDeadlineSeconds"] = random.randint(5, 60)
        if random.random() < 0.3:
            spec["timeZone"] = "Asia/Kathmandu"
        template: dict[str, Any] = {
            "groups": 0,
            "submissionMode": random.choice(("HTTPMode", "K8sJobMode")),
            "shutdownAfterJobFinishes": random.random() < 0.7,
        }
        notes = {
            OUTCOMES: random.choice(("SUCCEEDED", "SUCCEEDED", "FAILED")),
            SECONDS: f"{random.uniform(1, 60):.1f}",
        }
        manifest = build_raycronjob(
            self.name, self._schedule(), namespace=NAMESPACE, annotations=notes, template=template, **spec
        )
        self.exists = True
        self._add(at, "create", lambda world: world.server.create(manifest))

    def suspend(self, at: float) -> None:
        self._edit(at, "suspend", suspend=True)

    def resume(self, at: float) -> None:
        self._edit(at, "resume", suspend=False)

    def reschedule(self, at: float) -> None:
        self._edit(at, "reschedule", schedule=self._schedule())

    def limit(self, at: float) -> None:
        self._edit(at, "limit", **{limit: self.random.randint(0, 2) for limit in _LIMITS.values()})

    def break_it(self, at: float) -> None:
        """A schedule that is refused, and corrected a while later."""
        self._edit(at, "break", schedule="every now and then")
        self._edit(at + self.random.uniform(0.1, 5), "correct", schedule=self._schedule())

    def delete(self, at: float) -> None:
        self.exists = False
        self._add(at, "delete", lambda world: world.server.delete(RAYCRONJOB, NAMESPACE, self.name))

    def replace(self, at: float) -> None:
        self.delete(at)
        self.create(at + 0.5)

    def _schedule(self) -> str:
        return self.random.choice(("* * * * *", "@every 20s", "@every 45s", "@every 30s"))

    def _edit(self, at: float, what: str, **spec: Any) -> None:
        self._add(at, what, lambda world: world.server.patch(RAYCRONJOB, NAMESPACE, self.name, {"spec": spec}))

    def _add(self, at: float, what: str, do: Do) -> None:
        def attempt(world: SimWorld) -> None:
            try:
                do(world)
            except APIError as error:
                if error.reason != "NotFound":
                    raise

        self.actions.append(Action(at, f"{what} {self.name}", attempt, self.name))


class CronRules:
    """One RayJob per start, never before it is due, and with ``Forbid`` never beside one that has not ended."""

    def __init__(self) -> None:
        self._made: Counter[tuple[str, str]] = Counter()

    def __call__(self, server: SimServer, change: Change) -> None:
        stored = change.stored
        if stored.key.kind != RAYJOB or change.type != "ADDED":
            return
        owner = server.store.by_uid(controller_uid(stored))
        if owner is None or owner.key.kind != RAYCRONJOB:
            return
        start = str((stored.metadata.get("annotations") or {}).get(ANNOTATION_SCHEDULED_TIMESTAMP))
        self._made[owner.uid, start] += 1
        assert self._made[owner.uid, start] == 1, f"RayCronJob {owner.key.name} made a second RayJob for {start}"
        assert parse_time(start) <= server.now(), f"RayCronJob {owner.key.name} made the RayJob for {start} too early"
        if owner.body["spec"].get("concurrencyPolicy") == "Forbid":
            active = [
                job.key.name
                for job in live_children(server, owner.uid, RAYJOB)
                if job.uid != stored.uid and _state(job) not in _LIMITS
            ]
            assert not active, f"RayCronJob {owner.key.name} forbids it, and {', '.join(active)} had not ended"

    @staticmethod
    def expect_rest(server: SimServer) -> None:
        """What has ended is kept up to the limits."""
        for cron in server.store.all_of(RAYCRONJOB):
            ended = Counter(_state(job) for job in live_children(server, cron.uid, RAYJOB))
            for state, field in _LIMITS.items():
                limit = cron.body["spec"].get(field)
                kept = limit is None or ended[state] <= limit
                assert kept, (
                    f"RayCronJob {cron.key.name} keeps {ended[state]} RayJobs {state}, where {field} is {limit}"
                )


def _state(job: Stored) -> str:
    return str((job.body.get("status") or {}).get("jobDeploymentStatus") or "")
