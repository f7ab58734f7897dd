"""Every wheel, built from the tree and installed alone in an environment of its own: core, then each plugin with core.

Needs uv and a package index; without them the tests fail. What a wheel is worth shows only outside the workspace.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from email.message import Message
from email.parser import Parser
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "core"
PLUGINS = sorted(path.parent for path in (ROOT / "plugins").glob("*/pyproject.toml"))
MEMBERS = [CORE, ROOT / "testkit", *PLUGINS]
ALL = pytest.mark.parametrize("member", MEMBERS, ids=lambda path: path.name)


def project(member: Path) -> dict[str, object]:
    found: dict[str, object] = tomllib.loads((member / "pyproject.toml").read_text())["project"]
    return found


def entry_points(member: Path) -> list[str]:
    """Names of the plugins that a member provides."""
    groups = project(member).get("entry-points", {})
    assert isinstance(groups, dict)
    return sorted(groups.get("kuberay.plugins", {}))


def uv(*arguments: str | Path) -> str:
    command = os.environ.get("UV") or shutil.which("uv")
    if command is None:
        pytest.fail("uv is neither in $UV nor on PATH; 'make test-packaging' fetches it")
    done = subprocess.run([command, *map(str, arguments)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"uv {' '.join(map(str, arguments))}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Path]:
    """The wheel of each member."""
    built = {}
    for member in MEMBERS:
        folder = tmp_path_factory.mktemp(member.name)
        uv("build", "--wheel", "--quiet", "--out-dir", folder, member)
        (built[member],) = folder.glob("*.whl")
    return built


class Environment:
    """A virtual environment with one wheel and what it needs, our other wheels being taken from *wheels*."""

    def __init__(self, folder: Path, wheel: Path, wheels: dict[Path, Path]) -> None:
        self.folder = folder
        uv("venv", "--quiet", "--python", sys.executable, folder)
        links = [word for other in wheels.values() for word in ("--find-links", other.parent)]
        uv("pip", "install", "--quiet", "--python", folder / "bin" / "python", *links, wheel)

    def run(self, *command: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run away from the tree, with no way to find it."""
        env = {"PATH": f"{self.folder}/bin:/usr/bin:/bin", "HOME": str(self.folder)}
        done = subprocess.run(
            [self.folder / "bin" / command[0], *command[1:]],
            cwd=self.folder,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
        return done

    def distributions(self) -> set[str]:
        listed = json.loads(uv("pip", "list", "--format", "json", "--python", self.folder / "bin" / "python"))
        return {item["name"] for item in listed}


@pytest.fixture(scope="session")
def installed(wheels: dict[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Environment]:
    """Gives the environment in which the wheel of a member is installed alone."""

    @cache
    def install(member: Path) -> Environment:
        return Environment(tmp_path_factory.mktemp("venv") / member.name, wheels[member], wheels)

    return install


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


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
def test_installed_alone_it_brings_no_other_plugin(member: Path, installed: Callable[[Path], Environment]) -> None:
    ours = {name for name in installed(member).distributions() if name.startswith("kuberay-")}
    assert ours == {"kuberay-core", str(project(member)["name"])}


@ALL
def test_installed_alone_it_is_the_only_plugin_listed(member: Path, installed: Callable[[Path], Environment]) -> None:
    listed = json.loads(installed(member).run("kuberay", "plugins", "--json").stdout)
    assert [(item["name"], item["distribution"], item["version"]) for item in listed] == [
        (name, project(member)["name"], project(member)["version"]) for name in entry_points(member)
    ]


@ALL
def test_installed_alone_it_can_be_imported(member: Path, installed: Callable[[Path], Environment]) -> None:
    (package,) = (path.name for path in (member / "src").iterdir() if (path / "py.typed").exists())
    installed(member).run("python", "-c", f"import {package}")


@pytest.mark.parametrize("member", PLUGINS, ids=lambda path: path.name)
def test_a_plugin_installed_alone_can_be_turned_on(member: Path, installed: Callable[[Path], Environment]) -> None:
    (name,) = entry_points(member)
    assert "kind: ClusterRole" in installed(member).run("kuberay", "rbac", "--plugins", name).stdout


def test_the_core_alone_prints_what_a_cluster_needs(installed: Callable[[Path], Environment]) -> None:
    for arguments in (("crds",), ("crds", "--slim"), ("rbac",)):
        assert len(re.findall(r"^kind: ", installed(CORE).run("kuberay", *arguments).stdout, re.MULTILINE)) >= 2
    assert installed(CORE).run("kuberay", "--version").stdout.strip() == project(CORE)["version"]


def test_the_core_alone_names_the_package_that_is_missing(installed: Callable[[Path], Environment]) -> None:
    sample = ROOT / "config" / "samples" / "raycluster-autoscaler.yaml"
    refused = installed(CORE).run("kuberay", "render", "-f", str(sample), code=1)
    assert "pip install kuberay-autoscaler-v2" in refused.stderr
