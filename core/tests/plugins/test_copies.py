"""Copies share nothing that can be changed, and change nothing."""

from __future__ import annotations

from datetime import date

from hypothesis import given
from hypothesis import strategies as st
from kuberay.plugins.copies import copy_json

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_copies_are_equal_and_apart(value):
    copied = copy_json(value)
    assert copied == value
    if isinstance(value, list | dict) and value:
        assert copied is not value


def test_what_json_does_not_know_is_kept():
    value = {"day": date(2026, 1, 2), 3: ["x"]}
    copied = copy_json(value)
    assert copied == value
    assert copied[3] is not value[3]
