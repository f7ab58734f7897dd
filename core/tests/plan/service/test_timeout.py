"""The initializing timeout (spec rayservice.md 2.5, rows 61 to 68)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from kuberay.api import names
from kuberay.api.goduration import format_duration, parse_duration
from kuberay.hooks.service_upgrade import UpgradeStep
from kuberay.plan.service import timeout

from core.tests.plan.service.strategies_for_tests import Hooks
from core.tests.plan.service.test_goal import draft_for
from core.tests.plan.service.worlds import World, new_world, serving

LIMIT = names.ANNOTATION_INITIALIZING_TIMEOUT


def starting(limit: str | None = "30m", **service: Any) -> World:
    """A RayService whose first RayCluster never becomes ready."""
    told = {LIMIT: limit} if limit is not None else {}
    return new_world(annotations=told, **service).settle()


@pytest.mark.parametrize(
    ("limit", "minutes"),
    [(None, 60), ("", 60), ("30m", 10), ("3600", 59)],
    ids=["row 64: no annotation", "an empty one", "row 65: 10 of 30 minutes", "seconds"],
)
def test_nothing_happens_before_its_time(limit: str | None, minutes: int) -> None:
    world = starting(limit)
    pending = world.pending
    world.advance(60 * minutes).settle()
    assert world.condition("Ready") == ("False", "Initializing")
    assert world.pending == pending
    assert not world.notes("RayServiceInitializingTimeout")


def test_it_is_looked_at_again_in_time() -> None:
    world = starting("30m")
    world.advance(600).settle()
    assert world.last.requeue_after is not None
    assert world.last.requeue_after <= timedelta(minutes=20)


def test_row_66_time_is_up() -> None:
    world = starting("30m", rayClusterDeletionDelaySeconds=10)
    first = world.pending
    world.service["status"]["activeServiceStatus"]["rayClusterName"] = first
    world.service["status"]["pendingServiceStatus"]["rayClusterName"] = "s-other"
    world.advance(35 * 60).one_pass()
    assert world.condition("Ready") == ("False", "InitializingTimeout")
    assert world.message("Ready") == (
        "RayService failed to become ready within the configured timeout of 30m0s. Time spent initializing: 35m0s"
    )
    assert (world.active, world.pending) == ("", "")
    assert world.condition("UpgradeInProgress") == ("False", "Initializing")
    assert world.notes("RayServiceInitializingTimeout") == [
        "RayService initializing timeout exceeded after 35m0s (configured timeout: 30m0s)"
    ]
    world.settle()
    world.advance(10).settle()
    assert world.clusters() == []


def test_endpoints_of_a_cluster_that_is_not_active_count_for_nothing() -> None:
    """With a service for each RayCluster its pods are behind one before any application runs."""
    world = starting("30m", upgradeStrategy={"type": "Scripted"}, world={"hooks": Hooks(lambda ctx: UpgradeStep())})
    world.add_pods(world.pending)
    world.settle()
    world.follow_selector(f"{world.pending}-serve-svc")
    world.settle()
    assert world.status["numServeEndpoints"] > 0
    assert (world.condition("Ready"), world.status.get("serviceStatus")) == (("False", "Initializing"), None)
    world.advance(31 * 60).settle()
    assert world.condition("Ready") == ("False", "InitializingTimeout")


def test_row_62_and_67_it_is_told_once_and_stays_over() -> None:
    world = starting("8s")
    world.advance(9).settle()
    writes = world.status_writes
    world.advance(3600).settle()
    assert world.condition("Ready") == ("False", "InitializingTimeout")
    assert len(world.notes("RayServiceInitializingTimeout")) == 1
    assert (world.clusters(), world.pending) == ([], "")
    # The delete of its RayCluster is all that has happened since.
    assert world.status_writes == writes


def test_row_68_one_that_serves_is_never_over() -> None:
    world = serving(annotations={LIMIT: "30m"})
    world.advance(35 * 60).settle()
    assert world.condition("Ready") == ("True", "NonZeroServeEndpoints")


def test_row_63_one_that_has_served_is_never_over() -> None:
    world = serving(annotations={LIMIT: "30m"})
    active = world.active
    world.set_endpoints("s-serve-svc", [])
    world.settle()
    assert world.condition("Ready") == ("False", "ZeroServeEndpoints")
    world.advance(35 * 60).settle()
    assert (world.active, world.condition("Ready")) == (active, ("False", "ZeroServeEndpoints"))


def test_endpoints_that_come_in_the_last_moment_count() -> None:
    world = starting("30m")
    world.add_pods(world.pending)
    world.settle()
    assert world.active
    world.advance(31 * 60)
    world.follow_selector()
    world.settle()
    assert world.condition("Ready") == ("True", "NonZeroServeEndpoints")


def test_row_61_without_conditions_nothing_is_over() -> None:
    draft = draft_for(new_world(annotations={LIMIT: "1s"}).service, None)
    assert timeout.over(draft) is False


def test_an_edit_starts_it_again() -> None:
    """KubeRay's is final: the object must be deleted and made again."""
    world = starting("8s")
    first = world.pending
    world.advance(9).settle()
    world.advance(3600).settle()
    world.service["spec"]["rayClusterConfig"]["rayVersion"] = "2.99.0"
    world.edited()
    world.settle()
    assert world.condition("Ready") == ("False", "Initializing")
    assert world.clusters() == [world.pending]
    assert world.pending != first
    assert world.status["observedGeneration"] == 2
    world.advance(9).settle()
    assert world.condition("Ready") == ("False", "InitializingTimeout")
    assert len(world.notes("RayServiceInitializingTimeout")) == 2


def test_taking_the_limit_away_starts_it_again_too() -> None:
    world = starting("8s")
    world.advance(9).settle()
    world.annotate(initializing_timeout=None)
    world.settle()
    assert world.condition("Ready") == ("False", "Initializing")
    assert world.pending in world.clusters()


@pytest.mark.parametrize("observed", [1, None])
def test_one_that_kuberay_gave_up_stays_over_until_it_is_edited(observed: int | None) -> None:
    world = starting("8s")
    world.advance(9).settle()
    for condition in world.service["status"]["conditions"]:
        condition.pop("observedGeneration")
    if observed is None:
        world.service["status"].pop("observedGeneration")
    world.advance(3600).settle()
    assert world.condition("Ready") == ("False", "InitializingTimeout")
    assert not world.pending


def test_a_resumed_one_has_its_whole_time() -> None:
    world = starting("30m")
    world.edit(suspend=True)
    world.settle()
    world.advance(3600)
    world.edit(suspend=False)
    world.settle()
    world.advance(29 * 60).settle()
    assert world.condition("Ready") == ("False", "Initializing")
    world.advance(61).settle()
    assert world.condition("Ready") == ("False", "InitializingTimeout")


@pytest.mark.parametrize("text", ["30m0s", "1h30m0s", "8s", "1.5s", "0s", "-2s", "100h0m0.25s", "1m0.000001s"])
def test_durations_are_written_as_go_does(text: str) -> None:
    assert format_duration(parse_duration(text)) == text
