"""How the submitter of an attempt is doing: absent, at work, or finished, and if it failed, why.

Source: spec rayjob.md 2.4 (7), 3.4 and 3.5. Of a Job only the conditions Complete and Failed count; of a sidecar its own
container's state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from kuberay.api.gates import SIDECAR_SUBMITTER_RESTART
from kuberay.api.kinds import JOB, POD
from kuberay.api.names import HEAD, LABEL_NODE_TYPE, SUBMITTER_CONTAINER
from kuberay.api.objects import ContainerStateDetail, ContainerStatus, Job, Pod, RayObject
from kuberay.plan.build.head_once import head_is_final
from kuberay.plan.job.draft import Draft
from kuberay.plan.job.ray_cluster import owned_by


@dataclass(frozen=True, slots=True)
class Submitter:
    """The submitter as seen now."""

    present: bool
    """Whether it is there at all, at work or finished."""
    job: Job | None = None
    """In K8sJobMode. None also when a Job of that name belongs to someone else; see ``foreign``."""
    foreign: bool = False
    finished_at: datetime | None = None
    failure: str | None = None
    """KubeRay's message when it failed."""
    lost: str | None = None
    """In SidecarMode: why the head pod, and the Ray job with it, is gone for good."""

    @property
    def at_work(self) -> bool:
        """Whether it may still come to an end by itself."""
        resting = self.job is not None and self.job.suspended
        return self.present and self.finished_at is None and self.lost is None and not resting

    @property
    def going(self) -> bool:
        """Whether the Job is being deleted."""
        return self.job is not None and self.job.deleting


def look_at_submitter(draft: Draft, cluster: RayObject | None) -> Submitter | None:
    """The submitter of the present attempt, by its mode; None in modes without one."""
    mode = draft.mode
    if mode.submitter_job:
        return look_at_job(draft)
    if mode.sidecar:
        return _look_at_sidecar(draft, cluster)
    return None


def look_at_job(draft: Draft) -> Submitter:
    """The submitter Job named like the RayJob."""
    found = draft.observed.view.get(JOB, draft.obj.namespace, draft.obj.name)
    if not isinstance(found, Job):
        return Submitter(False)
    if not owned_by(draft, found):
        return Submitter(False, foreign=True)
    failure = finished_at = None
    for condition in found.status.conditions:
        if condition.type not in ("Complete", "Failed") or condition.status != "True":
            continue
        finished_at = finished_at or condition.last_transition_time or draft.now
        if condition.type == "Failed":
            failure = f"Job submission has failed. Reason: {condition.reason}. Message: {condition.message}"
    return Submitter(True, found, finished_at=finished_at, failure=failure)


def head_pod(draft: Draft, cluster: RayObject | None) -> Pod | None:
    """The cluster's head pod; not one that is being deleted."""
    if cluster is None:
        return None
    pods = cast("Sequence[Pod]", draft.observed.view.owned(cluster.uid, POD))
    heads = (pod for pod in pods if pod.metadata.labels.get(LABEL_NODE_TYPE) == HEAD and not pod.deleting)
    return next(heads, None)


def ray_is_ready(draft: Draft, cluster: RayObject) -> bool:
    """Whether the head's Ray container is ready, whatever the submitter beside it does."""
    pod = head_pod(draft, cluster)
    ray = ray_container(pod) if pod is not None else None
    return ray is not None and ray.ready


def ray_container(pod: Pod) -> ContainerStatus | None:
    """Status of the container that runs Ray, the first one; None while the kubelet tells none."""
    name = pod.spec.containers[0].name if pod.spec.containers else ""
    return next((each for each in pod.status.container_statuses if each.name == name), None)


def _look_at_sidecar(draft: Draft, cluster: RayObject | None) -> Submitter:
    pod = head_pod(draft, cluster)
    final = cluster is not None and head_is_final(cluster.metadata.annotations, cluster.status)
    if pod is None:
        return Submitter(False, lost="Ray head pod not found." if final else None)
    over = pod.status.phase in ("Failed", "Succeeded")
    lost = None
    if over and final:
        why = " ".join(filter(None, (pod.status.reason, pod.status.message)))
        lost = f"Ray head pod {pod.name} has ended{f': {why}' if why else ''}."
    status = next((status for status in pod.status.container_statuses if status.name == SUBMITTER_CONTAINER), None)
    if status is None:
        return Submitter(not over, lost=lost)
    ended, before = status.state.terminated, status.last_state.terminated
    if draft.observed.gate(SIDECAR_SUBMITTER_RESTART):
        spent = before is not None and status.restart_count >= draft.spec.submitter_backoff_limit
        if spent and (ended is None or ended.exit_code != 0):
            message = f"Ray head pod submitter container {SUBMITTER_CONTAINER} terminated after exceeding the maximum restart count"
            return Submitter(True, finished_at=_when(ended or before, draft), failure=message, lost=lost)
        if ended is not None and ended.exit_code != 0 and not over:
            # It is about to be restarted.
            return Submitter(True)
    if ended is None:
        return Submitter(True, lost=lost)
    failure = None
    if ended.exit_code != 0:
        failure = (
            f"Ray head pod container {SUBMITTER_CONTAINER} terminated with exit code {ended.exit_code}: {ended.reason}"
        )
    return Submitter(True, finished_at=_when(ended, draft), failure=failure, lost=lost)


def _when(ended: ContainerStateDetail | None, draft: Draft) -> datetime:
    return (ended.finished_at if ended is not None else None) or draft.now
