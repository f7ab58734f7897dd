"""The page about trouble names every condition and reason that somebody may have to do something about, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from kuberay.api.condition_reference import ENTRIES

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "troubleshooting.md").read_text()
KINDS = ("RayCluster", "RayJob", "RayService", "RayCronJob")


def told(kind: str) -> list[tuple[str, str]]:
    """Condition and reason of every row about *kind*."""
    section = PAGE.split(f"\n## {kind}\n")[1].split("\n## ")[0]
    rows = []
    for line in section.splitlines():
        cell = line.split(" | ")[0]
        if line.startswith("| `"):
            type_, *reasons = re.findall(r"`([^`]+)`", cell)
            assert reasons, f"no reason: {line}"
            rows += [(type_, reason) for reason in reasons]
    return rows


@pytest.mark.parametrize("kind", KINDS)
def test_all_there_is_to_do_something_about_is_told_once(kind: str) -> None:
    wanted = {(entry.type, entry.reason) for entry in ENTRIES if entry.kind == kind and entry.lasting != "normal"}
    found = told(kind)
    assert set(found) == wanted
    assert len(found) == len(set(found))
