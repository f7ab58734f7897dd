"""What turns webhooks on, and how a run is told about them."""

from __future__ import annotations

from typing import Any

import pytest
from kuberay.operator.environment import read_environment
from kuberay.operator.settings import Settings, SettingsError, load_settings
from kuberay.operator.webhooks.configurations import bundles, hosts


@pytest.mark.parametrize(
    ("value", "on"), [("true", True), ("True", False), ("1", False), ("yes", False), ("", False), (" true", False)]
)
def test_the_variable_is_read_exactly(value: str, on: bool) -> None:
    """Source: spec operator.md 9."""
    environment = read_environment({"ENABLE_WEBHOOKS": value})
    assert environment.webhooks(Settings()) is on
    assert environment.webhooks(Settings(enable_webhooks=True))


def test_defaults_are_kuberays() -> None:
    settings = Settings()
    assert settings.enable_webhooks is False
    assert settings.webhook_port == 9443
    assert settings.webhook_cert_dir == "/tmp/k8s-webhook-server/serving-certs"
    assert settings.webhook_certificates == "files"


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"webhook_port": 0}, "webhook_port"),
        ({"webhook_certificates": "mine"}, "webhook_certificates"),
        ({"webhook_name": "x" * 54}, "webhook_name"),
        ({"webhook_name": "-"}, "webhook_name"),
        ({"webhook_certificate_seconds": 59}, "webhook_certificate_seconds"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(values: dict[str, Any], told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        load_settings("", values)


def webhook(**client: Any) -> dict[str, Any]:
    return {"name": "w", "clientConfig": client}


def test_hosts_and_bundles() -> None:
    one = {
        "webhooks": [
            webhook(service={"name": "s", "namespace": "n"}, caBundle="UEVN"),
            webhook(url="https://example.com:9443/validate"),
            webhook(url="https://[::1]/validate", caBundle="%"),
            webhook(),
            {"name": "bare"},
        ]
    }
    assert hosts([one, {}]) == {"s.n.svc", "example.com", "::1"}
    assert bundles(one)[:2] == [b"PEM", b""]
    assert len(bundles(one)) == 5
