from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kuberay.api.quantity import add_all, canonical, ceil_int, ceil_milli, multiply, parse, to_float


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1000m", "1"),
        ("4096Mi", "4Gi"),
        ("0.5", "500m"),
        ("1.5Gi", "1536Mi"),
        ("0.5Gi", "512Mi"),
        ("0.1Ki", "102400m"),
        ("1e3", "1e3"),
        ("1E3", "1e3"),
        ("12e2", "1200"),
        ("1000", "1k"),
        ("1500", "1500"),
        ("2000000", "2M"),
        ("1024", "1024"),
        ("1023Ki", "1023Ki"),
        ("512Ki", "512Ki"),
        ("1024Ki", "1Mi"),
        ("0", "0"),
        ("0Gi", "0"),
        ("-1500m", "-1500m"),
        ("+5", "5"),
        (".5", "500m"),
        ("5.", "5"),
        ("0.0000000001", "1n"),
        ("9Ei", "9223372036854775807"),
        ("1u", "1u"),
        (2, "2"),
        (0.25, "250m"),
    ],
)
def test_canonical(text: str | float, expected: str) -> None:
    assert canonical(text) == expected


def test_canonical_takes_the_suffix_kind_of_another() -> None:
    assert canonical(Fraction(2 * 2**30), "1Gi") == "2Gi"
    assert canonical("2Gi", "1") == "2147483648"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], "0"),
        (["0", "1Gi", "512Mi"], "1536Mi"),
        (["500m", "1"], "1500m"),
        (["1Gi", "1G"], "2073741824"),
        (["1G", "1Gi"], "2073741824"),
        (["0", "0"], "0"),
        ([1, 0.5], "1500m"),
        (["1Gi"] * 4, "4Gi"),
    ],
)
def test_add_all(values: list[str | float], expected: str) -> None:
    assert add_all(values) == expected


@pytest.mark.parametrize(
    ("text", "whole", "milli"),
    [
        ("500m", 1, 500),
        ("1", 1, 1000),
        ("1001m", 2, 1001),
        ("-500m", -1, -500),
        ("1500u", 1, 2),
        ("2Ki", 2048, 2048000),
    ],
)
def test_ceiling_goes_away_from_zero(text: str, whole: int, milli: int) -> None:
    assert ceil_int(text) == whole
    assert ceil_milli(text) == milli


@pytest.mark.parametrize("text", ["", "abc", "1.2.3", "1KiB", "Gi", "1 Gi", "--1", "1e", ".", "1g", " 1", "1e+"])
def test_what_is_no_quantity(text: str) -> None:
    with pytest.raises(ValueError, match="is no quantity"):
        parse(text)


def test_other_types_are_refused() -> None:
    with pytest.raises(ValueError, match="not bool"):
        parse(True)
    with pytest.raises(ValueError, match="not list"):
        parse([])  # type: ignore[arg-type]


def test_multiply_and_float() -> None:
    assert multiply("512Mi", 4) == "2Gi"
    assert to_float("250m") == 0.25


@given(st.integers(-(10**15), 10**15), st.sampled_from(["", "m", "k", "Ki", "Mi", "e3", "e-3"]))
def test_canonical_form_keeps_the_value_and_is_stable(number: int, suffix: str) -> None:
    text = f"{number}{suffix}"
    once = canonical(text)
    assert parse(once) == parse(text)
    assert canonical(once) == once
