"""What an edit of a RayJob would do: the operator's own plan is asked with and without it, for now and for each end.

There are no rules of its own here: of every changed field it is asked what would be different without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from kuberay.api.job import JobDeploymentStatus, JobStatus
from kuberay.api.names import MANAGED_BY
from kuberay.api.problems import Problem
from kuberay.api.times import format_time
from kuberay.cli.diff_job_world import Rules, Situation, next_attempt, running
from kuberay.cli.edited import edited, object_changes
from kuberay.operator.foresight import Happening
from kuberay.plan.edit.changes import FieldChange

Manifest = dict[str, Any]

_WARNING = "a warning is given: "
_IGNORED = (_WARNING, "Service ")
"""Happenings that explain no field: warnings are told on their own, Services are kept up to date all the time."""
_NOW, _AT_ONCE = "now", "at once"
_ENDS = {"FAILED": "if the job fails", "SUCCEEDED": "when the job has succeeded"}
"""Futures that are asked about besides what comes by itself."""
_NO_MORE = (JobDeploymentStatus.COMPLETE, JobDeploymentStatus.FAILED)


class JobEffect(StrEnum):
    """When a changed field counts."""

    REFUSED = "refused"
    AT_ONCE = "at-once"
    LATER = "later"
    NEXT_ATTEMPT = "next-attempt"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class JobChange:
    """One changed field and what it does."""

    change: FieldChange
    effect: JobEffect
    sentence: str


@dataclass(slots=True)
class JobEffects:
    """Everything about one edit of a RayJob."""

    exists: bool = True
    state: str = ""
    """``status.jobDeploymentStatus`` from which the edit starts."""
    at_once: list[str] = field(default_factory=list)
    """What the operator does in its first pass, and would not without the edit."""
    changes: list[JobChange] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def job_effects(
    live: Situation | None, after: Manifest, rules: Rules, problems: Sequence[Problem], *, from_file: bool
) -> JobEffects:
    """What happens when *live* becomes *after*, both as the API server stores them."""
    effects = JobEffects(exists=live is not None, problems=list(problems))
    if live is None:
        return effects
    before = live.job
    changes = object_changes(before, after)
    effects.state = (before.get("status") or {}).get("jobDeploymentStatus") or ""
    if problems:
        sentence = "the edit is refused: nothing is taken over"
        effects.changes = [JobChange(change, JobEffect.REFUSED, sentence) for change in changes]
        return effects
    manager = after["spec"].get("managedBy")
    if manager not in (None, "", MANAGED_BY):
        effects.notes.append(f"spec.managedBy is {manager}: this operator leaves the RayJob alone.")
        effects.changes = [JobChange(change, JobEffect.NOTHING, "left to who manages it") for change in changes]
        return effects
    if not changes:
        return effects
    if from_file and not before.get("status"):
        live = running(before, rules)
        effects.state = live.job["status"].get("jobDeploymentStatus") or ""
        effects.notes.append(f"The file has no status: the first attempt is taken to be {effects.state or 'new'}.")
    answers = _Answers(live, changes, rules)
    for what in answers.at_once():
        if what.startswith(_WARNING):
            effects.notes.append(f"The operator will warn: {what.removeprefix(_WARNING)}")
        else:
            effects.at_once.append(what)
    effects.changes = [answers.of(change) for change in changes]
    return effects


@dataclass(slots=True)
class _Answers:
    """The futures of one edit. What one field does is what would be different without it, or with it alone."""

    live: Situation
    changes: Sequence[FieldChange]
    rules: Rules
    _known: dict[tuple[str, ...], dict[str, list[Happening]]] = field(default_factory=dict)
    _made: dict[tuple[str, ...], Any] = field(default_factory=dict)

    @property
    def status(self) -> Mapping[str, Any]:
        return self.live.job.get("status") or {}

    def at_once(self) -> list[str]:
        """What the whole edit brings about in the first pass."""
        now = format_time(self.rules.now)
        before = {told.what for told in self._futures([])[_NOW]}
        return [
            told.what
            for told in self._futures(self.changes)[_NOW]
            if format_time(told.at) <= now and told.what not in before and not told.what.startswith("Service ")
        ]

    def of(self, change: FieldChange) -> JobChange:
        """The answer for one field."""
        others = [other for other in self.changes if other is not change]
        found: dict[str, list[str]] = {}
        for without, with_it in (((), (change,)), (others, self.changes)):
            for when, what in self._differences(without, with_it):
                said = found.setdefault(when, [])
                said += [what] if what not in said else []
        if found:
            effect = JobEffect.AT_ONCE if _AT_ONCE in found else JobEffect.LATER
            return JobChange(change, effect, "; ".join(f"{when}: {', '.join(what)}" for when, what in found.items()))
        if self.status.get("jobDeploymentStatus") in _NO_MORE:
            return JobChange(change, JobEffect.NOTHING, "nothing: the RayJob has ended")
        if self._next([]) == self._next([change]) and self._next(others) == self._next(self.changes):
            return JobChange(change, JobEffect.NOTHING, "nothing")
        return JobChange(change, JobEffect.NEXT_ATTEMPT, self._when_next())

    def _differences(self, without: Sequence[FieldChange], with_it: Sequence[FieldChange]) -> Iterator[tuple[str, str]]:
        """When and what is different; how the job might end is only asked while the edit itself does not end it."""
        before, after = self._futures(without), self._futures(with_it)
        now = self.rules.now
        old, new = _by_what(before[_NOW]), _by_what(after[_NOW])
        fresh = False
        for what, at in new.items():
            if old.get(what) != at:
                fresh = True
                moved = f" (not at {format_time(old[what])})" if what in old else ""
                yield (_AT_ONCE if at <= now else f"at {format_time(at)}"), f"{what}{moved}"
        gone = [what for what in old if what not in new]
        if gone and not fresh:
            yield from ((f"no more at {format_time(old[what])}", what) for what in gone)
        if any(at <= now for what, at in new.items() if old.get(what) != at):
            return
        for outcome, words in _ENDS.items():
            old, new = _by_what(before[outcome]), _by_what(after[outcome])
            for what, at in new.items():
                if old.get(what) != at:
                    moved = f", not{_span(old[what], now) or ' at once'}" if what in old else ""
                    yield words, f"{what}{_span(at, now)}{moved}"
            yield from ((words, f"no more: {what}") for what in old if what not in new)

    def _futures(self, changes: Sequence[FieldChange]) -> dict[str, list[Happening]]:
        """As things are, and if the job ended now either way."""
        key = tuple(change.path for change in changes)
        if key not in self._known:
            situation = self.live.edited(edited(self.live.job, changes, self.rules.now))
            self._known[key] = {_NOW: situation.future(self.rules)}
            ended = self.status.get("jobDeploymentStatus") in _NO_MORE
            for outcome in _ENDS:
                found = [] if ended else situation.ended(JobStatus(outcome), self.rules.now).future(self.rules)
                self._known[key][outcome] = found
        return self._known[key]

    def _next(self, changes: Sequence[FieldChange]) -> Any:
        key = tuple(change.path for change in changes)
        if key not in self._made:
            self._made[key] = next_attempt(edited(self.live.job, changes, self.rules.now), self.rules)
        return self._made[key]

    def _when_next(self) -> str:
        state = self.status.get("jobDeploymentStatus") or ""
        if state in ("", JobDeploymentStatus.SUSPENDED, JobDeploymentStatus.RETRYING):
            return "with the attempt that starts next"
        spec = edited(self.live.job, self.changes, self.rules.now)["spec"]
        left = int(spec.get("backoffLimit") or 0) - int(self.status.get("failed") or 0)
        stays = "what runs stays as it is"
        if left > 0:
            return f"with the next attempt, if this one fails or is suspended and resumed; {stays}"
        return f"only after suspend and resume, since no retry is left; {stays}"


def _by_what(happenings: Sequence[Happening]) -> dict[str, datetime]:
    return {told.what: told.at for told in happenings if not told.what.startswith(_IGNORED)}


def _span(at: datetime, now: datetime) -> str:
    seconds = int((at - now).total_seconds())
    return f" {seconds} s later" if seconds > 0 else ""
