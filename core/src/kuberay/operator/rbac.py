"""The permissions the operator needs, and no more: core rules beside what uses them, plus those of enabled plugins.

``kuberay rbac`` prints them, the demo and the charts install them, and a test holds them against the calls really made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kuberay.api.kinds import SECRET
from kuberay.api.names import APP_NAME, COMPONENT
from kuberay.hooks.types import PolicyRule

Manifest = dict[str, Any]

READ = ("get", "list", "watch")

CORE_RULES: tuple[PolicyRule, ...] = (
    # Ray kinds: watched; RayJobs and RayServices create, edit and delete their clusters, and
    # finalizers are patched.
    PolicyRule(("ray.io",), ("rayclusters", "rayjobs"), (*READ, "create", "patch", "delete")),
    # RayServices are given finalizers.
    PolicyRule(("ray.io",), ("rayservices",), (*READ, "patch")),
    # RayCronJobs are read only; their RayJobs are created and deleted.
    PolicyRule(("ray.io",), ("raycronjobs",), READ),
    PolicyRule(
        ("ray.io",),
        ("rayclusters/status", "rayjobs/status", "rayservices/status", "raycronjobs/status"),
        ("patch",),
    ),
    # Owner references with blockOwnerDeletion need this where OwnerReferencesPermissionEnforcement is on.
    PolicyRule(
        ("ray.io",),
        ("rayclusters/finalizers", "rayjobs/finalizers", "rayservices/finalizers", "raycronjobs/finalizers"),
        ("update",),
    ),
    PolicyRule(("",), ("pods",), (*READ, "create", "delete", "patch")),
    # Rolling upgrades that only change CPU or memory.
    PolicyRule(("",), ("pods/resize",), ("patch",)),
    PolicyRule(("",), ("services",), (*READ, "create", "patch", "delete")),
    # How many pods are behind the serve service of a RayService.
    PolicyRule(("discovery.k8s.io",), ("endpointslices",), ("list", "watch")),
    # A submitter that must not submit any more is suspended.
    PolicyRule(("batch",), ("jobs",), (*READ, "create", "patch", "delete")),
    # Token Secrets are made where absent, and those labelled ray.io/cluster watched so that a deleted one comes back.
    # Of what is listed only metadata is kept, and the content of what plugins made for themselves (label ray.io/plugin);
    # tokens for dashboards are read one by one.
    PolicyRule(("",), ("secrets",), (*READ, "create")),
    PolicyRule(("",), ("persistentvolumeclaims",), (*READ, "create", "patch")),
    PolicyRule(("networking.k8s.io",), ("ingresses",), (*READ, "create", "patch", "delete")),
    # Used on OpenShift only.
    PolicyRule(("route.openshift.io",), ("routes",), (*READ, "create", "patch", "delete")),
    PolicyRule(("policy",), ("poddisruptionbudgets",), (*READ, "create", "patch", "delete")),
    PolicyRule(("events.k8s.io",), ("events",), ("create", "patch")),
)
"""Rules of the ClusterRole, or of one Role per watched namespace."""

PROXY_RULES: tuple[PolicyRule, ...] = (
    # Dashboards take jobs by POST and Serve configurations by PUT.
    PolicyRule(("",), ("services/proxy",), ("get", "create", "update")),
    # Health of Serve's proxies.
    PolicyRule(("",), ("pods/proxy",), ("get",)),
)
"""Only with ``useKubernetesProxy``."""

ELECTION_RULES: tuple[PolicyRule, ...] = (
    PolicyRule(("coordination.k8s.io",), ("leases",), ("get", "create", "update")),
    # What the operator tells of itself: that its configuration file was refused, or needs a restart.
    PolicyRule(("events.k8s.io",), ("events",), ("create", "patch")),
)
"""Rules of the Role in the operator's own namespace."""


def rbac_manifests(
    *,
    namespace: str,
    plugin_rules: Sequence[PolicyRule] = (),
    watch_namespaces: Sequence[str] = (),
    name: str = COMPONENT,
    proxy: bool = False,
    secret_namespaces: Sequence[str] | None = None,
    own_certificates: str = "",
) -> list[Manifest]:
    """ServiceAccount, Role for the Lease, and the operator's rules cluster-wide or per watched namespace. Those for Secrets are
    among them, or with *secret_namespaces* in a Role in each of these. *own_certificates*: ``webhookName``, of an operator that
    makes certificates for its webhooks."""
    rules = [*CORE_RULES, *(PROXY_RULES if proxy else ()), *plugin_rules]
    manifests = [
        _object("v1", "ServiceAccount", name, namespace),
        _role("Role", f"{name}-leader-election", namespace, ELECTION_RULES),
        _binding("Role", f"{name}-leader-election", namespace, name, namespace),
    ]
    if own_certificates:
        here, everywhere = certificate_rules(own_certificates)
        manifests += [
            {**_object("rbac.authorization.k8s.io/v1", "Role", f"{name}-webhooks", namespace), "rules": here},
            _binding("Role", f"{name}-webhooks", namespace, name, namespace),
            {**_object("rbac.authorization.k8s.io/v1", "ClusterRole", f"{name}-webhooks", ""), "rules": everywhere},
            _binding("ClusterRole", f"{name}-webhooks", "", name, namespace),
        ]
    if secret_namespaces is not None:
        rules, of_secrets = apart(rules)
        for place in secret_namespaces:
            manifests += [
                _role("Role", f"{name}-secrets", place, of_secrets),
                _binding("Role", f"{name}-secrets", place, name, namespace),
            ]
    if not watch_namespaces:
        return [*manifests, _role("ClusterRole", name, "", rules), _binding("ClusterRole", name, "", name, namespace)]
    for watched in watch_namespaces:
        manifests += [_role("Role", name, watched, rules), _binding("Role", name, watched, name, namespace)]
    return manifests


def certificate_rules(webhook_name: str) -> tuple[list[Manifest], list[Manifest]]:
    """What certificates of its own need (``webhookCertificates: self``): in the operator's namespace, and cluster-wide. Only that
    one Secret and these two configurations; to make a Secret cannot be granted by name."""
    configurations = ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"]
    here = [
        {
            "apiGroups": [""],
            "resources": ["secrets"],
            "verbs": ["get", "update"],
            "resourceNames": [f"{webhook_name}-certificates"],
        },
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
    ]
    everywhere = [
        {
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": configurations,
            "verbs": ["get", "patch"],
            "resourceNames": [webhook_name],
        }
    ]
    return here, everywhere


def apart(rules: Sequence[PolicyRule]) -> tuple[list[PolicyRule], list[PolicyRule]]:
    """The rules without Secrets, and those for Secrets alone."""
    others: list[PolicyRule] = []
    secrets: list[PolicyRule] = []
    for rule in rules:
        of_secrets = [r for r in rule.resources if r == SECRET.plural and "" in rule.api_groups]
        rest = [r for r in rule.resources if r not in of_secrets]
        others += [replace(rule, resources=rest)] if rest else []
        secrets += [replace(rule, resources=of_secrets)] if of_secrets else []
    return others, secrets


def _object(api_version: str, kind: str, name: str, namespace: str) -> Manifest:
    metadata: Manifest = {
        "name": name,
        "labels": {"app.kubernetes.io/name": COMPONENT, "app.kubernetes.io/part-of": APP_NAME},
    }
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def _role(kind: str, name: str, namespace: str, rules: Sequence[PolicyRule]) -> Manifest:
    return {
        **_object("rbac.authorization.k8s.io/v1", kind, name, namespace),
        "rules": [
            {"apiGroups": list(r.api_groups), "resources": list(r.resources), "verbs": list(r.verbs)} for r in rules
        ],
    }


def _binding(kind: str, name: str, namespace: str, account: str, account_namespace: str) -> Manifest:
    return {
        **_object("rbac.authorization.k8s.io/v1", f"{kind}Binding", name, namespace),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": account_namespace}],
    }
