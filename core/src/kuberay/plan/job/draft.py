"""What one pass over a RayJob has decided so far: writes, status, events, probes and the next time to look.

Handlers read and change a `Draft`; `Draft.finish` turns it into the plan. Source: spec rayjob.md 2.1 and 2.5.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from kuberay.api.conditions import FALSE, TRUE, JobCondition, find_condition, remove_condition, set_condition
from kuberay.api.job import JobDeploymentStatus, JobStatus, RayJobSpec
from kuberay.api.kinds import JOB, RAYCLUSTER
from kuberay.api.names import LABEL_SUBMISSION_MODE
from kuberay.api.objects import Object, RayObject
from kuberay.api.times import parse_time
from kuberay.hooks.calls import PluginFailure
from kuberay.plan.job.modes import K8S_JOB, Mode, mode_named, mode_of
from kuberay.plan.job.persistence import status_to_write
from kuberay.plan.model import Event, Plan, Probe, Write
from kuberay.plan.observed import Observed

Status = dict[str, Any]


@dataclass(slots=True)
class Draft:
    """A pass in the making. ``status`` is a copy that handlers change freely."""

    observed: Observed
    spec: RayJobSpec
    status: Status
    plan: Plan = field(default_factory=Plan)
    lookups: list[Probe] = field(default_factory=list)
    """Questions that hooks asked about unwatched objects."""
    _wake: datetime | None = None
    _failures: list[PluginFailure] = field(default_factory=list)
    _held: tuple[str, str] | None = None

    @classmethod
    def start(cls, observed: Observed, spec: RayJobSpec) -> Draft:
        """A draft that changes nothing yet; counters that are absent count as 0."""
        status = copy.deepcopy(observed.obj.status)
        for counter in ("failed", "succeeded"):
            status[counter] = status.get(counter) or 0
        return cls(observed, spec, status)

    # What is read

    @property
    def obj(self) -> RayObject:
        return self.observed.obj

    @property
    def now(self) -> datetime:
        return self.observed.now

    @property
    def where(self) -> str:
        """``namespace/name``, as notes have it."""
        return f"{self.obj.namespace}/{self.obj.name}"

    @property
    def state(self) -> JobDeploymentStatus | None:
        """The state the status names now; None for one that is no state of a RayJob."""
        try:
            return JobDeploymentStatus(self.status.get("jobDeploymentStatus") or "")
        except ValueError:
            return None

    @property
    def job_status(self) -> JobStatus | None:
        """What Ray said last; None for a word that is no job status."""
        try:
            return JobStatus(self.status.get("jobStatus") or "")
        except ValueError:
            return None

    @property
    def ray_job_ended(self) -> bool:
        """Whether Ray has reported an end."""
        return self.job_status is not None and self.job_status.terminal

    def time(self, *path: str) -> datetime | None:
        """A time in the status; None when absent or unreadable."""
        value: Any = self.status
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        if not isinstance(value, str):
            return None
        try:
            return parse_time(value)
        except ValueError:
            return None

    @property
    def uses_own_cluster(self) -> bool:
        """Whether the RayJob makes and removes its RayCluster; with a clusterSelector it does neither.

        Of an attempt that is under way the cluster it runs on tells, whatever the spec was edited into since."""
        cluster = self._cluster
        if cluster is not None and self._controls(cluster):
            return True
        if cluster is not None and self.state == JobDeploymentStatus.RUNNING:
            return False
        return not self.spec.cluster_selector

    @property
    def mode(self) -> Mode:
        """The mode of the attempt: that which its RayCluster was made for, or that of the submitter Job which is there.

        An edit of ``submissionMode`` counts from the next attempt on, else the job would be handed in a second way."""
        cluster = self._cluster
        if cluster is not None and self._controls(cluster):
            made_for = mode_named(cluster.metadata.labels.get(LABEL_SUBMISSION_MODE, ""))
            if made_for is not None:
                return made_for
        submitter = self.observed.view.get(JOB, self.obj.namespace, self.obj.name)
        if submitter is not None and self._controls(submitter):
            return K8S_JOB
        return mode_of(self.spec)

    @property
    def _cluster(self) -> Object | None:
        name = self.status.get("rayClusterName")
        return self.observed.view.get(RAYCLUSTER, self.obj.namespace, name) if name else None

    def _controls(self, obj: Object) -> bool:
        controller = obj.metadata.controller
        return controller is not None and controller.uid == self.obj.uid

    @property
    def suspend_wanted(self) -> bool:
        """``spec.suspend``, where suspending is allowed at all (6.2, S1 and S14); elsewhere it has no effect."""
        return self.spec.suspend and self.spec.shutdown_after_job_finishes and self.uses_own_cluster

    # What is decided

    def write(self, *writes: Write) -> None:
        """Add a stage of writes."""
        if writes:
            self.plan.stages.append(list(writes))

    def event(self, reason: str, note: str, *, action: str, warning: bool = False, field_path: str = "") -> None:
        """Tell of something once the pass has been written."""
        self.plan.events.append(Event(reason, note, "Warning" if warning else "Normal", action, field_path=field_path))

    def want(self, probe: Probe) -> None:
        """Keep a probe going."""
        if probe not in self.plan.probes:
            self.plan.probes.append(probe)

    def wake_at(self, moment: datetime | None) -> None:
        """Look again at *moment* at the latest."""
        if moment is not None and (self._wake is None or moment < self._wake):
            self._wake = moment

    def wait(self, sentence: str) -> None:
        """Say what is awaited in the usual course of things."""
        self.plan.waiting = self.plan.waiting or sentence

    def hold(self, reason: str, sentence: str) -> bool:
        """Say what is awaited that may never come: shows as a condition. True when that is news."""
        self.wait(sentence)
        if self._held is None:
            self._held = (reason, sentence)
        stored = find_condition(self.status.get("conditions") or [], JobCondition.PODS_WAITING)
        return stored is None or stored.get("message") != sentence

    def blame(self, failures: list[PluginFailure]) -> None:
        """Remember plugins that raised, for the condition."""
        self._failures.extend(failures)

    def refuse(self, message: str) -> None:
        """Say that the spec is refused."""
        self.condition(JobCondition.ACCEPTED, FALSE, "Invalid", message)

    def condition(self, type_: JobCondition, value: str, reason: str, message: str) -> None:
        """Set a condition. *reason* is one word; the name of a hook is made one."""
        conditions = self.status.get("conditions") or []
        self.status["conditions"] = set_condition(conditions, type_.value, value, _camel(reason), message, self.now)

    def drop_condition(self, type_: JobCondition) -> None:
        """Remove a condition."""
        conditions = remove_condition(self.status.get("conditions") or [], type_.value)
        if conditions:
            self.status["conditions"] = conditions
        else:
            self.status.pop("conditions", None)

    def finish(self) -> Plan:
        """The plan: probes of lookups, conditions, the status when it is worth a write, and the time to look again."""
        for probe in self.lookups:
            self.want(probe)
        if self._failures:
            text = "; ".join(
                f"{failure.plugin} raised in {failure.hook}: {failure.error}" for failure in self._failures
            )
            self.wait(text)
            self.condition(JobCondition.PLUGIN_FAILED, TRUE, self._failures[0].hook, text)
        else:
            self.drop_condition(JobCondition.PLUGIN_FAILED)
        if self._held is not None:
            self.condition(JobCondition.PODS_WAITING, TRUE, *self._held)
        else:
            self.drop_condition(JobCondition.PODS_WAITING)
        self.plan.status = status_to_write(self.obj.status, self.status, self.now)
        if self._wake is not None:
            self.plan.requeue_after = max(self._wake - self.now, timedelta(0))
        return self.plan


def _camel(word: str) -> str:
    """A hook's name as a condition's reason."""
    return "".join(part[:1].upper() + part[1:] for part in word.split("_"))
