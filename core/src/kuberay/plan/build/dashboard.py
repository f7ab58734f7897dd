"""Where the dashboard of a RayCluster is, and how it is asked: address, head service and token.

Source: spec rayjob.md 2.2 and 3.9, rayservice.md 2.9 and 2.10.
"""

from __future__ import annotations

from kuberay.api import names
from kuberay.api.kinds import SERVICE
from kuberay.api.objects import Child, RayObject
from kuberay.plan.build.auth import SECRET_KEY, secret_name
from kuberay.plan.model import AuthSecret
from kuberay.plan.observed import View

DASHBOARD_PORT = "dashboard"


def dashboard_address(view: View, cluster: RayObject, domain: str) -> str | None:
    """``host:port`` of the cluster's dashboard, without a scheme; None while its head service does not offer one."""
    name = names.head_service_name(cluster.name, _custom_name(cluster))
    service = view.get(SERVICE, cluster.namespace, name)
    if not isinstance(service, Child):
        return None
    for port in (service.body().get("spec") or {}).get("ports") or ():
        if port.get("name") == DASHBOARD_PORT:
            return f"{names.service_fqdn(name, cluster.namespace, domain)}:{port['port']}"
    return None


def head_service_of(cluster: RayObject) -> str:
    """Name of the cluster's head service: what its status says, else the one it will have."""
    told = (cluster.status.get("head") or {}).get("serviceName")
    return str(told) if told else names.head_service_name(cluster.name, _custom_name(cluster))


def dashboard_token(cluster: RayObject) -> AuthSecret | None:
    """Where the token is that the dashboard asks for; None when it asks for none."""
    options = cluster.spec.get("authOptions") or {}
    if options.get("mode") != "token":
        return None
    return AuthSecret(cluster.namespace, secret_name(options, cluster.name), SECRET_KEY)


def _custom_name(cluster: RayObject) -> str:
    service = (cluster.spec.get("headGroupSpec") or {}).get("headService") or {}
    return (service.get("metadata") or {}).get("name") or ""
