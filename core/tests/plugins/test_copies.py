"""Copies share nothing that can be changed, and change nothing."""

from __future__ import annotations

import dataclasses
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kuberay.hooks import OwnerContext
from kuberay.plugins.copies import copy_and_text, copy_json, copy_owner, is_still

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


def test_the_copy_of_an_owner_has_every_field(make_owner):
    """Also those it was not asked for before, and for whoever takes it apart or makes another one of it."""
    ctx = make_owner()
    copied = copy_owner(ctx, "mine")
    assert isinstance(copied, OwnerContext)
    for field in dataclasses.fields(OwnerContext):
        wanted = "mine" if field.name == "settings" else getattr(ctx, field.name)
        assert (
            list(getattr(copied, field.name)) == list(wanted)
            if field.name == "groups"
            else (getattr(copied, field.name) == wanted)
        )
    other = dataclasses.replace(copy_owner(ctx, None), name="other")
    assert (other.name, other.spec, other.cluster_spec is other.spec) == ("other", ctx.spec, True)
    assert "headGroupSpec" in repr(copy_owner(ctx, None))
    with pytest.raises(AttributeError):
        copied.no_such_field  # noqa: B018


def test_what_a_copy_has_to_lose_is_apart_from_what_it_was_made_of(make_owner):
    ctx, untouched = make_owner(), make_owner()
    copied = copy_owner(ctx, None)
    copied.cluster_spec["workerGroupSpecs"].clear()
    assert copied.spec["workerGroupSpecs"] == []
    for name in ("labels", "annotations", "spec", "status", "gates", "owner_reference"):
        getattr(copied, name).clear()
    copied.groups[0].requests.clear()
    assert ctx == untouched


def test_a_changed_copy_shows():
    copied, text = copy_and_text({"a": [1]})
    assert is_still(copied, text)
    copied["a"].append(2)
    assert not is_still(copied, text)
    copied["a"] = copied
    assert not is_still(copied, text)
    odd, no_text = copy_and_text({"day": date(2026, 1, 2)})
    assert not is_still(odd, no_text)
