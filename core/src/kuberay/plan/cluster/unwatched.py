"""Whether an object that carries none of the labels the operator watches by is still there.

It was met once, when its name was wanted; a settled cluster does not ask again, one that is not ready does.
"""

from __future__ import annotations

from datetime import timedelta

from kuberay.api.kinds import Kind
from kuberay.api.names import LABEL_CLUSTER
from kuberay.api.objects import Object
from kuberay.plan.cluster.pod_decision import ClusterPass
from kuberay.plan.cluster.pod_health import is_ready
from kuberay.plan.model import ObjectProbe


def is_gone(cluster: ClusterPass, kind: Kind, live: Object) -> bool:
    """Whether *live*, once seen, is known to be gone; asked only while the cluster is not ready."""
    if LABEL_CLUSTER in live.metadata.labels or is_settled(cluster):
        return False
    return is_absent(cluster, kind, live.name)


def is_absent(cluster: ClusterPass, kind: Kind, name: str, interval: timedelta = timedelta(seconds=30)) -> bool:
    """Asks for an object of the cluster's namespace; False until the answer is known."""
    probe = ObjectProbe(kind, cluster.namespace, name, interval)
    if probe not in cluster.probes:
        cluster.probes.append(probe)
    result = cluster.observed.probes.get(probe)
    return result is not None and result.outcome == "absent"


def is_settled(cluster: ClusterPass) -> bool:
    """Whether nothing waits for what pods need to start: all are ready, or none is wanted."""
    if cluster.suspend_wanted:
        return True
    pods = cluster.children.pods
    return len(pods) == cluster.form.desired_workers + 1 and all(is_ready(pod) for pod in pods)
