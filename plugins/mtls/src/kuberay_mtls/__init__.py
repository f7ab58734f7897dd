"""Mutual TLS for RayClusters with ``spec.tlsOptions.enabled``: certificates first, then pods that use them.

Source: spec raycluster.md 2.12 and 3.14, cases.md SE-02. The gate ``RayClusterMTLS`` is the core's.
"""

from __future__ import annotations

from collections.abc import Sequence

from kuberay.api.kinds import RAYCLUSTER, SECRET
from kuberay.api.names import LABEL_PLUGIN
from kuberay.hooks import (
    OwnerContext,
    PodAnnotations,
    PodContext,
    PolicyRule,
    Problem,
    RandomSecret,
    Wait,
    Watch,
    hookimpl,
)
from kuberay.hooks.types import Manifest

from kuberay_mtls import cert_manager, naming, own_authority, pod_changes
from kuberay_mtls.config import MtlsSettings, settings_of

kuberay_hook_api = (1, 0)


@hookimpl
def settings() -> type[MtlsSettings]:
    return MtlsSettings


@hookimpl
def rbac_rules() -> Sequence[PolicyRule]:
    """Secrets are created and read by the core's own permission."""
    kinds = (cert_manager.ISSUER.plural, cert_manager.CERTIFICATE.plural)
    return [
        PolicyRule((cert_manager.GROUP,), kinds, ("create", "get", "list", "patch", "watch")),
        PolicyRule(("",), (SECRET.plural,), ("patch",)),
    ]


@hookimpl
def watches() -> Sequence[Watch]:
    """Issuers are made once and never changed, as KubeRay does."""
    return [
        Watch(cert_manager.ISSUER, create_only=True),
        Watch(cert_manager.CERTIFICATE),
        Watch(SECRET, label_selector=f"{LABEL_PLUGIN}={naming.PLUGIN}"),
    ]


@hookimpl
def pre_create_pods(
    ctx: OwnerContext,
) -> Sequence[Manifest | RandomSecret | PodAnnotations | Wait] | None:
    """Everything that signs and is signed. By cert-manager, no pod is made before both certificates are issued as they are
    wanted now; by an authority of its own, a pod's certificate follows the pod's address."""
    if not _secured(ctx):
        return None
    if not _own(ctx):
        missing = cert_manager.not_issued(ctx)
        waits = [Wait(missing)] if missing else []
        return [*cert_manager.wanted(ctx), *cert_manager.announcements(ctx), *waits]
    found = own_authority.read(ctx, settings_of(ctx))
    authority = own_authority.missing_authority(ctx, found)
    return [
        *([authority] if authority else []),
        *own_authority.missing_certificates(ctx, found, settings_of(ctx)),
        *own_authority.announcements(ctx, found, settings_of(ctx)),
    ]


@hookimpl
def mutate_pod(ctx: PodContext, pod: Manifest) -> Manifest | None:
    if not _secured(ctx.owner) or ctx.node_type == "submitter":
        return None
    pod_changes.secure(ctx, pod, own=_own(ctx.owner))
    return pod


@hookimpl
def warn(ctx: OwnerContext) -> Sequence[Problem]:
    """A number that is none, and processes whose certificates end soon: both are the RayCluster's, whoever made it."""
    if not _secured(ctx) or not _own(ctx):
        return []
    told = {
        f"metadata.annotations[{naming.ANNOTATION_AUTHORITY}]": own_authority.annotation_problem(ctx),
        "spec.tlsOptions": own_authority.ending_soon(ctx, settings_of(ctx)),
    }
    return [Problem(path, text, of_cluster=True) for path, text in told.items() if text]


@hookimpl
def diagnose(ctx: OwnerContext) -> Sequence[str]:
    if not _secured(ctx) or not _own(ctx):
        return []
    return own_authority.troubles(ctx, own_authority.read(ctx, settings_of(ctx)), settings_of(ctx))


def _secured(owner: OwnerContext) -> bool:
    return owner.kind == RAYCLUSTER and (owner.spec.get("tlsOptions") or {}).get("enabled") is True


def _own(owner: OwnerContext) -> bool:
    """Whether certificates are signed by an authority of the RayCluster's own. One that has certificates stays with who signed
    them, whatever the settings say now: pods of two authorities would not talk to each other."""
    if cert_manager.exists(owner):
        return False
    return own_authority.exists(owner) or settings_of(owner).issuer == "own"
