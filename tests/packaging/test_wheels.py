"""Every wheel, built from the tree and installed alone in an environment of its own: core, then each plugin with core.

What it needs is there in the lowest version that it declares. What a wheel is worth shows only outside the workspace.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from local_operator import local_cluster
from packages import CORE, MEMBERS, PLUGINS, ROOT, TESTKIT, Environment, entry_points, metadata, package_of, project

ALL = pytest.mark.parametrize("member", MEMBERS, ids=lambda path: path.name)
Install = Callable[[Path], Environment]


def test_all_have_the_same_version(wheels: dict[Path, Path]) -> None:
    versions = {metadata(wheel)["Version"] for wheel in wheels.values()}
    assert len(versions) == 1
    (version,) = versions
    assert re.fullmatch(r"\d+\.\d+\.\d+", version)
    assert f"\n## [{version}]" in (ROOT / "CHANGELOG.md").read_text()


@ALL
def test_a_wheel_says_what_it_is(member: Path, wheels: dict[Path, Path]) -> None:
    found = metadata(wheels[member])
    assert found["Name"] == project(member)["name"]
    assert found["Summary"]
    assert found["License-Expression"] == "Apache-2.0"
    assert found["Requires-Python"] == ">=3.11"
    description = found.get_payload()
    assert isinstance(description, str)
    assert len(description.split()) > 30, "the README says too little"


@ALL
def test_a_wheel_has_its_package_types_and_licence_and_nothing_else(member: Path, wheels: dict[Path, Path]) -> None:
    with zipfile.ZipFile(wheels[member]) as archive:
        names = archive.namelist()
    (package,) = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert f"{package}/py.typed" in names
    assert any(re.search(r"\.dist-info/licenses/LICENSE$", name) for name in names)
    assert [name for name in names if "tests" in name.split("/")] == []


@pytest.mark.parametrize("member", PLUGINS, ids=lambda path: path.name)
def test_a_plugin_asks_for_the_core_it_was_made_for(member: Path, wheels: dict[Path, Path]) -> None:
    needs = metadata(wheels[member]).get_all("Requires-Dist") or []
    (core,) = (need for need in needs if need.startswith("kuberay-core"))
    major, minor, *_ = metadata(wheels[member])["Version"].split(".")
    assert f">={major}.{minor}" in core
    assert "<" in core


@ALL
def test_installed_alone_it_brings_no_other_plugin(member: Path, installed: Install) -> None:
    ours = {name for name in installed(member).versions() if name.startswith("kuberay-")}
    assert ours == {"kuberay-core", str(project(member)["name"])}


@ALL
def test_installed_alone_it_is_the_only_plugin_listed(member: Path, installed: Install) -> None:
    listed = json.loads(installed(member).run("kuberay", "plugins", "--json").stdout)
    assert [(item["name"], item["distribution"], item["version"]) for item in listed] == [
        (name, project(member)["name"], project(member)["version"]) for name in entry_points(member)
    ]


@ALL
def test_installed_alone_it_can_be_imported(member: Path, installed: Install) -> None:
    installed(member).run("python", "-c", f"import {package_of(member)}")


@pytest.mark.parametrize("member", PLUGINS, ids=lambda path: path.name)
def test_a_plugin_installed_alone_can_be_turned_on(member: Path, installed: Install, tmp_path: Path) -> None:
    (name,) = entry_points(member)
    assert "kind: ClusterRole" in installed(member).run("kuberay", "rbac", "--plugins", name).stdout
    cluster = yaml.safe_load((ROOT / "config" / "samples" / "raycluster-heterogeneous.yaml").read_text())
    # KAI does without a queue only where its default one exists, and render says so with exit code 1.
    cluster["metadata"]["labels"] = {"kai.scheduler/queue": "research"}
    sample = tmp_path / "cluster.yaml"
    sample.write_text(yaml.safe_dump(cluster))
    rendered = installed(member).run("kuberay", "render", "--plugins", name, "-f", str(sample)).stdout
    assert [body["kind"] for body in yaml.safe_load_all(rendered)].count("Pod") >= 2


def test_the_core_alone_prints_what_a_cluster_needs(installed: Install) -> None:
    for arguments in (("crds",), ("crds", "--slim"), ("rbac",), ("webhooks",)):
        assert len(re.findall(r"^kind: ", installed(CORE).run("kuberay", *arguments).stdout, re.MULTILINE)) >= 2
    assert installed(CORE).run("kuberay", "--version").stdout.strip() == project(CORE)["version"]


def test_the_core_alone_names_the_package_that_is_missing(installed: Install) -> None:
    sample = ROOT / "config" / "samples" / "raycluster-autoscaler.yaml"
    refused = installed(CORE).run("kuberay", "render", "-f", str(sample), code=1)
    assert "pip install kuberay-autoscaler-v2" in refused.stderr


def test_the_core_runs_with_the_lowest_versions_it_allows(installed: Install, tmp_path: Path) -> None:
    """The whole way: kopf, the Kubernetes client, aiohttp and the rest, until a RayCluster is ready and the operator stops."""
    with local_cluster(tmp_path) as local:
        local.start_server(installed(TESTKIT), [ROOT / "config" / "samples" / "raycluster-heterogeneous.yaml"])
        local.start_operator(installed(CORE))
        (cluster,) = local.get("/apis/ray.io/v1/namespaces/default/rayclusters")["items"]
        local.until_ready(cluster["metadata"]["name"])


COMMANDS = ("run", "render", "diff", "why", "crds", "rbac", "webhooks", "plugins", "gates")


HELP = """\
import sys
from typer.testing import CliRunner
from kuberay.cli.main import app
for command in sys.argv[1:]:
    told = CliRunner().invoke(app, [*command.split(), "--help"], prog_name="kuberay")
    print(told.exit_code, told.stdout)
"""


def test_every_command_tells_its_options(installed: Install) -> None:
    """In one process: what takes long is to start it."""
    commands = ["", *COMMANDS, "plugins new"]
    told = installed(CORE).run("python", "-c", HELP, *commands).stdout
    assert re.findall(r"^(\d+) +\n? *Usage: kuberay ?((?:[a-z]+ ?)*)", told, re.MULTILINE) == [
        ("0", f"{command} " if command else "") for command in commands
    ]
    assert "\\[" not in told, "the help shows markup"


def test_the_command_itself_tells_its_options(installed: Install) -> None:
    assert "Usage: kuberay" in installed(CORE).run("kuberay", "--help").stdout


def test_the_lowest_versions_are_what_is_tested(installed: Install) -> None:
    """Else the environments prove less than they say."""
    versions = installed(CORE).versions()
    bounds = dict(need.split(";")[0].split(">=") for need in project(CORE)["dependencies"])
    lowest = {
        name.strip()
        for name, bound in bounds.items()
        if re.match(rf"{re.escape(bound.strip())}(\.0)*$", versions[name.strip()])
    }
    assert len(lowest) > len(bounds) / 2, f"at their lower bound: {sorted(lowest)}, of {versions}"
