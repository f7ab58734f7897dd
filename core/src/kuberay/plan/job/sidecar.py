"""What SidecarMode adds to the RayCluster of an attempt: a submitter as the last container of the head pod.

Source: spec rayjob.md 3.5. The RayCluster's annotation keeps a lost head from being made again with a new submitter.
"""

from __future__ import annotations

from typing import Any

from kuberay.api import names
from kuberay.api.cluster import RayClusterSpec
from kuberay.api.job import RayJobSpec
from kuberay.plan.build import env
from kuberay.plan.build.auth import add_token_auth
from kuberay.plan.build.services import dashboard_port
from kuberay.plan.build.shell import shell
from kuberay.plan.job.submit_command import submit_command
from kuberay.plan.job.submitter import default_container, head_image
from kuberay.plan.model import Manifest


def add_sidecar(cluster: Manifest, spec: RayJobSpec, *, job_id: str, login: bool, restarts: bool) -> None:
    """Change the RayCluster *cluster* in place. Raises `SubmitCommandError`.

    *restarts* is the feature gate ``SidecarSubmitterRestart``: the submitter may be restarted, and follows the job it
    finds instead of submitting it again.
    """
    annotations = cluster["metadata"].setdefault("annotations", {})
    annotations[names.ANNOTATION_NO_HEAD_RESTART] = "true"
    raw: dict[str, Any] = cluster["spec"]
    pod_spec = raw["headGroupSpec"]["template"].setdefault("spec", {})
    pod_spec["restartPolicy"] = "Never"
    port = dashboard_port(spec.ray_cluster_spec or RayClusterSpec())
    container = default_container(head_image(raw))
    tokens = submit_command(
        spec,
        address=f"http://127.0.0.1:{port}",
        health_address=f"http://localhost:{port}",
        job_id=job_id,
        reattach=restarts,
    )
    container["command"] = shell("e", login)
    container["args"] = [" ".join(tokens)]
    env.append(
        container,
        env.literal("PYTHONUNBUFFERED", "1"),
        # The cluster is built before its dashboard has an address.
        env.literal("RAY_DASHBOARD_ADDRESS", ""),
        env.literal("RAY_JOB_SUBMISSION_ID", job_id),
    )
    add_token_auth(raw.get("authOptions"), cluster["metadata"]["name"], pod_spec, container)
    if restarts:
        container["restartPolicy"] = "OnFailure"
    pod_spec["containers"] = [*pod_spec["containers"], container]
