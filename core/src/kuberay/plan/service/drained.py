"""Whether a RayCluster that is no longer used has no request to finish, so that it need not wait for its time to be deleted.

Only where annotation ``ray.io/delete-when-drained`` asks for it: cases.md RS-15 wants the whole delay otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import cast

from kuberay.api import names
from kuberay.api.cluster import RayClusterSpec
from kuberay.api.kinds import POD
from kuberay.api.objects import Object, Pod, RayObject
from kuberay.plan.build.start_params import DEFAULT_METRICS_PORT, port_param
from kuberay.plan.cluster.pod_health import is_over
from kuberay.plan.model import InFlightProbe, ProbeResult
from kuberay.plan.service.draft import Draft

QUIET = timedelta(seconds=25)
"""For so long nothing must be under way and nothing come: 10 s in which proxies and gateways learn of the switch, 10 s that
Ray's numbers are behind, and one more answer. Nobody asks before the RayCluster is abandoned, so it begins then at the earliest."""
_SOON = timedelta(seconds=1)

REASON = "no request was in flight"


def wanted(draft: Draft) -> bool:
    """Whether the user has asked for it."""
    return draft.obj.metadata.annotations.get(names.ANNOTATION_DELETE_DRAINED, "").strip().lower() == "true"


def is_drained(draft: Draft, cluster: Object) -> bool:
    """Whether all pods of *cluster* say that nothing is under way and nothing has come for long enough; asks them. One that
    does not answer may be busy."""
    probes = list(_probes(draft, cluster))
    for probe in probes:
        draft.want(probe)
    results = [draft.observed.probes.get(probe) for probe in probes]
    quiet = [since for since in map(_quiet_since, results) if since is not None]
    answers = [result for result in results if result is not None]
    # Where no pod tells of Serve at all, nothing is known.
    if len(quiet) < len(probes) or not any(result.outcome == "found" for result in answers):
        return False
    missing = QUIET - (min(result.at for result in answers) - max(quiet))
    if missing <= timedelta(0):
        return True
    # An answer that is the same as before wakes nobody.
    draft.wake_at(draft.now + max(missing, _SOON))
    return False


def _quiet_since(result: ProbeResult | None) -> datetime | None:
    """Since when a pod has been without requests; None when it is not, or that is not known."""
    if result is None or result.outcome == "error" or (result.outcome == "found" and result.value.get("inFlight") != 0):
        return None
    return result.since


def _probes(draft: Draft, cluster: Object) -> Iterator[InFlightProbe]:
    """Whom to ask: every Ray pod that runs, also one that is being deleted."""
    if not isinstance(cluster, RayObject):
        return
    ports = _metrics_ports(cluster)
    for pod in cast("list[Pod]", draft.observed.view.owned(cluster.uid, POD)):
        labels, ip = pod.metadata.labels, pod.status.pod_ip
        if labels.get(names.LABEL_NODE_TYPE) not in (names.HEAD, names.WORKER) or not ip or is_over(pod):
            continue
        port = ports.get(labels.get(names.LABEL_GROUP, ""), DEFAULT_METRICS_PORT)
        yield InFlightProbe(f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}", pod.namespace, pod.name)


def _metrics_ports(cluster: RayObject) -> dict[str, int]:
    """By group, where Ray serves metrics, unless it is Ray's own port."""
    try:
        spec = RayClusterSpec.parse(cluster.spec)
    except ValueError:
        return {}
    groups = [
        (names.HEAD_GROUP, spec.head_group_spec),
        *((group.group_name, group) for group in spec.worker_group_specs),
    ]
    return {
        name: port_param(group.ray_start_params, "metrics-export-port", DEFAULT_METRICS_PORT) for name, group in groups
    }
