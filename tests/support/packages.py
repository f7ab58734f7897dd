"""Distributions of this project as a user meets them: wheels built from the tree, environments with nothing else in them.

Needs uv and a package index; without them the tests fail. Nothing runs in the tree, nor can it be found from there.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable, Mapping
from email.message import Message
from email.parser import Parser
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "core"
TESTKIT = ROOT / "testkit"
PLUGINS = sorted(path.parent for path in (ROOT / "plugins").glob("*/pyproject.toml"))
MEMBERS = [CORE, TESTKIT, *PLUGINS]


@cache
def project(member: Path) -> dict[str, Any]:
    """The table ``project`` of its pyproject.toml."""
    found: dict[str, Any] = tomllib.loads((member / "pyproject.toml").read_text())["project"]
    return found


def package_of(member: Path) -> str:
    """The package that a member is made of."""
    (package,) = (path.name for path in (member / "src").iterdir() if (path / "py.typed").exists())
    return package


def entry_points(member: Path) -> list[str]:
    """Names of the plugins that a member provides."""
    return sorted(project(member).get("entry-points", {}).get("kuberay.plugins", {}))


def uv_command() -> str:
    command = os.environ.get("UV") or shutil.which("uv")
    if command is None:
        pytest.fail("uv is neither in $UV nor on PATH; 'make test-packaging' fetches it")
    return command


def uv(*arguments: str | Path, cwd: Path = ROOT) -> str:
    done = subprocess.run([uv_command(), *map(str, arguments)], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"uv {' '.join(map(str, arguments))}\n{done.stderr}"
    return done.stdout


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


def requirements(wheel: Path) -> list[str]:
    """What a wheel needs, without its extras."""
    return [need for need in metadata(wheel).get_all("Requires-Dist") or [] if "extra ==" not in need]


class Environment:
    """A virtual environment of its own."""

    def __init__(self, folder: Path, *, like: Environment | None = None) -> None:
        """*like* another one at first: its files are linked, what Python has compiled of them included."""
        self.folder = folder
        self.python = folder / "bin" / "python"
        if like is None:
            uv("venv", "--quiet", "--python", sys.executable, folder)
        else:
            shutil.copytree(like.folder, folder, symlinks=True, copy_function=os.link)
            self._make_scripts_its_own(like)

    def _make_scripts_its_own(self, other: Environment) -> None:
        """Scripts name the interpreter that runs them, by the path of their environment."""
        for script in (self.folder / "bin").iterdir():
            if script.is_symlink() or not script.is_file():
                continue
            text, mode = script.read_bytes(), script.stat().st_mode
            script.unlink()  # It is a link: writing to it would change the other one.
            script.write_bytes(text.replace(bytes(other.folder), bytes(self.folder)))
            script.chmod(mode)

    def install(self, wheels: Iterable[Path], *what: str | Path, lowest: bool = False) -> None:
        """Install *what*, our own distributions being taken from *wheels*; with *lowest* every requirement of *what* in
        the lowest version that it allows."""
        places = sorted({wheel.parent for wheel in wheels})
        words = [word for place in places for word in ("--find-links", str(place))]
        if lowest:
            needs = [need for wheel in what for need in requirements(Path(wheel))]
            words += ["--resolution", "lowest-direct", *needs]
        uv("pip", "install", "--quiet", "--python", self.python, *words, *what)

    def variables(self, **more: str) -> dict[str, str]:
        """What programs in it see of the process's environment."""
        return {"PATH": f"{self.folder}/bin:/usr/bin:/bin", "HOME": str(self.folder), **more}

    def run(
        self, *command: str, code: int = 0, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run away from the tree, with no way to find it."""
        done = subprocess.run(
            [self.folder / "bin" / command[0], *command[1:]],
            cwd=cwd or self.folder,
            env=self.variables(**(env or {})),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
        return done

    def versions(self) -> dict[str, str]:
        """Distribution to version."""
        listed = json.loads(uv("pip", "list", "--format", "json", "--python", self.python))
        return {item["name"]: item["version"] for item in listed}
