"""Webhooks in the chart: objects by values, what the operator is told, permissions, and that ``kuberay webhooks`` says the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from helm import OPERATOR, Helm, HelmError, Manifest, arguments, container, of_kind, started_with
from kuberay.cli.main import app
from typer.testing import CliRunner

NAME = "kuberay-operator-webhook"
ON: dict[str, Any] = {"webhooks": {"enabled": True}}
KINDS = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")


def on(**values: Any) -> dict[str, Any]:
    return {"webhooks": {"enabled": True, **values}}


def webhooks(made: list[Manifest], kind: str = KINDS[0]) -> list[Manifest]:
    (configuration,) = of_kind(made, kind)
    found: list[Manifest] = configuration["webhooks"]
    return found


def printed(*words: str) -> list[Manifest]:
    result = CliRunner().invoke(app, ["webhooks", "--namespace=ns", *words])
    assert result.exit_code == 0, result.output
    return list(yaml.safe_load_all(result.stdout))


def test_off_by_default(helm: Helm) -> None:
    made = helm.template(OPERATOR)
    assert not [manifest for kind in KINDS for manifest in of_kind(made, kind)]
    assert [service["metadata"]["name"] for service in of_kind(made, "Service")] == ["kuberay-operator"]
    assert started_with(made).enable_webhooks is False
    assert not [role for role in of_kind(made, "ClusterRole") if role["metadata"]["name"].endswith("-webhooks")]


@pytest.mark.parametrize("as_file", [True, False], ids=["file", "flags"])
@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, []),
        ({"failurePolicy": "Ignore", "timeoutSeconds": 3}, ["--failure-policy=Ignore", "--timeout-seconds=3"]),
        ({"defaulting": {"enabled": True}, "port": 8443}, ["--defaulting"]),
    ],
)
def test_the_objects_are_those_that_kuberay_webhooks_prints(
    helm: Helm, tmp_path: Path, values: dict[str, Any], words: list[str], as_file: bool
) -> None:
    """For the operator that the chart starts."""
    made = helm.template(OPERATOR, on(**values) | {"configuration": {"enabled": True}})
    told = printed(*words, *arguments(made, tmp_path)[:2])
    if not as_file:
        made = helm.template(OPERATOR, on(**values))
    for kind in KINDS:
        ours, theirs = of_kind(made, kind), of_kind(told, kind)
        assert [each["metadata"]["name"] for each in ours] == [each["metadata"]["name"] for each in theirs]
        assert [each["webhooks"] for each in ours] == [each["webhooks"] for each in theirs]
    (service,) = [each for each in of_kind(made, "Service") if each["metadata"]["name"] == NAME]
    (wanted,) = of_kind(told, "Service")
    assert service["spec"]["ports"] == wanted["spec"]["ports"]
    settings = started_with(made)
    (deployment,) = of_kind(made, "Deployment")
    assert service["spec"]["selector"].items() <= deployment["spec"]["template"]["metadata"]["labels"].items()
    port = {"name": "webhooks", "containerPort": settings.webhook_port, "protocol": "TCP"}
    assert port in container(made)["ports"]
    assert service["spec"]["ports"][0]["targetPort"] == settings.webhook_port
    assert (settings.enable_webhooks, settings.webhook_certificates, settings.webhook_name) == (True, "self", NAME)


@pytest.mark.parametrize(
    "values",
    [ON, on(certificates="cert-manager"), ON | {"singleNamespaceInstall": True}, ON | {"watchNamespace": ["a", "b"]}],
    ids=["self", "cert-manager", "single", "watched"],
)
def test_permissions_are_those_that_kuberay_rbac_prints(helm: Helm, tmp_path: Path, values: dict[str, Any]) -> None:
    """Only for certificates of its own, and by name."""
    made = helm.template(OPERATOR, values | {"configuration": {"enabled": True}})
    result = CliRunner().invoke(app, ["rbac", "--namespace=ns", *arguments(made, tmp_path)[:2]])
    assert result.exit_code == 0, result.output
    told = list(yaml.safe_load_all(result.stdout))

    def rules(manifests: list[Manifest]) -> dict[str, Any]:
        return {
            f"{role['kind']} {role['metadata'].get('namespace', '')}": role["rules"]
            for kind in ("Role", "ClusterRole")
            for role in of_kind(manifests, kind)
            if role["metadata"]["name"] == "kuberay-operator-webhooks"
        }

    assert rules(made) == rules(told)
    if values["webhooks"].get("certificates") == "cert-manager":
        assert rules(made) == {}
        return
    assert set(rules(made)) == {"Role ns", "ClusterRole "}
    for role in rules(made).values():
        for rule in role:
            assert rule.get("resourceNames") or rule["verbs"] == ["create"]
    bound = [
        each["roleRef"]["kind"]
        for kind in ("RoleBinding", "ClusterRoleBinding")
        for each in of_kind(made, kind)
        if each["roleRef"]["name"] == "kuberay-operator-webhooks"
    ]
    assert bound == ["Role", "ClusterRole"]


def test_only_the_namespaces_that_are_served_are_asked_about(helm: Helm) -> None:
    def selectors(values: dict[str, Any]) -> list[Any]:
        made = helm.template(OPERATOR, values)
        return [each.get("namespaceSelector") for each in webhooks(made)]

    within = {"key": "kubernetes.io/metadata.name", "operator": "In"}
    assert selectors(ON) == [None] * 4
    assert (
        selectors(ON | {"watchNamespace": ["a", "b"]}) == [{"matchExpressions": [{**within, "values": ["a", "b"]}]}] * 4
    )
    assert (
        selectors(ON | {"singleNamespaceInstall": True}) == [{"matchExpressions": [{**within, "values": ["ns"]}]}] * 4
    )
    own = {"matchLabels": {"ray": "yes"}}
    assert selectors(on(namespaceSelector=own) | {"watchNamespace": ["a"]}) == [own] * 4
    made = helm.template(OPERATOR, on(objectSelector=own))
    assert [each["objectSelector"] for each in webhooks(made)] == [own] * 4


def test_conditions_only_where_kubernetes_knows_them(helm: Helm) -> None:
    """Later --kube-version flags win."""
    assert all("matchConditions" in each for each in webhooks(helm.template(OPERATOR, ON)))
    old = helm.template(OPERATOR, ON, "--kube-version", "1.27.3")
    assert not [each for each in webhooks(old) if "matchConditions" in each]


class TestCertManager:
    """An authority in between, so that a renewal never meets an API server that trusts only the former certificate."""

    def test_everything_is_made(self, helm: Helm) -> None:
        made = helm.template(OPERATOR, on(certificates="cert-manager", defaulting={"enabled": True}))
        issuers = {each["metadata"]["name"]: each["spec"] for each in of_kind(made, "Issuer")}
        certificates = {each["metadata"]["name"]: each["spec"] for each in of_kind(made, "Certificate")}
        authority, leaf = certificates[f"{NAME}-authority"], certificates[f"{NAME}-certificates"]
        assert issuers[authority["issuerRef"]["name"]] == {"selfSigned": {}}
        assert authority["isCA"] is True
        assert issuers[leaf["issuerRef"]["name"]] == {"ca": {"secretName": authority["secretName"]}}
        assert leaf["dnsNames"] == [f"{NAME}.ns.svc"]
        for kind in KINDS:
            (configuration,) = of_kind(made, kind)
            told = configuration["metadata"]["annotations"]["cert-manager.io/inject-ca-from"]
            assert told == f"ns/{NAME}-certificates"
            assert not [each for each in configuration["webhooks"] if "caBundle" in each["clientConfig"]]
        settings = started_with(made)
        assert settings.webhook_certificates == "files"
        (volume,) = of_kind(made, "Deployment")[0]["spec"]["template"]["spec"]["volumes"]
        assert volume == {"name": "webhook-certificates", "secret": {"secretName": leaf["secretName"]}}
        (mount,) = container(made)["volumeMounts"]
        assert (mount["mountPath"], mount["readOnly"]) == (settings.webhook_cert_dir, True)

    def test_an_issuer_of_ones_own(self, helm: Helm) -> None:
        reference = {"name": "internal", "kind": "ClusterIssuer"}
        made = helm.template(OPERATOR, on(certificates="cert-manager", issuerRef=reference))
        assert of_kind(made, "Issuer") == []
        (certificate,) = of_kind(made, "Certificate")
        assert certificate["spec"]["issuerRef"] == reference


def test_a_secret_of_ones_own(helm: Helm) -> None:
    made = helm.template(OPERATOR, on(certificates="secret", secretName="mine", caBundle="Q0E="))
    (volume,) = of_kind(made, "Deployment")[0]["spec"]["template"]["spec"]["volumes"]
    assert volume["secret"] == {"secretName": "mine"}
    assert {each["clientConfig"]["caBundle"] for each in webhooks(made)} == {"Q0E="}
    assert of_kind(made, "Certificate") == of_kind(made, "Issuer") == []
    with pytest.raises(HelmError, match=r"needs webhooks\.secretName"):
        helm.template(OPERATOR, on(certificates="secret"))


@pytest.mark.parametrize(
    "values",
    [
        {"failurePolicy": "Maybe"},
        {"certificates": "none"},
        {"port": 0},
        {"timeoutSeconds": 31},
        {"defaulting": True},
        {"x": 1},
    ],
    ids=str,
)
def test_values_that_make_no_sense_are_refused(helm: Helm, values: dict[str, Any]) -> None:
    with pytest.raises(HelmError, match=f"webhooks.*{next(iter(values))}"):
        helm.template(OPERATOR, on(**values))


def test_long_names_fit(helm: Helm) -> None:
    made = helm.template(OPERATOR, ON | {"fullnameOverride": "x" * 63})
    name = f"{'x' * 45}-webhook"
    assert [each["metadata"]["name"] for each in of_kind(made, KINDS[0])] == [name]
    assert started_with(made).webhook_name == name
