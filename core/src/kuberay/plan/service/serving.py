"""What Serve of both RayClusters is given, and what it says of its applications.

Source: spec rayservice.md 2.9, cases RS-09, RS-12 and RS-14. What a RayCluster was given is an annotation on it, so that
nothing is forgotten and nothing is sent twice; nothing here waits for an answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from kuberay.api.conditions import TRUE, ClusterCondition, ServiceCondition, find_condition
from kuberay.api.kinds import RAYCLUSTER
from kuberay.api.serve_config import ServeConfigError, application_names, serve_body, serve_config_problems
from kuberay.api.service import ServeApplicationStatus
from kuberay.api.validation.service import INVALID_SPEC
from kuberay.plan.model import Event, Patch, ProbeResult, ServeConfigCall
from kuberay.plan.service import goal
from kuberay.plan.service.cluster_trouble import explain, since_when
from kuberay.plan.service.draft import PENDING, Draft, Status
from kuberay.plan.service.serve_calls import (
    Dashboard,
    Given,
    dashboard_of,
    head_start,
    read_given,
    stored_form,
    write_given,
)
from kuberay.plan.service.sides import Side, both_sides

AWAY_PATIENCE = timedelta(seconds=30)
"""How long a dashboard may be away before it is told."""
DEPLOY_PATIENCE = timedelta(minutes=5)
"""How long applications may deploy before it is told that they still do."""
LOST_AGAIN = timedelta(seconds=30)
"""How long Serve may show nothing of what it was given before it is given the same once more."""
LOST_LATER = timedelta(seconds=5)
"""Serve that shows nothing since so long after it was given something has shown it, and lost it since."""

_FAILED = {
    ServeApplicationStatus.DEPLOY_FAILED.value: "ApplicationDeployFailed",
    ServeApplicationStatus.UNHEALTHY.value: "ApplicationUnhealthy",
}


@dataclass(frozen=True, slots=True)
class Served:
    """What is known of Serve of one RayCluster that can be asked."""

    dashboard: Dashboard
    given: Given
    wanted: str | None
    """What it should have; None when it keeps what it has."""
    answer: ProbeResult | None
    """To the question how the applications are, asked after it was given what it has."""

    @property
    def settled(self) -> bool:
        """Whether it has what it should have."""
        return self.wanted is None or stored_form(self.wanted) == self.given.text

    @property
    def applications(self) -> Mapping[str, Any]:
        """What it said last."""
        found: Mapping[str, Any] = (self.answer.value.get("applications") or {}) if self.answer is not None else {}
        return found

    @property
    def answers(self) -> bool:
        """Whether the dashboard answers, as far as is known."""
        return self.answer is not None and self.answer.outcome == "found"

    @property
    def ready(self) -> bool:
        """Whether there is an application, and all run (2.9.4)."""
        if not self.answers or not self.settled or not self.applications:
            return False
        return all(app.get("status") == ServeApplicationStatus.RUNNING for app in self.applications.values())


def look(draft: Draft, side: Side) -> Served | None:
    """What is known of Serve of that side now; None while there is nobody to ask."""
    if side.cluster is None or not side.exists or not side.head_ready:
        return None
    dashboard = dashboard_of(draft, side.cluster)
    if dashboard is None:
        return None
    given = read_given(side.cluster)
    question = dashboard.question(_asked_for(side, given))
    return Served(dashboard, given, _wanted(draft, side), draft.observed.probes.get(question))


def configure(draft: Draft) -> None:
    """Ask both about their applications, and give them what they should have."""
    _tell_problems(draft)
    up = draft.is_true(ServiceCondition.READY)
    active, pending = both_sides(draft)
    # What is told first is told: of a service that is up, how its upgrade goes.
    for side in (pending, active) if up else (active, pending):
        if side is None:
            continue
        if side.key == PENDING or not up or _unfinished(draft, side):
            explain(draft, side)
        if not side.exists or not side.head_ready:
            draft.side(side.key).pop("applicationStatuses", None)
            continue
        served = look(draft, side)
        if served is None:
            words = f"the head service of RayCluster {_where(side)} has no port named dashboard"
            draft.hold("NoDashboardPort", words, since=_head_ready_since(side), patience=AWAY_PATIENCE)
            continue
        draft.want(served.dashboard.question(_asked_for(side, served.given)))
        _take_over(draft, side, served)
        _give(draft, side, served)


def _tell_problems(draft: Draft) -> None:
    """What Serve would refuse is not sent, and told once; who serves goes on with what it has."""
    problems = serve_config_problems(draft.spec.serve_config_v2)
    if not problems or draft.refused:
        return
    sentence = f"{'; '.join(map(str, problems))}. It is not sent to Serve, which keeps what it has"
    stored = draft.found(ServiceCondition.WAITING)
    if stored is None or stored.get("message") != sentence:
        note = f"{draft.where}: {sentence}"
        draft.event(INVALID_SPEC, note, action="Validate", warning=True, field_path=problems[0].path)
    draft.hold("ServeConfigInvalid", sentence)


def set_capacity(draft: Draft, side: Side, capacity: int | None) -> bool:
    """Have Serve run *capacity* percent of its replicas (None: as its configuration says), with the configuration that it
    has. It counts once Serve has accepted it; whether it has."""
    served = look(draft, side)
    if served is None:
        draft.wait(f"Serve of RayCluster {_where(side)} cannot be reached yet")
        return False
    if not served.settled or _lost(draft, side, served) is not None:
        # What it is given carries the present capacity, and comes first.
        return False
    text = served.given.readable(draft.spec.serve_config_v2)
    if text is None and not serve_config_problems(draft.spec.serve_config_v2):
        # Given by another operator, which left no note.
        text = draft.spec.serve_config_v2
    if text is None:
        return False
    result = _call(draft, side, served, text, capacity, f"capacity {head_start(side)}")
    if result is None:
        return False
    if result.outcome == "found":
        status = draft.side(side.key)
        status.pop("targetCapacity", None)
        if capacity is not None:
            status["targetCapacity"] = capacity
        note = f"Updated target_capacity of serve applications to to the RayCluster {_where(side)}"
        draft.event("UpdatedServeTargetCapacity", note, action="Update")
        return True
    sentence = f"Serve of RayCluster {_where(side)} does not take a target_capacity of {capacity}: {result.error}"
    note = f"Failed to update target_capacity of serve applications to the RayCluster {_where(side)}: {result.error}"
    _refused(draft, served, result, "FailedToUpdateTargetCapacity", sentence, note)
    return False


def _wanted(draft: Draft, side: Side) -> str | None:
    """The present text, if it is for that side (2.9.6)."""
    text = draft.spec.serve_config_v2
    if draft.refused or serve_config_problems(text):
        return None
    rolling_back = draft.is_true(ServiceCondition.ROLLBACK_IN_PROGRESS)
    if side.key == PENDING:
        # Of one that is about to be replaced it would be the configuration of the next.
        return None if rolling_back or goal.relation(draft, side) == "differs" else text
    if draft.cluster_name(PENDING):
        # What is meant for the RayCluster that is prepared is not for the one that serves.
        return text if rolling_back and goal.relation(draft, side) != "differs" else None
    if draft.strategy.on_change == "new-cluster" and goal.relation(draft, side) == "differs":
        return None
    if draft.strategy.on_change == "same-cluster" and _rolls(draft, side):
        # It may be meant for the new pods only.
        return None
    return text


def _rolls(draft: Draft, side: Side) -> bool:
    """Whether pods of the one RayCluster are about to be replaced, or are and get on with it."""
    if side.cluster is None or goal.relation(draft, side) == "differs":
        return True
    status = side.cluster.status
    seen = status.get("observedGeneration")
    found = find_condition(status.get("conditions") or (), ClusterCondition.ROLLING_UPGRADE)
    under_way = found is not None and found.get("status") == TRUE and found.get("reason") == "Progressing"
    return under_way or (seen is not None and seen != side.cluster.metadata.generation)


def _unfinished(draft: Draft, side: Side) -> bool:
    """Whether pods of the one RayCluster are still of another spec. Otherwise a worker that is not ready keeps nothing from
    anything: Serve may have no replica for it, and then no proxy runs beside it."""
    if draft.strategy.on_change != "same-cluster" or side.cluster is None:
        return False
    return goal.unfinished(side.cluster) or goal.relation(draft, side) == "differs"


def _asked_for(side: Side, given: Given) -> str:
    """Answers from before Serve was given something, or another capacity, do not count."""
    return f"{given.mark} {side.share.capacity}" if given.mark else ""


def _take_over(draft: Draft, side: Side, served: Served) -> None:
    """The answer becomes status; without one the last known stays."""
    answer = served.answer
    if answer is None:
        return
    if answer.outcome != "found":
        words = f"the dashboard of RayCluster {_where(side)} does not answer: {answer.error}"
        draft.hold("DashboardAway", words, since=answer.failing_since, patience=AWAY_PATIENCE)
        return
    status = draft.side(side.key)
    told = {name: _application(app) for name, app in served.applications.items()}
    if told:
        status["applicationStatuses"] = told
    else:
        status.pop("applicationStatuses", None)
    if not served.settled:
        return
    failed = {name: app for name, app in told.items() if app.get("status") in _FAILED}
    for name, app in failed.items():
        message = f": {app['message']}" if app.get("message") else ""
        words = f"application {name} of RayCluster {_where(side)} is {app['status']}{message}"
        draft.hold(_FAILED[app["status"]], words)
    late = sorted(name for name, app in told.items() if app.get("status") != ServeApplicationStatus.RUNNING)
    if late and not failed:
        words = f"application {late[0]} of RayCluster {_where(side)} is still {told[late[0]].get('status')}"
        draft.hold("ApplicationsNotRunning", words, since=answer.since, patience=DEPLOY_PATIENCE)


def _application(app: Mapping[str, Any]) -> Status:
    found = _state(app)
    deployments = {name: _state(each) for name, each in (app.get("deployments") or {}).items()}
    if deployments:
        found["serveDeploymentStatuses"] = deployments
    return found


def _state(told: Mapping[str, Any]) -> Status:
    return {key: str(told[key]) for key in ("status", "message") if told.get(key)}


def _give(draft: Draft, side: Side, served: Served) -> None:
    """Send what is missing, and note on the RayCluster what was accepted."""
    assert side.cluster is not None
    text = served.wanted if not served.settled else _lost(draft, side, served)
    if text is None:
        return
    occasion = f"{served.given.mark} {head_start(side)}"
    result = _call(draft, side, served, text, side.share.capacity, occasion)
    if result is None:
        return
    where = _where(side)
    if result.outcome == "found":
        annotations = write_given(text, draft.now, head_start(side))
        # Until that is noted, it does not count; whatever keeps it from being noted stops nothing else.
        draft.wait(f"that Serve of RayCluster {where} has its configuration is being noted")
        draft.wake_at(draft.now + LOST_AGAIN)
        draft.write(
            Patch(
                kind=RAYCLUSTER,
                namespace=side.cluster.namespace,
                name=side.name,
                body={"metadata": {"uid": side.cluster.uid, "annotations": annotations}},
                done=Event(
                    "UpdatedServeApplications", f"Updated serve applications to the RayCluster {where}", action="Update"
                ),
                failed=lambda error: Event(
                    "FailedToUpdateRayCluster",
                    f"Failed to update the {side.word} RayCluster {where}: {error}",
                    "Warning",
                    "Update",
                ),
                optional=True,
            )
        )
        return
    sentence = f"Serve of RayCluster {where} does not take its configuration: {result.error}"
    note = f"Failed to update serve applications to the RayCluster {where}: {result.error}"
    _refused(draft, served, result, "FailedToUpdateServeApplications", sentence, note)


def _lost(draft: Draft, side: Side, served: Served) -> str | None:
    """What Serve was given and does not know any more: its head lost its state, or somebody shut Serve down."""
    given, answer = served.given, served.answer
    if answer is None or not served.answers or served.applications:
        return None
    text = given.readable(draft.spec.serve_config_v2)
    if text is None or not application_names(text):
        return None
    if given.at is None or given.head != head_start(side) or (answer.since or answer.at) - given.at >= LOST_LATER:
        return text
    # It was given just now. If nothing comes of it, it is given the same again, but not without end at once.
    if draft.now - given.at >= LOST_AGAIN:
        return text
    draft.wake_at(given.at + LOST_AGAIN)
    return None


def _call(
    draft: Draft, side: Side, served: Served, text: str, capacity: int | None, occasion: str
) -> ProbeResult | None:
    """Keep giving it; the answer, None while there is none."""
    try:
        body = serve_body(text, capacity)
    except ServeConfigError as error:
        draft.hold(
            "ServeConfigInvalid", f"the configuration for Serve of RayCluster {_where(side)} is unreadable: {error}"
        )
        return None
    call: ServeConfigCall = served.dashboard.call(body, occasion)
    draft.want(call)
    result = draft.observed.probes.get(call)
    if result is None:
        draft.wait(f"Serve of RayCluster {_where(side)} is given its configuration")
    return result


def _refused(draft: Draft, served: Served, result: ProbeResult, reason: str, sentence: str, note: str) -> None:
    """Tell of a refusal, once for each text. That a dashboard is away is another matter, and told as that."""
    if not served.answers or served.answer is None:
        draft.wait(sentence)
        return
    if result.failing_since is not None and served.answer.at <= result.failing_since:
        # It may have gone away a moment ago: the next answer tells.
        draft.wait(sentence)
        draft.wake_at(draft.now + timedelta(seconds=2))
        return
    stored = draft.found(ServiceCondition.WAITING)
    if stored is None or stored.get("message") != sentence:
        draft.event(reason, note, action="Update", warning=True)
    draft.hold("ServeConfigRefused", sentence)


def _head_ready_since(side: Side) -> datetime | None:
    conditions = side.cluster.status.get("conditions") or () if side.cluster is not None else ()
    return since_when(find_condition(conditions, ClusterCondition.HEAD_POD_READY))


def _where(side: Side) -> str:
    return f"{side.cluster.namespace}/{side.name}" if side.cluster is not None else side.name
