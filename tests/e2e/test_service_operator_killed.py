"""The operator is killed with SIGKILL at each step of an upgrade, and the next one continues it: no request notices."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import operators
import pytest
import rayservices
from rayservices import INCREMENTAL, NEW_CLUSTER, cluster_of

from dev.demo import workload
from dev.demo.kubectl import Kubectl
from dev.demo.traffic import Traffic

pytestmark = pytest.mark.long

NAME = "continued"


class World:
    """What a step is told by: the RayService's status, its RayClusters and its HTTPRoute, all read anew."""

    def __init__(self, kubectl: Kubectl, namespace: str, old: str) -> None:
        self._kubectl, self._namespace, self._old = kubectl, namespace, old
        self.seen: set[str] = set()
        """All RayClusters there ever were."""
        self.moved: list[int] = []
        """Successive weights of the new RayCluster."""

    def created(self) -> bool:
        clusters = {each["metadata"]["name"] for each in self._kubectl.list("rayclusters", self._namespace)}
        self.seen |= clusters
        return len(clusters) == 2

    def configured(self) -> bool:
        return bool(self._status().get("pendingServiceStatus", {}).get("applicationStatuses"))

    def switched(self) -> bool:
        self.created()
        return cluster_of(self._status()) not in ("", self._old)

    def weight(self, percent: int) -> Callable[[], bool]:
        """Whether so much or more of the traffic goes to the new RayCluster."""

        def reached() -> bool:
            self.created()
            weights = rayservices.weights(self._kubectl, self._namespace, NAME)
            assert sum(weights.values()) == 100, weights
            new = 100 - weights.get(self._old, 0)
            if self.moved[-1:] != [new]:
                self.moved.append(new)
            return new >= percent

        return reached

    def _status(self) -> dict[str, Any]:
        return rayservices.status(self._kubectl, self._namespace, NAME)


def soon(check: Callable[[], bool], seconds: float, what: str) -> None:
    """Return as soon as *check* holds: the operator goes on meanwhile."""
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, f"{what}: not within {seconds:.0f} s"
        time.sleep(0.05)


@pytest.fixture(params=[NEW_CLUSTER, INCREMENTAL])
def strategy(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(kubectl: Kubectl, namespace: str, strategy: str) -> Iterator[str]:
    """Where a RayService with that strategy answers."""
    rayservices.apply(kubectl, namespace, rayservices.code(), rayservices.rayservice(NAME, strategy=strategy))
    workload.wait_for_service(kubectl, namespace, NAME, seconds=420, tell=print)
    if strategy == INCREMENTAL:
        yield rayservices.gateway_url(kubectl, namespace, NAME)
    else:
        yield rayservices.serve_url(namespace, NAME)
    kubectl.delete("rayservice", NAME, namespace)


def test_an_upgrade_goes_on(kubectl: Kubectl, operator: str, namespace: str, strategy: str, url: str) -> None:
    old = cluster_of(rayservices.status(kubectl, namespace, NAME))
    world = World(kubectl, namespace, old)
    changed = rayservices.with_image(rayservices.rayservice(NAME, strategy=strategy, version="two"))
    steps = [("created", world.created), ("configured", world.configured)]
    if strategy == INCREMENTAL:
        steps += [(f"{percent} %", world.weight(percent)) for percent in (25, 50, 75, 100)]
    steps += [("switched", world.switched)]
    with Traffic(url) as traffic:
        traffic.wait_for(200)
        rayservices.apply(kubectl, namespace, changed)
        for what, reached in steps:
            soon(reached, 300, f"the upgrade is {what}")
            operators.crash(kubectl, operator)
        status = rayservices.wait_for_switch(kubectl, namespace, NAME, old)
        new = cluster_of(status)
        rayservices.settle(traffic, cluster=new, seconds=120)
        soon(lambda: kubectl.get("raycluster", old, namespace) is None, 120, "the first cluster is gone")
        traffic.wait_for(rayservices.REQUESTS)
        count = traffic.stop()
    rayservices.none_failed(count)
    assert world.seen == {old, new}, "never a third RayCluster"
    assert set(count.versions) == {"one", "two"}
    assert count.versions["two"] == count.clusters[new]
    if strategy == INCREMENTAL:
        assert world.moved == sorted(world.moved), "requests went back"
        assert rayservices.share(status, "active") == (100, 100)
