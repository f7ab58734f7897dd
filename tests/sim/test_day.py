"""Two hours of a simulated day: the operator keeps nothing of what has gone, and takes no status back without a cause.
`make sim-day` has all twenty-four.
"""

from __future__ import annotations

import pytest
from kuberay_testkit.sim import day
from kuberay_testkit.sim.play import AUTOSCALER, GATEWAY_UPGRADE

FEW = 6.0
"""Stories an hour."""


def test_memory_and_series_follow_what_there_is() -> None:
    """Whatever of what is gone is held, or has a series, is an error of its own (`kuberay_testkit.sim.day`)."""
    seen = day.run_day(hours=2, per_hour=FEW, plugins=[AUTOSCALER, GATEWAY_UPGRADE])
    seen.expect_flat(first=1)
    assert all(sample.objects > 0 and sample.requests > 100 for sample in seen.samples)
    assert all(seen.checked[f"{kind} {what}"] > 5 for kind in ("RayCluster", "RayJob") for what in ("status", "spec"))


def test_what_is_not_forgotten_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kuberay.kube.store.Store.forget_old", lambda self: None)
    with pytest.raises(AssertionError, match=r"what is gone is still remembered after hour 1: .* < Store"):
        day.run_day(hours=1, per_hour=3.0)
