"""A golden case: what was applied, with which flags, and what KubeRay made of it.

The format is that of the recording (core/tests/data/golden/README.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

Manifest = dict[str, Any]

RAY_KINDS = ("RayCronJob", "RayService", "RayJob", "RayCluster")
"""In the order in which the main object of a case is chosen."""
DELETE_ANNOTATION = "golden/delete"


@dataclass(frozen=True, slots=True)
class GoldenCase:
    """One recorded case."""

    name: str
    steps: Sequence[Sequence[Manifest]]
    """What is applied, step after step; all have settled before the next."""
    operator: str
    """Flags the operator needs, as recorded; empty for the defaults."""
    any_index: bool
    expected: Manifest

    @property
    def namespace(self) -> str:
        return f"g-{self.name}"

    @property
    def gates(self) -> dict[str, bool]:
        """Feature gates that the case sets."""
        found = re.search(r"--feature-gates=(\S+)", self.operator)
        pairs = (item.split("=") for item in found[1].split(",")) if found else ()
        return {name: value == "true" for name, value in pairs}


def load_case(folder: Path) -> GoldenCase:
    """The case in *folder* (``input.yaml`` and ``expected.yaml``)."""
    text = (folder / "input.yaml").read_text()
    header = [line[1:].strip() for line in text.splitlines() if line.startswith("#")]
    steps: list[list[Manifest]] = [[]]
    seen: set[tuple[str, str]] = set()
    for document in _load_all(text):
        if not document:
            continue
        key = (document["kind"], document["metadata"]["name"])
        if key in seen:
            steps.append([])
        seen.add(key)
        steps[-1].append(document)
    return GoldenCase(
        name=folder.name,
        steps=steps,
        operator=next((line.removeprefix("operator:").strip() for line in header if line.startswith("operator:")), ""),
        any_index=any(line.startswith("any-index") for line in header),
        expected=_load_all((folder / "expected.yaml").read_text())[0],
    )


def _load_all(text: str) -> list[Any]:
    """All documents, read by libyaml where it is there: much quicker, equally safe."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return list(yaml.load_all(text, loader))


def main_key(documents: Iterable[Mapping[str, Any]]) -> tuple[str, str]:
    """Kind and name of the object whose status counts: the last one of the highest kind."""
    found = list(documents)
    for kind in RAY_KINDS:
        names = [document["metadata"]["name"] for document in found if document["kind"] == kind]
        if names:
            return kind, names[-1]
    raise ValueError("the case holds no Ray object")
