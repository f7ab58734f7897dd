"""The manifests that users are given: samples turn into what they promise, and the operator's pod has no rights it can do without."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from dev.demo import install, workload

ROOT = Path(__file__).resolve().parents[2]


def rendered(path: Path) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "kuberay.cli.main", "render", "-f", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


@pytest.mark.parametrize(
    ("sample", "kinds"),
    [
        ("raycluster-autoscaler.yaml", ["Pod", "Pod", "Role", "RoleBinding", "Service", "ServiceAccount"]),
        ("rayjob.yaml", ["Job", "Pod", "Pod", "RayCluster", "Service", "Service"]),
    ],
)
def test_a_sample_turns_into_all_its_children(sample: str, kinds: list[str]) -> None:
    assert sorted(child["kind"] for child in rendered(ROOT / "config" / "samples" / sample)) == kinds


def test_samples_take_another_ray_image_and_its_version() -> None:
    text = workload.sample("rayjob.yaml", "registry.example.test/ray:2.61.3-py312")
    images = {line.split()[-1] for line in text.splitlines() if "image:" in line}
    assert images == {"registry.example.test/ray:2.61.3-py312"}
    assert 'rayVersion: "2.61.3"' in text
    assert 'rayVersion: "2.60.0"' in workload.sample("rayjob.yaml", "registry.example.test/ray:latest")


def test_the_operators_pod_has_no_rights_it_can_do_without() -> None:
    (deployment,) = (m for m in install.deployment("example.test/operator:1") if m["kind"] == "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == "example.test/operator:1"
    assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert (
        deployment["spec"]["selector"]["matchLabels"].items()
        <= deployment["spec"]["template"]["metadata"]["labels"].items()
    )


def test_the_operators_pod_runs_as_the_account_that_has_the_permissions() -> None:
    permissions = list(yaml.safe_load_all((ROOT / "config" / "rbac" / "operator.yaml").read_text()))
    accounts = [
        (m["metadata"]["name"], m["metadata"]["namespace"]) for m in permissions if m["kind"] == "ServiceAccount"
    ]
    (deployment,) = (m for m in install.deployment("image") if m["kind"] == "Deployment")
    account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
    assert accounts == [(account, deployment["metadata"]["namespace"])]


def test_no_permission_is_a_wildcard() -> None:
    permissions = yaml.safe_load_all((ROOT / "config" / "rbac" / "operator.yaml").read_text())
    rules = [rule for manifest in permissions for rule in manifest.get("rules", [])]
    assert len(rules) > 5
    assert [rule for rule in rules if "*" in (*rule["apiGroups"], *rule["resources"], *rule["verbs"])] == []
