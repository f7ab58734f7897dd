"""Helm in tests: rendering a chart, and the settings that an operator started with a rendered Deployment would have.

The operator's own command line reads the rendered flags and files, so nothing about them is assumed here.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import yaml
from kuberay.cli.goflags import go_style
from kuberay.cli.main import app
from kuberay.cli.run import BOOLEAN_FLAGS
from kuberay.operator.settings import Settings
from typer.testing import CliRunner

ROOT = Path(__file__).resolve().parents[2]
OPERATOR = ROOT / "charts" / "kuberay-operator"
RAY_CLUSTER = ROOT / "charts" / "ray-cluster"
KUBERNETES = "1.34.0"
"""Where no cluster is asked: Helm from its sources alone would take a version that is long gone."""
CONFIG_FILE = "/etc/kuberay/config.yaml"

Manifest = dict[str, Any]


class HelmError(Exception):
    """What Helm said."""


@dataclass(frozen=True)
class Helm:
    binary: Path

    def run(self, *words: str | Path, stdin: str = "") -> str:
        """Standard output. Raises `HelmError`."""
        command = [str(self.binary), *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, input=stdin)
        if done.returncode:
            raise HelmError(done.stderr + done.stdout)
        return done.stdout

    def template(
        self,
        chart: Path,
        values: Mapping[str, Any] | None = None,
        *words: str,
        release: str = "test",
        namespace: str = "ns",
    ) -> list[Manifest]:
        """The manifests that *values* come to."""
        given = yaml.safe_dump(dict(values or {}))
        common = ("-n", namespace, "-f", "-", "--kube-version", KUBERNETES)
        text = self.run("template", release, chart, *common, *words, stdin=given)
        return [manifest for manifest in yaml.load_all(text, Loader=yaml.CSafeLoader) if manifest]


def build_helm() -> Helm:
    """Compiled unless it is in the cache."""
    done = subprocess.run([ROOT / "dev" / "cluster", "helm"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return Helm(Path(done.stdout.strip()))


def of_kind(manifests: list[Manifest], kind: str) -> list[Manifest]:
    return [manifest for manifest in manifests if manifest["kind"] == kind]


def container(manifests: list[Manifest]) -> Manifest:
    """The operator's container."""
    (deployment,) = of_kind(manifests, "Deployment")
    (found,) = deployment["spec"]["template"]["spec"]["containers"]
    result: Manifest = found
    return result


def configuration(manifests: list[Manifest]) -> str:
    """The configuration file, empty when there is none."""
    return "".join(one["data"].get("config.yaml", "") for one in of_kind(manifests, "ConfigMap"))


def started_with(manifests: list[Manifest]) -> Settings:
    """The settings with which the operator's container would start."""
    with TemporaryDirectory() as folder, mock.patch("kuberay.operator.start.run_operator", return_value=0) as run:
        flags = arguments(manifests, Path(folder))
        result = CliRunner().invoke(app, ["run", *go_style(flags, BOOLEAN_FLAGS)])
        assert result.exit_code == 0, (flags, result.output)
        settings: Settings = run.call_args.args[0]
        return settings


def arguments(manifests: list[Manifest], folder: Path) -> list[str]:
    """The container's arguments, the configuration file lying in *folder* instead."""
    text = configuration(manifests)
    path = folder / "config.yaml"
    path.write_text(text)
    return [str(path) if word == CONFIG_FILE else word for word in container(manifests)["args"]]
