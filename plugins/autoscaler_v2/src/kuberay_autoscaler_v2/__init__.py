"""The in-tree Ray autoscaler, v1 and v2: a sidecar of the head, and an account that may change its RayCluster.

Acts on RayClusters with ``spec.enableInTreeAutoscaling: true`` only. Source: spec plugins.md 10, raycluster.md 3.11, 6.2.
"""

from __future__ import annotations

from collections.abc import Sequence

from kuberay.api.kinds import RAYCLUSTER, ROLE, ROLE_BINDING, SERVICE_ACCOUNT
from kuberay.api.names import COMPONENT, LABEL_CREATED_BY
from kuberay.hooks import OwnerContext, PodContext, PolicyRule, Problem, Wait, Watch, hookimpl
from kuberay.hooks.types import Manifest

from kuberay_autoscaler_v2 import access, pod_changes
from kuberay_autoscaler_v2.config import AutoscalerSettings, settings_of

kuberay_hook_api = (1, 0)


@hookimpl
def settings() -> type[AutoscalerSettings]:
    return AutoscalerSettings


@hookimpl
def rbac_rules() -> Sequence[PolicyRule]:
    """What the operator needs to make the three objects, and all that it grants with them."""
    verbs = ("create", "get", "list", "patch", "watch")
    return [
        PolicyRule(("",), (SERVICE_ACCOUNT.plural,), verbs),
        PolicyRule((ROLE.group,), (ROLE.plural, ROLE_BINDING.plural), verbs),
        *(PolicyRule(rule["apiGroups"], rule["resources"], rule["verbs"]) for rule in access.RULES),
    ]


@hookimpl
def watches() -> Sequence[Watch]:
    """A ServiceAccount of that name which somebody else made stays theirs; Role and RoleBinding are kept up to date."""
    ours = f"{LABEL_CREATED_BY}={COMPONENT}"
    return [
        Watch(SERVICE_ACCOUNT, ours, create_only=True),
        Watch(ROLE, ours),
        Watch(ROLE_BINDING, ours),
    ]


@hookimpl
def warn(ctx: OwnerContext) -> Sequence[Problem]:
    """A pod has one account: where Ray itself shows tokens of it, they cannot be the autoscaler's alone."""
    cluster = ctx.cluster_spec or {}
    auth = cluster.get("authOptions") or {}
    shown = auth.get("mode") == "token" and auth.get("enableK8sTokenAuth") is True
    shown = shown and cluster.get("enableInTreeAutoscaling") is True
    if not shown or not settings_of(ctx.settings).least_privilege:
        return []
    told = (
        "gives every Ray container of the head a token of the autoscaler's account, so code on the head can act as the "
        "autoscaler; its role is limited all the same"
    )
    return [Problem(f"{ctx.cluster_path}.authOptions.enableK8sTokenAuth", told)]


@hookimpl
def pre_create_pods(ctx: OwnerContext) -> Sequence[Manifest] | Wait | None:
    if not _autoscaled(ctx):
        return None
    return access.account_wait(ctx) or access.objects(ctx)


@hookimpl
def ray_start_params(ctx: PodContext) -> dict[str, str]:
    """The head must not run a monitor of its own beside the sidecar."""
    return {"no-monitor": "true"} if _autoscaled(ctx.owner) and ctx.node_type == "head" else {}


@hookimpl
def mutate_pod(ctx: PodContext, pod: Manifest) -> Manifest | None:
    if not _autoscaled(ctx.owner) or ctx.node_type == "submitter":
        return None
    if ctx.node_type == "head":
        pod_changes.change_head(ctx.owner, pod)
    if pod_changes.version(ctx.owner) == "v2":
        pod["spec"]["restartPolicy"] = "Never"
    return pod


def _autoscaled(owner: OwnerContext) -> bool:
    return owner.kind == RAYCLUSTER and owner.spec.get("enableInTreeAutoscaling") is True
