"""Fixtures of the test kit, found by pytest through its entry point. Nothing heavy is imported before a fixture is used."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kuberay.plugins.manager import PluginManager

    from kuberay_testkit.dashboard import FakeDashboard
    from kuberay_testkit.lab import Lab
    from kuberay_testkit.metrics import MetricDeltas
    from kuberay_testkit.rbac import RbacRecorder
    from kuberay_testkit.sim.clock import VirtualClock
    from kuberay_testkit.sim.server import SimServer

Builder = Callable[..., dict[str, Any]]

pytest.register_assert_rewrite("kuberay_testkit.conformance", "kuberay_testkit.lab", "kuberay_testkit.rbac")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Cases of a conformance suite that say nothing about its subject are left out (`conformance.suite.applies`)."""
    out = [item for item in items if not _is_for_its_subject(item)]
    if out:
        items[:] = [item for item in items if item not in out]
        config.hook.pytest_deselected(items=out)


def _is_for_its_subject(item: pytest.Item) -> bool:
    owner = getattr(item, "cls", None)
    applies = getattr(getattr(item, "function", None), "_kuberay_applies", None)
    if owner is None or applies is None:
        return True
    try:
        return bool(applies(owner().subject()))
    except Exception:  # noqa: BLE001  the case itself then fails, and shows why
        return True


@pytest.fixture
def plugin_manager() -> Callable[..., PluginManager]:
    """``plugin_manager("volcano", my_module, settings={"volcano": {…}})``: a manager with these plugins and no others."""
    from kuberay_testkit.plugins import manager_of

    return manager_of


@pytest.fixture
def simulate() -> Callable[..., Any]:
    """``simulate(story, plugins=[…], …)`` runs ``async def story(lab)`` in a simulated Kubernetes with the real operator on a
    virtual clock, and returns its result. Options are the fields of `kuberay_testkit.lab.Setup`."""
    from kuberay_testkit.lab import Setup, play

    def simulate(
        story: Callable[[Lab], Awaitable[Any]], *, start: bool = True, crash_at: int | None = None, **setup: Any
    ) -> Any:
        return play(story, Setup(**setup), start=start, crash_at=crash_at)

    return simulate


@pytest.fixture
def metric_deltas() -> type[MetricDeltas]:
    """`kuberay_testkit.metrics.MetricDeltas`: how much counters of an operator or a registry move from now on."""
    from kuberay_testkit.metrics import MetricDeltas

    return MetricDeltas


@pytest.fixture
def rbac_recorder() -> type[RbacRecorder]:
    """`kuberay_testkit.rbac.RbacRecorder`: every request of a client of a `SimServer`, against the declared rules. A lab has
    one already, ``lab.rbac``, and checks it at its end."""
    from kuberay_testkit.rbac import RbacRecorder

    return RbacRecorder


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


def _builder(name: str) -> Builder:
    from kuberay_testkit import builders

    found: Builder = getattr(builders, name)
    return found


@pytest.fixture
def build_raycluster() -> Builder:
    """`kuberay_testkit.builders.build_raycluster`."""
    return _builder("build_raycluster")


@pytest.fixture
def build_rayjob() -> Builder:
    """`kuberay_testkit.builders.build_rayjob`."""
    return _builder("build_rayjob")


@pytest.fixture
def build_rayservice() -> Builder:
    """`kuberay_testkit.builders.build_rayservice`."""
    return _builder("build_rayservice")


@pytest.fixture
def build_raycronjob() -> Builder:
    """`kuberay_testkit.builders.build_raycronjob`."""
    return _builder("build_raycronjob")
