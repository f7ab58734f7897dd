"""As whom the autoscaler acts and what it may do: ServiceAccount, Role and RoleBinding of a RayCluster.

Source: spec plugins.md 10.3, raycluster.md 2.4 and 6.2.
"""

from __future__ import annotations

from typing import Any

from kuberay.api.kinds import ROLE, ROLE_BINDING, SERVICE_ACCOUNT, Kind
from kuberay.api.names import APP_NAME, COMPONENT, LABEL_APP_NAME, LABEL_CLUSTER, LABEL_CREATED_BY, check_name
from kuberay.hooks import OwnerContext, Wait
from kuberay.hooks.types import Manifest

from kuberay_autoscaler_v2.config import settings_of

RULES: tuple[dict[str, list[str]], ...] = (
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "patch"]},
    {"apiGroups": [""], "resources": ["pods/resize"], "verbs": ["patch"]},
    {"apiGroups": ["ray.io"], "resources": ["rayclusters"], "verbs": ["get", "patch"]},
)
"""What an autoscaler may do in its namespace, as KubeRay grants it."""

ANNOTATION_RESIZE = "ray.io/ippr"
"""On a RayCluster: its autoscaler resizes pods in place, for which alone it changes pods."""


def named_account(ctx: OwnerContext) -> str:
    """The ServiceAccount the user's head template names, or an empty string."""
    template = (ctx.spec.get("headGroupSpec") or {}).get("template") or {}
    return (template.get("spec") or {}).get("serviceAccountName") or ""


def account(ctx: OwnerContext) -> str:
    """The head pod's account: the user's as it is written, else one named after the cluster."""
    return named_account(ctx) or check_name(ctx.name)


def account_wait(ctx: OwnerContext) -> Wait | None:
    """Why pods must wait for the account the user named, or None. Such an account is the user's to create."""
    name = named_account(ctx)
    if not name:
        return None
    found = ctx.lookup(SERVICE_ACCOUNT, ctx.namespace, name)
    if found is None:
        return Wait(f"Checking whether ServiceAccount {name} exists")
    if found:
        return None
    return Wait(
        f"Failed to reconcile RayCluster {ctx.namespace}/{ctx.name}. If users specify ServiceAccountName for the head "
        f"Pod, they need to create a ServiceAccount themselves. However, ServiceAccount {name} is not found. Please "
        "create one. See the PR description of https://github.com/ray-project/kuberay/pull/1128 for more details.",
        event="AutoscalerServiceAccountNotFound",
    )


def objects(ctx: OwnerContext) -> list[Manifest]:
    """Account (unless the user named one), role and binding."""
    name = check_name(ctx.name)
    role = _object(ctx, ROLE, name, rules=_rules(ctx))
    binding = _object(
        ctx,
        ROLE_BINDING,
        name,
        subjects=[{"kind": "ServiceAccount", "name": account(ctx), "namespace": ctx.namespace}],
        roleRef={"apiGroup": ROLE.group, "kind": ROLE.kind, "name": name},
    )
    if named_account(ctx):
        return [role, binding]
    return [_object(ctx, SERVICE_ACCOUNT, name), role, binding]


def _rules(ctx: OwnerContext) -> list[dict[str, list[str]]]:
    """With least privilege the one RayCluster, and pods to be read: whoever may patch pods of a namespace may put programs
    of his own into all of them. RBAC knows no labels, so pods of other clusters can be read as well."""
    if not settings_of(ctx.settings).least_privilege:
        return [dict(rule) for rule in RULES]
    pods, resize, clusters = (dict(rule) for rule in RULES)
    clusters["resourceNames"] = [ctx.name]
    if ANNOTATION_RESIZE in ctx.annotations:
        return [pods, resize, clusters]
    return [{**pods, "verbs": [verb for verb in pods["verbs"] if verb != "patch"]}, clusters]


def _object(ctx: OwnerContext, kind: Kind, name: str, **content: Any) -> Manifest:
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {
            "name": name,
            "namespace": ctx.namespace,
            "labels": {LABEL_CLUSTER: ctx.name, LABEL_APP_NAME: APP_NAME, LABEL_CREATED_BY: COMPONENT},
            "ownerReferences": [ctx.owner_reference],
        },
        **content,
    }
