"""The Service named after the RayJob that always leads to the head of its present RayCluster.

Source: spec rayjob.md 4.3. It outlives attempts; ``status.dashboardURL`` does not use it.
"""

from __future__ import annotations

from kuberay.api import names
from kuberay.api.kinds import RAYJOB, SERVICE
from kuberay.api.objects import RayObject
from kuberay.plan.build.context import owner_reference
from kuberay.plan.build.head_once import head_submits
from kuberay.plan.build.services import head_service
from kuberay.plan.job.draft import Draft
from kuberay.plan.job.ray_cluster import cluster_spec
from kuberay.plan.model import Apply, Manifest
from kuberay.plan.service_apply import apply_service


def job_head_service(draft: Draft, cluster: RayObject) -> Apply | None:
    """The write that brings the Service up to date; None while the cluster's spec cannot be read.

    It is optional: a Service that cannot be written stops no job.
    """
    spec = cluster_spec(cluster)
    if spec is None:
        return None
    job = draft.obj
    name = names.head_service_name(job.name)
    cluster_ip = draft.observed.config.head_cluster_ip_service
    body: Manifest = head_service(
        cluster.name,
        job.namespace,
        spec,
        owner_reference(RAYJOB, job),
        cluster_ip=cluster_ip,
        submits=head_submits(cluster.metadata.labels),
    )
    body["metadata"]["name"] = name
    body["metadata"]["labels"] = {
        names.LABEL_ORIGIN_NAME: job.name,
        names.LABEL_ORIGIN_CRD: RAYJOB.kind,
        names.LABEL_NODE_TYPE: names.HEAD,
        names.LABEL_IDENTIFIER: names.identifier(job.name, names.HEAD),
    }
    exists = draft.observed.view.get(SERVICE, job.namespace, name) is not None
    return apply_service(job.namespace, body, exists=exists, optional=True)
