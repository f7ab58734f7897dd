"""What must happen before a deleted RayCluster may go: its pods end, its keys leave Redis, then the finalizer is removed.

Source: spec raycluster.md 6.1; cases.md RC-21, RC-25. Nothing about the object can keep it longer than its deadline.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

from pydantic import ValidationError

from kuberay.api import names
from kuberay.api.conditions import TRUE, ClusterCondition, find_condition
from kuberay.api.kinds import JOB, POD, RAYCLUSTER
from kuberay.api.objects import Condition, Job, Pod
from kuberay.hooks.calls import NoHooks
from kuberay.plan.build.context import owner_context
from kuberay.plan.build.gcs_ft import storage_namespace
from kuberay.plan.build.pods import PodFactory
from kuberay.plan.build.redis_cleanup import cleanup_job
from kuberay.plan.cluster import deletions
from kuberay.plan.cluster.conditions import Conditions, conditions_of
from kuberay.plan.cluster.form import ClusterForm, cluster_form
from kuberay.plan.cluster.pod_health import head_started, is_over
from kuberay.plan.cluster.redis_finalizer import never_used, remove_finalizer, skipped, unchanged
from kuberay.plan.model import NAMESPACE_TERMINATING, Create, Delete, Event, Plan, Write
from kuberay.plan.observed import Observed

PATIENCE = timedelta(seconds=300)
"""How long a deletion may take unless the annotation says otherwise, counted from the delete whatever lingers."""

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
"""Kubernetes' finalizers for the two other ways of deleting what has dependents."""

_HOPELESS = ("Invalid", "BadRequest", NAMESPACE_TERMINATING)
"""Refusals of the Job that no second try changes."""


def plan_deletion(observed: Observed) -> Plan:
    """The plan for a RayCluster that is being deleted. Looks at nothing that validation would have to accept first."""
    if names.REDIS_FINALIZER not in observed.obj.metadata.finalizers:
        return Plan()
    return _Deletion(observed).plan()


def deadline(observed: Observed) -> datetime:
    """When the object goes at the latest."""
    metadata = observed.obj.metadata
    since = metadata.deletion_timestamp or observed.now
    given = metadata.annotations.get(names.ANNOTATION_FT_DELETION_TIMEOUT, "")
    seconds = int(given) if given.isascii() and given.isdecimal() and len(given) < 10 else 0
    return since + (timedelta(seconds=seconds) if seconds > 0 else PATIENCE)


@dataclass(slots=True)
class _Deletion:
    observed: Observed
    pods: list[Pod] = field(default_factory=list)
    heads: list[Pod] = field(default_factory=list)
    job: Job | None = None
    """The cleanup Job that was made earlier."""

    def plan(self) -> Plan:
        observed = self.observed
        obj = observed.obj
        self.pods = cast("list[Pod]", list(observed.view.owned(obj.uid, POD)))
        self.heads = [pod for pod in self.pods if pod.metadata.labels.get(names.LABEL_NODE_TYPE) == names.HEAD]
        try:
            form = cluster_form(obj)
        except ValidationError:
            return self._skip("the spec cannot be read", obj.uid)
        if ORPHAN in obj.metadata.finalizers:
            # Deleted so that its pods go on running: they need their keys.
            return self._let_go(None)
        namespace = storage_namespace(form.spec, obj.uid, obj.metadata.annotations)
        if not observed.config.redis_cleanup:
            return self._let_go(None)
        left = deadline(observed) - observed.now
        if never_used(observed, self.heads):
            plan = self._let_go(None)
            if self.heads and left > timedelta(0):
                # That must not be concluded from a view that is behind: a head may have started meanwhile.
                plan.stages.insert(0, [unchanged(POD, pod) for pod in self.heads])
                plan.look_by = left
            return plan
        if not form.spec.gcs_ft_redis(obj.metadata.annotations):
            return self._skip("the spec does not ask for fault tolerance with Redis", namespace)
        job = self.job = self._find_job()
        end = _ending(job)
        if end is not None:
            return self._let_go(None if end.type == "Complete" else self._failed(end, namespace))
        refused = find_condition(obj.status.get("conditions") or (), ClusterCondition.REDIS_CLEANUP_REFUSED)
        if refused is not None:
            return self._skip(f"the cleanup Job was refused: {refused.get('message', '')}"[:700], namespace)
        if left <= timedelta(0):
            return self._let_go(self._forced(namespace))
        plan = self._next_step(form, job, namespace)
        if plan.requeue_after is None:
            plan.requeue_after = left
        plan.look_by = left
        return plan

    def _next_step(self, form: ClusterForm, job: Job | None, namespace: str) -> Plan:
        """Pods first, then the Job, then wait for it."""
        failed = self.observed.failure
        if failed is not None and failed.kind == JOB.kind and failed.reason in _HOPELESS:
            return self._remember(ClusterCondition.REDIS_CLEANUP_REFUSED, (failed.reason, failed.message))
        if any(map(head_started, self.heads)) and self._says_unused():
            # A later look, with no head left to see, must know that there was one.
            return self._remember(ClusterCondition.REDIS_UNUSED, None)
        place = f"{self.observed.obj.namespace}/{self.observed.obj.name}"
        deletes = deletions.all_pods(self.pods, None, f"Failed deleting Pods of RayCluster {place}")
        plan = Plan(stages=[list(deletes)] if deletes else [])
        if any(not is_over(pod) for pod in self.heads):
            plan.waiting = "the head pod is being deleted; its keys in Redis are cleaned up afterwards"
            return plan
        plan.waiting = "a Job cleans up the cluster's keys in Redis"
        if job is not None:
            return plan
        try:
            body = self._build(form)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            return self._skip("no pod can be made of the head's template", namespace)
        if FOREGROUND in self.observed.obj.metadata.finalizers:
            # The garbage collector would delete a Job that the cluster owns at once, again and again.
            del body["metadata"]["ownerReferences"]
        where = f"{body['metadata']['namespace']}/{body['metadata']['name']}"
        create = Create(
            kind=JOB,
            namespace=body["metadata"]["namespace"],
            name=body["metadata"]["name"],
            body=body,
            any_owner=FOREGROUND in self.observed.obj.metadata.finalizers,
            done=Event("CreatedRedisCleanupJob", f"Created Redis cleanup Job {where}", action="Create"),
            failed=deletions.failure(
                "FailedToCreateRedisCleanupJob", f"Failed to create Redis cleanup Job {where}", "Create"
            ),
        )
        # A view that is behind may show a cluster that is gone, Job and all: a second Job could meet the keys of its
        # successor. So it is only made while the object is what was seen.
        plan.stages += [[unchanged(RAYCLUSTER, self.observed.obj)], [create]]
        return plan

    def _find_job(self) -> Job | None:
        """The Job that was made earlier for this very object; one that is being deleted counts until it is gone."""
        obj = self.observed.obj
        job = self.observed.view.get(JOB, obj.namespace, names.redis_cleanup_job_name(obj.name))
        if not isinstance(job, Job) or job.metadata.labels.get(names.LABEL_NODE_TYPE) != names.REDIS_CLEANUP:
            return None
        if job.metadata.controller is not None:
            return job if job.metadata.controller.uid == obj.uid else None
        made, since = job.metadata.creation_timestamp, obj.metadata.deletion_timestamp
        return job if made is not None and since is not None and made >= since else None

    def _build(self, form: ClusterForm) -> dict[str, Any]:
        # Plugins are for the cluster's pods: this one must not wait for a gang or carry a sidecar.
        observed = self.observed
        owner = owner_context(observed, kind=RAYCLUSTER, cluster_spec=form.spec, lookups=[], groups=form.groups)
        return cleanup_job(PodFactory(owner=owner, spec=form.spec, config=observed.config, hooks=NoHooks()))

    def _says_unused(self) -> bool:
        conditions = self.observed.obj.status.get("conditions") or ()
        return find_condition(conditions, ClusterCondition.REDIS_UNUSED) is not None

    def _remember(self, type_: str, told: tuple[str, str] | None) -> Plan:
        """Only the status changes; what follows from it is decided when it is written."""
        status = self.observed.obj.status
        conditions = Conditions(conditions_of(status), self.observed.now)
        conditions.set_present(type_, told)
        return Plan(
            status={**status, "conditions": conditions.items},
            requeue_after=timedelta(0),
            waiting="what is known about the cluster's keys in Redis is being written down",
        )

    def _let_go(self, told: Event | None) -> Plan:
        job = self.job
        release: list[Write] = [remove_finalizer(self.observed, told)]
        if job is None or job.metadata.controller is not None or job.deleting:
            return Plan(stages=[release])
        leave = Delete(kind=JOB, namespace=job.namespace, name=job.name, uid=job.uid, optional=True)
        return Plan(stages=[[leave], release])

    def _skip(self, why: str, namespace: str) -> Plan:
        obj = self.observed.obj
        return self._let_go(skipped(f"{obj.namespace}/{obj.name}", why, namespace))

    def _failed(self, end: Condition, namespace: str) -> Event:
        obj = self.observed.obj
        note = (
            f"Redis cleanup Job {obj.namespace}/{names.redis_cleanup_job_name(obj.name)} failed ({end.reason}); Redis storage namespace "
            f'"{namespace}" may need manual cleanup'
        )
        return Event("RedisCleanupFailed", note, type="Warning", action="Cleanup")

    def _forced(self, namespace: str) -> Event:
        since = self.observed.obj.metadata.deletion_timestamp or self.observed.now
        seconds = int((self.observed.now - since).total_seconds())
        note = (
            f"Force-removed GCS FT finalizer after {seconds}s due to Redis cleanup timeout; Redis storage namespace "
            f'"{namespace}" may need manual cleanup'
        )
        return Event("ForceDeletedStuckCluster", note, type="Warning", action="Cleanup")


def _ending(job: Job | None) -> Condition | None:
    """How the Job ended; None while it has not."""
    if job is None:
        return None
    ends = (c for c in job.status.conditions if c.status == TRUE and c.type in ("Complete", "Failed", "FailureTarget"))
    return next(ends, None)
