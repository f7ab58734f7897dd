"""People create, edit and delete; pods fail, requests fail, watches break, operators are killed: the outcome is always the
same. `make sim` plays many more seeds (`kuberay_testkit.sim.long`).
"""

from __future__ import annotations

import functools
from collections import Counter

import pytest
from kuberay_testkit.sim.play import AUTOSCALER, TROUBLES, Plugins, play


@functools.cache
def undisturbed(seed: int) -> dict[str, Counter[str]]:
    """What the script of *seed* leads to when nothing fails."""
    return play(seed, plugins=Plugins.load([AUTOSCALER])).shape


def test_converges_without_faults(seed: int) -> None:
    undisturbed(seed)


@pytest.mark.parametrize("trouble", TROUBLES)
def test_converges_to_the_same_in_all_kinds_of_trouble(seed: int, trouble: str) -> None:
    played = play(seed, TROUBLES[trouble], Plugins.load([AUTOSCALER]))
    assert played.crashes > 0 or not TROUBLES[trouble].kills
    assert played.shape == undisturbed(seed)
