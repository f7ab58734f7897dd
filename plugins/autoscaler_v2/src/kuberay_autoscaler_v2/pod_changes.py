"""What an autoscaled head pod has more: the account, the version switch, the log volume and the sidecar.

Source: spec plugins.md 10.2, raycluster.md 3.10 to 3.12.
"""

from __future__ import annotations

from typing import Any

from kuberay.hooks import OwnerContext
from kuberay.hooks.types import Manifest

from kuberay_autoscaler_v2 import access, sidecar
from kuberay_autoscaler_v2.config import settings_of

VERSION_SWITCH = "RAY_enable_autoscaler_v2"
LOGS_VOLUME = "ray-logs"
LOGS_PATH = "/tmp/ray"  # noqa: S108  a path in the container, where Ray writes its session
TOKEN_VOLUME = "autoscaler-token"  # noqa: S105  a volume's name
TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105  where Kubernetes clients look for it


def options(owner: OwnerContext) -> dict[str, Any]:
    """``spec.autoscalerOptions``, empty when not given."""
    return owner.spec.get("autoscalerOptions") or {}


def version(owner: OwnerContext) -> str:
    """``v1``, ``v2``, or empty: then Ray chooses."""
    return options(owner).get("version") or ""


def change_head(owner: OwnerContext, pod: Manifest) -> None:
    """Change the head *pod* in place."""
    spec = pod["spec"]
    ray = spec["containers"][0]
    spec["serviceAccountName"] = access.account(owner)
    if version(owner):
        _add_version(owner, ray)
    autoscaler = sidecar.build(owner, ray.get("image", ""), options(owner))
    for container in (ray, autoscaler):
        _mount_logs(spec, container)
    if settings_of(owner.settings).least_privilege:
        _hide_token(spec, autoscaler)
    spec["containers"].append(autoscaler)


def _add_version(owner: OwnerContext, ray: dict[str, Any]) -> None:
    """After the user's variables and before the operator's (spec raycluster.md 3.5)."""
    template = owner.spec["headGroupSpec"]["template"]["spec"]["containers"][0]
    value = "true" if version(owner) == "v2" else "false"
    # The user's own would be refused together with a version; another one is the operator's default for all clusters.
    env = [entry for entry in ray.get("env") or () if entry["name"] != VERSION_SWITCH]
    env.insert(len(template.get("env") or ()), {"name": VERSION_SWITCH, "value": value})
    ray["env"] = env


def _mount_logs(spec: dict[str, Any], container: dict[str, Any]) -> None:
    """Share Ray's log directory, unless the container has something of its own there."""
    mounts = container.setdefault("volumeMounts", [])
    if any(mount["mountPath"] == LOGS_PATH for mount in mounts):
        return
    mounts.append({"name": LOGS_VOLUME, "mountPath": LOGS_PATH})
    volumes = spec.setdefault("volumes", [])
    if not any(volume["name"] == LOGS_VOLUME for volume in volumes):
        volumes.append({"name": LOGS_VOLUME, "emptyDir": {}})


def _hide_token(spec: dict[str, Any], autoscaler: dict[str, Any]) -> None:
    """The same projection Kubernetes would mount everywhere, mounted in the autoscaler only."""
    spec["automountServiceAccountToken"] = False
    if any(mount["mountPath"] == TOKEN_PATH for mount in autoscaler["volumeMounts"]):
        return
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]
    spec.setdefault("volumes", []).append({"name": TOKEN_VOLUME, "projected": {"sources": sources}})
    autoscaler["volumeMounts"].append({"name": TOKEN_VOLUME, "mountPath": TOKEN_PATH, "readOnly": True})
