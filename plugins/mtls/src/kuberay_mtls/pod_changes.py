"""What TLS adds to a pod: environment, the mounted certificate, and a wait until the pod's address is in it.

Source: spec raycluster.md 3.5 (11) and 3.14.
"""

from __future__ import annotations

from typing import Any

from kuberay.hooks import OwnerContext
from kuberay.hooks.types import Manifest
from kuberay.plan.build import env
from kuberay.plan.build.wait_gcs import NAME as WAIT_GCS

from kuberay_mtls.certificates import head_fqdn, secret_name

VOLUME = "ray-tls"
PATH = "/etc/ray/tls"
WAIT = "wait-for-tls-ip-san"
_SECURED = (WAIT_GCS, "autoscaler")
"""Containers beside Ray's own that speak to Ray."""

_SCRIPT = f"""
IP="$POD_IP"
[ -n "$IP" ] || IP="$(hostname -i)"
IP="${{IP%% *}}"
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
  sleep 5
done
"""


def secure(owner: OwnerContext, node_type: str, pod: Manifest) -> None:
    """Change *pod* in place."""
    spec = pod["spec"]
    ray = spec["containers"][0]
    for container in [*spec["containers"], *(spec.get("initContainers") or ())]:
        if container is ray or container["name"] in _SECURED:
            _add_environment(container)
            _mount(container)
    volumes = spec.setdefault("volumes", [])
    if all(volume["name"] != VOLUME for volume in volumes):
        volumes.append({"name": VOLUME, "secret": {"secretName": secret_name(owner.name, node_type)}})
    spec["initContainers"] = [_wait(owner, ray), *(spec.get("initContainers") or ())]


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


def _wait(owner: OwnerContext, ray: dict[str, Any]) -> dict[str, Any]:
    """Runs before all others: without its address in the certificate nobody would talk to the pod."""
    fqdn, size = head_fqdn(owner), {"cpu": "50m", "memory": "64Mi"}
    copied = {key: ray[key] for key in ("image", "imagePullPolicy", "securityContext") if ray.get(key)}
    return {
        "name": WAIT,
        **copied,
        "command": ["sh", "-c"],
        "args": [_SCRIPT],
        "env": [
            env.from_field("POD_IP", "status.podIP"),
            env.literal("FQ_RAY_IP", fqdn),
            env.literal("RAY_IP", fqdn.partition(".")[0]),
        ],
        "volumeMounts": [{"name": VOLUME, "mountPath": PATH, "readOnly": True}],
        "resources": {"limits": dict(size), "requests": dict(size)},
    }
