"""When schedules start something: zones, daylight saving, ``@every``, the last start (spec rayjob.md 5.1)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from kuberay.api.cron import parse_schedule
from kuberay.api.times import format_time, parse_time
from kuberay.plan.cronjob.ticks import Ticks

CREATED = datetime(2024, 1, 1, tzinfo=UTC)


def ticks(schedule: str, zone: str = "UTC", anchor: datetime = CREATED) -> Ticks:
    return Ticks(parse_schedule(schedule), ZoneInfo(zone), anchor)


def starts(of: Ticks, after: str, count: int) -> list[str]:
    moment, found = parse_time(after), []
    for _ in range(count):
        moment = of.after(moment)
        found.append(format_time(moment))
    return found


@pytest.mark.parametrize(
    ("schedule", "zone", "after", "wanted"),
    [
        ("0 9 * * *", "Asia/Taipei", "2024-01-01T00:00:00Z", ["2024-01-01T01:00:00Z", "2024-01-02T01:00:00Z"]),
        ("30 5 * * *", "Asia/Kathmandu", "2024-01-01T00:00:00Z", ["2024-01-01T23:45:00Z"]),
        ("0 5 1 1 *", "Asia/Tokyo", "2024-01-01T00:00:00Z", ["2024-12-31T20:00:00Z", "2025-12-31T20:00:00Z"]),
        # Spring in Berlin: 02:30 does not exist on 31 March.
        ("30 2 * * *", "Europe/Berlin", "2024-03-30T00:00:00Z", ["2024-03-30T01:30:00Z", "2024-04-01T00:30:00Z"]),
        # Autumn: 02:30 comes twice on 27 October.
        (
            "30 2 * * *",
            "Europe/Berlin",
            "2024-10-26T12:00:00Z",
            ["2024-10-27T00:30:00Z", "2024-10-27T01:30:00Z", "2024-10-28T01:30:00Z"],
        ),
        # From within the hour that comes again.
        ("30 2 * * *", "Europe/Berlin", "2024-10-27T00:45:00Z", ["2024-10-27T01:30:00Z", "2024-10-28T01:30:00Z"]),
        ("0 * * * *", "Europe/Berlin", "2024-03-31T00:30:00Z", ["2024-03-31T01:00:00Z", "2024-03-31T02:00:00Z"]),
        (
            "*/30 * * * *",
            "America/New_York",
            "2024-11-03T05:15:00Z",
            ["2024-11-03T05:30:00Z", "2024-11-03T06:00:00Z", "2024-11-03T06:30:00Z", "2024-11-03T07:00:00Z"],
        ),
        # Half an hour only.
        (
            "45 1 * * *",
            "Australia/Lord_Howe",
            "2024-04-06T00:00:00Z",
            ["2024-04-06T14:45:00Z", "2024-04-06T15:15:00Z", "2024-04-07T15:15:00Z"],
        ),
        # Yearly, over two changes that undo each other; and in the hour that comes twice.
        ("30 2 15 1 *", "Europe/Berlin", "2024-01-16T00:00:00Z", ["2025-01-15T01:30:00Z"]),
        ("30 2 27 10 *", "Europe/Berlin", "2024-01-16T00:00:00Z", ["2024-10-27T00:30:00Z", "2024-10-27T01:30:00Z"]),
        # A date that a zone leaves out.
        ("0 12 * * *", "Pacific/Apia", "2011-12-29T00:00:00Z", ["2011-12-29T22:00:00Z", "2011-12-30T22:00:00Z"]),
        ("0 0 29 2 *", "Europe/Berlin", "2024-03-01T00:00:00Z", ["2028-02-28T23:00:00Z"]),
        # Fractions of a second.
        ("* * * * *", "UTC", "2024-01-01T00:00:59.999999Z", ["2024-01-01T00:01:00Z"]),
        ("* * * * *", "UTC", "2024-01-01T00:01:00.000001Z", ["2024-01-01T00:02:00Z"]),
    ],
)
def test_cj05_zones(schedule: str, zone: str, after: str, wanted: list[str]) -> None:
    """CJ-05: what daylight saving does is defined: a skipped time does not start, a repeated one starts twice."""
    assert starts(ticks(schedule, zone), after, len(wanted)) == wanted


def test_every_counts_from_the_start_before() -> None:
    of = ticks("@every 90s", anchor=parse_time("2024-01-01T00:00:07.5Z"))
    assert starts(of, "2024-01-01T00:00:07.5Z", 2) == ["2024-01-01T00:01:37Z", "2024-01-01T00:03:07Z"]
    assert starts(of, "2023-01-01T00:00:00Z", 1) == ["2024-01-01T00:01:37Z"]
    assert starts(of, "2024-01-01T00:01:37Z", 1) == ["2024-01-01T00:03:07Z"]


@pytest.mark.parametrize(
    ("schedule", "after", "until", "wanted"),
    [
        ("* * * * *", "2024-01-01T00:00:00Z", "2024-01-02T00:00:30Z", "2024-01-02T00:00:00Z"),
        ("* * * * *", "2024-01-01T00:00:00Z", "2024-01-01T00:00:59.9Z", None),
        ("* * * * *", "2024-01-01T00:00:00Z", "2024-01-01T00:01:00Z", "2024-01-01T00:01:00Z"),
        ("* * * 1 *", "2024-01-01T00:00:00Z", "2024-12-24T00:00:00Z", "2024-01-31T23:59:00Z"),
        ("@every 7s", "2024-01-01T00:00:00Z", "2024-01-01T00:00:30Z", "2024-01-01T00:00:28Z"),
        ("0 0 1 1 *", "2024-01-01T00:00:00Z", "2031-06-01T00:00:00Z", "2031-01-01T00:00:00Z"),
        ("0 0 1 1 *", "2024-01-01T00:00:00Z", "2023-06-01T00:00:00Z", None),
    ],
)
def test_the_last_start(schedule: str, after: str, until: str, wanted: str | None) -> None:
    found = ticks(schedule).latest(parse_time(after), parse_time(until))
    assert (format_time(found) if found else None) == wanted


def test_counting_stops_where_nobody_wants_to_know() -> None:
    of, end = ticks("* * * * *"), parse_time("2024-01-02T00:00:00Z")
    assert of.count(CREATED, end, 100) == 100
    assert of.count(end - timedelta(minutes=5), end, 100) == 4


SCHEDULES = st.sampled_from(
    ["* * * * *", "30 2 * * *", "*/20 1-3 * * *", "0 0 * * 1", "0 12 1 */3 *", "59 23 31 * *", "@every 37s", "@hourly"]
)
ZONES = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"])
MOMENTS = st.datetimes(datetime(2024, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC))


@settings(deadline=None, max_examples=examples(100))
@given(SCHEDULES, ZONES, MOMENTS)
def test_starts_strictly_increase_and_none_is_passed_over(schedule: str, zone: str, moment: datetime) -> None:
    of = ticks(schedule, zone)
    first = of.after(moment)
    second = of.after(first)
    assert moment < first < second
    assert of.after(first - timedelta(microseconds=1)) == first
    middle = moment + (first - moment) / 2
    assert of.after(middle) == first
    assert of.latest(moment, first) == first
    assert of.latest(moment, second - timedelta(seconds=1)) == first
    assert of.latest(moment, second) == second


@settings(deadline=None, max_examples=examples(40))
@given(
    st.sampled_from(["30 2 * * *", "*/20 1-3 * * *", "45 1 * * 0,6"]),
    ZONES,
    st.sampled_from(["2024-03-10", "2024-03-31", "2024-04-07", "2024-10-06", "2024-10-27", "2024-11-03"]),
)
def test_as_a_clock_on_the_wall_would_have_it(schedule: str, zone: str, day: str) -> None:
    """Around each change of the clocks: exactly the minutes at which the wall clock shows a time of the schedule."""
    of, begin = ticks(schedule, zone), parse_time(f"{day}T00:00:00Z") - timedelta(days=1)
    plain = ticks(schedule)
    expected = []
    for minute in range(3 * 24 * 60):
        instant = begin + timedelta(minutes=minute)
        wall = instant.astimezone(ZoneInfo(zone)).replace(tzinfo=UTC)
        if plain.after(wall - timedelta(seconds=1)) == wall:
            expected.append(instant)
    found, moment = [], begin - timedelta(seconds=1)
    while (moment := of.after(moment)) < begin + timedelta(days=3):
        found.append(moment)
    assert found == expected
