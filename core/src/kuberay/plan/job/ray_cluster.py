"""Which RayCluster a RayJob runs on, what a new one looks like, and where its dashboard is.

Source: spec rayjob.md 4.1, 4.2 and 2.2 (Initializing 6).
"""

from __future__ import annotations

import copy
from typing import Any

from kuberay.api import names
from kuberay.api.cluster import RayClusterSpec
from kuberay.api.gates import SIDECAR_SUBMITTER_RESTART
from kuberay.api.kinds import RAYCLUSTER, RAYJOB
from kuberay.api.objects import RayObject
from kuberay.plan.build.context import owner_reference
from kuberay.plan.build.dashboard import dashboard_address
from kuberay.plan.job.draft import Draft
from kuberay.plan.job.modes import mode_of
from kuberay.plan.job.sidecar import add_sidecar
from kuberay.plan.model import Manifest


def find_cluster(draft: Draft) -> RayObject | None:
    """The RayCluster that the status names, if it is there; also one that is being deleted."""
    name = draft.status.get("rayClusterName")
    found = draft.observed.view.get(RAYCLUSTER, draft.obj.namespace, name) if name else None
    return found if isinstance(found, RayObject) else None


def owned_by(draft: Draft, obj: Any) -> bool:
    """Whether the RayJob controls *obj*. What it does not control it never changes or deletes (RJ-05)."""
    controller = obj.metadata.controller
    return controller is not None and controller.uid == draft.obj.uid


def alive(cluster: RayObject | None) -> bool:
    """Whether the cluster exists and is not being deleted."""
    return cluster is not None and not cluster.deleting


def build_cluster(draft: Draft) -> Manifest:
    """The RayCluster of the present attempt, before plugins see it. Raises `SubmitCommandError`."""
    job = draft.obj
    labels = {
        **job.metadata.labels,
        names.LABEL_ORIGIN_NAME: job.name,
        names.LABEL_ORIGIN_CRD: RAYJOB.kind,
        names.LABEL_SUBMISSION_MODE: draft.spec.submission_mode,
    }
    metadata: Manifest = {
        "name": draft.status["rayClusterName"],
        "namespace": job.namespace,
        "labels": labels,
        "ownerReferences": [owner_reference(RAYJOB, job)],
    }
    if job.metadata.annotations:
        metadata["annotations"] = dict(job.metadata.annotations)
    body: Manifest = {
        "apiVersion": RAYCLUSTER.api_version,
        "kind": RAYCLUSTER.kind,
        "metadata": metadata,
        "spec": copy.deepcopy(job.spec["rayClusterSpec"]),
    }
    if mode_of(draft.spec).sidecar:
        add_sidecar(
            body,
            draft.spec,
            job_id=draft.status["jobId"],
            login=draft.observed.config.login_shell,
            restarts=draft.observed.gate(SIDECAR_SUBMITTER_RESTART),
        )
    return body


def cluster_spec(cluster: RayObject) -> RayClusterSpec | None:
    """The typed spec of a live cluster; None when it cannot be read (its own plan says why)."""
    try:
        return RayClusterSpec.parse(cluster.spec)
    except ValueError:
        return None


def only_kubernetes_tokens(cluster: RayObject) -> bool:
    """Whether the cluster has Kubernetes judge who asks it (3.8); a RayJob meets such a one through its clusterSelector."""
    options = cluster.spec.get("authOptions") or {}
    return options.get("mode") == "token" and bool(options.get("enableK8sTokenAuth"))


def dashboard_url(draft: Draft, cluster: RayObject) -> str | None:
    """``host:port`` of the cluster's dashboard, without a scheme; None while its head service does not offer one."""
    return dashboard_address(draft.observed.view, cluster, draft.observed.config.cluster_domain)


def copy_cluster_status(draft: Draft, cluster: RayObject | None) -> None:
    """Mirror the cluster's status into the RayJob's."""
    if cluster is not None and cluster.status:
        draft.status["rayClusterStatus"] = copy.deepcopy(cluster.status)
