"""How a worker that the operator itself chose leaves: drained through Ray first, within a deadline, then deleted.

Chosen by the operator are surplus workers, those of a removed group, and those a rolling upgrade replaces.
"""

from __future__ import annotations

from kuberay.api.objects import Pod
from kuberay.plan.cluster.pod_decision import ClusterPass
from kuberay.plan.model import Delete, Write


def let_go(cluster: ClusterPass, pod: Pod, delete: Delete) -> list[Write]:
    """What ends *pod* now: *delete*, or what has to come before it, or nothing while that is awaited."""
    return [delete]
