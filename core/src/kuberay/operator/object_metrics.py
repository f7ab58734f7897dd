"""Series of Ray objects, as text that is made from the store when somebody scrapes.

The client library takes twenty times as long for as many series, and nobody is served meanwhile; so these few metrics, of which
there are several per object, are written out here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from kuberay.api.conditions import ClusterCondition, ServiceCondition, find_condition, is_true
from kuberay.api.job import JobDeploymentStatus
from kuberay.api.kinds import RAYCLUSTER, RAYCRONJOB, RAYJOB, RAYSERVICE, Kind
from kuberay.api.names import LABEL_ORIGIN_CRD
from kuberay.api.objects import RayObject
from kuberay.kube.store import Store
from kuberay.operator import metric_table as table
from kuberay.operator.metric_table import Definition
from kuberay.operator.milestones import RETRYING, Milestones, time_of

_KINDS = (RAYCLUSTER, RAYJOB, RAYSERVICE, RAYCRONJOB)
_SERVICE_CONDITIONS = (
    (table.SERVICE_READY, ServiceCondition.READY),
    (table.SERVICE_UPGRADING, ServiceCondition.UPGRADE_IN_PROGRESS),
    (table.SERVICE_SUSPENDED, ServiceCondition.SUSPENDED),
)
_WORKERS = (("desired", "desiredWorkerReplicas"), ("ready", "readyWorkerReplicas"))


class _Page:
    """Lines by metric. Labels are in alphabetical order, as the client library has them."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}

    def head(self, *definitions: Definition) -> None:
        for each in definitions:
            self._lines[each.name] = [f"# HELP {each.name} {each.meaning}\n# TYPE {each.name} {each.type}\n"]

    def add(self, definition: Definition, labels: str, value: float = 1.0) -> None:
        self._lines[definition.name].append(f"{definition.name}{{{labels}}} {value!r}\n")

    def text(self) -> str:
        return "".join(line for lines in self._lines.values() for line in lines)


class ObjectMetrics:
    """The text for one store."""

    def __init__(self, store: Store, milestones: Milestones) -> None:
        self._store = store
        self._milestones = milestones

    def forget_old(self) -> None:
        """Forget what is remembered of RayJobs that are gone, though nobody scrapes."""
        self._milestones.retried({job.uid for job in self._store.all(RAYJOB)})

    def text(self) -> str:
        page = _Page()
        objects = {kind: [o for o in self._store.all(kind) if isinstance(o, RayObject)] for kind in _KINDS}
        _clusters(page, objects[RAYCLUSTER])
        self._jobs(page, objects[RAYJOB])
        _services(page, objects[RAYSERVICE])
        page.head(table.CRONJOB_INFO)
        for cron in objects[RAYCRONJOB]:
            page.add(table.CRONJOB_INFO, _ids(cron))
        _conditions(page, objects)
        return page.text()

    def _jobs(self, page: _Page, jobs: Sequence[RayObject]) -> None:
        page.head(table.JOB_INFO, table.JOB_STATUS, table.JOB_SECONDS)
        retried = self._milestones.retried({job.uid for job in jobs})
        for job in jobs:
            ids = _ids(job)
            page.add(table.JOB_INFO, ids)
            state = _value(job.status.get("jobDeploymentStatus"))
            page.add(table.JOB_STATUS, f'deployment_status="{state}",{ids}')
            for count, seconds in retried.get(job.uid, {}).items():
                _add_execution(page, job, RETRYING, count, seconds)
            ended = _execution(job.status)
            if ended is not None:
                _add_execution(page, job, *ended)


def _clusters(page: _Page, clusters: Iterable[RayObject]) -> None:
    page.head(
        table.CLUSTER_INFO, table.CLUSTER_PROVISIONED, table.CLUSTER_SECONDS, table.CLUSTER_STATE, table.CLUSTER_WORKERS
    )
    for cluster in clusters:
        status = cluster.status
        name, uid = f'name="{cluster.name}",namespace="{cluster.namespace}"', f'uid="{cluster.uid}"'
        ids = f"{name},{uid}"
        owner = _value(cluster.metadata.labels.get(LABEL_ORIGIN_CRD, "None"))
        page.add(table.CLUSTER_INFO, f'{name},owner_kind="{owner}",{uid}')
        ready = is_true(status.get("conditions") or (), ClusterCondition.PROVISIONED)
        page.add(table.CLUSTER_PROVISIONED, f'condition="{"true" if ready else "false"}",{ids}')
        page.add(table.CLUSTER_STATE, f'{name},state="{_value(status.get("state"))}",{uid}')
        for state, field in _WORKERS:
            page.add(table.CLUSTER_WORKERS, f'{name},state="{state}",{uid}', _number(status.get(field)))
        seconds = _provisioning_seconds(cluster) if ready else None
        if seconds is not None:
            page.add(table.CLUSTER_SECONDS, ids, seconds)


def _services(page: _Page, services: Iterable[RayObject]) -> None:
    page.head(table.SERVICE_INFO, *(metric for metric, _ in _SERVICE_CONDITIONS), table.SERVICE_ENDPOINTS)
    for service in services:
        ids = _ids(service)
        page.add(table.SERVICE_INFO, ids)
        page.add(table.SERVICE_ENDPOINTS, ids, _number(service.status.get("numServeEndpoints")))
        conditions = service.status.get("conditions") or ()
        for metric, type_ in _SERVICE_CONDITIONS:
            page.add(metric, f'condition="{"true" if is_true(conditions, type_) else "false"}",{ids}')


def _conditions(page: _Page, objects: dict[Kind, list[RayObject]]) -> None:
    page.head(table.CONDITIONS)
    counted = Counter(
        (each.get("type"), kind.kind, obj.namespace, each.get("reason"), each.get("status"))
        for kind, found in objects.items()
        for obj in found
        for each in obj.status.get("conditions") or ()
    )
    for labels, count in counted.items():
        type_, kind_, namespace, reason, status = map(_value, labels)
        page.add(
            table.CONDITIONS,
            f'condition="{type_}",kind="{kind_}",namespace="{namespace}",reason="{reason}",status="{status}"',
            float(count),
        )


def _ids(obj: RayObject) -> str:
    return f'name="{obj.name}",namespace="{obj.namespace}",uid="{obj.uid}"'


def _value(text: object) -> str:
    """A label's value. Whoever may write a status may write anything into it."""
    value = str(text or "")
    if value.isalnum():
        return value
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _add_execution(page: _Page, job: RayObject, state: str, count: str, seconds: float) -> None:
    name = f'name="{job.name}",namespace="{job.namespace}"'
    labels = f'job_deployment_status="{state}",{name},retry_count="{count}",uid="{job.uid}"'
    page.add(table.JOB_SECONDS, labels, seconds)


def _provisioning_seconds(cluster: RayObject) -> float | None:
    """From the creation until all pods were ready."""
    condition = find_condition(cluster.status.get("conditions") or (), ClusterCondition.PROVISIONED) or {}
    ready, created = time_of(condition.get("lastTransitionTime")), cluster.metadata.creation_timestamp
    return None if ready is None or created is None else (ready - created).total_seconds()


def _execution(status: dict[str, Any]) -> tuple[str, str, float] | None:
    """Deployment status, retry count and seconds of the attempt that ended a job."""
    state, failed = status.get("jobDeploymentStatus", ""), int(status.get("failed") or 0)
    begun, ended = time_of(status.get("startTime")), time_of(status.get("endTime"))
    if state not in (JobDeploymentStatus.COMPLETE, JobDeploymentStatus.FAILED) or begun is None or ended is None:
        return None
    # An attempt that failed counts itself.
    return str(state), str(max(failed - (state == JobDeploymentStatus.FAILED), 0)), (ended - begun).total_seconds()
