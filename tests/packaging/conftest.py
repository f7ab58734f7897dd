"""Wheels of all members, built once, and environments that several tests share."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from packages import CORE, MEMBERS, Environment, project, uv


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Path]:
    """The wheel of each member, in one folder. All workers of a run take those that the first of them has built."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = shared / "wheels"
    with (shared / "wheels.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            made = tmp_path_factory.mktemp("build")
            uv("build", "--all-packages", "--wheel", "--quiet", "--out-dir", made)
            made.rename(folder)
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
