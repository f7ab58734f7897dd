"""Credentials that change while the operator runs: a rotated token file is read again, soon when the old token is refused."""

from __future__ import annotations

from pathlib import Path

import kubernetes.aio.config.incluster_config as incluster
import pytest
from kuberay.kube import connection
from kuberay.kube.connection import NoConnectionError, connect


@pytest.fixture(autouse=True)
def readings_close_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "RENEW_EVERY", 0.0)


def replace(file: Path, content: str | None) -> None:
    """None: there is none."""
    if content is None:
        file.unlink()
    else:
        file.write_text(content)


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    (tmp_path / "token").write_text("first")
    file = tmp_path / "kubeconfig"
    file.write_text(
        "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}]\n"
        "users: [{name: u, user: {tokenFile: token}}]\n"
        "contexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n"
    )
    return str(file)


async def test_a_token_file_is_read_again_when_its_token_was_refused(kubeconfig: str, tmp_path: Path) -> None:
    found = await connect(kubeconfig)
    assert await found.authorization() == "Bearer first"
    (tmp_path / "token").write_text("second")
    assert await found.renew() == "Bearer second"
    assert await found.authorization() == "Bearer second"


async def test_reading_anew_is_not_done_in_a_tight_loop(
    kubeconfig: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await connect(kubeconfig)
    monkeypatch.setattr(connection, "RENEW_EVERY", 3600.0)
    (tmp_path / "token").write_text("second")
    assert await found.renew() == "Bearer first"


@pytest.mark.parametrize("content", [None, ""])
async def test_a_file_in_the_midst_of_its_replacement_changes_nothing(
    kubeconfig: str, tmp_path: Path, content: str | None
) -> None:
    found = await connect(kubeconfig)
    replace(tmp_path / "token", content)
    assert await found.renew() == "Bearer first"
    (tmp_path / "token").write_text("second")
    assert await found.renew() == "Bearer second"


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Token file of a pod's service account."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    token = tmp_path / "account-token"
    token.write_text("first")
    (tmp_path / "ca.crt").write_text("not looked at")
    # Functions of the library have these as module constants.
    monkeypatch.setattr(incluster, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    return token


async def test_the_pods_own_token_is_read_again(account: Path) -> None:
    found = await connect()
    assert found.in_cluster
    assert await found.authorization() == "bearer first"
    replace(account, "second")
    assert await found.authorization() == "bearer first", "read once a minute while it is good"
    assert await found.renew() == "bearer second"
    assert await found.authorization() == "bearer second"


async def test_the_pods_own_token_may_be_missing_for_a_moment(account: Path) -> None:
    found = await connect()
    replace(account, None)
    assert await found.renew() == "bearer first"
    replace(account, "second")
    assert await found.renew() == "bearer second"


async def test_nothing_to_connect_to_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(NoConnectionError, match=f"kubeconfig {tmp_path}/none"):
        await connect(f"{tmp_path}/none")
