from datetime import UTC, datetime, timedelta, timezone

import pytest
from kuberay.api.times import format_time, from_milliseconds, parse_time

MOMENT = datetime(2024, 1, 1, 0, 5, 0, tzinfo=UTC)


def test_format_cuts_fractions_and_converts_to_utc() -> None:
    local = MOMENT.astimezone(timezone(timedelta(hours=5))) + timedelta(microseconds=999_999)
    assert format_time(local) == "2024-01-01T00:05:00Z"


@pytest.mark.parametrize("text", ["2024-01-01T00:05:00Z", "2024-01-01T01:05:00+01:00", "2024-01-01T00:05:00.000000Z"])
def test_parse(text: str) -> None:
    assert parse_time(text) == MOMENT


@pytest.mark.parametrize("text", ["", "yesterday", "2024-01-01T00:05:00"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no RFC 3339 time|has no time zone"):
        parse_time(text)


def test_a_time_that_has_no_counterpart_in_utc() -> None:
    with pytest.raises(ValueError, match="beyond all calendars"):
        parse_time("9999-12-31T23:59:59-12:00")


def test_naive_times_are_refused() -> None:
    with pytest.raises(ValueError, match="without a time zone"):
        format_time(MOMENT.replace(tzinfo=None))


def test_milliseconds() -> None:
    assert from_milliseconds(MOMENT.timestamp() * 1000) == MOMENT
