"""Decides how Helm is made: as a Go module of one pinned version, compiled once and kept in the cache like the other binaries.

Only tests of the charts need it; the Helm on PATH is not used, so that everybody renders with the same one."""

from __future__ import annotations

import os
from pathlib import Path

from devcluster import binaries, parts
from devcluster.prerequisites import go_command, go_version
from devcluster.steps import run

VERSION = "v3.22.0"
PACKAGE = f"helm.sh/helm/v3/cmd/helm@{VERSION}"


def helm_part() -> parts.Part:
    return parts.Part("helm", parts.content_hash([go_version(), binaries.BUILD_FLAGS, PACKAGE]))


def build_helm() -> Path:
    """Compile Helm unless it is in the cache; gives the binary's path."""

    def make(folder: Path, log: Path) -> None:
        env = os.environ | {
            "CGO_ENABLED": "0",
            "GOTOOLCHAIN": "local",
            "GOFLAGS": "",
            "GOWORK": "off",
            "GOBIN": str(folder),
        }
        stamp = f"-X helm.sh/helm/v3/internal/version.version={VERSION}"
        argv: list[str | Path] = [go_command(), "install", "-trimpath", "-ldflags", f"-s -w {stamp}", PACKAGE]
        run(argv, what="Helm could not be compiled", log=log, advice=binaries.NETWORK_ADVICE, env=env)

    return parts.build_part(helm_part(), f"compiling Helm {VERSION}", make) / "helm"
