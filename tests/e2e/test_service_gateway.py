"""Incremental upgrades through a real Gateway, Traefik, while requests go through it: to the end, paused, and aborted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import rayservices
from rayservices import INCREMENTAL

from dev.demo import workload
from dev.demo.kubectl import Kubectl
from dev.demo.traffic import Traffic

pytestmark = pytest.mark.long

NAME = "stepwise"
PAUSED, ABORTED = "ray.io/upgrade-paused", "ray.io/upgrade-aborted"
Seen = list[tuple[int, int]]


@pytest.fixture(scope="module")
def service(kubectl: Kubectl, namespace: str) -> Iterator[dict[str, Any]]:
    """The manifest of a RayService that is ready."""
    manifest = rayservices.rayservice(NAME, strategy=INCREMENTAL)
    rayservices.apply(kubectl, namespace, rayservices.code(), manifest)
    workload.wait_for_service(kubectl, namespace, NAME, seconds=420, tell=print)
    yield manifest
    kubectl.delete("rayservice", NAME, namespace)


@pytest.fixture(scope="module")
def url(kubectl: Kubectl, namespace: str, service: dict[str, Any]) -> str:
    return rayservices.gateway_url(kubectl, namespace, NAME)


def look(kubectl: Kubectl, namespace: str, old: str, seen: Seen) -> dict[str, Any]:
    """Note the present weights of the old and all other clusters; gives the status."""
    weights = rayservices.weights(kubectl, namespace, NAME)
    assert sum(weights.values()) == 100, weights
    pair = (weights.get(old, 0), sum(weight for cluster, weight in weights.items() if cluster != old))
    if not seen or seen[-1] != pair:
        seen.append(pair)
    return rayservices.status(kubectl, namespace, NAME)


def test_an_aborted_upgrade_loses_no_request(
    kubectl: Kubectl, namespace: str, service: dict[str, Any], url: str
) -> None:
    """Half-way it is paused, and nothing moves; then aborted, and all goes back."""
    old = rayservices.cluster_of(rayservices.status(kubectl, namespace, NAME))
    there: Seen = []
    back: Seen = []
    with Traffic(url, keep_alive=True) as traffic:
        traffic.wait_for(200)
        rayservices.apply(kubectl, namespace, rayservices.with_image(service))
        rayservices.wait_until(
            kubectl, namespace, NAME, lambda _: _moved(kubectl, namespace, old, there), 420, "requests have moved"
        )
        rayservices.annotate(kubectl, namespace, NAME, f"{PAUSED}=true")
        traffic.wait_for(traffic.count().sent + 100)
        held = look(kubectl, namespace, old, there)
        traffic.wait_for(traffic.count().sent + 400)
        after = look(kubectl, namespace, old, there)
        assert [rayservices.share(after, side) for side in ("active", "pending")] == [
            rayservices.share(held, side) for side in ("active", "pending")
        ]
        rayservices.annotate(kubectl, namespace, NAME, f"{ABORTED}=true", f"{PAUSED}-")
        rayservices.wait_until(
            kubectl,
            namespace,
            NAME,
            lambda _: not rayservices.cluster_of(look(kubectl, namespace, old, back), "pending"),
            240,
            "the upgrade is given up",
        )
        rayservices.settle(traffic, cluster=old)
        traffic.wait_for(rayservices.REQUESTS)
        count = traffic.stop()
    rayservices.none_failed(count)
    assert set(count.clusters) > {old}, "the other cluster has answered too"
    assert [new for _, new in there] == sorted(new for _, new in there)
    assert [new for _, new in back] == sorted((new for _, new in back), reverse=True)
    assert back[-1] == (100, 0)
    status = rayservices.status(kubectl, namespace, NAME)
    assert rayservices.cluster_of(status) == old
    assert rayservices.share(status, "active") == (100, 100)
    # The old spec again, so that nothing is to be upgraded once upgrades are allowed again.
    rayservices.apply(kubectl, namespace, service)
    rayservices.annotate(kubectl, namespace, NAME, f"{ABORTED}-")


def _moved(kubectl: Kubectl, namespace: str, old: str, seen: Seen) -> bool:
    look(kubectl, namespace, old, seen)
    return seen[-1][1] > 0


def test_an_incremental_upgrade_loses_no_request(
    kubectl: Kubectl, namespace: str, service: dict[str, Any], url: str
) -> None:
    old = rayservices.cluster_of(rayservices.status(kubectl, namespace, NAME))
    changed = rayservices.with_image(rayservices.rayservice(NAME, strategy=INCREMENTAL, version="two"))
    seen: Seen = []
    with Traffic(url, keep_alive=True) as traffic:
        traffic.wait_for(200)
        rayservices.apply(kubectl, namespace, changed)

        def over(status: dict[str, Any]) -> bool:
            status = look(kubectl, namespace, old, seen)
            return rayservices.cluster_of(status) not in ("", old) and not rayservices.cluster_of(status, "pending")

        status = rayservices.wait_until(kubectl, namespace, NAME, over, 420, "the upgrade is over")
        after = rayservices.cluster_of(status)
        rayservices.settle(traffic, cluster=after)
        traffic.wait_for(rayservices.REQUESTS)
        count = traffic.stop()
    rayservices.none_failed(count)
    assert seen[0] == (100, 0)
    assert [new for _, new in seen] == [0, 25, 50, 75, 100], "by stepSizePercent, one after the other"
    assert set(count.versions) == {"one", "two"}
    assert (count.clusters[old], count.clusters[after]) == (count.versions["one"], count.versions["two"])
    assert rayservices.share(status, "active") == (100, 100)
