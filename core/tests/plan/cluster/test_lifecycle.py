"""Clusters that are idle or too old: warned, ended, extended, released (docs/lifecycle.md)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from examples import LONG
from kuberay.api.kinds import POD, RAYCLUSTER
from kuberay.hooks.calls import NoHooks
from kuberay.plan.model import ActivityProbe, Delete, Plan, ProbeResult, Write
from kuberay.plan.observed import Observed

Manifest = dict[str, Any]

BORN = datetime(2026, 1, 1, tzinfo=UTC)
EXTEND = "ray.io/extend-until"
QUIET: Manifest = {"active": False, "lastEnd": ""}
BUSY: Manifest = {"active": True, "reason": "a driver is connected"}
IDLE_10 = {"idleTimeoutSeconds": 600, "warningSeconds": 120}
AGE_60 = {"maxAgeSeconds": 3600, "warningSeconds": 120}


def at(seconds: float) -> str:
    return (BORN + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


class Lab:
    """A tiny Kubernetes whose Ray says whether it is in use. Passes happen when one was asked for, or news came."""

    def __init__(self, tiny: type[Any], cluster: Manifest) -> None:
        lab = self

        class Kubernetes(tiny):  # type: ignore[misc]
            def observe(self, failure: Any = None) -> Observed:
                observed: Observed = super().observe(failure)
                return replace(observed, probes=Answers(observed.probes, lab))

            def _write(self, write: Write) -> Any:
                if isinstance(write, Delete) and write.kind == RAYCLUSTER:
                    assert write.uid == self.cluster["metadata"]["uid"]
                    self.cluster["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
                    self.writes.append(write)
                    return write.done, True
                return super()._write(write)

        cluster["metadata"].setdefault("creationTimestamp", at(0))
        self.tiny = Kubernetes(cluster)
        self.ray: Manifest | str = QUIET
        """What the dashboard answers; a text is an error."""
        self.asked: dict[ActivityProbe, datetime | None] = {}
        """Questions of the last plan, and since when they fail: all that an operator has in memory."""
        self.questions: list[ActivityProbe] = []

    @property
    def now(self) -> float:
        return float((self.tiny.now - BORN).total_seconds())

    def restart(self) -> None:
        """Another operator takes over."""
        self.asked = {}

    def settle(self) -> Plan:
        """Passes until nothing is news, in no time."""
        for _ in range(12):
            before = (len(self.tiny.writes), len(self.tiny.statuses))
            plan: Plan = self.tiny.reconcile()
            probes = [probe for probe in plan.probes if isinstance(probe, ActivityProbe)]
            news = [probe for probe in probes if probe not in self.asked]
            self.questions += news
            self.asked = {probe: self.asked.get(probe) for probe in probes}
            changed = before != (len(self.tiny.writes), len(self.tiny.statuses))
            if not (changed or news or self.tiny.start_pods() or plan.requeue_after == timedelta(0)):
                assert plan.status is None or plan.status_delay > timedelta(0)
                return plan
        raise AssertionError("does not settle")

    def go(self, until: float) -> None:
        """Let time pass, looking again whenever the plans ask for it."""
        plan = self.settle()
        while self.now < until and not self.deleted:
            assert plan.requeue_after is not None
            assert plan.requeue_after > timedelta(0)
            delay = plan.requeue_after if not plan.status_delay else min(plan.requeue_after, plan.status_delay)
            self.tiny.now = min(self.tiny.now + delay, BORN + timedelta(seconds=until))
            plan = self.settle()

    def annotate(self, text: str | None) -> None:
        annotations = self.tiny.cluster["metadata"].setdefault("annotations", {})
        annotations.pop(EXTEND, None)
        if text is not None:
            annotations[EXTEND] = text

    def condition(self, type_: str) -> tuple[str, str, str] | None:
        """(status, reason, message)."""
        found = self.tiny.condition(type_)
        return (found["status"], found["reason"], found["message"]) if found else None

    def events(self, *reasons: str) -> list[str]:
        wanted = reasons or ("LifecycleEnding", "LifecycleEnded", "LifecycleReleased", "InvalidExtension")
        return [event.reason for event in self.tiny.events if event.reason in wanted]

    @property
    def suspended(self) -> bool:
        return not self.tiny.pods and self.tiny.status.get("state") == "suspended"

    @property
    def deleted(self) -> bool:
        return "deletionTimestamp" in self.tiny.cluster["metadata"]


class Answers(dict[Any, ProbeResult]):
    def __init__(self, others: Any, lab: Lab) -> None:
        super().__init__()
        self._others, self._lab = others, lab

    def get(self, key: Any, default: Any = None) -> Any:
        if not isinstance(key, ActivityProbe):
            return self._others.get(key, default)
        lab = self._lab
        if key not in lab.asked:
            return None
        if isinstance(lab.ray, str):
            since = lab.asked[key] = lab.asked[key] or lab.tiny.now
            return ProbeResult("error", lab.tiny.now, error=lab.ray, failing_since=since)
        lab.asked[key] = None
        return ProbeResult("found", lab.tiny.now, lab.ray)


@pytest.fixture
def lab(kubernetes: type[Any], cluster: Callable[..., Manifest]) -> Callable[..., Lab]:
    def make(lifecycle: Manifest | None, **spec: Any) -> Lab:
        body = cluster(**spec) if lifecycle is None else cluster(lifecycle=lifecycle, **spec)
        made = Lab(kubernetes, body)
        made.go(until=10)
        return made

    return make


def began(lab: Lab) -> float:
    """Since when the cluster is stored as idle."""
    found = lab.tiny.condition("RayClusterIdle")
    assert found is not None
    assert found["status"] == "True"
    return (datetime.fromisoformat(found["lastTransitionTime"]) - BORN).total_seconds()


# -- off


def test_without_a_lifecycle_nothing_is_asked_and_no_condition_is_there(lab: Callable[..., Lab]) -> None:
    it = lab(None)
    it.go(until=100_000)
    assert it.questions == []
    assert not [c for c in it.tiny.status["conditions"] if c["type"].startswith(("Lifecycle", "RayClusterIdle"))]
    assert len(it.tiny.pods) == 4


def test_a_lifecycle_taken_away_leaves_no_condition(lab: Callable[..., Lab]) -> None:
    it = lab({**IDLE_10, **AGE_60})
    assert it.condition("RayClusterIdle") is not None
    assert it.condition("LifecycleEnding") is not None
    it.tiny.edit(lambda spec: spec.pop("lifecycle"))
    it.settle()
    assert (it.condition("RayClusterIdle"), it.condition("LifecycleEnding")) == (None, None)
    assert it.asked == {}


def test_only_an_age_asks_nobody(lab: Callable[..., Lab]) -> None:
    it = lab(AGE_60)
    it.go(until=3000)
    assert it.questions == []
    assert it.condition("RayClusterIdle") is None


# -- idle


def test_an_idle_cluster_is_announced_suspended_and_stays_so(lab: Callable[..., Lab]) -> None:
    it = lab(IDLE_10)
    since = began(it)
    assert it.condition("RayClusterIdle") == (
        "True",
        "NotInUse",
        "no driver, submitted job, actor, task or Serve application is there",
    )
    message = (
        f"idle since {at(since)}; will be suspended at {at(since + 600)} unless used again or extended by the "
        "annotation ray.io/extend-until"
    )
    assert it.condition("LifecycleEnding") == ("False", "Scheduled", message)
    it.go(until=since + 479)
    assert it.events() == []
    it.go(until=since + 480)
    assert it.condition("LifecycleEnding") == ("True", "Idle", message)
    assert [(e.type, e.note) for e in it.tiny.events if e.reason == "LifecycleEnding"] == [
        ("Warning", f"RayCluster default/pair is {message}")
    ]
    it.go(until=since + 599)
    assert len(it.tiny.pods) == 4
    it.go(until=since + 600)
    assert it.suspended
    ended = it.condition("LifecycleEnded")
    assert ended is not None
    assert ended[:2] == ("True", "Idle")
    assert ended[2].startswith(f"idle since {at(since)}, suspended at {at(since + 600)}; resumes when")
    assert (it.condition("RayClusterIdle"), it.condition("LifecycleEnding")) == (None, None)
    assert it.tiny.condition("RayClusterSuspended")["status"] == "True"
    it.go(until=since + 50_000)
    assert it.suspended
    assert it.events() == ["LifecycleEnding", "LifecycleEnded"]
    assert it.asked == {}
    assert "suspend" not in it.tiny.cluster["spec"]


def test_the_last_question_is_asked_at_the_end_itself(lab: Callable[..., Lab]) -> None:
    it = lab(IDLE_10)
    since = began(it)
    it.go(until=since + 599)
    it.ray = BUSY  # not polled yet
    it.asked = {replace(probe, asked_for="never"): None for probe in it.asked}
    it.tiny.now = BORN + timedelta(seconds=since + 600)
    it.settle()
    assert len(it.tiny.pods) == 4
    assert it.questions[-2].asked_for == at(since + 600)
    assert it.condition("RayClusterIdle") == ("False", "InUse", "a driver is connected")
    assert it.condition("LifecycleEnding") is None


@pytest.mark.parametrize("when", [100, 500, 599], ids=str)
def test_use_in_between_starts_all_over(lab: Callable[..., Lab], when: float) -> None:
    it = lab(IDLE_10)
    since = began(it)
    it.go(until=since + when)
    it.ray = BUSY
    it.go(until=since + 2000)
    assert len(it.tiny.pods) == 4
    it.ray = {"active": False, "lastEnd": at(since + 1990)}
    it.go(until=since + 2599)
    assert len(it.tiny.pods) == 4
    it.go(until=since + 2600)
    assert it.suspended
    warnings = it.events("LifecycleEnding")
    assert len(warnings) == (1 if when < 480 else 2)


def test_a_driver_that_ran_unseen_starts_all_over(lab: Callable[..., Lab]) -> None:
    it = lab(IDLE_10)
    it.go(until=began(it) + 590)
    it.restart()
    it.ray = {"active": False, "lastEnd": at(it.now - 5)}
    now = it.now
    it.settle()
    assert began(it) == now
    it.go(until=now + 599)
    assert len(it.tiny.pods) == 4
    it.go(until=now + 600)
    assert it.suspended


def test_an_end_told_by_a_skewed_clock_is_only_compared(lab: Callable[..., Lab]) -> None:
    it = lab(IDLE_10)
    it.ray = {"active": False, "lastEnd": at(10_000_000)}
    it.settle()
    written = len(it.tiny.statuses)
    it.go(until=it.now + 100)
    assert len(it.tiny.statuses) == written
    it.go(until=it.now + 600)
    assert it.suspended


def test_busy_clusters_stay(lab: Callable[..., Lab]) -> None:
    it = lab(IDLE_10)
    it.ray = BUSY
    it.settle()
    written = len(it.tiny.statuses)
    it.go(until=100_000)
    assert len(it.tiny.pods) == 4
    assert len(it.tiny.statuses) == written, "an unchanged answer is written once"


# -- what cannot be seen


def test_a_dashboard_that_does_not_answer_counts_as_use(lab: Callable[..., Lab]) -> None:
    it = lab(IDLE_10)
    it.ray = "connection refused"
    it.go(until=50_000)
    assert len(it.tiny.pods) == 4
    assert it.condition("RayClusterIdle") == (
        "Unknown",
        "ActivityUnknown",
        "it cannot be seen whether the cluster is in use, so it counts as used: connection refused",
    )
    assert it.condition("LifecycleEnding") is None
    it.ray = QUIET
    now = it.now
    it.settle()
    assert began(it) == now


def test_a_short_silence_forgets_nothing_and_ends_nothing(lab: Callable[..., Lab]) -> None:
    it = lab(IDLE_10)
    since = began(it)
    it.go(until=since + 500)
    it.ray = "timed out"
    it.go(until=since + 610)
    assert len(it.tiny.pods) == 4
    assert began(it) == since
    it.ray = QUIET
    it.settle()
    assert it.suspended


def test_silence_at_the_end_is_waited_for_and_then_counts_as_use(lab: Callable[..., Lab]) -> None:
    it = lab(IDLE_10)
    since = began(it)
    it.go(until=since + 599)
    it.ray = "timed out"
    it.go(until=since + 800)
    assert len(it.tiny.pods) == 4
    found = it.condition("RayClusterIdle")
    assert found is not None
    assert found[0] == "Unknown"


def test_no_dashboard_port(lab: Callable[..., Lab], cluster: Any) -> None:
    it = lab(IDLE_10)

    def edit(spec: Manifest) -> None:
        spec["headGroupSpec"]["template"]["spec"]["containers"][0]["ports"] = [{"name": "web", "containerPort": 80}]

    it.tiny.edit(edit)
    service = next(body for (kind, _), body in it.tiny.objects.items() if kind.kind == "Service")
    service["spec"]["ports"] = [port for port in service["spec"]["ports"] if port["name"] != "dashboard"]
    it.go(until=20_000)
    assert len(it.tiny.pods) == 4
    found = it.condition("RayClusterIdle")
    assert found is not None
    assert found[0] == "Unknown"
    assert "no port named dashboard" in found[2]


def test_the_question(lab: Callable[..., Lab]) -> None:
    it = lab(IDLE_10)
    assert it.questions == [
        ActivityProbe(
            "pair-head-svc.default.svc.cluster.local:8265", "default", "pair-head-svc", interval=timedelta(seconds=60)
        )
    ]
    it = lab({"idleTimeoutSeconds": 30}, authOptions={"mode": "token"})
    (question,) = it.questions
    assert question.interval == timedelta(seconds=5)
    assert question.auth is not None
    assert (question.auth.name, question.auth.key) == ("pair", "auth_token")


def test_nothing_is_asked_before_the_cluster_was_ready(lab: Callable[..., Lab], kubernetes: Any, cluster: Any) -> None:
    it = Lab(kubernetes, cluster(lifecycle=IDLE_10))
    it.tiny.start_pods = lambda: False
    it.go(until=5000)
    assert it.questions == []
    assert len(it.tiny.pods) == 4


# -- age


@pytest.mark.parametrize("ray", [BUSY, QUIET, "no answer"], ids=["busy", "quiet", "silent"])
def test_the_maximum_age_counts_from_creation_whatever_runs(lab: Callable[..., Lab], ray: Any) -> None:
    it = lab(AGE_60)
    it.ray = ray
    message = "running since 2026-01-01T00:00:00Z; will be suspended at 2026-01-01T01:00:00Z unless extended by the "
    assert it.condition("LifecycleEnding") == ("False", "Scheduled", f"{message}annotation ray.io/extend-until")
    it.go(until=3479)
    assert it.events() == []
    it.go(until=3599)
    assert it.events() == ["LifecycleEnding"]
    assert len(it.tiny.pods) == 4
    it.go(until=3600)
    assert it.suspended
    found = it.condition("LifecycleEnded")
    assert found is not None
    assert found[:2] == ("True", "MaxAge")


def test_a_cluster_that_never_became_ready_grows_old_too(
    lab: Callable[..., Lab], kubernetes: Any, cluster: Any
) -> None:
    it = Lab(kubernetes, cluster(lifecycle=AGE_60))
    it.tiny.start_pods = lambda: False
    it.go(until=3601)
    assert it.suspended


def test_after_a_resume_the_age_counts_from_there(lab: Callable[..., Lab]) -> None:
    it = lab(AGE_60)
    it.go(until=3700)
    assert it.suspended
    it.go(until=9000)
    it.tiny.edit(lambda spec: spec["workerGroupSpecs"][0].update(replicas=1))
    it.go(until=9000 + 3599)
    assert len(it.tiny.pods) == 2
    it.go(until=9000 + 3601)
    assert it.suspended


def test_after_a_resume_by_its_user_too(lab: Callable[..., Lab]) -> None:
    it = lab(AGE_60, suspend=True)
    it.go(until=5000)
    assert it.events() == []
    it.tiny.edit(lambda spec: spec.update(suspend=False))
    it.go(until=5000 + 3590)
    assert len(it.tiny.pods) == 4
    it.go(until=5000 + 3605)
    assert it.suspended


def test_the_nearer_limit_counts_and_each_is_announced(lab: Callable[..., Lab]) -> None:
    it = lab({"idleTimeoutSeconds": 600, "maxAgeSeconds": 700, "warningSeconds": 120})
    it.go(until=began(it) + 490)
    warned = it.condition("LifecycleEnding")
    assert warned is not None
    assert warned[:2] == ("True", "Idle")
    it.go(until=590)
    it.ray = BUSY
    it.go(until=695)
    warned = it.condition("LifecycleEnding")
    assert warned is not None
    assert warned[:2] == ("True", "MaxAge")
    it.go(until=590 + 119)
    assert len(it.tiny.pods) == 4, "every end has been announced for as long as was asked"
    it.go(until=590 + 121)
    assert it.suspended
    assert it.events() == ["LifecycleEnding", "LifecycleEnding", "LifecycleEnded"]


# -- announcements


def test_a_limit_set_on_an_old_cluster_is_announced_first(lab: Callable[..., Lab]) -> None:
    it = lab(None)
    it.go(until=50_000)
    it.tiny.edit(lambda spec: spec.update(lifecycle={"maxAgeSeconds": 60, "warningSeconds": 30}))
    it.go(until=50_029)
    assert len(it.tiny.pods) == 4
    assert it.events() == ["LifecycleEnding"]
    it.go(until=50_031)
    assert it.suspended


@pytest.mark.parametrize(("warning", "first"), [(10_000, 0), (600, 0), (500, 100), (1, 599)], ids=str)
def test_a_warning_is_never_longer_than_the_limit(lab: Callable[..., Lab], warning: int, first: int) -> None:
    it = lab({"idleTimeoutSeconds": 600, "warningSeconds": warning})
    since = began(it)
    if first:
        it.go(until=since + first - 1)
        assert it.events() == []
    it.go(until=since + first)
    assert it.events() == ["LifecycleEnding"]
    it.go(until=since + 599)
    assert len(it.tiny.pods) == 4
    it.go(until=since + 600)
    assert it.suspended


def test_no_warning_when_none_is_wanted(lab: Callable[..., Lab]) -> None:
    it = lab({"idleTimeoutSeconds": 600, "warningSeconds": 0})
    it.go(until=began(it) + 600)
    assert it.suspended
    assert it.events() == ["LifecycleEnded"]


def test_the_default_warning_is_five_minutes(lab: Callable[..., Lab]) -> None:
    it = lab({"maxAgeSeconds": 1000})
    it.go(until=699)
    assert it.events() == []
    it.go(until=700)
    assert it.events() == ["LifecycleEnding"]


# -- operators and clocks


def test_an_operator_that_was_away_announces_before_it_ends(lab: Callable[..., Lab]) -> None:
    it = lab(IDLE_10)
    it.tiny.now += timedelta(hours=5)
    it.restart()
    back = it.now
    it.go(until=back + 119)
    assert len(it.tiny.pods) == 4
    assert it.events() == ["LifecycleEnding"]
    it.go(until=back + 121)
    assert it.suspended


@pytest.mark.parametrize("every", [1 if LONG else 7, 37, 119])
def test_restarts_change_nothing(lab: Callable[..., Lab], every: int) -> None:
    it = lab(IDLE_10)
    since = began(it)
    moment = it.now
    while moment < since + 599:
        moment = min(moment + every, since + 599)
        it.go(until=moment)
        it.restart()
    assert len(it.tiny.pods) == 4
    it.go(until=since + 600)
    assert it.suspended
    assert it.events() == ["LifecycleEnding", "LifecycleEnded"]


def test_a_clock_that_was_far_ahead_ends_nothing_at_once_and_is_forgotten(lab: Callable[..., Lab]) -> None:
    it = lab({**IDLE_10, **AGE_60})
    real = it.tiny.now
    it.tiny.now += timedelta(days=365)
    it.settle()
    assert len(it.tiny.pods) == 4
    it.ray = BUSY
    it.settle()
    it.ray = QUIET
    it.settle()
    it.tiny.now = real
    it.settle()
    assert began(it) == it.now
    warned = it.condition("LifecycleEnding")
    assert warned is not None
    assert warned[:2] == ("False", "Scheduled")
    now = it.now
    it.go(until=now + 599)
    assert len(it.tiny.pods) == 4
    it.go(until=now + 601)
    assert it.suspended


def test_the_end_is_stored_before_anything_goes(lab: Callable[..., Lab]) -> None:
    it = lab(IDLE_10)
    it.go(until=began(it) + 600 - 1)
    seen: list[tuple[bool, int]] = []
    it.tiny.now += timedelta(seconds=1)
    while not it.suspended:
        plan = it.tiny.reconcile()
        it.asked = {probe: None for probe in plan.probes if isinstance(probe, ActivityProbe)}
        stored = it.condition("LifecycleEnded")
        seen.append((stored is not None and stored[0] == "True", len(it.tiny.pods)))
        assert len(seen) < 8
    assert (True, 4) in seen
    assert (False, 0) not in seen


def test_a_settled_cluster_is_not_written_again(lab: Callable[..., Lab]) -> None:
    it = lab({**IDLE_10, "maxAgeSeconds": 100_000})
    written = len(it.tiny.statuses)
    it.go(until=began(it) + 479)
    assert len(it.tiny.statuses) == written
    it.go(until=began(it) + 599)
    assert len(it.tiny.statuses) == written + 1, "the announcement"


# -- extension


@pytest.mark.parametrize("lifecycle", [IDLE_10, AGE_60], ids=["idle", "age"])
def test_extended_it_ends_at_that_time(lab: Callable[..., Lab], lifecycle: Manifest) -> None:
    it = lab(lifecycle)
    it.annotate(at(20_000))
    it.go(until=19_879)
    assert it.events() == []
    it.go(until=19_999)
    assert it.events() == ["LifecycleEnding"]
    assert len(it.tiny.pods) == 4
    it.go(until=20_000)
    assert it.suspended


def test_an_extension_within_a_second_is_no_reason_to_hurry(lab: Callable[..., Lab]) -> None:
    made = lab({**AGE_60, "warningSeconds": 0})
    made.annotate("2026-01-01T02:00:00.700Z")
    made.go(until=7199)
    made.tiny.now = BORN + timedelta(seconds=7200.5)
    plan = made.settle()
    assert plan.requeue_after is None or plan.requeue_after > timedelta(0)
    assert made.suspended


def test_what_it_suspended_requests_nothing(lab: Callable[..., Lab]) -> None:
    made = lab(AGE_60)
    assert made.tiny.status["resources"]["requested"]
    made.go(until=4000)
    assert made.suspended
    assert "resources" not in made.tiny.status


def test_extended_after_the_warning_it_is_warned_again(lab: Callable[..., Lab]) -> None:
    it = lab(IDLE_10)
    it.go(until=began(it) + 500)
    it.annotate(at(5000))
    it.settle()
    found = it.condition("LifecycleEnding")
    assert found is not None
    assert found[:2] == ("False", "Scheduled")
    assert "will be suspended at 2026-01-01T01:23:20Z" in found[2]
    it.go(until=4999)
    assert it.events() == ["LifecycleEnding", "LifecycleEnding"]
    it.go(until=5001)
    assert it.suspended


def test_an_extension_that_lies_before_the_end_changes_nothing(lab: Callable[..., Lab]) -> None:
    it = lab(AGE_60)
    it.annotate(at(1000))
    it.go(until=3600)
    assert it.suspended


@pytest.mark.parametrize("action", ["Suspend", "Delete"])
@pytest.mark.parametrize("text", ["tomorrow", "2026-01-02", "2026-01-02T00:00:00", "9999-12-31T23:59:59-12:00", "7h"])
def test_an_annotation_that_cannot_be_read_ends_nothing(lab: Callable[..., Lab], text: str, action: str) -> None:
    it = lab({**IDLE_10, **AGE_60, "action": action})
    it.annotate(text)
    it.go(until=100_000)
    assert len(it.tiny.pods) == 4
    assert not it.deleted
    assert it.events() == ["InvalidExtension"]
    found = it.condition("LifecycleEnding")
    assert found is not None
    assert found[:2] == ("False", "InvalidExtension")
    assert found[2].startswith("metadata.annotations[ray.io/extend-until]: ")
    assert repr(text) in found[2]
    it.annotate(None)
    it.go(until=100_200)
    assert it.deleted if action == "Delete" else it.suspended


# -- resuming


def ended(lab: Callable[..., Lab], **spec: Any) -> Lab:
    it = lab(IDLE_10, **spec)
    it.go(until=began(it) + 700)
    assert it.suspended
    return it


EDITS: dict[str, Callable[[Manifest], object]] = {
    "lifecycle": lambda spec: spec["lifecycle"].update(idleTimeoutSeconds=900),
    "no lifecycle": lambda spec: spec.pop("lifecycle"),
    "replicas": lambda spec: spec["workerGroupSpecs"][0].update(replicas=2),
    "suspend false": lambda spec: spec.update(suspend=False),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_resumes(lab: Callable[..., Lab], edit: str) -> None:
    it = ended(lab)
    it.tiny.edit(EDITS[edit])
    it.go(until=it.now + 10)
    assert it.tiny.pods
    assert it.tiny.status["state"] == "ready"
    found = it.condition("LifecycleEnded")
    if edit == "no lifecycle":
        assert found is None
        return
    assert found == ("False", "Released", "called off: the spec was edited")
    assert it.events("LifecycleReleased") == ["LifecycleReleased"]
    since = began(it)
    assert since >= it.now - 10
    it.go(until=since + 1000)
    assert it.suspended, "idle again, ended again"


def test_suspended_by_its_user_afterwards_it_is_the_users(lab: Callable[..., Lab]) -> None:
    it = ended(lab)
    it.tiny.edit(lambda spec: spec.update(suspend=True))
    it.go(until=it.now + 5000)
    assert it.suspended
    found = it.condition("LifecycleEnded")
    assert found is not None
    assert found[0] == "False"
    it.tiny.edit(lambda spec: spec.update(suspend=False))
    it.go(until=it.now + 10)
    assert it.tiny.status["state"] == "ready"


def test_an_extension_resumes_and_keeps_until_then(lab: Callable[..., Lab]) -> None:
    it = ended(lab)
    until = it.now + 3000
    it.annotate(at(until))
    it.go(until=it.now + 10)
    assert it.tiny.status["state"] == "ready"
    found = it.condition("LifecycleEnded")
    assert found is not None
    assert found[0] == "False"
    assert at(until) in found[2]
    it.go(until=until - 1)
    assert len(it.tiny.pods) == 4
    it.go(until=until + 1)
    assert it.suspended
    assert it.events() == [
        "LifecycleEnding",
        "LifecycleEnded",
        "LifecycleReleased",
        "LifecycleEnding",
        "LifecycleEnded",
    ]


@pytest.mark.parametrize("text", ["2026-01-01T00:00:05Z", "soon"])
def test_an_extension_that_is_over_or_unreadable_does_not_resume(lab: Callable[..., Lab], text: str) -> None:
    it = ended(lab)
    it.annotate(text)
    it.go(until=it.now + 5000)
    assert it.suspended
    assert it.events("InvalidExtension") == (["InvalidExtension"] if text == "soon" else [])
    it.annotate(None)
    it.settle()
    assert it.condition("LifecycleEnding") is None


def test_extended_while_its_pods_go_it_comes_back_when_they_are_gone(lab: Callable[..., Lab]) -> None:
    it = lab(IDLE_10)
    it.tiny.keep_terminating = True
    it.go(until=began(it) + 610)
    assert it.tiny.condition("RayClusterSuspending")["status"] == "True"
    it.annotate(at(20_000))
    it.settle()
    assert it.tiny.condition("RayClusterSuspending")["status"] == "True"
    assert all("deletionTimestamp" in pod["metadata"] for pod in it.tiny.pods.values())
    for name in list(it.tiny.pods):
        del it.tiny.objects[POD, name]
    it.tiny.keep_terminating = False
    it.go(until=it.now + 10)
    assert it.tiny.status["state"] == "ready"
    it.go(until=19_000)
    assert len(it.tiny.pods) == 4


class EveryPlugin(NoHooks):
    def has(self, name: str) -> bool:
        return True


def test_the_autoscalers_last_word_is_no_wish_to_resume(kubernetes: Any, cluster: Any) -> None:
    it = Lab(kubernetes, cluster(lifecycle=IDLE_10, enableInTreeAutoscaling=True))
    it.tiny.hooks = EveryPlugin()
    it.go(until=10)
    it.tiny.keep_terminating = True
    it.go(until=began(it) + 610)
    it.tiny.edit(lambda spec: spec["workerGroupSpecs"][0].update(replicas=0))
    it.settle()
    it.tiny.keep_terminating = False
    for name in list(it.tiny.pods):
        del it.tiny.objects[POD, name]
    it.go(until=it.now + 5000)
    assert it.suspended
    it.tiny.edit(lambda spec: spec["workerGroupSpecs"][0].update(replicas=1))
    it.go(until=it.now + 10)
    assert it.tiny.status["state"] == "ready"


# -- deletion


def test_deleted_by_name_and_uid_and_nothing_else(lab: Callable[..., Lab]) -> None:
    it = lab({**IDLE_10, "action": "Delete"})
    since = began(it)
    found = it.condition("LifecycleEnding")
    assert found is not None
    assert f"will be deleted at {at(since + 600)}" in found[2]
    it.go(until=since + 599)
    before = len(it.tiny.writes)
    assert not it.deleted
    it.tiny.now += timedelta(seconds=1)
    it.settle()
    assert it.deleted
    (write,) = it.tiny.writes[before:]
    assert isinstance(write, Delete)
    assert (write.kind, write.name, write.propagation) == (RAYCLUSTER, "pair", "Background")
    assert it.events() == ["LifecycleEnding", "LifecycleEnded"]


def test_a_deletion_that_is_refused_shows_and_goes_on(lab: Callable[..., Lab]) -> None:
    it = lab({**AGE_60, "action": "Delete"})
    it.tiny.refuse = lambda write: "no" if isinstance(write, Delete) and write.kind == RAYCLUSTER else ""
    it.go(until=3700)
    assert len(it.tiny.pods) == 4
    found = it.condition("PodsWaiting")
    assert found is not None
    assert found[1:] == ("WriteFailed", "RayCluster pair: no")
    assert set(it.events("FailedToDeleteRayCluster")) == {"FailedToDeleteRayCluster"}
    it.tiny.refuse = lambda write: ""
    it.settle()
    assert it.deleted


@pytest.mark.parametrize("how", ["extension", "edit"])
def test_called_off_before_the_deletion_took_place(lab: Callable[..., Lab], how: str) -> None:
    it = lab({**AGE_60, "action": "Delete"})
    it.tiny.refuse = lambda write: "no" if isinstance(write, Delete) and write.kind == RAYCLUSTER else ""
    it.go(until=3700)
    if how == "extension":
        it.annotate(at(50_000))
    else:
        it.tiny.edit(lambda spec: spec["lifecycle"].update(maxAgeSeconds=40_000))
    it.tiny.refuse = lambda write: ""
    it.go(until=40_000)
    assert not it.deleted
    assert len(it.tiny.pods) == 4


def test_an_annotation_that_cannot_be_read_stops_the_deletion_too(lab: Callable[..., Lab]) -> None:
    it = lab({**AGE_60, "action": "Delete"})
    it.tiny.refuse = lambda write: "no" if isinstance(write, Delete) and write.kind == RAYCLUSTER else ""
    it.go(until=3700)
    it.annotate("never")
    it.tiny.refuse = lambda write: ""
    it.go(until=10_000)
    assert not it.deleted
    assert it.events("InvalidExtension") == ["InvalidExtension"]
    it.annotate(None)
    it.settle()
    assert it.deleted


def test_what_another_controller_owns_is_suspended_instead(lab: Callable[..., Lab]) -> None:
    it = lab({**AGE_60, "action": "Delete"})
    owner = {"apiVersion": "example.test/v1", "kind": "Fleet", "name": "f", "uid": "u", "controller": True}
    it.tiny.cluster["metadata"]["ownerReferences"] = [owner]
    it.go(until=3700)
    assert not it.deleted
    assert it.suspended
