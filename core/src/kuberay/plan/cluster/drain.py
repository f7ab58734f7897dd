"""How a worker that the operator itself chose leaves: drained through Ray first, within a deadline, then deleted.

Chosen by the operator are surplus workers, those of a removed group, and those a rolling upgrade replaces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from kuberay.api.cluster import env_value
from kuberay.api.names import ANNOTATION_DRAIN_TIMEOUT, ANNOTATION_DRAINING_SINCE
from kuberay.api.objects import Pod
from kuberay.api.times import format_time, parse_time
from kuberay.plan.build.auth import SECRET_KEY, secret_name
from kuberay.plan.build.start_params import DEFAULT_GCS_PORT, gcs_port
from kuberay.plan.cluster.pod_decision import ClusterPass
from kuberay.plan.cluster.pod_health import is_ready
from kuberay.plan.model import AuthSecret, Delete, DrainProbe, LeavingPod, Patch, ProbeResult, Write

DRAINED, REFUSED = "drained", "refused"
"""What a `DrainProbe` says of pods that may go."""

Leaving = tuple[Pod, Delete]
"""A pod, and what ends it."""


def draining_since(pod: Pod) -> datetime | None:
    """Since when the pod is being drained. Such a pod no longer fills its place and goes, whatever is wanted by then.

    None for a time before the pod was made: then it comes from a template and says nothing about this pod.
    """
    text = pod.metadata.annotations.get(ANNOTATION_DRAINING_SINCE)
    if not text:
        return None
    try:
        since = parse_time(text)
    except ValueError:
        return None
    created = pod.metadata.creation_timestamp
    return since if created is None or since >= created else None


def let_go(cluster: ClusterPass, pod: Pod, delete: Delete) -> list[Write]:
    """What ends *pod* now: *delete*, or what has to come before it, or nothing while that is awaited."""
    return let_go_together(cluster, [(pod, delete)])


def let_go_together(cluster: ClusterPass, leaving: Sequence[Leaving]) -> list[Write]:
    """The same for pods of which none may go before the others: the hosts of a replica.

    First the choice is written on the pods, so that it holds from then on. Then Ray is asked, until it says that they
    are drained or the time is over. Where nothing runs, or nobody can be asked, the pods go at once.
    """
    timeout = _timeout(cluster)
    busy = [pod for pod, _ in leaving if is_ready(pod) and pod.status.pod_ip] if timeout else []
    head = cluster.children.head
    if not busy or head is None or head.deleting or not is_ready(head) or not head.status.pod_ip:
        return _deletions(leaving)
    if _wants_certificates(cluster):
        return _deletions(leaving, "it was not drained, because Ray asks for TLS certificates")
    began = {pod.uid: draining_since(pod) for pod in busy}
    chosen: list[Write] = [
        _mark(cluster, pod, delete) for pod, delete in leaving if pod.uid in began and began[pod.uid] is None
    ]
    if chosen:
        return chosen
    deadline = max(since for since in began.values() if since is not None) + timeout
    left = deadline - cluster.observed.now
    if left <= timedelta(0):
        return _deletions(leaving, f"it was still in use {timeout.total_seconds():g} s after draining began")
    answer = _answer(cluster)
    states = [_state(answer, pod) for pod in busy]
    if all(states):
        refused = "it was not drained, because Ray refused to" if REFUSED in states else ""
        return _deletions(leaving, refused)
    cluster.due.append(left)
    cluster.leaving += [LeavingPod(pod.name, pod.uid, pod.status.pod_ip, deadline) for pod in busy]
    return []


def drain_probe(cluster: ClusterPass) -> DrainProbe:
    """The question about all workers that are drained now."""
    spec, head = cluster.form.spec, cluster.children.head
    port = gcs_port(spec.head_group_spec.ray_start_params)
    auth = None
    if spec.auth_options is not None and spec.token_auth:
        options = {"secretName": spec.auth_options.secret_name}
        auth = AuthSecret(cluster.namespace, secret_name(options, cluster.name), SECRET_KEY)
    return DrainProbe(
        host=head.status.pod_ip if head is not None else "",
        port=int(port if port.isdecimal() else DEFAULT_GCS_PORT),
        pods=tuple(cluster.leaving),
        auth=auth,
    )


def _timeout(cluster: ClusterPass) -> timedelta:
    text = cluster.observed.obj.metadata.annotations.get(ANNOTATION_DRAIN_TIMEOUT)
    return timedelta(seconds=int(text)) if text else cluster.observed.config.drain_timeout


def _wants_certificates(cluster: ClusterPass) -> bool:
    spec = cluster.form.spec
    return spec.tls or (env_value(spec.head_group_spec.ray_container, "RAY_USE_TLS") or "").lower() in ("1", "true")


def _mark(cluster: ClusterPass, pod: Pod, delete: Delete) -> Patch:
    """The UID keeps a later pod of the same name from being chosen in its place."""
    now, created = cluster.observed.now, pod.metadata.creation_timestamp
    # With a clock that is behind the API server's, now could be before the pod was made, and would say nothing.
    since = format_time(now if created is None else max(now, created))
    body = {"metadata": {"uid": pod.uid, "annotations": {ANNOTATION_DRAINING_SINCE: since}}}
    return Patch(
        kind=delete.kind,
        namespace=pod.namespace,
        name=pod.name,
        body=body,
        failed=delete.failed,
        marker=delete.marker,
    )


def _deletions(leaving: Sequence[Leaving], why: str = "") -> list[Write]:
    """*why* is added to what is told."""
    writes: list[Write] = []
    for pod, delete in leaving:
        if pod.deleting:
            continue
        told = delete.done
        if why and told is not None:
            told = replace(told, note=f"{told.note} ({why})")
        writes.append(replace(delete, done=told))
    return writes


def _answer(cluster: ClusterPass) -> ProbeResult | None:
    """The last answer about this cluster's workers, perhaps from when others were drained as well."""
    return next((result for probe, result in cluster.observed.probes.items() if isinstance(probe, DrainProbe)), None)


def _state(answer: ProbeResult | None, pod: Pod) -> str:
    """``drained`` or ``refused`` when the pod may go; empty while that is awaited. A head that twice did not answer is
    not waited for, unless it took the request before: then the worker finishes its work by itself."""
    if answer is None:
        return ""
    state = str(answer.value.get(pod.uid, ""))
    if state in (DRAINED, REFUSED):
        return state
    twice = answer.outcome == "error" and answer.failing_since is not None and answer.at > answer.failing_since
    return DRAINED if twice and not state else ""
