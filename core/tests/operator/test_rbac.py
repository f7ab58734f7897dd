"""The permissions that ``kuberay rbac`` prints: least privilege, cluster-wide or per namespace."""

from __future__ import annotations

from typing import Any

import pytest
from kuberay.hooks.types import PolicyRule
from kuberay.operator.rbac import CORE_RULES, ELECTION_RULES, rbac_manifests

EXTRA = PolicyRule(("x.io",), ("things",), ("get",))


def names(manifests: list[dict[str, Any]]) -> list[str]:
    return [f"{m['kind']} {m['metadata'].get('namespace', '-')}/{m['metadata']['name']}" for m in manifests]


def rules(manifests: list[dict[str, Any]], kind: str, namespace: str = "") -> list[dict[str, Any]]:
    (role,) = [
        m
        for m in manifests
        if m["kind"] == kind
        and m["metadata"]["name"] == "kuberay-operator"
        and m["metadata"].get("namespace", "") == namespace
    ]
    found: list[dict[str, Any]] = role["rules"]
    return found


def test_cluster_wide() -> None:
    manifests = rbac_manifests(namespace="sys")
    assert names(manifests) == [
        "ServiceAccount sys/kuberay-operator",
        "Role sys/kuberay-operator-leader-election",
        "RoleBinding sys/kuberay-operator-leader-election",
        "ClusterRole -/kuberay-operator",
        "ClusterRoleBinding -/kuberay-operator",
    ]
    binding = manifests[-1]
    assert binding["roleRef"] == {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "kuberay-operator",
    }
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "kuberay-operator", "namespace": "sys"}]


def test_per_watched_namespace() -> None:
    manifests = rbac_manifests(namespace="sys", watch_namespaces=["a", "b"])
    assert names(manifests)[3:] == [
        "Role a/kuberay-operator",
        "RoleBinding a/kuberay-operator",
        "Role b/kuberay-operator",
        "RoleBinding b/kuberay-operator",
    ]
    assert not [name for name in names(manifests) if name.startswith("Cluster")]
    assert rules(manifests, "Role", "a") == rules(rbac_manifests(namespace="sys"), "ClusterRole")
    assert manifests[-1]["subjects"][0]["namespace"] == "sys"


@pytest.mark.parametrize("proxy", [True, False])
def test_the_proxy_is_granted_only_where_it_is_used(proxy: bool) -> None:
    granted = rules(rbac_manifests(namespace="sys", proxy=proxy), "ClusterRole")
    verbs = {resource: set(rule["verbs"]) for rule in granted for resource in rule["resources"]}
    wanted = {"services/proxy": {"get", "create", "update"}, "pods/proxy": {"get"}} if proxy else {}
    assert {resource: verbs[resource] for resource in verbs if resource.endswith("/proxy")} == wanted


def test_rayservices_are_never_made_or_deleted_and_endpoints_only_read() -> None:
    granted = rules(rbac_manifests(namespace="sys"), "ClusterRole")
    verbs = {resource: set(rule["verbs"]) for rule in granted for resource in rule["resources"]}
    assert verbs["rayservices"] == {"get", "list", "watch", "patch"}
    assert verbs["rayservices/status"] == {"patch"}
    assert verbs["rayservices/finalizers"] == {"update"}
    assert verbs["endpointslices"] == {"list", "watch"}


def test_plugin_rules_are_added_to_the_core_rules() -> None:
    plain = rules(rbac_manifests(namespace="sys"), "ClusterRole")
    more = rules(rbac_manifests(namespace="sys", plugin_rules=[EXTRA]), "ClusterRole")
    assert more == [*plain, {"apiGroups": ["x.io"], "resources": ["things"], "verbs": ["get"]}]


@pytest.mark.parametrize("rule", [*CORE_RULES, *ELECTION_RULES], ids=str)
def test_nothing_is_granted_by_a_star_and_nothing_that_is_not_needed(rule: PolicyRule) -> None:
    assert not {"*"} & {*rule.api_groups, *rule.resources, *rule.verbs}
    assert not {"bind", "escalate", "impersonate", "deletecollection"} & set(rule.verbs)
    if "secrets" in rule.resources:
        assert set(rule.verbs) == {"get", "list", "watch", "create"}, "never changed, never deleted"


def test_election_needs_one_role_in_the_operators_namespace() -> None:
    manifests = rbac_manifests(namespace="sys")
    assert manifests[1]["rules"] == [
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]},
        {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
    ]


@pytest.mark.parametrize("watched", [[], ["a", "c"]])
def test_secrets_in_some_namespaces_only(watched: list[str]) -> None:
    """Also where a rule of a plugin names them beside something else."""
    mixed = PolicyRule(("", "x.io"), ("secrets", "things"), ("patch",))
    manifests = rbac_manifests(namespace="sys", plugin_rules=[mixed], watch_namespaces=watched, secret_namespaces=["a"])
    of_secrets = [m for m in manifests if m["kind"] == "Role" and m["metadata"]["name"] == "kuberay-operator-secrets"]
    assert [m["metadata"]["namespace"] for m in of_secrets] == ["a"]
    assert {r for rule in of_secrets[0]["rules"] for r in rule["resources"]} == {"secrets"}
    assert {verb for rule in of_secrets[0]["rules"] for verb in rule["verbs"]} == {
        *("get", "list", "watch", "create", "patch")
    }
    for manifest in manifests:
        if manifest not in of_secrets:
            assert "secrets" not in {r for rule in manifest.get("rules", ()) for r in rule["resources"]}
    other = rules(manifests, "Role", "c") if watched else rules(manifests, "ClusterRole")
    assert other[-1]["resources"] == ["things"]
    nowhere = rbac_manifests(namespace="sys", secret_namespaces=[])
    assert "secrets" not in str(nowhere)
