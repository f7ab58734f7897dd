"""What is old goes, and so does the room it took."""

from __future__ import annotations

import sys
from collections import OrderedDict

from kuberay.kube.remembered import without_old


def test_only_those_at_the_head_that_are_old_go() -> None:
    entries = OrderedDict(a=1, b=2, c=7, d=3)
    assert list(without_old(entries, lambda since: since < 5)) == ["c", "d"]


def test_nothing_is_copied_when_nothing_goes() -> None:
    entries = OrderedDict(a=7)
    assert without_old(entries, lambda since: since < 5) is entries
    assert without_old(OrderedDict[str, int](), lambda since: since < 5) == {}


def test_the_room_of_many_is_given_back() -> None:
    entries = OrderedDict((number, number) for number in range(20_000))
    most = sys.getsizeof(entries)
    left = without_old(entries, lambda since: since < 19_990)
    assert list(left) == list(range(19_990, 20_000))
    assert sys.getsizeof(left) < most / 100
