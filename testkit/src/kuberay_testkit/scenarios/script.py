"""Reads a recorded scenario: its manifests, the world at the start, its steps, and what is expected of it.

The files' format is described in the README beside the recorded scenarios.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml where it is there: much quicker, equally safe."""

MAIN_KINDS = ("RayCronJob", "RayService", "RayJob")
"""Whose last manifest is the main object, in order of preference."""

VERBS = frozenset(
    {
        "wait",
        "sleep",
        "check",
        "world",
        "job",
        "apps",
        "dashboard",
        "pods",
        "submitter",
        "edit",
        "delete",
        "create",
        "lastScheduleTime",
    }
)
SECTIONS = ("transitions", "lifecycle", "requests", "events", "checkpoints", "final")


class UnsupportedStepError(Exception):
    """A scenario asks for something that cannot be played yet; the text says what."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that is done, or waited for."""

    verb: str
    value: Any

    def __str__(self) -> str:
        return f"{self.verb}: {self.value}"


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scripted world and what an operator makes of it."""

    name: str
    """``area/case``."""
    about: str
    """What it shows, in one line."""
    manifests: Sequence[Mapping[str, Any]]
    world: Mapping[str, Any]
    steps: Sequence[Step]
    start: tuple[float, float] | None
    """Seconds of a minute between which it must begin."""
    expected: Mapping[str, Any]
    """By section (`SECTIONS`)."""
    differing: frozenset[str] = frozenset()
    """Sections whose recorded contents were replaced, and ``steps``."""
    ignored_events: Sequence[str] = ()
    seconds: float = 0.0
    """How long it takes, roughly."""
    main_kind: str = field(default="", init=False)
    main_name: str = field(default="", init=False)

    def __post_init__(self) -> None:
        for kind in MAIN_KINDS:
            named = [manifest["metadata"]["name"] for manifest in self.manifests if manifest["kind"] == kind]
            if named:
                object.__setattr__(self, "main_kind", kind)
                object.__setattr__(self, "main_name", str(named[-1]))
                return
        raise ValueError(f"scenario {self.name} has no object of kind {', '.join(MAIN_KINDS)}")

    def given_names(self) -> frozenset[str]:
        """Names of objects and submission ids that the scenario chose itself."""
        names = {str(manifest["metadata"]["name"]) for manifest in self.manifests}
        names |= {str(manifest["spec"]["jobId"]) for manifest in self.manifests if manifest["spec"].get("jobId")}
        told = [step.value for step in self.steps if step.verb == "job" and isinstance(step.value, Mapping)]
        return frozenset(names | {str(value["id"]) for value in told if "id" in value})


def load_scenario(folder: Path, *, ours: Path | None = None) -> Scenario:
    """The scenario in *folder*; *ours* names a file with the sections (or ``steps``) that replace the recorded ones."""
    text = (folder / "scenario.yaml").read_text()
    script = _load(text)
    recorded = _load((folder / "expected.yaml").read_text())
    replaced = _load(ours.read_text()) if ours is not None else {}
    if unknown := set(replaced) - {*SECTIONS, "steps"}:
        raise ValueError(f"{ours}: there is no section {', '.join(sorted(unknown))}")
    start = script.get("start")
    return Scenario(
        name=f"{folder.parent.name}/{folder.name}",
        about=text.splitlines()[0].removeprefix("#").strip(),
        manifests=script["manifests"],
        world=script.get("world") or {},
        steps=[_step(step) for step in replaced.get("steps") or script["steps"]],
        start=(float(start[0]), float(start[1])) if start else None,
        expected={section: replaced.get(section, recorded.get(section)) for section in SECTIONS},
        differing=frozenset(replaced),
        ignored_events=script.get("ignoreEvents") or (),
        seconds=float(script.get("seconds") or 0.0),
    )


def _step(step: Mapping[str, Any]) -> Step:
    if len(step) != 1:
        raise ValueError(f"a step has one verb: {step}")
    ((verb, value),) = step.items()
    if verb not in VERBS:
        raise UnsupportedStepError(f"the step {verb!r} cannot be played yet")
    return Step(verb, value)


def _load(text: str) -> Any:
    (document,) = yaml.load_all(text, _LOADER)
    return document
