"""Every recorded scenario of RayJob, RayCronJob and RayService on a real API server, with the real Job and garbage collectors.

All of them are played side by side, each in its own namespace, so the whole takes little longer than the longest one.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from kube_world import Operator
from kuberay.plan.config import PlanConfig
from kuberay_testkit.scenarios.compare import differences
from kuberay_testkit.scenarios.kube import PATIENCE, Result, play_on_server
from kuberay_testkit.scenarios.transitions import REQUEUE
from scenario_scope import CASES, GATES, hooks, load

LIMIT = 25
"""Seconds of the two limits that are 300 by default."""
LOADED = {case: load(case) for case in CASES}


@pytest.fixture(scope="module")
def played(operators: Operator) -> dict[str, Result]:
    operators.stop()  # two would answer each other's objects
    limit = timedelta(seconds=LIMIT)
    config = PlanConfig(job_status_check_timeout=limit, job_transition_grace=limit)
    return asyncio.run(play_on_server(list(LOADED.values()), config=config, gates=GATES, hooks=hooks()))


@pytest.mark.parametrize("case", CASES)
def test_it_goes_as_recorded(played: dict[str, Result], case: str) -> None:
    result = played[case]
    if isinstance(result, Exception):
        raise result
    found = differences(LOADED[case], result, {"300s": f"{LIMIT}s"}, requeue=REQUEUE * PATIENCE)
    assert not found, "\n".join(f"{section}:\n{text}" for section, text in found.items())
