"""A RayService on real Ray that is asked all the time: its first start, another Serve configuration, another RayCluster."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
import rayservices
from waiting import eventually

from dev.demo import workload
from dev.demo.install import OUR_RAY_IMAGE
from dev.demo.kubectl import Kubectl
from dev.demo.traffic import Traffic

pytestmark = pytest.mark.long

NAME = "asked"
LONG = 75
"""Seconds that a long request takes."""


@pytest.fixture(scope="module")
def service(kubectl: Kubectl, namespace: str) -> Iterator[dict[str, Any]]:
    """The manifest of a RayService that is ready."""
    manifest = rayservices.rayservice(NAME)
    rayservices.apply(kubectl, namespace, rayservices.code(), manifest)
    workload.wait_for_service(kubectl, namespace, NAME, seconds=420, tell=print)
    yield manifest
    kubectl.delete("rayservice", NAME, namespace)


def test_the_first_start_is_told(kubectl: Kubectl, namespace: str, service: dict[str, Any]) -> None:
    status = rayservices.status(kubectl, namespace, NAME)
    cluster = rayservices.cluster_of(status)
    app = status["activeServiceStatus"]["applicationStatuses"]["greeting"]
    assert app["status"] == "RUNNING"
    assert app["serveDeploymentStatuses"]["Greeting"]["status"] == "HEALTHY"
    assert (status["serviceStatus"], rayservices.cluster_of(status, "pending")) == ("Running", "")
    # The head's proxy and the worker's.
    rayservices.wait_until(kubectl, namespace, NAME, lambda seen: seen["numServeEndpoints"] == 2, 60, "two endpoints")
    for kind in ("head", "serve"):
        found = kubectl.get("service", f"{NAME}-{kind}-svc", namespace)
        assert found is not None
        assert found["spec"]["selector"]["ray.io/cluster"] == cluster


def test_another_serve_configuration_loses_no_request(
    kubectl: Kubectl, namespace: str, service: dict[str, Any]
) -> None:
    before = rayservices.cluster_of(rayservices.status(kubectl, namespace, NAME))
    heads = _heads(kubectl, namespace, before)
    with Traffic(rayservices.serve_url(namespace, NAME)) as traffic:
        traffic.wait_for(200)
        rayservices.patch(kubectl, namespace, NAME, serveConfigV2=rayservices.serve_config("two"))
        rayservices.settle(traffic, version="two", seconds=180)
        traffic.wait_for(rayservices.REQUESTS)
        count = traffic.stop()
    rayservices.none_failed(count)
    assert count.versions["one"] > 0
    status = rayservices.status(kubectl, namespace, NAME)
    assert rayservices.cluster_of(status) == before
    assert rayservices.cluster_of(status, "pending") == ""
    assert _heads(kubectl, namespace, before) == heads


def test_another_cluster_loses_no_request(kubectl: Kubectl, namespace: str, service: dict[str, Any]) -> None:
    before = rayservices.cluster_of(rayservices.status(kubectl, namespace, NAME))
    changed = rayservices.with_image(rayservices.rayservice(NAME, version="three"))
    with Traffic(rayservices.serve_url(namespace, NAME)) as traffic:
        traffic.wait_for(200)
        (version,) = traffic.count().versions
        rayservices.apply(kubectl, namespace, changed)
        status = rayservices.wait_for_switch(kubectl, namespace, NAME, before)
        after = rayservices.cluster_of(status)
        rayservices.settle(traffic, cluster=after)
        # Those that had begun before the switch have their answers too, and the other RayCluster is ended under traffic.
        eventually(lambda: kubectl.get("raycluster", before, namespace) is None, 120, "the first cluster is gone")
        traffic.wait_for(rayservices.REQUESTS)
        count = traffic.stop()
    rayservices.none_failed(count)
    # Never did the first cluster get the configuration that was meant for the second.
    assert set(count.versions) == {version, "three"}
    assert count.versions["three"] == count.clusters[after]
    assert [c["metadata"]["name"] for c in kubectl.list("rayclusters", namespace)] == [after]


def test_a_long_request_is_finished_by_the_cluster_that_goes(
    kubectl: Kubectl, namespace: str, service: dict[str, Any]
) -> None:
    """With ``ray.io/delete-when-drained`` the former RayCluster stays until they all have their answers, and no longer."""
    before = rayservices.cluster_of(rayservices.status(kubectl, namespace, NAME))
    (head,) = kubectl.list("pods", namespace, f"ray.io/cluster={before},ray.io/node-type=head")
    image = head["spec"]["containers"][0]["image"]
    changed = rayservices.with_image(
        rayservices.rayservice(NAME, version="four", rayClusterDeletionDelaySeconds=3600),
        OUR_RAY_IMAGE if image == rayservices.NEXT_IMAGE else rayservices.NEXT_IMAGE,
    )
    changed["metadata"]["annotations"] = {"ray.io/delete-when-drained": "true"}
    url = f"{rayservices.serve_url(namespace, NAME)}?seconds={LONG}"
    with Traffic(url, rate=0.25, seconds=2 * LONG) as traffic:
        rayservices.apply(kubectl, namespace, changed)
        after = rayservices.cluster_of(rayservices.wait_for_switch(kubectl, namespace, NAME, before))
        switched = time.monotonic()
        count = traffic.stop()
    took = time.monotonic() - switched
    assert count.failed == 0, str(count)
    assert count.clusters[before] > 0
    assert took > LONG - 15, "no request was under way at the switch"
    # Nothing asks it any more: it goes, an hour before its delay is over.
    eventually(lambda: kubectl.get("raycluster", before, namespace) is None, 90, "the former cluster is gone")
    assert rayservices.cluster_of(rayservices.status(kubectl, namespace, NAME)) == after


def _heads(kubectl: Kubectl, namespace: str, cluster: str) -> list[str]:
    pods = kubectl.list("pods", namespace, f"ray.io/cluster={cluster},ray.io/node-type=head")
    return [pod["metadata"]["uid"] for pod in pods]
