"""How a duration is written in Go's way, for example ``1h30m`` or ``1.5s``: a length of time from its text, and back.

Nothing finer than a microsecond is kept.
"""

from __future__ import annotations

import re
from datetime import timedelta
from fractions import Fraction

_UNITS = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "μs": Fraction(1, 10**6),
    "ms": Fraction(1, 10**3),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
}
_TERM = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_MOST = 2**63 // 10**9
"""Seconds that Go's durations can hold."""


def parse_duration(text: str) -> timedelta:
    """The duration *text* says. Raises ValueError with one sentence."""
    sign = -1 if text.startswith("-") else 1
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return timedelta(0)
    if not rest or _TERM.sub("", rest):
        raise ValueError(f"{text!r} is no duration; write it like 90s, 1h30m or 36h")
    seconds = sum((Fraction(number) * _UNITS[unit] for number, unit in _TERM.findall(rest)), Fraction(0))
    if seconds > _MOST:
        raise ValueError(f"{text!r} is too long a duration")
    return sign * timedelta(microseconds=int(seconds * 10**6))


def format_duration(duration: timedelta) -> str:
    """*duration* as Go writes it, for example ``1h30m0s``, ``8s`` or ``1.5s``; what is below a second as a part of one."""
    sign = "-" if duration < timedelta(0) else ""
    duration = abs(duration)
    minutes, rest = divmod(duration, timedelta(minutes=1))
    seconds = f"{rest.seconds}.{rest.microseconds:06}".rstrip("0").rstrip(".") + "s"
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{sign}{hours}h{minutes}m{seconds}"
    return f"{sign}{minutes}m{seconds}" if minutes else f"{sign}{seconds}"
