"""Fake distributions on ``sys.path``, and contexts to call hooks with."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from kuberay.api.kinds import RAYCLUSTER
from kuberay.hooks import OwnerContext, PodContext
from kuberay.hooks.types import GroupSize

_numbers = itertools.count()

Install = Callable[..., str]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs a plugin whose module has the given source, as pip would; returns its distribution's name."""
    made: list[str] = []
    monkeypatch.syspath_prepend(tmp_path)

    def make(name: str, source: str = "", *, dist: str = "", version: str = "1.0", attribute: str = "") -> str:
        module = f"fake_plugin_{next(_numbers)}"
        made.append(module)
        dist = dist or f"kuberay-{name}"
        (tmp_path / f"{module}.py").write_text(
            f"from kuberay.hooks import *\nfrom kuberay.hooks import hookimpl\n\n{source}\n"
        )
        info = tmp_path / f"{dist.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {dist}\nVersion: {version}\n")
        target = f"{module}:{attribute}" if attribute else module
        (info / "entry_points.txt").write_text(f"[kuberay.plugins]\n{name} = {target}\n")
        return dist

    yield make
    for module in made:
        sys.modules.pop(module, None)


def owner(**changes: Any) -> OwnerContext:
    """A RayCluster with one worker group."""
    spec = changes.pop("spec", {"headGroupSpec": {}, "workerGroupSpecs": [{"groupName": "crew"}]})
    values: dict[str, Any] = {
        "kind": RAYCLUSTER,
        "name": "demo",
        "namespace": "lab",
        "uid": "u-1",
        "labels": {"team": "blue"},
        "annotations": {},
        "spec": spec,
        "status": {"state": "ready"},
        "cluster_spec": spec,
        "groups": [GroupSize("headgroup", 1, 1, {"cpu": "1"})],
        "now": datetime(2026, 1, 1, tzinfo=UTC),
        "gates": {"Some": True},
    }
    return OwnerContext(**{**values, **changes})


def pod_context(**changes: Any) -> PodContext:
    """The head pod of `owner`."""
    return PodContext(owner=owner(**changes), group="headgroup", node_type="head")


@pytest.fixture
def make_owner() -> Callable[..., OwnerContext]:
    return owner


@pytest.fixture
def make_pod_context() -> Callable[..., PodContext]:
    return pod_context
