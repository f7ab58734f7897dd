"""Wheels of all members, built once, and environments that several tests share."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from packages import CORE, MEMBERS, Environment, project, uv


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Path]:
    """The wheel of each member, in one folder."""
    folder = tmp_path_factory.mktemp("wheels")
    uv("build", "--all-packages", "--wheel", "--quiet", "--out-dir", folder)
    built = {wheel.name.split("-")[0]: wheel for wheel in folder.glob("*.whl")}
    return {member: built[str(project(member)["name"]).replace("-", "_")] for member in MEMBERS}


@pytest.fixture(scope="session")
def installed(wheels: dict[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Environment]:
    """Gives the environment in which the wheel of a member is installed with the core alone, and the lowest versions of what they need.

    The newest ones are those of the lock file, with which all other tests run.
    """

    core = Environment(tmp_path_factory.mktemp("venv") / CORE.name)
    core.install(wheels.values(), wheels[CORE], lowest=True)
    # Compiles what all of them need, which takes longer than anything that they are asked.
    core.run("kuberay", "rbac")

    @cache
    def install(member: Path) -> Environment:
        if member == CORE:
            return core
        environment = Environment(tmp_path_factory.mktemp("venv") / member.name, like=core)
        environment.install(wheels.values(), wheels[member], lowest=True)
        return environment

    return install
