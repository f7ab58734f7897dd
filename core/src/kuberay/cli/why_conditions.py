"""The conditions of an object that hold, as ``kuberay why`` tells them: their message, and what the reference advises.

Source: docs/conditions.md, whose entries `kuberay.api.condition_reference` holds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from kuberay.api.condition_reference import find_entry
from kuberay.api.conditions import TRUE
from kuberay.api.objects import RayObject
from kuberay.cli.why_reading import conditions_of, time_in
from kuberay.cli.why_report import Finding

_LONGEST_MESSAGE = 12
"""Lines."""


def conditions_that_hold(kind: str, obj: RayObject, apart: Collection[str]) -> Iterator[Finding]:
    """One finding per condition of an object of *kind* that is True, save the types in *apart*. A message that two conditions have, such as that of a
    plugin that is missing and of what waits for it, is told once."""
    told: set[str] = set()
    for condition in conditions_of(obj):
        type_ = str(condition.get("type"))
        if condition.get("status") != TRUE or type_ in apart:
            continue
        reason = str(condition.get("reason", ""))
        entry = find_entry(kind, type_, TRUE, reason)
        what = last_lines(str(condition.get("message") or (entry.meaning if entry is not None else type_)))
        if what in told:
            continue
        told.add(what)
        lasting, advice = (entry.lasting, entry.advice) if entry is not None else ("", "")
        yield Finding(what, reason, time_in(condition.get("lastTransitionTime")), lasting, advice)


def last_lines(text: str) -> str:
    """The end of a message that may be a whole traceback, indented as findings are."""
    return "\n     ".join(text.strip().splitlines()[-_LONGEST_MESSAGE:])
