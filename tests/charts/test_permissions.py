"""Permissions of the chart are those that ``kuberay rbac`` prints for the same settings: each one that is needed, and no other.

HE-01: for every way of installing, in every watched namespace, and nothing that is cluster-wide where namespaces are named.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from helm import OPERATOR, Helm, Manifest, arguments, of_kind, started_with
from kuberay.api.shipped import PACKAGES
from kuberay.cli.main import app
from typer.testing import CliRunner

Grants = set[tuple[str, str, str, str]]
"""Namespace (empty: everywhere), API group, resource, verb."""

PLUGINS: list[dict[str, Any]] = [{"plugins": {name: {"enabled": True}}} for name in sorted(PACKAGES)]


def granted(manifests: list[Manifest], account: str) -> Grants:
    """What roles that are bound to the *account* allow."""
    roles = {
        (kind, role["metadata"].get("namespace", ""), role["metadata"]["name"]): role["rules"]
        for kind in ("Role", "ClusterRole")
        for role in of_kind(manifests, kind)
    }
    found: Grants = set()
    for kind in ("RoleBinding", "ClusterRoleBinding"):
        for binding in of_kind(manifests, kind):
            assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": "ns"}]
            namespace = binding["metadata"].get("namespace", "")
            reference = binding["roleRef"]
            where = namespace if reference["kind"] == "Role" else ""
            for rule in roles[reference["kind"], where, reference["name"]]:
                for group in rule["apiGroups"]:
                    found |= {(namespace, group, r, verb) for r in rule["resources"] for verb in rule["verbs"]}
    return found


def wanted(manifests: list[Manifest], folder: Path) -> Grants:
    """What ``kuberay rbac`` prints for the configuration of these *manifests*."""
    words = arguments(manifests, folder)
    assert words[0] == "--config"
    result = CliRunner().invoke(app, ["rbac", "--namespace=ns", *words])
    assert result.exit_code == 0, result.output
    return granted(list(yaml.safe_load_all(result.stdout)), "kuberay-operator")


@pytest.mark.parametrize(
    "values",
    [
        {},
        *PLUGINS,
        {"plugins": {"autoscaler-v2": {"enabled": False}, "gateway-upgrade": {"enabled": False}}},
        {"batchScheduler": {"name": "volcano"}},
        {"batchScheduler": {"enabled": True}},
        {"featureGates": [{"name": "RayClusterMTLS", "enabled": True}]},
        {"featureGates": [{"name": "AllAlpha", "enabled": True}]},
        {"useKubernetesProxy": True},
        {"singleNamespaceInstall": True},
        {"singleNamespaceInstall": True, "crNamespacedRbacEnable": True, "watchNamespace": ["a", "b"]},
        {"watchNamespace": ["a", "b"], "plugins": {"networkpolicy": {"enabled": True}}},
        {"configuration": {"secretNamespaces": ""}},
        {"configuration": {"secretNamespaces": "a, b"}, "plugins": {"mtls": {"enabled": True}}},
        {"configuration": {"secretNamespaces": "b,c"}, "watchNamespace": ["a", "b"]},
        {"configuration": {"secretNamespaces": "*"}, "singleNamespaceInstall": True},
    ],
    ids=str,
)
def test_permissions_are_those_that_the_operator_needs(helm: Helm, values: dict[str, Any], tmp_path: Path) -> None:
    """HE-01."""
    made = helm.template(OPERATOR, values | {"configuration": {"enabled": True, **values.get("configuration", {})}})
    assert granted(made, "kuberay-operator") == wanted(made, tmp_path)
    if values.get("singleNamespaceInstall"):
        assert [m["kind"] for m in made if m["kind"].startswith("Cluster")] == []


def test_no_permission_without_the_feature(helm: Helm) -> None:
    def groups(values: dict[str, Any]) -> set[str]:
        return {group for _, group, _, _ in granted(helm.template(OPERATOR, values), "kuberay-operator")}

    own = {"scheduling.volcano.sh", "scheduling.x-k8s.io", "cert-manager.io", "scheduling.k8s.io"}
    assert not groups({}) & own
    assert groups({"plugins": {"volcano": {"enabled": True}}}) & own == {"scheduling.volcano.sh"}
    assert "coordination.k8s.io" not in groups({"leaderElectionEnabled": False})
    assert "gateway.networking.k8s.io" not in groups({"plugins": {"gateway-upgrade": {"enabled": False}}})


def test_secrets_where_they_are_wanted(helm: Helm) -> None:
    """Also those of plugins of others, whose rules Helm is told."""
    rule = {"apiGroups": ["", "acme.example"], "resources": ["secrets", "quotas"], "verbs": ["patch"]}
    values = {
        "configuration": {"secretNamespaces": "team"},
        "plugins": {"mtls": {"enabled": True}, "extra": [{"name": "acme", "rules": [rule]}]},
    }
    made = helm.template(OPERATOR, values)
    grants = granted(made, "kuberay-operator")
    secrets = {(where, verb) for where, group, resource, verb in grants if (group, resource) == ("", "secrets")}
    assert secrets == {("team", verb) for verb in ("get", "list", "watch", "create", "patch")}
    assert ("", "acme.example", "quotas", "patch") in grants
    assert started_with(made).secrets_in == ["team"]
    nothing = helm.template(OPERATOR, {"configuration": {"secretNamespaces": ""}})
    assert "secrets" not in {resource for _, _, resource, _ in granted(nothing, "kuberay-operator")}
    assert started_with(nothing).secrets_in == []


def test_roles_of_namespaces_that_others_make(helm: Helm) -> None:
    values = {"singleNamespaceInstall": True, "crNamespacedRbacEnable": False, "watchNamespace": ["a"]}
    assert {where for where, *_ in granted(helm.template(OPERATOR, values), "kuberay-operator")} == {"ns"}
