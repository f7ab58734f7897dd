"""What ``kuberay why`` reads for each kind before it explains: the object, what belongs to it, events and logs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from datetime import datetime
from typing import Any

from kuberay.api.kinds import ENDPOINT_SLICE, JOB, POD, RAYCLUSTER, RAYCRONJOB, RAYJOB, RAYSERVICE, SERVICE, Kind
from kuberay.api.names import LABEL_CLUSTER, LABEL_ORIGIN_CRD, LABEL_ORIGIN_NAME
from kuberay.api.objects import Job, Pod, RayObject, from_dict
from kuberay.cli.why_cluster import Seen, explain_cluster
from kuberay.cli.why_cronjob import SeenCronJob, explain_cronjob
from kuberay.cli.why_job import explain_job
from kuberay.cli.why_job_state import SeenJob
from kuberay.cli.why_reading import Reader, owned_by
from kuberay.cli.why_report import LogLines, Report
from kuberay.cli.why_service import explain_service
from kuberay.cli.why_service_ahead import rules_for
from kuberay.cli.why_service_state import SeenService
from kuberay.cli.why_submitter import ended_badly
from kuberay.plan.cluster.pod_health import is_ready

_WORKLOADS = [Kind("kueue.x-k8s.io", version, "workloads", "Workload") for version in ("v1beta2", "v1beta1")]
_MOST_LOGS = 2


async def explain_raycluster(client: Any, namespace: str, name: str, now: datetime) -> Report:
    """Read a RayCluster and tell about it."""
    reader = Reader(client, namespace)
    seen = await _see_cluster(reader, await reader.subject(RAYCLUSTER, name))
    return explain_cluster(seen, now)


async def _see_cluster(reader: Reader, body: dict[str, Any]) -> Seen:
    obj = _ray_object(RAYCLUSTER, body)
    seen = Seen(obj, body, notes=reader.notes)
    label = f"{LABEL_CLUSTER}={obj.name}"
    pods = owned_by(obj.uid, await reader.find_all(POD, label_selector=label))
    seen.pods = None if pods is None else [pod for pod in pods if isinstance(pod, Pod)]
    seen.services = owned_by(obj.uid, await reader.find_all(SERVICE, label_selector=label))
    unready = [("Pod", pod.name) for pod in seen.pods or () if not is_ready(pod)]
    seen.events = await reader.events(("RayCluster", obj.name), *unready)
    return seen


async def explain_rayjob(client: Any, namespace: str, name: str, now: datetime) -> Report:
    """Read a RayJob, its RayCluster and its submitter, and tell about them."""
    reader = Reader(client, namespace)
    body = await reader.subject(RAYJOB, name)
    obj = _ray_object(RAYJOB, body)
    seen = SeenJob(obj, body, notes=reader.notes)
    cluster_name = obj.status.get("rayClusterName")
    if cluster_name:
        cluster = await reader.find(RAYCLUSTER, str(cluster_name))
        seen.cluster = await _see_cluster(Reader(client, namespace, reader.notes), cluster) if cluster else None
    job = await reader.find(JOB, name)
    seen.partial = bool(reader.notes)
    seen.job_body = job
    if job is not None:
        found = from_dict(JOB, job)
        seen.job = found if isinstance(found, Job) else None
        pods = owned_by(found.uid, await reader.find_all(POD, label_selector=f"{LABEL_ORIGIN_NAME}={name}"))
        seen.submitter_pods = None if pods is None else [pod for pod in pods if isinstance(pod, Pod)]
    about = [("RayJob", name), ("Job", name), *(("Pod", pod.name) for pod in seen.submitter_pods or ())]
    seen.events = await reader.events(*about)
    cluster_pods = seen.cluster.pods if seen.cluster is not None else None
    for pod, container in ended_badly(seen.submitter_pods, cluster_pods)[:_MOST_LOGS]:
        lines = await reader.log(pod, container)
        if lines:
            seen.logs.append(LogLines(pod, container, lines))
    if obj.spec.get("suspend") or obj.status.get("jobDeploymentStatus") in ("Suspended", "Suspending"):
        seen.workloads = await _workloads(reader, obj)
    return explain_job(seen, now)


async def explain_raycronjob(client: Any, namespace: str, name: str, now: datetime) -> Report:
    """Read a RayCronJob and its RayJobs, and tell about them."""
    reader = Reader(client, namespace)
    body = await reader.subject(RAYCRONJOB, name)
    obj = _ray_object(RAYCRONJOB, body)
    seen = SeenCronJob(obj, body, notes=reader.notes)
    jobs = owned_by(obj.uid, await reader.find_all(RAYJOB))
    seen.jobs = None if jobs is None else [job for job in jobs if isinstance(job, RayObject)]
    seen.events = await reader.events(("RayCronJob", name))
    return explain_cronjob(seen, now)


async def explain_rayservice(client: Any, namespace: str, name: str, now: datetime) -> Report:
    """Read a RayService, its RayClusters and what leads requests to them, and tell about them."""
    reader = Reader(client, namespace)
    body = await reader.subject(RAYSERVICE, name)
    obj = _ray_object(RAYSERVICE, body)
    seen = SeenService(obj, body, notes=reader.notes)
    mine = f"{LABEL_ORIGIN_CRD}={RAYSERVICE.kind},{LABEL_ORIGIN_NAME}={name}"
    clusters = owned_by(obj.uid, await reader.find_all(RAYCLUSTER, label_selector=mine))
    for cluster in clusters or ():
        found = await reader.find(RAYCLUSTER, cluster.name)
        if found is not None:
            seen.clusters.append(await _see_cluster(Reader(client, namespace, reader.notes), found))
    of_service = f"{LABEL_ORIGIN_CRD}={RAYSERVICE.kind}"
    services = await reader.find_all(SERVICE, label_selector=of_service)
    owners = {obj.uid, *(each.obj.uid for each in seen.clusters)}
    seen.services = None if services is None else _controlled(services, owners)
    endpoints = await reader.find_all(ENDPOINT_SLICE, label_selector=of_service)
    seen.endpoints = None if endpoints is None else _controlled(endpoints, {each.uid for each in seen.services or ()})
    seen.rules, reason = rules_for(obj, now)
    if reason:
        reader.notes.append(reason)
    for watch in seen.rules.hooks.watches() if seen.rules is not None else ():
        seen.others += [(watch.kind, each) for each in owned_by(obj.uid, await reader.find_all(watch.kind)) or ()]
    seen.partial = bool(reader.notes)
    seen.events = await reader.events(("RayService", name))
    return explain_service(seen, now)


def _controlled(found: list[Any], owners: Collection[str]) -> list[Any]:
    """Those of *found* that one of *owners* controls."""
    return [each for each in found if (owner := each.metadata.controller) is not None and owner.uid in owners]


async def _workloads(reader: Reader, obj: RayObject) -> list[dict[str, Any]]:
    """Kueue's Workloads of the object; none where there is no Kueue, or it may not be looked at."""
    notes = list(reader.notes)
    for kind in _WORKLOADS:
        owned = owned_by(obj.uid, await reader.find_all(kind))
        reader.notes[:] = notes
        if owned:
            return [workload.body() for workload in owned]
    return []


def _ray_object(kind: Kind, body: dict[str, Any]) -> RayObject:
    obj = from_dict(kind, body)
    assert isinstance(obj, RayObject)
    return obj


Explain = Callable[[Any, str, str, datetime], Awaitable[Report]]


def _words(kind: Kind) -> tuple[str, ...]:
    """What a user may write for a kind."""
    one, several = kind.kind.lower(), kind.plural
    return one, several, f"{one}.{kind.group}", f"{several}.{kind.group}"


_KINDS: tuple[tuple[Kind, Explain], ...] = (
    (RAYCLUSTER, explain_raycluster),
    (RAYJOB, explain_rayjob),
    (RAYSERVICE, explain_rayservice),
    (RAYCRONJOB, explain_raycronjob),
)
EXPLAINERS: dict[str, Explain] = {word: explain for kind, explain in _KINDS for word in _words(kind)}
"""By the words a user may write for a kind."""
KINDS: tuple[str, ...] = tuple(kind.kind.lower() for kind, _ in _KINDS)
