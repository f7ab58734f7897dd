"""What one pass over a RayJob has decided so far: writes, status, events, probes and the next time to look.

Handlers read and change a `Draft`; `Draft.finish` turns it into the plan. Source: spec rayjob.md 2.1 and 2.5.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Self

from kuberay.api.conditions import FALSE, TRUE, JobCondition
from kuberay.api.job import JobDeploymentStatus, JobStatus, RayJobSpec
from kuberay.api.kinds import JOB, RAYCLUSTER
from kuberay.api.names import LABEL_SUBMISSION_MODE
from kuberay.api.objects import Object
from kuberay.plan.drafting import Drafting
from kuberay.plan.drafting import Status as Status
from kuberay.plan.job.modes import K8S_JOB, Mode, mode_named, mode_of
from kuberay.plan.job.persistence import status_to_write
from kuberay.plan.model import Plan
from kuberay.plan.observed import Observed


@dataclass(slots=True, kw_only=True)
class Draft(Drafting):
    """A pass over a RayJob in the making."""

    spec: RayJobSpec
    _held: tuple[str, str] | None = None

    @classmethod
    def start(cls, observed: Observed, spec: RayJobSpec) -> Self:
        """A draft that changes nothing yet; counters that are absent count as 0."""
        status = copy.deepcopy(observed.obj.status)
        for counter in ("failed", "succeeded"):
            status[counter] = status.get(counter) or 0
        return cls(observed=observed, spec=spec, status=status)

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

    @property
    def uses_own_cluster(self) -> bool:
        """Whether the RayJob makes and removes its RayCluster; with a clusterSelector it does neither.

        Of an attempt that is under way the cluster it runs on tells, whatever the spec was edited into since."""
        cluster = self._cluster
        if cluster is not None and self.controls(cluster):
            return True
        if cluster is not None and self.state == JobDeploymentStatus.RUNNING:
            return False
        return not self.spec.cluster_selector

    @property
    def mode(self) -> Mode:
        """The mode of the attempt: that which its RayCluster was made for, or that of the submitter Job which is there.

        An edit of ``submissionMode`` counts from the next attempt on, else the job would be handed in a second way."""
        cluster = self._cluster
        if cluster is not None and self.controls(cluster):
            made_for = mode_named(cluster.metadata.labels.get(LABEL_SUBMISSION_MODE, ""))
            if made_for is not None:
                return made_for
        submitter = self.observed.view.get(JOB, self.obj.namespace, self.obj.name)
        if submitter is not None and self.controls(submitter):
            return K8S_JOB
        return mode_of(self.spec)

    @property
    def _cluster(self) -> Object | None:
        name = self.status.get("rayClusterName")
        return self.observed.view.get(RAYCLUSTER, self.obj.namespace, name) if name else None

    @property
    def suspend_wanted(self) -> bool:
        """``spec.suspend``, where suspending is allowed at all (6.2, S1 and S14); elsewhere it has no effect."""
        return self.spec.suspend and self.spec.shutdown_after_job_finishes and self.uses_own_cluster

    def hold(self, reason: str, sentence: str) -> bool:
        """Say what is awaited that may never come: shows as a condition. True when that is news."""
        self.wait(sentence)
        if self._held is None:
            self._held = (reason, sentence)
        stored = self.found(JobCondition.PODS_WAITING)
        return stored is None or stored.get("message") != sentence

    def refuse(self, message: str) -> None:
        """Say that the spec is refused."""
        self.condition(JobCondition.ACCEPTED, FALSE, "Invalid", message)

    def finish(self) -> Plan:
        """The plan: probes of lookups, conditions, the status when it is worth a write, and the time to look again."""
        self.tell_of_plugins(JobCondition.PLUGIN_FAILED)
        self.tell_of_slow_plugins(JobCondition.PLUGIN_SLOW)
        self.tell_of_warnings(JobCondition.PLUGIN_WARNING)
        if self._held is not None:
            self.condition(JobCondition.PODS_WAITING, TRUE, *self._held)
        else:
            self.drop_condition(JobCondition.PODS_WAITING)
        self.plan.status = status_to_write(self.obj.status, self.status, self.now)
        return self.close()
