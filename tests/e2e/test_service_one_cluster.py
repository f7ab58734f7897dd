"""A RayService whose one RayCluster is edited while it is asked all the time: Rolling loses nothing, Recreate is away and comes back."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import rayservices
from rayservices import NEXT_IMAGE, cluster_of
from waiting import eventually

from dev.demo import workload
from dev.demo.kubectl import Kubectl
from dev.demo.traffic import Traffic

pytestmark = pytest.mark.long

NAME = "single"
WORKERS = 2


@pytest.fixture(scope="module")
def service(kubectl: Kubectl, namespace: str) -> Iterator[dict[str, Any]]:
    """The manifest of a RayService of type Rolling with two workers, each with a replica."""
    manifest = rayservices.rayservice(NAME, strategy="Rolling", workers=WORKERS)
    rayservices.apply(kubectl, namespace, rayservices.code(), manifest)
    workload.wait_for_service(kubectl, namespace, NAME, seconds=420, tell=print)
    everybody_serves(kubectl, namespace)
    yield manifest
    kubectl.delete("rayservice", NAME, namespace)


def everybody_serves(kubectl: Kubectl, namespace: str) -> dict[str, Any]:
    """Return the status once the head and both workers are behind the serve service, and the application runs."""

    def reached(status: dict[str, Any]) -> bool:
        apps = status.get("activeServiceStatus", {}).get("applicationStatuses", {})
        return status.get("numServeEndpoints") == 1 + WORKERS and {a["status"] for a in apps.values()} == {"RUNNING"}

    return rayservices.wait_until(kubectl, namespace, NAME, reached, 300, "three endpoints and a running application")


def pods(kubectl: Kubectl, namespace: str, cluster: str, node_type: str) -> list[dict[str, Any]]:
    found = kubectl.list("pods", namespace, f"ray.io/cluster={cluster},ray.io/node-type={node_type}")
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


def uids(found: list[dict[str, Any]]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in found}


def image_of(pod: dict[str, Any]) -> str:
    return str(pod["spec"]["containers"][0]["image"])


def test_rolling_replaces_the_workers_and_loses_no_request(
    kubectl: Kubectl, namespace: str, service: dict[str, Any]
) -> None:
    """One after the other, beside the head that stays; only then Serve is given the configuration of the same edit."""
    cluster = cluster_of(rayservices.status(kubectl, namespace, NAME))
    old, head = (uids(pods(kubectl, namespace, cluster, each)) for each in ("worker", "head"))
    changed = rayservices.rayservice(NAME, strategy="Rolling", workers=WORKERS, version="two")
    _, *containers = rayservices.containers(changed)
    for container in containers:
        container["image"] = NEXT_IMAGE
    left: list[int] = []
    """Successive numbers of former workers."""

    def replaced() -> bool:
        workers = pods(kubectl, namespace, cluster, "worker")
        left.append(len(old & uids(workers)))
        ready = [pod for pod in workers if workload.condition(pod, "Ready").get("status") == "True"]
        return not old & uids(workers) and len(ready) == WORKERS

    with Traffic(rayservices.serve_url(namespace, NAME)) as traffic:
        traffic.wait_for(200)
        rayservices.apply(kubectl, namespace, changed)
        eventually(replaced, 420, "both workers are replaced")
        rayservices.settle(traffic, version="two", seconds=180)
        everybody_serves(kubectl, namespace)
        traffic.wait_for(rayservices.REQUESTS)
        count = traffic.stop()
    rayservices.none_failed(count)
    assert sorted(set(left), reverse=True) == [2, 1, 0]
    assert left == sorted(left, reverse=True), "one after the other"
    assert set(count.versions) == {"one", "two"}
    assert set(count.clusters) == {cluster}
    assert {image_of(pod) for pod in pods(kubectl, namespace, cluster, "worker")} == {NEXT_IMAGE}
    assert uids(pods(kubectl, namespace, cluster, "head")) == head
    assert [each["metadata"]["name"] for each in kubectl.list("rayclusters", namespace)] == [cluster]


def test_recreate_is_away_and_comes_back(kubectl: Kubectl, namespace: str, service: dict[str, Any]) -> None:
    """All pods of the one RayCluster at once, which is what the type says; the service then is what was asked for."""
    cluster = cluster_of(rayservices.status(kubectl, namespace, NAME))

    def present() -> list[dict[str, Any]]:
        return [pod for each in ("head", "worker") for pod in pods(kubectl, namespace, cluster, each)]

    old = uids(present())
    changed = rayservices.rayservice(NAME, strategy="Recreate", workers=WORKERS, version="three")
    for container in rayservices.containers(changed):
        container["env"] = [*copy.deepcopy(container["env"]), {"name": "GENERATION", "value": "3"}]
    with Traffic(rayservices.serve_url(namespace, NAME)) as traffic:
        traffic.wait_for(200)
        rayservices.apply(kubectl, namespace, changed)
        eventually(lambda: not old & uids(present()) and len(present()) == 1 + WORKERS, 240, "all pods are new")
        everybody_serves(kubectl, namespace)
        rayservices.settle(traffic, version="three", seconds=120)
        # Some that began in between may hang for half a minute, so those that begin now are counted by themselves. While kube-proxy
        # writes its rules for pods that have just become ready a connection may go nowhere; it is tried once more, as proxies do.
        with Traffic(rayservices.serve_url(namespace, NAME), again=1) as later:
            later.wait_for(400)
            back = later.stop()
        count = traffic.stop()
    assert count.failed > 0, "nobody noticed that all pods went"
    rayservices.none_failed(back, 400)
    assert set(back.versions) == {"three"}
    assert [each["metadata"]["name"] for each in kubectl.list("rayclusters", namespace)] == [cluster]
    ready = workload.condition(kubectl.get("rayservice", NAME, namespace) or {}, "Ready")
    assert ready.get("status") == "True", ready
