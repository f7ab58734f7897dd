"""Fixtures of the test kit, found by pytest through its entry point. Nothing heavy is imported before a fixture is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kuberay_testkit.dashboard import FakeDashboard
    from kuberay_testkit.sim.clock import VirtualClock
    from kuberay_testkit.sim.server import SimServer

Builder = Callable[..., dict[str, Any]]


@pytest.fixture
def virtual_clock() -> VirtualClock:
    """Wall clock at 2026-01-01 plus the running loop's time."""
    from kuberay_testkit.sim.clock import VirtualClock

    return VirtualClock()


@pytest.fixture
def sim_server(virtual_clock: VirtualClock) -> SimServer:
    """An empty simulated API server on `virtual_clock`."""
    from kuberay_testkit.sim.server import SimServer

    return SimServer(clock=virtual_clock)


@pytest.fixture
def fake_dashboard(virtual_clock: VirtualClock) -> FakeDashboard:
    """A Ray dashboard that answers at every address and knows no jobs."""
    from kuberay_testkit.dashboard import FakeDashboard

    return FakeDashboard(clock=virtual_clock)


@pytest.fixture
def build_raycluster() -> Builder:
    """`kuberay_testkit.builders.build_raycluster`."""
    from kuberay_testkit import builders

    return builders.build_raycluster


@pytest.fixture
def build_rayjob() -> Builder:
    """`kuberay_testkit.builders.build_rayjob`."""
    from kuberay_testkit import builders

    return builders.build_rayjob
