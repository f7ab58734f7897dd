"""A RayCluster that ends when nobody uses it: kept by a job, suspended after it, brought back by an extension."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml
from rayjobs import head_only

from dev.demo import workload
from dev.demo.kubectl import Kubectl

pytestmark = pytest.mark.long

TIMEOUT = 20
RUNS = 45
"""Seconds the job runs: more than twice the timeout."""


def head_only_cluster(name: str, **spec: Any) -> dict[str, Any]:
    cluster = head_only(name)
    cluster["spec"].update(spec)
    return cluster


def in_the_future(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def condition(cluster: dict[str, Any], type_: str) -> dict[str, Any]:
    found = [c for c in cluster.get("status", {}).get("conditions", []) if c["type"] == type_]
    return found[0] if found else {}


def test_it_lives_while_a_job_runs_and_ends_when_it_is_idle(kubectl: Kubectl, namespace: str) -> None:
    manifest = head_only_cluster("idle", lifecycle={"idleTimeoutSeconds": TIMEOUT, "warningSeconds": 5})
    # Submitting takes its time, so the first end is put off until the job is there.
    manifest["metadata"]["annotations"] = {"ray.io/extend-until": in_the_future(600)}
    kubectl.apply(yaml.safe_dump(manifest), "-n", namespace)
    workload.wait_for_cluster(kubectl, namespace, "idle", tell=print)
    (head,) = kubectl.list("pods", namespace, "ray.io/cluster=idle")
    place = ("-n", namespace, "exec", head["metadata"]["name"], "-c", "ray-head", "--")
    code = f"import ray, time; ray.init(); time.sleep({RUNS})"
    kubectl.run(*place, "ray", "job", "submit", "--no-wait", "--submission-id", "nap", "--", "python", "-c", code)
    kubectl.run("-n", namespace, "annotate", "raycluster", "idle", "ray.io/extend-until-")

    def look() -> dict[str, Any]:
        return kubectl.get("raycluster", "idle", namespace) or {}

    begun = time.monotonic()
    while (idle := condition(look(), "RayClusterIdle")).get("status") != "False":
        assert time.monotonic() - begun < 60, idle
        time.sleep(1)
    assert idle["reason"] == "InUse"
    while condition(look(), "RayClusterIdle").get("status") != "True":
        assert len(kubectl.list("pods", namespace, "ray.io/cluster=idle")) == 1
        assert time.monotonic() - begun < 180
        time.sleep(1)
    assert "SUCCEEDED" in kubectl.run(*place, "ray", "job", "status", "nap").upper()

    while look().get("status", {}).get("state") != "suspended":
        assert time.monotonic() - begun < 300, look().get("status")
        time.sleep(1)
    ended = condition(look(), "LifecycleEnded")
    assert (ended["status"], ended["reason"]) == ("True", "Idle"), ended
    assert kubectl.list("pods", namespace, "ray.io/cluster=idle") == []
    assert "suspend" not in look()["spec"]
    told = [event["reason"] for event in kubectl.list("events", namespace) if event["reason"].startswith("Lifecycle")]
    assert sorted(set(told)) == ["LifecycleEnded", "LifecycleEnding"]

    kubectl.run("-n", namespace, "annotate", "raycluster", "idle", f"ray.io/extend-until={in_the_future(600)}")
    workload.wait_for_cluster(kubectl, namespace, "idle", tell=print)
    assert condition(look(), "LifecycleEnded")["status"] == "False"
    (again,) = kubectl.list("pods", namespace, "ray.io/cluster=idle")
    assert again["metadata"]["uid"] != head["metadata"]["uid"]
