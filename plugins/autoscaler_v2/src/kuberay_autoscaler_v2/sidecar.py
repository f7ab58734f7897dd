"""The autoscaler's container: image, command, variables, and what ``spec.autoscalerOptions`` replaces or adds.

Source: spec plugins.md 10.2, raycluster.md 1.5, 3.11 and 3.12.
"""

from __future__ import annotations

from typing import Any

from kuberay.api.names import LABEL_CLUSTER, check_name
from kuberay.hooks import OwnerContext
from kuberay.plan.build.shell import shell

CONTAINER = "autoscaler"
START_COMMAND = "ray kuberay-autoscaler --cluster-name $(RAY_CLUSTER_NAME) --cluster-namespace $(RAY_CLUSTER_NAMESPACE)"
LIMITS = {"cpu": "500m", "memory": "512Mi"}


def build(owner: OwnerContext, ray_image: str, options: dict[str, Any]) -> dict[str, Any]:
    """The container without the log mount. Options replace, except env, envFrom and volumeMounts, which are added."""
    container: dict[str, Any] = {
        "name": CONTAINER,
        "image": options.get("image") or ray_image,
        "imagePullPolicy": options.get("imagePullPolicy") or "IfNotPresent",
        "command": options.get("command") or shell(login=owner.login_shell),
        "args": options.get("args") or [START_COMMAND],
        "env": [*_variables(), *_token_variables(owner), *(options.get("env") or ())],
        "resources": _resources(options),
        "volumeMounts": [*_token_mounts(owner), *(options.get("volumeMounts") or ())],
    }
    for name in ("envFrom", "securityContext"):
        if options.get(name):
            container[name] = options[name]
    return container


def _resources(options: dict[str, Any]) -> dict[str, Any]:
    """The user's as a whole, even when empty."""
    given: dict[str, Any] | None = options.get("resources")
    return {"requests": dict(LIMITS), "limits": dict(LIMITS)} if given is None else given


def _variables() -> list[dict[str, Any]]:
    return [
        _from_field("RAY_CLUSTER_NAME", f"metadata.labels['{LABEL_CLUSTER}']"),
        _from_field("RAY_CLUSTER_NAMESPACE", "metadata.namespace"),
        _from_field("RAY_HEAD_POD_NAME", "metadata.name"),
        {"name": "KUBERAY_CRD_VER", "value": "v1"},
        {"name": "KUBERAY_GEN_AUTOSCALER_START_CMD", "value": START_COMMAND},
    ]


def _from_field(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}


def _auth(owner: OwnerContext) -> dict[str, Any]:
    """``spec.authOptions`` when its mode is exactly ``token``, else nothing."""
    auth: dict[str, Any] = owner.spec.get("authOptions") or {}
    return auth if auth.get("mode") == "token" else {}


def _token_variables(owner: OwnerContext) -> list[dict[str, Any]]:
    auth = _auth(owner)
    if not auth:
        return []
    mode = {"name": "RAY_AUTH_MODE", "value": "token"}
    if auth.get("enableK8sTokenAuth"):
        return [mode, {"name": "RAY_ENABLE_K8S_TOKEN_AUTH", "value": "true"}]
    secret = auth.get("secretName") or check_name(owner.name)
    return [
        mode,
        {"name": "RAY_AUTH_TOKEN", "valueFrom": {"secretKeyRef": {"name": secret, "key": "auth_token"}}},
    ]


def _token_mounts(owner: OwnerContext) -> list[dict[str, Any]]:
    """With Kubernetes' own tokens the core has put the volume ``ray-token`` into the pod."""
    if not _auth(owner).get("enableK8sTokenAuth"):
        return []
    return [{"name": "ray-token", "mountPath": "/var/run/secrets/ray.io/serviceaccount", "readOnly": True}]
