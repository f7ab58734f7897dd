"""The Dockerfile makes what the development cluster makes: the same scripts in the same order, the same start, user and environment.

No image can be built from a Dockerfile where no container registry is reached; what both share can be compared all the same.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
IMAGE = ROOT / "image"


@pytest.fixture(scope="module")
def stages() -> dict[str, list[tuple[str, str]]]:
    """Instructions and their words, by name of the stage; the last one is ``""``."""
    text = re.sub(r"\\\n", " ", (IMAGE / "Dockerfile").read_text())
    found: dict[str, list[tuple[str, str]]] = {}
    name = "before"
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        word, _, rest = line.partition(" ")
        if word == "FROM":
            name = rest.partition(" AS ")[2]
        found.setdefault(name, []).append((word, " ".join(rest.split())))
    return found


@pytest.fixture(scope="module")
def images() -> Any:
    """The module that decides what is in the development cluster's images."""
    sys.path.insert(0, str(ROOT / "dev"))
    try:
        from devcluster import images  # type: ignore[import-not-found]
    finally:
        sys.path.pop(0)
    return images


def called(stage: list[tuple[str, str]]) -> list[str]:
    """Scripts that a stage runs, in order."""
    return [name for word, rest in stage if word == "RUN" for name in re.findall(r"\bsh \S*/([a-z]+\.sh)", rest)]


def test_the_same_scripts(stages: dict[str, list[tuple[str, str]]]) -> None:
    own = (ROOT / "dev" / "devcluster" / "images.py").read_text()
    build = called(stages["build"])
    assert build == ["requirements.sh", "requirements.sh", "dependencies.sh", "wheels.sh", "operator.sh"]
    assert set(called(stages["base"])) == {"user.sh"}
    assert {path.name for path in IMAGE.glob("*.sh")} == {*build, "user.sh"}
    assert {name for name in {*build, "user.sh"} if f'"{name}"' not in own} == set()


def test_the_same_start(stages: dict[str, list[tuple[str, str]]], images: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "_requirements", lambda form="": "")
    monkeypatch.setattr(images, "_build_wheels", lambda: ROOT / "nowhere")
    image = images.operator_image()
    last = dict(stages[""])
    assert last["ENTRYPOINT"] == str(list(image.entrypoint)).replace("'", '"')
    assert last["USER"] == image.user == "65532:65532"
    assert dict(item.split("=", 1) for item in last["ENV"].split()) == image.env
    assert last["COPY"] == "--from=build /opt/kuberay /opt/kuberay"


def test_images_of_registries_can_be_pinned(stages: dict[str, list[tuple[str, str]]]) -> None:
    """By an argument each: no stage starts from an image that cannot be chosen."""
    names = {rest.partition("=")[0] for word, rest in stages["before"] if word == "ARG"}
    known = {*(f"${{{name}}}" for name in names), *stages}
    starts = [rest.split()[0] for stage in stages.values() for word, rest in stage if word == "FROM"]
    assert {start for start in starts if start not in known} == set()


def test_scripts_find_what_they_read(stages: dict[str, list[tuple[str, str]]]) -> None:
    """What is not sent to the builder is not there: members of the workspace, licences and readme files of wheels."""
    sent = (IMAGE / "Dockerfile.dockerignore").read_text()
    for needed in ("pyproject.toml", "uv.lock", "image/*.sh", "core/src", "plugins", "testkit/pyproject.toml"):
        assert f"!{needed}\n" in sent
