"""Which pod a RayJob itself should have: the submitter's, as long as the job is on its way.

Source: spec rayjob.md 3.1; the pods of the RayCluster are its own plan's business.
"""

from __future__ import annotations

from kuberay.api.job import JobDeploymentStatus
from kuberay.api.names import SUBMITTER_GROUP
from kuberay.plan.build.context import pod_requests
from kuberay.plan.job.draft import Draft
from kuberay.plan.job.ray_cluster import find_cluster
from kuberay.plan.job.submitter import head_image, user_template
from kuberay.plan.job.submitter_watch import look_at_job
from kuberay.plan.model import ExpectedPod

_ON_ITS_WAY = (JobDeploymentStatus.NEW, JobDeploymentStatus.INITIALIZING, JobDeploymentStatus.RUNNING)


def expected_pods(draft: Draft) -> list[ExpectedPod]:
    """The submitter pod, named like its Job (the Job controller appends a suffix)."""
    if not draft.mode.submitter_job or draft.state not in _ON_ITS_WAY:
        return []
    cluster = find_cluster(draft)
    raw = draft.obj.spec.get("rayClusterSpec") or (cluster.spec if cluster is not None else None)
    template = user_template(draft.spec, head_image(raw))
    return [
        ExpectedPod(
            group=SUBMITTER_GROUP,
            node_type="submitter",
            replica_index=0,
            host_index=0,
            name=draft.obj.name,
            exists=look_at_job(draft).job is not None,
            resources=pod_requests(template),
            build=lambda: {"apiVersion": "v1", "kind": "Pod", **template},
        )
    ]
