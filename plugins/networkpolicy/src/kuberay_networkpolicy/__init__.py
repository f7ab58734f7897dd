"""Network isolation of RayClusters by ``spec.networkPolicy``: their NetworkPolicies exist before their pods do.

Source: spec plugins.md 11, cases.md NP-01 and NP-05. The gate ``RayClusterNetworkPolicy`` is the core's.
"""

from __future__ import annotations

from collections.abc import Sequence

from kuberay.api.gates import NETWORK_POLICY as GATE
from kuberay.api.kinds import NETWORK_POLICY, RAYCLUSTER
from kuberay.api.names import COMPONENT, LABEL_CREATED_BY
from kuberay.hooks import FinishContext, OwnerContext, PolicyRule, Problem, Watch, hookimpl
from kuberay.hooks.types import Manifest

from kuberay_networkpolicy import policies, presets
from kuberay_networkpolicy.config import NetworkPolicySettings

kuberay_hook_api = (1, 0)


@hookimpl
def settings() -> type[NetworkPolicySettings]:
    return NetworkPolicySettings


@hookimpl
def rbac_rules() -> Sequence[PolicyRule]:
    verbs = ("create", "delete", "get", "list", "patch", "watch")
    return [PolicyRule((NETWORK_POLICY.group,), (NETWORK_POLICY.plural,), verbs)]


@hookimpl
def watches() -> Sequence[Watch]:
    return [Watch(NETWORK_POLICY, f"{LABEL_CREATED_BY}={COMPONENT}", prune=True)]


@hookimpl
def validate(ctx: OwnerContext) -> Sequence[Problem]:
    """A misspelt preset would lock somebody out without a word."""
    unknown = presets.unknown_presets(ctx) if _acts_on(ctx) and ctx.spec.get("networkPolicy") is not None else []
    if not unknown:
        return []
    known = ", ".join(presets.PRESETS)
    return [
        Problem(
            f"metadata.annotations[{presets.ANNOTATION}]",
            f"names {unknown[0]!r}, which is no preset: use a comma-separated list of {known}, or none",
        )
    ]


@hookimpl
def pre_create_pods(ctx: OwnerContext) -> Sequence[Manifest] | None:
    return policies.wanted(ctx) if _acts_on(ctx) else None


@hookimpl
def finish(ctx: FinishContext) -> Sequence[Manifest] | None:
    """The pods of a cluster that is being suspended still run for a while."""
    return policies.wanted(ctx.owner) if ctx.reason == "Suspended" and _acts_on(ctx.owner) else None


def _acts_on(owner: OwnerContext) -> bool:
    return owner.kind == RAYCLUSTER and owner.gates.get(GATE, False)
