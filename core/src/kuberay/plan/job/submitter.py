"""What the Kubernetes Job looks like that submits the job to Ray.

Source: spec rayjob.md 3.1 and 3.8.
"""

from __future__ import annotations

import copy
from typing import Any

from kuberay.api import names
from kuberay.api.job import RayJobSpec
from kuberay.api.kinds import JOB, RAYJOB
from kuberay.api.objects import RayObject
from kuberay.plan.build import env
from kuberay.plan.build.auth import add_token_auth
from kuberay.plan.build.context import owner_reference
from kuberay.plan.build.shell import shell
from kuberay.plan.job.submit_command import http_address, submit_command
from kuberay.plan.model import Manifest


def submitter_labels(job: str) -> dict[str, str]:
    """The labels of the submitter Job and of its pods."""
    return {
        names.LABEL_ORIGIN_NAME: job,
        names.LABEL_ORIGIN_CRD: RAYJOB.kind,
        names.LABEL_CREATED_BY: names.COMPONENT,
    }


def user_template(spec: RayJobSpec, image: str) -> Manifest:
    """A copy of ``submitterPodTemplate``, or the default one with *image*."""
    if spec.submitter_pod_template is not None:
        return copy.deepcopy(spec.submitter_pod_template)
    return {"spec": {"containers": [default_container(image)], "restartPolicy": "Never"}}


def default_container(image: str) -> dict[str, Any]:
    """The submitter's container when the user gives none."""
    return {
        "name": names.SUBMITTER_CONTAINER,
        "image": image,
        "resources": {
            "limits": {"cpu": "1", "memory": "1Gi"},
            "requests": {"cpu": "500m", "memory": "200Mi"},
        },
    }


def head_image(cluster_spec: dict[str, Any] | None) -> str:
    """Image of the head's Ray container in a raw RayClusterSpec; empty when there is none."""
    template = ((cluster_spec or {}).get("headGroupSpec") or {}).get("template") or {}
    containers = (template.get("spec") or {}).get("containers") or [{}]
    return str(containers[0].get("image") or "")


def submitter_template(
    spec: RayJobSpec, *, job: str, cluster: RayObject, dashboard_url: str, job_id: str, login: bool
) -> Manifest:
    """The pod template of the submitter, before plugins see it. Raises `SubmitCommandError`.

    Only container 0 is changed. Its own command is kept; without one its arguments are replaced too.
    """
    template = user_template(spec, head_image(cluster.spec))
    address = http_address(dashboard_url)
    tokens = submit_command(spec, address=address, health_address=address, job_id=job_id)
    pod_spec = template.setdefault("spec", {})
    containers = pod_spec.get("containers")
    if containers:
        container = containers[0]
        if not container.get("command"):
            container["command"] = shell("e", login)
            container["args"] = [" ".join(tokens)]
        env.append(
            container,
            env.literal("PYTHONUNBUFFERED", "1"),
            env.literal("RAY_DASHBOARD_ADDRESS", dashboard_url),
            env.literal("RAY_JOB_SUBMISSION_ID", job_id),
        )
        add_token_auth(cluster.spec.get("authOptions"), cluster.name, pod_spec, container)
    metadata = template.get("metadata") or {}
    template["metadata"] = {**metadata, "labels": {**(metadata.get("labels") or {}), **submitter_labels(job)}}
    return template


def submitter_job(owner: RayObject, spec: RayJobSpec, template: Manifest) -> Manifest:
    """The submitter Job around its finished pod template."""
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "metadata": {
            "name": owner.name,
            "namespace": owner.namespace,
            "labels": submitter_labels(owner.name),
            "ownerReferences": [owner_reference(RAYJOB, owner)],
        },
        "spec": {"backoffLimit": spec.submitter_backoff_limit, "template": template},
    }
