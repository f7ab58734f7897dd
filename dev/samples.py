"""What is in ``config/samples``: each manifest with what its first comment line says, and the page that lists them.

The first line of a sample is ``# <what it shows>. Needs: <one>; <another>.``, the second sentence only where something
must be there first: a feature gate (``gate NAME``), a plugin (``plugin NAME``) or anything else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).resolve().parent.parent / "config" / "samples"

_FIRST_LINE = re.compile(r"# (?P<shows>.+?[.:])(?: Needs: (?P<needs>.+)\.)?")

_KINDS = {
    "raycluster": "RayCluster",
    "rayjob": "RayJob",
    "rayservice": "RayService",
    "raycronjob": "RayCronJob",
    "operator": "Operator",
}
"""The title of a table by what the names of its samples begin with."""

_INTRODUCTION = """\
# Samples

<!-- Written by `make generate` from the first line of each file. Change that, not this page. -->

Apply any of them with `kubectl apply -f`; `kuberay render -f` tells what becomes of it without a cluster,
and `kuberay diff -f` what an edit would do. A gate is turned on with `--feature-gates=NAME=true`, a plugin is installed
as `kuberay-NAME` and named in `--plugins`. Each of these files is applied in the tests.
"""


@dataclass(frozen=True, slots=True)
class Sample:
    """One file."""

    path: Path
    shows: str
    needs: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def gates(self) -> list[str]:
        """Feature gates that must be on."""
        return [need.removeprefix("gate ") for need in self.needs if need.startswith("gate ")]

    @property
    def plugins(self) -> list[str]:
        """Plugins that must be on."""
        return [need.removeprefix("plugin ") for need in self.needs if need.startswith("plugin ")]

    def documents(self) -> list[dict[str, Any]]:
        """The manifests in the file."""
        return [document for document in yaml.safe_load_all(self.path.read_text()) if document]


def read(path: Path) -> Sample:
    """A file and its first line. Raises ValueError when that says nothing."""
    found = _FIRST_LINE.fullmatch(path.read_text().partition("\n")[0])
    if found is None:
        raise ValueError(f"{path.name}: the first line must be '# <what it shows>. Needs: <one>; <another>.'")
    return Sample(path, found["shows"], tuple(re.split(r"; ", found["needs"])) if found["needs"] else ())


def samples(folder: Path = FOLDER) -> list[Sample]:
    """All samples by name."""
    return [read(path) for path in sorted(folder.glob("*.yaml"))]


def render(folder: Path = FOLDER) -> str:
    """The page that lists them, one table per kind."""
    parts = [_INTRODUCTION.strip()]
    for prefix, title in _KINDS.items():
        rows = [sample for sample in samples(folder) if sample.name.startswith(prefix)]
        if rows:
            lines = ["| Sample | Shows | Needs |", "|---|---|---|"]
            lines += [
                f"| [{row.name}]({row.path.name}) | {_cell(row.shows)} | {_cell('; '.join(row.needs))} |"
                for row in rows
            ]
            parts += [f"## {title}", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
