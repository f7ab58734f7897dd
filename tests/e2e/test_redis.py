"""A head that is lost comes back with its state from Redis, and a deleted cluster leaves nothing there."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from waiting import eventually

from dev.demo import workload
from dev.demo.kubectl import Kubectl, KubectlError

pytestmark = pytest.mark.long

NAME = "tolerant"
PASSWORD = "open-sesame"
FINALIZER = "ray.io/gcs-ft-redis-cleanup-finalizer"

REDIS = f"""
apiVersion: v1
kind: Secret
metadata: {{name: redis}}
stringData: {{password: {PASSWORD}}}
---
apiVersion: v1
kind: Service
metadata: {{name: redis}}
spec:
  selector: {{app: redis}}
  ports: [{{port: 6379}}]
---
apiVersion: v1
kind: Pod
metadata: {{name: redis, labels: {{app: redis}}}}
spec:
  containers:
  - name: redis
    image: redis:7
    args: [redis-server, --bind, 0.0.0.0, --save, "", --requirepass, $(REDIS_PASSWORD)]
    env: [{{name: REDIS_PASSWORD, valueFrom: {{secretKeyRef: {{name: redis, key: password}}}}}}]
    readinessProbe: {{tcpSocket: {{port: 6379}}, periodSeconds: 1}}
"""

# The actor lives on the worker, as the head has no CPUs to give.
COUNT = """
import ray
ray.init(address="auto", namespace="e2e", log_to_driver=False)
@ray.remote(num_cpus=1)
class Counter:
    def __init__(self):
        self.count = 0
    def add(self):
        self.count += 1
        return self.count
counter = Counter.options(name="counter", lifetime="detached", get_if_exists=True).remote()
print("count", ray.get(counter.add.remote(), timeout=60))
"""

FIND = """
import ray
ray.init(address="auto", namespace="e2e", log_to_driver=False)
print("count", ray.get(ray.get_actor("counter").add.remote(), timeout=60))
"""


def manifest() -> str:
    """The autoscaler sample without its autoscaler, with its state in Redis."""
    cluster: dict[str, Any] = yaml.safe_load(workload.sample("raycluster-autoscaler.yaml"))
    cluster["metadata"]["name"] = NAME
    spec = cluster["spec"]
    del spec["enableInTreeAutoscaling"], spec["autoscalerOptions"]
    source = {"secretKeyRef": {"name": "redis", "key": "password"}}
    spec["gcsFaultToleranceOptions"] = {"redisAddress": "redis:6379", "redisPassword": {"valueFrom": source}}
    (group,) = spec["workerGroupSpecs"]
    group["replicas"] = 1
    return yaml.safe_dump(cluster)


def test_a_lost_head_recovers_and_a_deleted_cluster_leaves_no_keys(kubectl: Kubectl, namespace: str) -> None:
    kubectl.apply(REDIS, "-n", namespace)
    kubectl.run("-n", namespace, "wait", "--for=condition=Ready", "pod/redis", "--timeout=60s")
    kubectl.apply(manifest(), "-n", namespace)
    workload.wait_for_cluster(kubectl, namespace, NAME, seconds=300, tell=print)
    cluster = kubectl.get("raycluster", NAME, namespace)
    assert cluster is not None
    assert cluster["metadata"]["finalizers"] == [FINALIZER]
    storage = cluster["metadata"]["uid"]
    head, worker = pod(kubectl, namespace, "head"), pod(kubectl, namespace, "worker")
    assert PASSWORD not in json.dumps([head, worker])
    assert python(kubectl, namespace, COUNT) == "count 1"
    assert any(storage in key for key in keys(kubectl, namespace))

    kubectl.run("-n", namespace, "delete", "pod", head["metadata"]["name"], "--grace-period=0", "--force")
    eventually(lambda: another_head_is_ready(kubectl, namespace, head), 240, "another head is ready")
    eventually(lambda: python(kubectl, namespace, FIND).startswith("count "), 120, "the actor is found again")
    # It is the same actor: it goes on counting.
    assert int(python(kubectl, namespace, FIND).split()[1]) >= 3
    assert pod(kubectl, namespace, "worker")["metadata"]["uid"] == worker["metadata"]["uid"]

    kubectl.run("-n", namespace, "delete", "raycluster", NAME, "--wait=false")
    eventually(lambda: kubectl.get("raycluster", NAME, namespace) is None, 240, "the cluster is gone")
    assert [key for key in keys(kubectl, namespace) if storage in key] == []
    told = {event["reason"]: event["type"] for event in kubectl.list("events.events.k8s.io", namespace)}
    assert told["CreatedRedisCleanupJob"] == "Normal"
    assert not told.keys() & {"ForceDeletedStuckCluster", "RedisCleanupFailed", "RedisCleanupSkipped"}


def another_head_is_ready(kubectl: Kubectl, namespace: str, old: dict[str, Any]) -> bool:
    try:
        head = pod(kubectl, namespace, "head")
    except ValueError:
        return False
    ready = {c["type"]: c["status"] for c in head["status"].get("conditions", ())}.get("Ready")
    return bool(head["metadata"]["uid"] != old["metadata"]["uid"] and ready == "True")


def pod(kubectl: Kubectl, namespace: str, node_type: str) -> dict[str, Any]:
    """The only pod of its type; a ValueError when there is none or more than one."""
    (found,) = kubectl.list("pods", namespace, f"ray.io/cluster={NAME},ray.io/node-type={node_type}")
    return found


def python(kubectl: Kubectl, namespace: str, script: str) -> str:
    """The last line that *script* prints on the head, or the error."""
    name = pod(kubectl, namespace, "head")["metadata"]["name"]
    try:
        out = kubectl.run("-n", namespace, "exec", name, "-c", "ray-head", "--", "python", "-c", script, seconds=180)
    except KubectlError as error:
        return str(error)
    return out.strip().splitlines()[-1]


def keys(kubectl: Kubectl, namespace: str) -> list[str]:
    """All keys in Redis."""
    command = 'redis-cli --no-auth-warning -a "$REDIS_PASSWORD" --raw keys "*"'
    return kubectl.run("-n", namespace, "exec", "redis", "--", "sh", "-c", command).splitlines()
