"""What is hidden in texts and in settings, and what is not."""

from __future__ import annotations

import pytest
from kuberay.operator.redaction import without_secret_values, without_secrets


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("Authorization: Bearer abcdefghij", "Authorization: Bearer ***"),
        ("{'authorization': 'bearer abcdefgh+/=='}", "{'authorization': 'bearer ***'}"),
        ("Basic dXNlcjpwYXNz", "Basic ***"),
        ("token eyJhbGciOiJI.eyJzdWIiOiIx.c2ln here", "token *** here"),
        ("redis://:pa55@redis:6379/0", "redis://:***@redis:6379/0"),
        ("https://me:pa55@host/x and https://host:8443/y", "https://me:***@host/x and https://host:8443/y"),
        ("the bearer of news", "the bearer of news"),
        ("pods rc-head-1 of RayCluster ns/rc: 403 Forbidden", "pods rc-head-1 of RayCluster ns/rc: 403 Forbidden"),
    ],
)
def test_texts(text: str, hidden: str) -> None:
    assert without_secrets(text) == hidden


def test_settings() -> None:
    assert without_secret_values(
        {
            "apiKey": "x",
            "auth_token": "x",
            "passwords": "x",
            "token": "",
            "secretName": "kept",
            "retries": 3,
            "inner": [{"clientSecret": "x", "url": "https://me:pw@host"}],
        }
    ) == {
        "apiKey": "***",
        "auth_token": "***",
        "passwords": "***",
        "token": "",
        "secretName": "kept",
        "retries": 3,
        "inner": [{"clientSecret": "***", "url": "https://me:***@host"}],
    }
