"""Which cert-manager objects a RayCluster has, for which names and addresses, and whether they are issued.

Source: spec raycluster.md 2.12. Addresses are those of pods that neither end nor have ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kuberay.api import names
from kuberay.api.cluster import RayClusterSpec
from kuberay.api.kinds import Kind
from kuberay.hooks import OwnerContext
from kuberay.hooks.types import Manifest
from kuberay.plan.build.pods import head_service_name

GROUP = "cert-manager.io"
ISSUER = Kind(GROUP, "v1", "issuers", "Issuer")
CERTIFICATE = Kind(GROUP, "v1", "certificates", "Certificate")

_LEAF_USAGES = ["digital signature", "key encipherment", "server auth", "client auth"]


def secret_name(cluster: str, node_type: str) -> str:
    """The Secret with the certificate of *node_type* (``head`` or ``worker``)."""
    return f"ray-{node_type}-secret-{cluster}"


def head_fqdn(ctx: OwnerContext) -> str:
    """The name under which the head is reached."""
    service = head_service_name(ctx.name, RayClusterSpec.parse(ctx.spec))
    return names.service_fqdn(service, ctx.namespace, ctx.cluster_domain)


def wanted(ctx: OwnerContext) -> list[Manifest]:
    """Issuers and certificates, in the order in which they depend on each other."""
    cluster = ctx.name
    ca_secret = f"{cluster}-ca-secret-{ctx.uid[:8]}"
    ca_issuer = f"ray-ca-issuer-{cluster}"
    self_signed = f"ray-selfsigned-issuer-{cluster}"
    authority = {
        "isCA": True,
        "commonName": f"ray-ca-{cluster}",
        "privateKey": {"algorithm": "RSA", "size": 4096},
        "duration": "87600h",
        "renewBefore": "720h",
        "usages": ["cert sign", "crl sign"],
        "secretName": ca_secret,
        "issuerRef": _reference(self_signed),
    }
    return [
        _object(ctx, ISSUER, self_signed, "selfsigned-issuer", {"selfSigned": {}}),
        _object(ctx, CERTIFICATE, f"ray-ca-certificate-{cluster}", "ca-certificate", authority),
        _object(ctx, ISSUER, ca_issuer, "ca-issuer", {"ca": {"secretName": ca_secret}}),
        _leaf(ctx, names.HEAD, ca_issuer, sorted({"localhost", head_fqdn(ctx)})),
        _leaf(ctx, names.WORKER, ca_issuer, ["localhost"]),
    ]


def not_issued(ctx: OwnerContext) -> str:
    """What is not ready yet, in one sentence; empty when both certificates are issued for what is wanted now."""
    live = {child["metadata"]["name"]: child for child in ctx.children(CERTIFICATE)}
    for node_type in (names.HEAD, names.WORKER):
        name = _leaf_name(ctx.name, node_type)
        certificate = live.get(name)
        if certificate is None:
            return f"waiting for Certificate {ctx.namespace}/{name} to be created"
        ready = _ready_condition(certificate)
        current = ready.get("observedGeneration") == certificate["metadata"].get("generation")
        if ready.get("status") != "True" or not current:
            told = ready.get("message") if ready.get("status") == "False" else ""
            return f"waiting for cert-manager to issue Certificate {ctx.namespace}/{name}" + (
                f": {told}" if told else ""
            )
    return ""


def _ready_condition(certificate: Manifest) -> dict[str, Any]:
    conditions: Sequence[dict[str, Any]] = (certificate.get("status") or {}).get("conditions") or ()
    return next((condition for condition in conditions if condition.get("type") == "Ready"), {})


def _leaf(ctx: OwnerContext, node_type: str, issuer: str, dns_names: Sequence[str]) -> Manifest:
    addresses = {pod.ip for pod in ctx.pods() if pod.node_type == node_type and pod.ip}
    spec = {
        "secretName": secret_name(ctx.name, node_type),
        "duration": "2160h",
        "renewBefore": "360h",
        "dnsNames": list(dns_names),
        "ipAddresses": sorted({"127.0.0.1", *addresses}),
        "usages": list(_LEAF_USAGES),
        "issuerRef": _reference(issuer),
    }
    return _object(ctx, CERTIFICATE, _leaf_name(ctx.name, node_type), f"{node_type}-certificate", spec)


def _leaf_name(cluster: str, node_type: str) -> str:
    return f"ray-{node_type}-cert-{cluster}"


def _reference(issuer: str) -> dict[str, str]:
    return {"name": issuer, "kind": ISSUER.kind, "group": GROUP}


def _object(ctx: OwnerContext, kind: Kind, name: str, component: str, spec: dict[str, Any]) -> Manifest:
    labels = {
        names.LABEL_APP_NAME: names.APP_NAME,
        names.LABEL_CREATED_BY: names.COMPONENT,
        "app.kubernetes.io/component": component,
        names.LABEL_CLUSTER: ctx.name,
    }
    metadata = {"name": name, "namespace": ctx.namespace, "labels": labels}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}
