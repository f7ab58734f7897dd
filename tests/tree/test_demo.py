"""The demo on a cluster that somebody else uses, too: it takes away what it made, and where it made nothing it touches nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dev.demo import existing
from dev.demo.kubectl import Kubectl


class Cluster(Kubectl):
    """Answers with CRDs; every command that changes something is noted."""

    def __init__(self, labels: dict[str, str]) -> None:
        super().__init__()
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "changes", [])

    def run(self, *arguments: str, stdin: str | None = None, seconds: float = 120.0) -> str:
        if "get" in arguments:
            crd = {"metadata": {"name": "rayclusters.ray.io", "labels": self.labels}}
            wanted = arguments[arguments.index("-l") + 1] if "-l" in arguments else ""
            fits = not wanted or wanted in [f"{key}={value}" for key, value in self.labels.items()]
            return json.dumps({"items": [crd] if fits else [], **crd})
        self.changes.append(" ".join(arguments))
        return ""


class Silent:
    @contextmanager
    def step(self, _title: str) -> Iterator[None]:
        yield


def test_what_it_did_not_make_it_does_not_remove() -> None:
    """After ``make demo`` refused a cluster, somebody may still type ``make demo-down``."""
    cluster: Any = Cluster({})
    with pytest.raises(existing.NotFreeError, match="nothing on this cluster was made by the demo"):
        existing.remove(cluster, Silent())  # type: ignore[arg-type]
    assert cluster.changes == []


def test_what_it_made_it_removes_and_the_crds_last() -> None:
    cluster: Any = Cluster({existing.LABEL: "demo"})
    existing.remove(cluster, Silent())  # type: ignore[arg-type]
    assert any(each.startswith("delete namespace kuberay-system") for each in cluster.changes)
    assert cluster.changes[-1].startswith("delete crd -l kuberay.io/made-by=demo")
