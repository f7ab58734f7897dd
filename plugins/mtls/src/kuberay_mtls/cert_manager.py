"""Which cert-manager objects a RayCluster has, for which names and addresses, and whether they are issued.

Source: spec raycluster.md 2.12. Addresses are those of pods that neither end nor have ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kuberay.api import names
from kuberay.api.kinds import Kind
from kuberay.hooks import OwnerContext, PodAnnotations
from kuberay.hooks.types import Manifest

from kuberay_mtls import naming

GROUP = "cert-manager.io"
ISSUER = Kind(GROUP, "v1", "issuers", "Issuer")
CERTIFICATE = Kind(GROUP, "v1", "certificates", "Certificate")

_LEAF_USAGES = ["digital signature", "key encipherment", "server auth", "client auth"]


def exists(ctx: OwnerContext) -> bool:
    """Whether cert-manager has been asked for certificates of this RayCluster."""
    return bool(ctx.children(CERTIFICATE))


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
        "duration": "87600h0m0s",
        "renewBefore": "720h0m0s",
        "usages": ["cert sign", "crl sign"],
        "secretName": ca_secret,
        "issuerRef": _reference(self_signed),
    }
    return [
        _object(ctx, ISSUER, self_signed, "selfsigned-issuer", {"selfSigned": {}}),
        _object(ctx, CERTIFICATE, f"ray-ca-certificate-{cluster}", "ca-certificate", authority),
        _object(ctx, ISSUER, ca_issuer, "ca-issuer", {"ca": {"secretName": ca_secret}}),
        _leaf(ctx, names.HEAD, ca_issuer, sorted({"localhost", naming.head_fqdn(ctx)})),
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
        if not _is_issued(certificate):
            told = ready.get("message") if ready.get("status") == "False" else ""
            return f"waiting for cert-manager to issue Certificate {ctx.namespace}/{name}" + (
                f": {told}" if told else ""
            )
    return ""


def announcements(ctx: OwnerContext) -> list[PodAnnotations]:
    """For pods whose address is in a certificate that has been issued: the kubelet looks at the Secrets of a pod at once when
    the pod's annotations change, and else within a minute or two."""
    live = {child["metadata"]["name"]: child for child in ctx.children(CERTIFICATE)}
    signed = {
        node_type: set(certificate["spec"].get("ipAddresses") or ())
        for node_type in (names.HEAD, names.WORKER)
        if (certificate := live.get(_leaf_name(ctx.name, node_type))) is not None and _is_issued(certificate)
    }
    return [
        PodAnnotations(pod.name, {naming.ANNOTATION_READY_FOR: pod.ip})
        for pod in ctx.pods()
        if pod.ip in signed.get(pod.node_type, ()) and pod.annotations.get(naming.ANNOTATION_READY_FOR) != pod.ip
    ]


def _is_issued(certificate: Manifest) -> bool:
    """Whether what it says now is what has been signed."""
    ready = _ready_condition(certificate)
    return ready.get("status") == "True" and ready.get("observedGeneration") == certificate["metadata"].get(
        "generation"
    )


def _ready_condition(certificate: Manifest) -> dict[str, Any]:
    conditions: Sequence[dict[str, Any]] = (certificate.get("status") or {}).get("conditions") or ()
    return next((condition for condition in conditions if condition.get("type") == "Ready"), {})


def _leaf(ctx: OwnerContext, node_type: str, issuer: str, dns_names: Sequence[str]) -> Manifest:
    addresses = {pod.ip for pod in ctx.pods() if pod.node_type == node_type and pod.ip}
    spec = {
        "secretName": naming.shared_secret(ctx.name, node_type),
        "duration": "2160h0m0s",
        "renewBefore": "360h0m0s",
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
    metadata = {"name": name, "namespace": ctx.namespace, "labels": naming.labels(ctx, component)}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}
