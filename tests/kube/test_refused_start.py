"""What keeps the operator from starting is one clear sentence and exit code 1."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def run(*flags: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "kuberay.cli.main",
        "run",
        "--leader-election-namespace=default",
        "--metrics-addr=0",
        "--health-probe-bind-address=0",
        *flags,
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env={**os.environ, **env})


def last_line(result: subprocess.CompletedProcess[str]) -> str:
    return result.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("apiVersion: [", "is not YAML"),
        ("kind: Configuration", "must say apiVersion"),
        ("apiVersion: config.ray.io/v1alpha1\nkind: Configuration\nburst: 300.5", "burst"),
    ],
)
def test_malformed_settings_file(tmp_path: Path, content: str, sentence: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(content)
    result = run(f"--config={file}")
    assert result.returncode == 1
    assert sentence in last_line(result)
    assert str(file) in last_line(result)


def test_unknown_gate() -> None:
    result = run("--feature-gates=NoSuchGate=true")
    assert result.returncode == 1
    assert "NoSuchGate" in last_line(result)


def test_unknown_plugin(cluster_ready: None) -> None:
    result = run("--plugins=no-such-plugin")
    assert result.returncode == 1
    assert "no-such-plugin" in last_line(result)
    assert "autoscaler-v2" in last_line(result), "says what is installed"


def test_unreachable_api_server(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(
        "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}]\n"
        "users: [{name: u, user: {}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n"
    )
    result = run(KUBECONFIG=str(file))
    assert result.returncode == 1
    assert "http://127.0.0.1:9 cannot be reached" in last_line(result)


def test_missing_permission(cluster_ready: None, tmp_path: Path) -> None:
    token = subprocess.run(
        "kubectl create serviceaccount nobody -n default --dry-run=client -o yaml | kubectl apply -f - >/dev/null && "
        "kubectl create token nobody -n default",
        shell=True,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    config = subprocess.run(
        ["kubectl", "config", "view", "--raw", "-o", "yaml"], capture_output=True, text=True, check=True
    ).stdout
    file = tmp_path / "kubeconfig"
    file.write_text(config)
    for command in (f"set-credentials nobody --token={token}", "set-context --current --user=nobody"):
        subprocess.run(["kubectl", f"--kubeconfig={file}", "config", *command.split()], check=True, capture_output=True)
    result = run(KUBECONFIG=str(file))
    assert result.returncode == 1
    assert "may not list rayclusters.ray.io" in last_line(result)
    assert "kuberay rbac" in last_line(result)


def test_unknown_flag_is_a_usage_error() -> None:
    assert run("--no-such-flag").returncode == 2
