"""How ``kuberay diff`` tells what an edit of a RayCronJob does: a page for people, a dictionary for programs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, tzinfo
from typing import Any

from kuberay.api.times import format_time
from kuberay.cli.diff_cronjob import CronEffects
from kuberay.cli.diff_report import change_fields, change_text, table


def cron_as_dict(namespace: str, name: str, effects: CronEffects) -> dict[str, Any]:
    """One object for ``-o json``."""
    return {
        "kind": "RayCronJob",
        "namespace": namespace,
        "name": name,
        "exists": effects.exists,
        "refused": bool(effects.problems),
        "atOnce": effects.at_once,
        "nextStartsBefore": [format_time(start) for start in effects.starts_before],
        "nextStartsAfter": [format_time(start) for start in effects.starts_after],
        "changes": [
            {
                **change_fields(found.change),
                "sentence": found.sentence,
            }
            for found in effects.changes
        ],
        "problems": [{"field": problem.path, "message": problem.message} for problem in effects.problems],
        "notes": effects.notes,
    }


def cron_page(namespace: str, name: str, effects: CronEffects) -> str:
    """One object for people. Lines are not folded, so that they can be searched."""
    lines = [f"RayCronJob {namespace}/{name}: {_headline(effects)}"]
    lines += [f"  {problem}" for problem in effects.problems]
    lines += [f"  at once: {what}" for what in effects.at_once]
    if effects.changes:
        lines += table(("FIELD", "EFFECT"), [(change_text(found.change), found.sentence) for found in effects.changes])
    if not effects.problems and (effects.changes or not effects.exists):
        if effects.exists and effects.starts_before != effects.starts_after:
            lines.append(f"  next starts before: {_starts(effects.starts_before, None)}")
        lines.append(
            f"  next starts{' after' if effects.exists else ''}: {_starts(effects.starts_after, effects.zone)}"
        )
    lines += [f"  {note}" for note in effects.notes]
    return "\n".join(lines)


def _headline(effects: CronEffects) -> str:
    if effects.problems:
        return "the edit would be refused; RayJobs that exist go on" if effects.exists else "would be refused"
    if not effects.exists:
        return "is not there yet; it would be made"
    if not effects.changes:
        return "no change"
    if effects.at_once:
        return "changes something at once"
    if effects.starts_before != effects.starts_after:
        what = "moves the next starts" if effects.starts_after else "nothing is started any more"
        return f"{what}; RayJobs that exist stay as they are"
    return "counts for later starts; RayJobs that exist stay as they are"


def _starts(starts: Sequence[datetime], zone: tzinfo | None) -> str:
    if not starts:
        return "none"
    if zone is None:
        return ", ".join(map(format_time, starts))
    return ", ".join(f"{format_time(start)} ({start.astimezone(zone):%a %H:%M} {zone})" for start in starts)
