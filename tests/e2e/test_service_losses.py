"""What a RayService loses while it is asked all the time: workers that are killed or deleted, and a head whose state is in Redis.

After a kill a request whose connection is refused or lost is sent again, as proxies and clients do: who was just talking to what
is killed cannot be spared that, nor can who is led there until Kubernetes has noticed. A deletion is no such excuse.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import node
import pytest
import rayservices
from rayjobs import head_of
from waiting import eventually

from dev.demo import workload
from dev.demo.kubectl import Kubectl
from dev.demo.traffic import Traffic

pytestmark = pytest.mark.long

NAME = "lossy"
AGAIN = 6
"""How often one request may be sent again: for three seconds."""
AT_ONCE = 80
"""How many requests may have to be sent again: those of two seconds, until nobody is sent to what is gone."""
REDIS = """
apiVersion: v1
kind: Service
metadata: {name: redis}
spec:
  selector: {app: redis}
  ports: [{port: 6379}]
---
apiVersion: v1
kind: Pod
metadata: {name: redis, labels: {app: redis}}
spec:
  containers:
  - name: redis
    image: redis:7
    readinessProbe: {tcpSocket: {port: 6379}, periodSeconds: 1}
"""


@pytest.fixture(scope="module")
def service(kubectl: Kubectl, namespace: str) -> Iterator[str]:
    """Name of the only RayCluster of a RayService with its state in Redis and two workers, each with a replica."""
    kubectl.apply(REDIS, "-n", namespace)
    kubectl.run("-n", namespace, "wait", "--for=condition=Ready", "pod/redis", "--timeout=60s")
    manifest = rayservices.rayservice(NAME, workers=2)
    manifest["spec"]["rayClusterConfig"]["gcsFaultToleranceOptions"] = {"redisAddress": "redis:6379"}
    rayservices.apply(kubectl, namespace, rayservices.code(), manifest)
    workload.wait_for_service(kubectl, namespace, NAME, seconds=420, tell=print)
    status = rayservices.wait_until(
        kubectl, namespace, NAME, lambda seen: seen.get("numServeEndpoints") == 3, 120, "three endpoints"
    )
    yield rayservices.cluster_of(status)
    kubectl.delete("rayservice", NAME, namespace, seconds=240)


def workers(kubectl: Kubectl, namespace: str, cluster: str) -> list[dict[str, Any]]:
    pods = kubectl.list("pods", namespace, f"ray.io/cluster={cluster},ray.io/node-type=worker")
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def recovered(kubectl: Kubectl, namespace: str, cluster: str) -> None:
    """All of it is there again, on the same RayCluster, and no other was made."""

    def whole(status: dict[str, Any]) -> bool:
        apps = status["activeServiceStatus"].get("applicationStatuses", {})
        return status.get("numServeEndpoints") == 3 and {app["status"] for app in apps.values()} == {"RUNNING"}

    status = rayservices.wait_until(kubectl, namespace, NAME, whole, 300, "three endpoints and a running application")
    assert (rayservices.cluster_of(status), rayservices.cluster_of(status, "pending")) == (cluster, "")
    assert len(kubectl.list("rayclusters", namespace)) == 1


def test_a_killed_worker_costs_no_request(kubectl: Kubectl, namespace: str, service: str) -> None:
    victim = workers(kubectl, namespace, service)[0]
    with Traffic(rayservices.serve_url(namespace, NAME), again=AGAIN) as traffic:
        traffic.wait_for(200)
        node.kill(victim, "ray-worker")
        eventually(lambda: _ready_endpoints(kubectl, namespace) < 3, 60, "it is no endpoint any more")
        recovered(kubectl, namespace, service)
        traffic.wait_for(rayservices.REQUESTS)
        count = traffic.stop()
    rayservices.none_failed(count)
    assert count.again <= AT_ONCE, str(count)


def test_a_deleted_worker_costs_no_request(kubectl: Kubectl, namespace: str, service: str) -> None:
    """Deleted as by ``kubectl delete`` or an eviction, with its grace period: nothing has to be sent again."""
    victim = workers(kubectl, namespace, service)[0]["metadata"]["name"]
    with Traffic(rayservices.serve_url(namespace, NAME)) as traffic:
        traffic.wait_for(200)
        kubectl.run("-n", namespace, "delete", "pod", victim, "--wait=false")
        eventually(lambda: _ready_endpoints(kubectl, namespace) < 3, 60, "it is no endpoint any more")
        recovered(kubectl, namespace, service)
        traffic.wait_for(rayservices.REQUESTS)
        count = traffic.stop()
    rayservices.none_failed(count)


def test_a_killed_head_with_redis_keeps_serving(kubectl: Kubectl, namespace: str, service: str) -> None:
    head = head_of(kubectl, namespace, service)["metadata"]
    before = {pod["metadata"]["uid"] for pod in workers(kubectl, namespace, service)}
    with Traffic(rayservices.serve_url(namespace, NAME), again=AGAIN) as traffic:
        traffic.wait_for(200)
        kubectl.run("-n", namespace, "delete", "pod", head["name"], "--grace-period=0", "--force")
        asked = traffic.count().sent
        eventually(lambda: _head_is_ready(kubectl, namespace, service, head["uid"]), 240, "another head is ready")
        assert traffic.count().sent - asked > 100, "nobody asked while there was no head"
        recovered(kubectl, namespace, service)
        traffic.wait_for(rayservices.REQUESTS)
        count = traffic.stop()
    rayservices.none_failed(count)
    assert count.again <= AT_ONCE, str(count)
    assert {pod["metadata"]["uid"] for pod in workers(kubectl, namespace, service)} == before


def _ready_endpoints(kubectl: Kubectl, namespace: str) -> int:
    slices = kubectl.list("endpointslices", namespace, f"kubernetes.io/service-name={NAME}-serve-svc")
    return sum(1 for each in slices for endpoint in each["endpoints"] or [] if endpoint["conditions"].get("ready"))


def _head_is_ready(kubectl: Kubectl, namespace: str, cluster: str, old: str) -> bool:
    found = kubectl.list("pods", namespace, f"ray.io/cluster={cluster},ray.io/node-type=head")
    heads = [pod for pod in found if pod["metadata"]["uid"] != old]
    return any(workload.condition(pod, "Ready").get("status") == "True" for pod in heads)
