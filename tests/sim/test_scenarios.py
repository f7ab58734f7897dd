"""Every recorded scenario of RayJob, RayCronJob and RayService on the simulated cluster: states, requests and children as KubeRay's.

The operator runs as in production, with its own dashboard client; time, pods, Jobs and Ray are played.
"""

from __future__ import annotations

from functools import cache

import pytest
from kuberay_testkit.scenarios.compare import differences
from kuberay_testkit.scenarios.record import Played
from kuberay_testkit.scenarios.script import load_scenario
from kuberay_testkit.scenarios.sim import play_in_sim
from scenario_scope import CASES, GATES, SCENARIOS, SCENARIOS_DIFFERENT, hooks, load


@cache
def played(case: str) -> Played:
    return play_in_sim(load(case), gates=GATES, hooks=hooks())


@pytest.mark.parametrize("case", CASES)
def test_it_goes_as_recorded(case: str) -> None:
    found = differences(load(case), played(case))
    assert not found, "\n".join(f"{section}:\n{text}" for section, text in found.items())


@pytest.mark.parametrize("case", sorted(SCENARIOS_DIFFERENT))
def test_what_we_do_differently_really_differs(case: str) -> None:
    """A section of ``ours.yaml`` that equals the recorded one is not needed any more."""
    ours = load(case).differing - {"steps"}
    assert ours
    assert ours == set(differences(load_scenario(SCENARIOS / case), played(case)))
