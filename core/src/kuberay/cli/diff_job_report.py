"""How ``kuberay diff`` tells what an edit of a RayJob does: a page for people, a dictionary for programs."""

from __future__ import annotations

from typing import Any

from kuberay.cli.diff_job import JobEffect, JobEffects
from kuberay.cli.diff_report import change_text, finding_fields, table


def job_as_dict(namespace: str, name: str, effects: JobEffects) -> dict[str, Any]:
    """One object for ``-o json``."""
    return {
        "kind": "RayJob",
        "namespace": namespace,
        "name": name,
        "exists": effects.exists,
        "refused": bool(effects.problems),
        "state": effects.state,
        "atOnce": effects.at_once,
        **finding_fields(effects.changes, effects.problems, effects.notes),
    }


def job_page(namespace: str, name: str, effects: JobEffects) -> str:
    """One object for people. Lines are not folded, so that they can be searched."""
    lines = [f"RayJob {namespace}/{name}: {headline(effects)}"]
    lines += [f"  {problem}" for problem in effects.problems]
    lines += [f"  at once: {what}" for what in effects.at_once]
    if effects.changes:
        lines += table(("FIELD", "EFFECT"), [(change_text(found.change), found.sentence) for found in effects.changes])
    lines += [f"  {note}" for note in effects.notes]
    return "\n".join(lines)


def headline(effects: JobEffects) -> str:
    """The answer in one line."""
    if effects.problems:
        return "the edit would be refused; what runs is not touched" if effects.exists else "would be refused"
    if not effects.exists:
        return "is not there yet; it would be made ('kuberay render' shows of what)"
    if not effects.changes:
        return "no change"
    kinds = {found.effect for found in effects.changes}
    if effects.at_once or JobEffect.AT_ONCE in kinds:
        return "changes something at once"
    if JobEffect.LATER in kinds:
        return "touches nothing that runs; changes what comes later"
    if JobEffect.NEXT_ATTEMPT in kinds:
        return "touches nothing that runs; counts from the next attempt on"
    return "changes nothing"
