"""How points in time are written in specs and status: RFC 3339, whole seconds, UTC, ``Z``.

Nothing here reads a clock; callers bring the time.
"""

from __future__ import annotations

from datetime import UTC, datetime


def format_time(moment: datetime) -> str:
    """``2024-01-01T00:05:00Z``; fractions of a second are cut. *moment* must be aware."""
    if moment.tzinfo is None:
        raise ValueError("a time without a time zone cannot be written")
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: str) -> datetime:
    """The aware time in UTC; fractions of a second are read too. Raises ValueError when it is no RFC 3339 time."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is no RFC 3339 time") from error
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{text!r} is beyond all calendars") from error


def from_milliseconds(epoch: int | float) -> datetime:
    """The aware time for milliseconds since 1970, as Ray's dashboard gives them."""
    return datetime.fromtimestamp(epoch / 1000, UTC)
