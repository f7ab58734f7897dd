"""The operator's image: how large it is unpacked, what is in it and what is not, and that it says what it is made of.

Read from the layers that the node got; that the operator runs in it is what all other end-to-end tests show.
"""

from __future__ import annotations

import json
import re
import sys
import tarfile
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
MOST = 250_000_000
"""Bytes of all files of all layers."""
PACKAGES = PurePosixPath("opt/kuberay/lib/python3.11/site-packages")

Files = dict[PurePosixPath, int]


@pytest.fixture(scope="module")
def image() -> Any:
    """Built already, or now."""
    sys.path.insert(0, str(ROOT / "dev"))
    try:
        from devcluster import images
    finally:
        sys.path.pop(0)
    return images.build_image(images.operator_image())


@pytest.fixture(scope="module")
def files(image: Any) -> Files:
    """Size by path; links count as nothing."""
    found: Files = {}
    for layer in image.layers:
        with tarfile.open(layer.tar) as tar:
            for member in tar:
                path = PurePosixPath(member.name)
                if path.name.startswith(".wh."):
                    found.pop(path.with_name(path.name.removeprefix(".wh.")), None)
                elif member.isfile():
                    found[path] = member.size
    return found


def content(image: Any, path: str) -> str:
    """Of a file in the topmost layer that has it."""
    for layer in reversed(image.layers):
        with tarfile.open(layer.tar) as tar:
            names = {PurePosixPath(name): name for name in tar.getnames()}
            if PurePosixPath(path) in names:
                file = tar.extractfile(names[PurePosixPath(path)])
                assert file is not None
                return file.read().decode()
    pytest.fail(f"{path} is not in the image")


def test_it_is_smaller_than_250_megabytes(image: Any, files: Files) -> None:
    """A file that a later layer replaces lies in both, so layers count, and not what is seen in the end."""
    sizes = {}
    for layer in image.layers:
        with tarfile.open(layer.tar) as tar:
            sizes[layer.name] = sum(member.size for member in tar if member.isfile())
    assert sum(sizes.values()) < MOST, sizes


def test_what_never_runs_is_not_in_it(files: Files) -> None:
    ours = [path for path in files if path.is_relative_to("opt/kuberay")]
    assert [
        path for path in ours if path.name == "pip" or {"tests", "test", "hypothesis", "pytest"} & {*path.parts}
    ] == []
    assert [path for path in ours if path.suffix in (".c", ".pyx", ".pyi")] == []
    commands = {path.name for path in ours if path.parent.name == "bin"}
    assert commands == {"kuberay"}, "python is a link to the system's"
    assert [path for path in files if path.name in ("gcc", "make", "uv")] == []


def test_everything_is_compiled(files: Files) -> None:
    """The root is read-only: what is not compiled would be compiled at every start."""
    ours = [path for path in files if path.is_relative_to(PACKAGES / "kuberay") and path.suffix == ".py"]
    assert len(ours) > 200
    cached = {path.parent / "__pycache__" / f"{path.stem}.cpython-311.pyc" for path in ours}
    templates = {path for path in cached if "template" in path.parts}
    assert cached - templates - files.keys() == set()


def test_it_lists_what_it_is_made_of(image: Any, files: Files) -> None:
    told = json.loads(content(image, "opt/kuberay/sbom.cdx.json"))
    assert (told["bomFormat"], told["specVersion"]) == ("CycloneDX", "1.5")
    listed = {(part["name"], part["version"]) for part in told["components"]}
    installed = set()
    for path in files:
        if path.name == "METADATA" and path.parent.suffix == ".dist-info":
            name, _, version = path.parent.stem.rpartition("-")
            installed.add((re.sub(r"[-_.]+", "-", name).lower(), version))
    assert len(installed) > 40
    assert listed == installed, "all that is there, and nothing else"
    assert told["metadata"]["component"]["name"] == "kuberay-operator"
    assert [part["name"] for part in told["components"] if not part["purl"].startswith("pkg:pypi/")] == []
    assert [part["name"] for part in told["components"] if not part.get("licenses")] == []


def test_every_plugin_is_in_it(files: Files) -> None:
    folders = {path.parts[len(PACKAGES.parts)] for path in files if path.is_relative_to(PACKAGES)}
    plugins = {path.parent.name for path in (ROOT / "plugins").glob("*/pyproject.toml")}
    assert {f"kuberay_{plugin}" for plugin in plugins} - folders == set()
