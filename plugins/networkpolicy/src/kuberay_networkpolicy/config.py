"""What an administrator may choose about network policies: the section ``plugins.networkpolicy`` of the configuration."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field

_PEER_FIELDS = ("podSelector", "namespaceSelector", "ipBlock")

OPERATOR_LABELS = {"app.kubernetes.io/component": "kuberay-operator"}
"""What this project's manifests and KubeRay's own have on the operator's pods."""


def _peer(value: dict[str, Any]) -> dict[str, Any]:
    unknown = [key for key in value if key not in _PEER_FIELDS]
    if unknown or not value:
        told = f"not {unknown[0]}" if unknown else "one of them at least"
        raise ValueError(f"a peer of a NetworkPolicy has podSelector, namespaceSelector or ipBlock, {told}")
    return value


Peers = list[Annotated[dict[str, Any], AfterValidator(_peer)]]
Ports = list[Annotated[int, Field(ge=1, le=65535)]]


def _name_servers() -> list[dict[str, Any]]:
    where = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["kube-system", "openshift-dns"]}
    return [{"namespaceSelector": {"matchExpressions": [where]}}, {"ipBlock": {"cidr": "169.254.20.10/32"}}]


def _private_addresses() -> list[dict[str, Any]]:
    return [{"ipBlock": {"cidr": cidr}} for cidr in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")]


class NetworkPolicySettings(BaseModel):
    """Settings of the networkpolicy plugin. Peers are Kubernetes' ``NetworkPolicyPeer``."""

    admit_operator: bool = Field(
        default=True,
        description="The operator may reach the head: dashboard and GCS, and for a RayService its Serve proxy and metrics.",
    )
    admit_dns: bool = Field(default=True, description="All pods of a cluster may ask for names.")
    admit_api_server: bool = Field(
        default=True,
        description="Pods that need the API server may reach it: the head of an autoscaled cluster, and all pods where "
        "Kubernetes checks Ray's tokens.",
    )
    operator_peers: Peers = Field(
        default_factory=list,
        description="Where the operator's requests come from. Empty: pods with the label "
        "app.kubernetes.io/component=kuberay-operator in the operator's own namespace.",
    )
    dns_peers: Peers = Field(
        default_factory=_name_servers,
        min_length=1,
        description="Where name servers are: pods of kube-system and openshift-dns, and the address of NodeLocal DNSCache.",
    )
    dns_ports: Ports = Field(default=[53, 5353], min_length=1, description="Their ports, UDP and TCP.")
    api_server_peers: Peers = Field(
        default_factory=_private_addresses,
        min_length=1,
        description="Where the API server is. It is no pod, so only addresses can name it: the private ones. Better: the "
        "addresses in `kubectl get endpoints kubernetes`.",
    )
    api_server_ports: Ports = Field(default=[443, 6443], min_length=1, description="Its ports, TCP.")


def settings_of(settings: object) -> NetworkPolicySettings:
    """The settings handed to a hook; the defaults where the operator handed none."""
    return settings if isinstance(settings, NetworkPolicySettings) else NetworkPolicySettings()
