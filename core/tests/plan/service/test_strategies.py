"""Which upgrade strategy a RayService has, and what the core's own say (spec rayservice.md 3.1-3.3, rows 16-20 and 118)."""

from __future__ import annotations

from typing import Any

import pytest
from kuberay.hooks.service_upgrade import ServiceSide, ServiceUpgradeContext, ServiceUpgradeStrategy, UpgradeStep
from kuberay.plan.service.strategies import Keep, Missing, Recreate, Rolling, core_strategy

INCREMENTAL = "NewClusterWithIncrementalUpgrade"


@pytest.mark.parametrize(
    ("type_", "env", "gate", "new_cluster"),
    [
        pytest.param(None, True, True, True, id="16-17"),
        pytest.param("", True, True, True, id="an empty word is none"),
        pytest.param(None, False, True, False, id="18"),
        pytest.param("NewCluster", True, True, True, id="19"),
        pytest.param("NewCluster", False, False, True, id="19 whatever the environment says"),
        pytest.param("None", True, True, False, id="20"),
        pytest.param("None", False, True, False, id="20 whatever the environment says"),
        pytest.param(INCREMENTAL, True, False, False, id="118 gate off"),
    ],
)
def test_whether_another_cluster_is_made(type_: str | None, env: bool, gate: bool, new_cluster: bool) -> None:
    """Rows 16-20: the table of 3.1."""
    strategy = core_strategy(type_, zero_downtime=env, incremental=gate)
    assert strategy is not None
    assert strategy.on_change == ("new-cluster" if new_cluster else "ignore")
    assert isinstance(strategy, Keep) is not new_cluster


@pytest.mark.parametrize("type_", [INCREMENTAL, "Sideways"])
def test_what_the_core_does_not_offer_is_for_plugins(type_: str) -> None:
    """Row 118, gate on."""
    assert core_strategy(type_, zero_downtime=True, incremental=True) is None


@pytest.mark.parametrize(
    ("type_", "options", "expected"),
    [
        (Rolling, {}, {"type": "Rolling"}),
        (
            Rolling,
            {"maxUnavailable": 0, "maxSurge": "25%", "allowHeadRestart": False, "clusterUpgradeOptions": {"a": 1}},
            {"type": "Rolling", "maxUnavailable": 0, "maxSurge": "25%", "allowHeadRestart": False},
        ),
        (Recreate, {"maxSurge": 1}, {"type": "Recreate"}),
        (ServiceUpgradeStrategy, {"maxSurge": 1}, None),
        (Keep, {}, None),
    ],
)
def test_what_the_cluster_is_told(type_: Any, options: dict[str, Any], expected: dict[str, Any] | None) -> None:
    """Rolling and Recreate work inside the one RayCluster, with its own strategies."""

    class Owner:
        spec = {"upgradeStrategy": {"type": type_.name, **options}}  # noqa: RUF012

    strategy = type_()
    assert strategy.cluster_strategy(Owner()) == expected
    assert (strategy.on_change == "same-cluster") is (expected is not None)


def side(name: str, **fields: Any) -> ServiceSide:
    return ServiceSide(cluster=name, **fields)


READY: dict[str, Any] = {"ready": True, "head_ready": True, "backends": 2}
OLD = side("a", relation="differs", **READY)


@pytest.mark.parametrize(
    ("active", "pending", "told", "expected"),
    [
        pytest.param(None, None, {}, UpgradeStep(), id="nothing"),
        pytest.param(OLD, None, {}, UpgradeStep(), id="12 13: naming is the core's"),
        pytest.param(None, side("p"), {}, UpgradeStep(promote=False), id="first, starting"),
        pytest.param(None, side("p", **READY), {}, UpgradeStep(promote=True), id="first, ready"),
        pytest.param(None, side("p", relation="differs", **READY), {}, UpgradeStep(replace=True), id="14"),
        pytest.param(
            OLD, side("p", relation="differs"), {"served_by": "p"}, UpgradeStep(promote=True), id="15: served already"
        ),
        pytest.param(OLD, side("p", relation="differs"), {}, UpgradeStep(replace=True), id="RS-10"),
        pytest.param(OLD, side("p", **READY), {}, UpgradeStep(promote=True), id="ready"),
        pytest.param(OLD, side("p", **READY), {"aborted": True}, UpgradeStep(give_up=True), id="aborted"),
        pytest.param(side("a", **READY), side("p", **READY), {}, UpgradeStep(give_up=True), id="reverted"),
        pytest.param(
            side("a", relation="extended"), side("p", relation="differs"), {}, UpgradeStep(give_up=True), id="extended"
        ),
        pytest.param(
            side("a", exists=False), side("p", **READY), {}, UpgradeStep(promote=True), id="active deleted by hand"
        ),
    ],
)
def test_new_cluster(active: Any, pending: Any, told: dict[str, Any], expected: UpgradeStep) -> None:
    """Rows 12-15 and RS-10, as far as the strategy decides them."""
    context = ServiceUpgradeContext(owner=None, active=active, pending=pending, **told)  # type: ignore[arg-type]
    assert ServiceUpgradeStrategy().step(context) == expected


@pytest.mark.parametrize(
    ("pending", "told", "why"),
    [
        (side("p"), {}, "Serve of RayCluster p does not run yet"),
        (side("p", ready=True), {}, "no pod of RayCluster p is ready to serve"),
        (side("p", **READY), {"paused": True}, "the upgrade is paused by annotation ray.io/upgrade-paused"),
    ],
)
def test_new_cluster_says_what_it_waits_for(pending: ServiceSide, told: dict[str, Any], why: str) -> None:
    context = ServiceUpgradeContext(owner=None, active=OLD, pending=pending, **told)  # type: ignore[arg-type]
    assert ServiceUpgradeStrategy().step(context) == UpgradeStep(waiting=why)


def test_without_its_plugin_nothing_moves() -> None:
    context = ServiceUpgradeContext(owner=None, active=OLD, pending=side("p", **READY))  # type: ignore[arg-type]
    assert Missing().step(context) == UpgradeStep()
    assert Missing().on_change == "ignore"
