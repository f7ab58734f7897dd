"""The schedule language of RayCronJobs (spec rayjob.md 5.1)."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kuberay.api.cron import CronFields, Every, ScheduleError, parse_schedule
from kuberay.api.goduration import parse_duration

MONDAY = datetime(2024, 1, 1)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("*/5 * * * *", ["01-01 00:05", "01-01 00:10"]),
        ("50/5 0 * * *", ["01-01 00:50", "01-01 00:55", "01-02 00:50"]),
        ("0 0 ? * *", ["01-02 00:00", "01-03 00:00"]),
        ("0 0 * JAN,mar SAT-sat", ["01-06 00:00", "01-13 00:00"]),
        ("0 12 * * 5/1", ["01-05 12:00", "01-06 12:00", "01-12 12:00"]),
        ("0 0 * * 1-5/2", ["01-03 00:00", "01-05 00:00", "01-08 00:00"]),
        # Both day fields restricted: either suffices.
        ("0 0 4 * 3", ["01-03 00:00", "01-04 00:00", "01-10 00:00"]),
        # A plain star beside the other: both must match.
        ("0 0 */1 * 3", ["01-03 00:00", "01-10 00:00"]),
        ("0 0 1,* * 3", ["01-03 00:00", "01-10 00:00"]),
        # */2 is no plain star.
        ("0 0 */2 * 2", ["01-02 00:00", "01-03 00:00", "01-05 00:00"]),
        ("0 0 8 * */3", ["01-03 00:00", "01-06 00:00", "01-07 00:00", "01-08 00:00"]),
        ("0 0 29 2 *", ["02-29 00:00"]),
        ("@hourly", ["01-01 01:00", "01-01 02:00"]),
        ("@daily", ["01-02 00:00"]),
        ("@midnight", ["01-02 00:00"]),
        ("@weekly", ["01-07 00:00", "01-14 00:00"]),
        ("@monthly", ["02-01 00:00"]),
        ("@yearly", ["01-01 00:00"]),
        ("@annually", ["01-01 00:00"]),
        ("  0   0\t* * *  ", ["01-02 00:00"]),
    ],
)
def test_fields(text: str, wanted: list[str]) -> None:
    schedule, found, moment = parse_schedule(text), [], MONDAY
    assert isinstance(schedule, CronFields)
    for _ in wanted:
        moment = schedule.next_wall_time(moment)
        found.append(moment.strftime("%m-%d %H:%M"))
    assert found == wanted


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty spec string"),
        ("invalid cron", "expected exactly 5 fields, found 2: [invalid cron]"),
        ("0 * * * * *", "expected exactly 5 fields, found 6"),
        ("61 * * * *", "minute (61) above maximum (59)"),
        ("* 24 * * *", "hour (24) above maximum (23)"),
        ("* * 0 * *", "day of month (0) below minimum (1)"),
        ("* * * 13 *", "month (13) above maximum (12)"),
        ("* * * * 7", "day of week (7) above maximum (6)"),
        ("* * * * 5-7", "day of week (7) above maximum (6)"),
        ("*/0 * * * *", "step of minute should be a positive number"),
        ("5-1 * * * *", "beginning of minute range (5) beyond end of range (1)"),
        ("* * L * *", "failed to parse day of month"),
        ("* * 15W * *", "failed to parse day of month"),
        ("* * * * 1#2", "failed to parse day of week"),
        ("* * * * mo", "failed to parse day of week"),
        ("*-5 * * * *", "failed to parse minute"),
        ("1,,2 * * * *", "failed to parse minute"),
        ("1- * * * *", "failed to parse minute"),
        ("1/ * * * *", "failed to parse minute"),
        ("-1 * * * *", "failed to parse minute"),
        ("9999999999999999 * * * *", "failed to parse minute"),
        ("* * * jan-feb-mar *", "failed to parse month"),
        ("@fortnightly", "unrecognized descriptor: @fortnightly"),
        ("@every soon", "failed to parse duration @every soon"),
        ("0 0 30 2 *", "no day ever matches"),
        ("0 0 31 2,4,6,9,11 ?", "no day ever matches"),
    ],
)
def test_refused(text: str, reason: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        parse_schedule(text)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("@every 1h30m", 5400), ("@every 6s", 6), ("@every 1.9s", 1), ("@every 20ms", 1), ("@every 1m0.5s", 60)],
)
def test_every(text: str, seconds: int) -> None:
    assert parse_schedule(text) == Every(timedelta(seconds=seconds))


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        schedule = parse_schedule(text)
    except ScheduleError:
        return
    assert isinstance(schedule, CronFields | Every)


@given(st.lists(st.sampled_from([*"*?/-,0123456789", "mon", "feb", "L", "#"]), max_size=8).map("".join))
def test_any_field_is_read_or_refused(field: str) -> None:
    for text in (f"{field} * * * *", f"* * {field} * *", f"* * * {field} *", f"* * 1 * {field}"):
        with suppress(ScheduleError):
            assert isinstance(parse_schedule(text), CronFields)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("1h1m1s", 3661),
        ("-5m", -300),
        ("+.5h", 1800),
        ("0", 0),
        ("1.s", 1),
        ("1500ms", 1.5),
        ("3us", 3e-6),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "5", "1d", "h", "1.5.3s", "1 h", "--1s", "999999999999h"])
def test_no_durations(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)
