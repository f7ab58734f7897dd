"""How ``spec.schedule`` of a RayCronJob is read: five cron fields, a descriptor, or ``@every`` with a Go duration.

Source: spec rayjob.md 5.1. The cron language itself is cronsim's; here stands what KubeRay reads otherwise.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache

from cronsim import CronSim, CronSimError

from kuberay.api.goduration import parse_duration


class ScheduleError(ValueError):
    """The schedule cannot be read; the text is for the user."""


@dataclass(frozen=True, slots=True)
class CronFields:
    """A schedule of wall clock times, in cronsim's words."""

    expression: str

    def next_wall_time(self, after: datetime) -> datetime:
        """The first wall clock time after the naive *after* that the fields name."""
        return next(CronSim(self.expression, after))


@dataclass(frozen=True, slots=True)
class Every:
    """``@every``: a fixed time after the start before."""

    interval: timedelta


Schedule = CronFields | Every

_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS = {
    name: n
    for n, name in enumerate(["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], 1)
}
_DAYS = {name: n for n, name in enumerate(["sun", "mon", "tue", "wed", "thu", "fri", "sat"])}


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    low: int
    high: int
    words: dict[str, int]


_FIELDS = (
    _Field("minute", 0, 59, {}),
    _Field("hour", 0, 23, {}),
    _Field("day of month", 1, 31, {}),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of week", 0, 6, _DAYS),
)

_TERM = re.compile(r"(?P<first>\*|\?|\w+)(?:-(?P<last>\w+))?(?:/(?P<step>\d{1,9}))?", re.ASCII)
_STAR = "*"
_ANY_DAY = datetime(2024, 1, 1)  # noqa: DTZ001 - wall clock time; only whether a time follows matters


@lru_cache(maxsize=1024)
def parse_schedule(text: str) -> Schedule:
    """The schedule *text* says. Raises `ScheduleError`."""
    text = text.strip()
    if not text:
        raise ScheduleError("empty spec string")
    if text.startswith("@every "):
        try:
            interval = parse_duration(text.removeprefix("@every ").strip())
        except ValueError as error:
            raise ScheduleError(f"failed to parse duration {text}: {error}") from error
        return Every(max(timedelta(seconds=interval // timedelta(seconds=1)), timedelta(seconds=1)))
    if text.startswith("@"):
        if text not in _DESCRIPTORS:
            raise ScheduleError(f"unrecognized descriptor: {text}")
        return CronFields(_DESCRIPTORS[text])
    parts = text.split()
    if len(parts) != len(_FIELDS):
        raise ScheduleError(f"expected exactly 5 fields, found {len(parts)}: [{text}]")
    expression = " ".join(_field(field, part) for field, part in zip(_FIELDS, parts, strict=True))
    fields = CronFields(expression)
    try:
        fields.next_wall_time(_ANY_DAY)
    except (CronSimError, StopIteration) as error:
        raise ScheduleError(f"no day ever matches: [{text}]") from error
    return fields


def _field(field: _Field, text: str) -> str:
    terms = [_term(field, term) for term in text.split(",")]
    # A plain star in a list makes the whole field one, and so decides how the two day fields combine.
    return _STAR if _STAR in terms else ",".join(terms)


def _term(field: _Field, text: str) -> str:
    """One term of a list as cronsim understands it: ranges of numbers with a step, or a plain star.

    cronsim takes ``*/2`` in a day field for a star, 7 for Sunday, and ``N/step`` to reach to 7.
    """
    match = _TERM.fullmatch(text)
    if match is None:
        raise ScheduleError(f"failed to parse {field.name}: {text!r}")
    step = 1 if match["step"] is None else int(match["step"])
    if step == 0:
        raise ScheduleError(f"step of {field.name} should be a positive number: {text}")
    if match["first"] in ("*", "?"):
        if match["last"] is not None:
            raise ScheduleError(f"failed to parse {field.name}: {text!r}")
        return _STAR if step == 1 else f"{field.low}-{field.high}/{step}"
    first = _value(field, match["first"], text)
    if match["last"] is not None:
        last = _value(field, match["last"], text)
    else:
        last = first if match["step"] is None else field.high
    if last < first:
        raise ScheduleError(f"beginning of {field.name} range ({first}) beyond end of range ({last}): {text}")
    if first == last:
        # With a step, cronsim would take a single value for the begin of a range.
        return str(first)
    return f"{first}-{last}/{step}"


def _value(field: _Field, text: str, term: str) -> int:
    value = field.words.get(text.lower())
    if value is None:
        if not text.isdigit() or len(text) > 9:
            raise ScheduleError(f"failed to parse {field.name} {text!r}: {term}")
        value = int(text)
    if not field.low <= value <= field.high:
        edge = "below minimum" if value < field.low else "above maximum"
        limit = field.low if value < field.low else field.high
        raise ScheduleError(f"{field.name} ({value}) {edge} ({limit}): {term}")
    return value
