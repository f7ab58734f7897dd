"""``kuberay webhooks`` and the permissions that go with it."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml
from kuberay.cli.main import app
from typer.testing import CliRunner


def kuberay(*arguments: str) -> list[dict[str, Any]]:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return list(yaml.safe_load_all(result.stdout))


def test_what_is_printed_is_kuberays_with_a_webhook_more() -> None:
    """Source: spec operator.md 10."""
    service, validating = kuberay("webhooks", "--namespace=sys")
    assert service["spec"]["ports"][0]["targetPort"] == 9443
    assert service["metadata"]["namespace"] == "sys"
    assert [each["name"] for each in validating["webhooks"]] == [
        "vraycluster.kb.io",
        "vrayjob.kb.io",
        "vrayservice.kb.io",
        "vraycronjob.kb.io",
    ]
    first = validating["webhooks"][0]
    assert first["clientConfig"] == {
        "service": {
            "name": "kuberay-operator-webhook",
            "namespace": "sys",
            "path": "/validate-ray-io-v1-raycluster",
            "port": 443,
        }
    }
    assert (first["failurePolicy"], first["sideEffects"], first["admissionReviewVersions"]) == ("Fail", "None", ["v1"])
    (rule,) = first["rules"]
    assert (rule["operations"], rule["apiVersions"], rule["resources"]) == (
        ["CREATE", "UPDATE"],
        ["v1"],
        ["rayclusters"],
    )
    assert "namespaceSelector" not in first


def test_options(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("PEM")
    service, validating, mutating = kuberay(
        "webhooks",
        "--webhook-name=mine",
        "--webhook-port=8443",
        "--watch-namespace=a, b",
        "--failure-policy=Ignore",
        "--timeout-seconds=3",
        "--defaulting",
        f"--ca-file={tmp_path}/ca.pem",
    )
    assert {each["metadata"]["name"] for each in (service, validating, mutating)} == {"mine"}
    assert service["spec"]["ports"][0]["targetPort"] == 8443
    for webhook in (*validating["webhooks"], *mutating["webhooks"]):
        assert webhook["timeoutSeconds"] == 3
        assert webhook["failurePolicy"] == "Ignore"
        assert webhook["namespaceSelector"]["matchExpressions"][0]["values"] == ["a", "b"]
        assert base64.b64decode(webhook["clientConfig"]["caBundle"]) == b"PEM"
    assert mutating["webhooks"][1]["name"] == "mrayjob.kb.io"
    assert mutating["webhooks"][1]["clientConfig"]["service"]["path"] == "/mutate-ray-io-v1-rayjob"


def test_defaults_never_keep_anything_from_being_stored() -> None:
    (_, validating, mutating) = kuberay("webhooks", "--defaulting")
    assert {each["failurePolicy"] for each in validating["webhooks"]} == {"Fail"}
    assert {each["failurePolicy"] for each in mutating["webhooks"]} == {"Ignore"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--failure-policy=Maybe"], "must be Fail or Ignore"),
        (["--webhook-name=Not.A.Name"], "webhook_name"),
        (["--ca-file=/no/such/file"], "/no/such/file"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(arguments: list[str], sentence: str) -> None:
    result = CliRunner().invoke(app, ["webhooks", *arguments])
    assert result.exit_code == 1
    assert sentence in result.stderr


@pytest.mark.parametrize(
    ("arguments", "granted"),
    [
        ([], False),
        (["--enable-webhooks"], False),
        (["--webhook-certificates=self"], False),
        (["--enable-webhooks", "--webhook-certificates=self", "--webhook-name=mine"], True),
    ],
)
def test_permissions_only_for_certificates_of_its_own_and_by_name(arguments: list[str], granted: bool) -> None:
    made = kuberay("rbac", "--namespace=sys", *arguments)
    roles = {each["kind"]: each for each in made if each["metadata"]["name"] == "kuberay-operator-webhooks"}
    assert set(roles) == ({"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"} if granted else set())
    if granted:
        assert roles["Role"]["metadata"]["namespace"] == "sys"
        by_name, create = roles["Role"]["rules"]
        assert by_name == {
            "apiGroups": [""],
            "resources": ["secrets"],
            "verbs": ["get", "update"],
            "resourceNames": ["mine-certificates"],
        }
        assert create["verbs"] == ["create"]
        (configurations,) = roles["ClusterRole"]["rules"]
        assert (configurations["verbs"], configurations["resourceNames"]) == (["get", "patch"], ["mine"])
