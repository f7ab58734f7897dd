"""Mutual TLS for RayClusters with ``spec.tlsOptions.enabled``: certificates first, then pods that use them.

Source: spec raycluster.md 2.12 and 3.14, cases.md SE-02. The gate ``RayClusterMTLS`` is the core's.
"""

from __future__ import annotations

from collections.abc import Sequence

from kuberay.api.kinds import RAYCLUSTER
from kuberay.hooks import OwnerContext, PodContext, PolicyRule, Wait, Watch, hookimpl
from kuberay.hooks.types import Manifest

from kuberay_mtls import certificates, pod_changes

kuberay_hook_api = (1, 0)


@hookimpl
def rbac_rules() -> Sequence[PolicyRule]:
    kinds = (certificates.ISSUER.plural, certificates.CERTIFICATE.plural)
    return [PolicyRule((certificates.GROUP,), kinds, ("create", "delete", "get", "list", "patch", "watch"))]


@hookimpl
def watches() -> Sequence[Watch]:
    """Issuers are made once and never changed, as KubeRay does."""
    return [Watch(certificates.ISSUER, create_only=True), Watch(certificates.CERTIFICATE)]


@hookimpl
def pre_create_pods(ctx: OwnerContext) -> Sequence[Manifest | Wait] | None:
    """Everything that signs and is signed. No pod is made before both certificates are issued as they are wanted now."""
    if not _secured(ctx):
        return None
    objects: list[Manifest | Wait] = list(certificates.wanted(ctx))
    missing = certificates.not_issued(ctx)
    return [*objects, Wait(missing)] if missing else objects


@hookimpl
def mutate_pod(ctx: PodContext, pod: Manifest) -> Manifest | None:
    if not _secured(ctx.owner) or ctx.node_type == "submitter":
        return None
    pod_changes.secure(ctx.owner, ctx.node_type, pod)
    return pod


def _secured(owner: OwnerContext) -> bool:
    return owner.kind == RAYCLUSTER and (owner.spec.get("tlsOptions") or {}).get("enabled") is True
