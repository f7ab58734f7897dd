"""What an edit of a RayCronJob would do: the operator's own plan is asked, with and without it, for now and the next start."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Any

from kuberay.api.cron import ScheduleError
from kuberay.api.gates import CRON_JOB
from kuberay.api.kinds import RAYCRONJOB, Kind
from kuberay.api.objects import RayObject, from_dict
from kuberay.api.problems import Problem
from kuberay.api.times import format_time
from kuberay.cli.diff_job_world import Other, Rules
from kuberay.cli.manifests import CRON_JOB_OFF
from kuberay.operator.foresight import Foresight, Happening
from kuberay.operator.world import World
from kuberay.plan.cronjob import plan_cronjob
from kuberay.plan.cronjob.acceptance import read_spec
from kuberay.plan.cronjob.reconcile import ticks_of
from kuberay.plan.cronjob.status import handled_until
from kuberay.plan.edit.changes import FieldChange, field_changes
from kuberay.plan.observed import Observed

Manifest = dict[str, Any]

_STARTS = 3
_ONLY_THEN = {
    "concurrencyPolicy": "counts when a start comes while an earlier RayJob has not ended",
    "successfulJobsHistoryLimit": "counts when more RayJobs have succeeded than are to be kept",
    "failedJobsHistoryLimit": "counts when more RayJobs have failed than are to be kept",
    "startingDeadlineSeconds": "counts when a start is missed",
}


@dataclass(frozen=True, slots=True)
class CronChange:
    """One changed field and what it does."""

    change: FieldChange
    sentence: str


@dataclass(slots=True)
class CronEffects:
    """Everything about one edit of a RayCronJob."""

    exists: bool = True
    starts_before: list[datetime] = field(default_factory=list)
    starts_after: list[datetime] = field(default_factory=list)
    zone: tzinfo | None = None
    """The zone of the starts after the edit, where one is named."""
    at_once: list[str] = field(default_factory=list)
    changes: list[CronChange] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def cron_effects(
    before: Manifest | None, jobs: Sequence[Other], after: Manifest, rules: Rules, problems: Sequence[Problem]
) -> CronEffects:
    """What happens when *before* becomes *after*, both as the API server stores them."""
    effects = CronEffects(exists=before is not None, problems=list(problems))
    if not rules.gates.get(CRON_JOB):
        effects.notes.append(f"{CRON_JOB_OFF}.")
    if problems:
        return effects
    if before is None:
        fresh = _Case(_born(after, rules.now), jobs, rules)
        effects.starts_after, effects.zone = fresh.starts(), fresh.zone
        return effects
    before = _born(before, rules.now)
    changes = [
        *field_changes(_metadata(before), _metadata(after), ("metadata",)),
        *field_changes(before.get("spec"), after.get("spec"), ("spec",)),
    ]
    as_it_is = _Case(before, jobs, rules)
    whole = _Case(_edited(before, changes), jobs, rules)
    effects.starts_before, effects.starts_after, effects.zone = as_it_is.starts(), whole.starts(), whole.zone
    effects.at_once = _more(as_it_is.at_once(), whole.at_once())
    for change in changes:
        others = [other for other in changes if other is not change]
        pairs = (
            (as_it_is, _Case(_edited(before, [change]), jobs, rules)),
            (_Case(_edited(before, others), jobs, rules), whole),
        )
        effects.changes.append(CronChange(change, _sentence(change, pairs)))
    return effects


@dataclass(slots=True)
class _Case:
    """One version of the RayCronJob with the RayJobs it has made."""

    body: Manifest
    jobs: Sequence[Other]
    rules: Rules

    def at_once(self) -> list[str]:
        """What the next pass does."""
        return _told(self._foresight().settle(self.rules.now))

    def starts(self) -> list[datetime]:
        """The next starts; none while it is suspended or cannot be read."""
        obj = self._object()
        spec = read_spec(obj)
        if isinstance(spec, list) or spec.suspend:
            return []
        observed = Observed(obj=obj, now=self.rules.now, config=self.rules.config)
        base = handled_until(obj) or obj.metadata.creation_timestamp or self.rules.now
        try:
            ticks, found = ticks_of(observed, spec, base), []
            moment = max(base, self.rules.now)
            for _ in range(_STARTS):
                moment = ticks.after(moment)
                found.append(moment)
        except (ScheduleError, StopIteration, OverflowError):
            return []
        return found

    @property
    def zone(self) -> tzinfo | None:
        """The zone it names."""
        from kuberay.api.validation.cronjob import read_zone

        name = self.body["spec"].get("timeZone")
        return read_zone(name) if name else None

    def next_start(self) -> tuple[list[str], Manifest | None]:
        """What the next start does, and the RayJob it makes."""
        starts = self.starts()
        if not starts:
            return [], None
        foresight = self._foresight()
        foresight.settle(self.rules.now)
        made = len(foresight.world.created)
        told = _told(foresight.settle(starts[0]))
        fresh = foresight.world.created[made:]
        return told, fresh[0] if fresh else None

    def _foresight(self) -> Foresight:
        metadata = self.body["metadata"]
        world = World(format_time(self.rules.now))
        items: list[tuple[Kind, Manifest]] = [(RAYCRONJOB, self.body), *self.jobs]
        for kind, body in items:
            world.put(kind, metadata["namespace"], copy.deepcopy(body))
        return Foresight(
            plan_cronjob,
            RAYCRONJOB,
            metadata["namespace"],
            metadata["name"],
            world,
            self.rules.config,
            self.rules.gates,
            self.rules.hooks,
        )

    def _object(self) -> RayObject:
        obj = from_dict(RAYCRONJOB, self.body)
        assert isinstance(obj, RayObject)
        return obj


def _sentence(change: FieldChange, pairs: Sequence[tuple[_Case, _Case]]) -> str:
    """What is different with the change, alone or together with the others."""
    found: list[str] = []
    for without, with_it in pairs:
        found += [f"at once: {what}" for what in _more(without.at_once(), with_it.at_once())]
        old, new = without.starts(), with_it.starts()
        if old != new:
            found.append(
                "nothing is started any more" if not new else "starts again" if not old else "moves the next starts"
            )
            continue
        (old_told, old_job), (new_told, new_job) = without.next_start(), with_it.next_start()
        if old_told != new_told:
            found += [f"at the next start: {what}" for what in _more(old_told, new_told)]
            found += [f"no more at the next start: {what}" for what in _more(new_told, old_told)]
        elif old_job != new_job:
            found.append("in RayJobs that start from now on; those that exist stay as they are")
    if found:
        return "; ".join(dict.fromkeys(found))
    step = change.steps[1] if len(change.steps) > 1 else ""
    return _ONLY_THEN.get(str(step), "nothing") if change.steps[0] == "spec" else "nothing"


def _told(happenings: Sequence[Happening]) -> list[str]:
    return [happening.what for happening in happenings]


def _more(before: Sequence[str], after: Sequence[str]) -> list[str]:
    return [what for what in after if what not in before]


def _born(body: Manifest, now: datetime) -> Manifest:
    """With the metadata that a file lacks: it is taken to be made now."""
    metadata = {"uid": "unknown", "generation": 1, "creationTimestamp": format_time(now), **body["metadata"]}
    return {**body, "metadata": metadata}


def _edited(body: Manifest, changes: Sequence[FieldChange]) -> Manifest:
    edited: Mapping[str, Any] = body
    for change in changes:
        edited = change.made_in(edited)
    metadata = dict(edited["metadata"])
    metadata["generation"] = metadata.get("generation", 1) + bool(changes)
    return {**edited, "metadata": metadata}


def _metadata(manifest: Manifest) -> dict[str, Any]:
    metadata = manifest.get("metadata") or {}
    return {key: dict(metadata.get(key) or {}) for key in ("labels", "annotations")}
