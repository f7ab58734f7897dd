"""How containers get the token that Ray's processes show each other.

Source: spec raycluster.md 3.5 (8-10), 3.12 and 6.5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kuberay.api.names import check_name
from kuberay.plan.build import env
from kuberay.plan.build.volumes import add_volume

SECRET_KEY = "auth_token"  # noqa: S105 (the key's name)
VOLUME = "ray-token"
VOLUME_PATH = "/var/run/secrets/ray.io/serviceaccount"


def add_token_auth(
    auth_options: Mapping[str, Any] | None, cluster: str, pod_spec: dict[str, Any], container: dict[str, Any]
) -> None:
    """Wire *container* for token authentication when ``authOptions.mode`` is exactly ``token``.

    *auth_options* is the raw ``spec.authOptions``; *cluster* names the RayCluster. *container* is part of *pod_spec*.
    """
    if not auth_options or auth_options.get("mode") != "token":
        return
    entries = [env.literal("RAY_AUTH_MODE", "token")]
    if auth_options.get("enableK8sTokenAuth"):
        entries.append(env.literal("RAY_ENABLE_K8S_TOKEN_AUTH", "true"))
        source = {"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
        add_volume(pod_spec, container, VOLUME, source, VOLUME_PATH, readOnly=True)
    else:
        reference = {"name": secret_name(auth_options, cluster), "key": SECRET_KEY}
        entries.append({"name": "RAY_AUTH_TOKEN", "valueFrom": {"secretKeyRef": reference}})
    env.append_absent(container, entries)


def secret_name(auth_options: Mapping[str, Any], cluster: str) -> str:
    """The Secret that holds the token: the user's, or the one named like the cluster."""
    return auth_options.get("secretName") or check_name(cluster)
