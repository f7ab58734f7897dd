"""What TLS adds to a pod: environment, the mounted certificate, and a wait until it is the pod's own.

Source: spec raycluster.md 3.5 (11) and 3.14.
"""

from __future__ import annotations

from typing import Any

from kuberay.hooks import PodContext
from kuberay.hooks.types import Manifest
from kuberay.plan.build import env
from kuberay.plan.build.wait_gcs import NAME as WAIT_GCS

from kuberay_mtls import naming
from kuberay_mtls.own_authority import ADDRESS

VOLUME = "ray-tls"
PATH = "/etc/ray/tls"
WAIT = "wait-for-tls-ip-san"
_SECURED = (WAIT_GCS, "autoscaler")
"""Containers beside Ray's own that speak to Ray."""

_OWN_ADDRESS = """
IP="$POD_IP"
[ -n "$IP" ] || IP="$(hostname -i)"
IP="${IP%% *}"
"""
SHARED_SCRIPT = f"""{_OWN_ADDRESS}
if ! command -v openssl > /dev/null 2>&1; then
  echo "openssl is not in this image; it is needed to wait for the pod's address in {PATH}/tls.crt." >&2
  exit 1
fi
PATTERN="IP Address:$(echo "$IP" | sed 's/[.]/\\\\./g')([^0-9A-Fa-f.:]|$)"
is_in() {{
  case "$IP" in
    # openssl writes IPv6 addresses in full.
    *:*) openssl x509 -in {PATH}/tls.crt -noout -checkip "$IP" 2> /dev/null | grep -q " does match " ;;
    *) openssl x509 -in {PATH}/tls.crt -noout -text 2> /dev/null | grep -Eq "$PATTERN" ;;
  esac
}}
until is_in; do
  echo "Waiting for $IP in the certificate {PATH}/tls.crt."
  sleep 1
done
"""
"""All pods of a kind share one certificate, which names their addresses."""

OWN_SCRIPT = f"""{_OWN_ADDRESS}
until [ "$(cat {PATH}/{ADDRESS} 2> /dev/null)" = "$IP" ]; do
  echo "Waiting for the certificate of $IP in {PATH}."
  sleep 0.5
done
"""
"""The pod has a certificate of its own, which is made when its address is known."""


def secure(ctx: PodContext, pod: Manifest, *, own: bool) -> None:
    """Change *pod* in place. *own*: its certificate is of the plugin's own authority, and its own."""
    spec = pod["spec"]
    ray = spec["containers"][0]
    for container in [*spec["containers"], *(spec.get("initContainers") or ())]:
        if container is ray or container["name"] in _SECURED:
            _add_environment(container)
            _mount(container)
    volumes = spec.setdefault("volumes", [])
    if all(volume["name"] != VOLUME for volume in volumes):
        volumes.append({"name": VOLUME, "secret": _secret(ctx, pod, own=own)})
    spec["initContainers"] = [_wait(ctx, ray, own=own), *(spec.get("initContainers") or ())]


def _secret(ctx: PodContext, pod: Manifest, *, own: bool) -> dict[str, Any]:
    if not own:
        return {"secretName": naming.shared_secret(ctx.owner.name, ctx.node_type)}
    # A pod has no address before its volumes are mounted, and no certificate before it has an address.
    return {"secretName": naming.pod_secret(pod["metadata"]["name"]), "optional": True}


def _add_environment(container: dict[str, Any]) -> None:
    """Validation refuses variables of these names in a spec; others are the operator's defaults for all clusters."""
    values = {
        "RAY_USE_TLS": "1",
        "RAY_TLS_SERVER_CERT": f"{PATH}/tls.crt",
        "RAY_TLS_SERVER_KEY": f"{PATH}/tls.key",
        "RAY_TLS_CA_CERT": f"{PATH}/ca.crt",
    }
    kept = [entry for entry in container.get("env") or () if entry["name"] not in values]
    container["env"] = [*kept, *(env.literal(*item) for item in values.items())]


def _mount(container: dict[str, Any]) -> None:
    mounts = container.setdefault("volumeMounts", [])
    if all(mount.get("name") != VOLUME and mount.get("mountPath") != PATH for mount in mounts):
        mounts.append({"name": VOLUME, "mountPath": PATH, "readOnly": True})


def _wait(ctx: PodContext, ray: dict[str, Any], *, own: bool) -> dict[str, Any]:
    """Runs before all others: without its address in the certificate nobody would talk to the pod."""
    fqdn, size = naming.head_fqdn(ctx.owner), {"cpu": "50m", "memory": "64Mi"}
    copied = {key: ray[key] for key in ("image", "imagePullPolicy", "securityContext") if ray.get(key)}
    return {
        "name": WAIT,
        **copied,
        "command": ["sh", "-c"],
        "args": [OWN_SCRIPT if own else SHARED_SCRIPT],
        "env": [
            env.from_field("POD_IP", "status.podIP"),
            env.literal("FQ_RAY_IP", fqdn),
            env.literal("RAY_IP", fqdn.partition(".")[0]),
        ],
        "volumeMounts": [{"name": VOLUME, "mountPath": PATH, "readOnly": True}],
        "resources": {"limits": dict(size), "requests": dict(size)},
    }
