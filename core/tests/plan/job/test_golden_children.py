"""The objects a RayJob makes, its status and its events, against what KubeRay made of the same manifests."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from kuberay.api.kinds import RAYCLUSTER
from kuberay.plan.config import PlanConfig

CASES = Path(__file__).parents[2] / "data" / "golden" / "rayjob"
BETTER_COMMAND = {"job-quoting", "job-runtime-env"}
"""Cases whose command line differs on purpose (docs/differences.d/rayjob.md); the rest of them must be equal."""


@pytest.mark.parametrize("case", sorted(path.name for path in CASES.iterdir()))
def test_children(case: str, empty_world: Any) -> None:
    documents = [doc for doc in yaml.safe_load_all((CASES / case / "input.yaml").read_text()) if doc]
    expected = yaml.safe_load((CASES / case / "expected.yaml").read_text())
    name = next(doc["metadata"]["name"] for doc in documents if doc["kind"] == "RayJob")
    world = empty_world(job_name=name, refuse=True, config=PlanConfig(propagate_job_metadata=False))
    for document in documents:
        if document["kind"] == "RayJob" and any(kind.kind == "RayJob" for kind, _ in world.objects):
            world.edit({"spec": document["spec"]})
        else:
            world.create(document)
        world.run(12)

    def masked(value: Any) -> Any:
        text = yaml.safe_dump(value, width=1_000_000)
        text = re.sub(rf"\b{name}-[bcdfghjklmnpqrstvwxz2456789]{{5}}\b", f"{name}-<rand>", text)
        text = text.replace(".default.svc.", f".g-{case}.svc.").replace(" default/", f" g-{case}/")
        text = re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(Z| \+0000 UTC)", "<time>", text)
        return _plain(yaml.safe_load(text))

    own = [
        masked(body)
        for (kind, _), body in sorted(world.objects.items(), key=lambda item: (item[0][0].kind, item[0][1]))
        if any(owner["kind"] == "RayJob" for owner in body["metadata"].get("ownerReferences", []))
    ]
    recorded = [
        _plain(child)
        for child in expected["children"]
        if any(owner["kind"] == "RayJob" for owner in child["metadata"].get("ownerReferences", []))
    ]
    if case in BETTER_COMMAND:
        for child in (*own, *recorded):
            if child["kind"] == "Job":
                child["spec"]["template"]["spec"]["containers"][0].pop("args")
    assert own == recorded

    assert world.job["metadata"].get("finalizers", []) == expected.get("finalizers", [])
    status = masked(world.job.get("status", {}))
    status.pop("conditions", None)
    for found in (status, expected["status"]):
        found.pop("rayClusterStatus", None)
    assert status == expected["status"]
    told = {masked(f"{event.type} {event.reason} {event.note}") for event in world.events}
    about = [event for event in expected["events"] if event["about"] == "RayJob"]
    assert told == {f"{event['type']} {event['reason']} {event['message']}" for event in about}


def test_cluster_waits_for_its_selector(empty_world: Any) -> None:
    world = empty_world(job_name="guest", refuse=True)
    *_, job = yaml.safe_load_all((CASES / "job-selector" / "input.yaml").read_text())
    world.create(job)
    world.run(10)
    assert world.notes("RayClusterNotFound") == [
        "RayCluster default/host set in the clusterSelector is not found. It must be created manually"
    ]
    assert world.status["jobDeploymentStatus"] == "Initializing"
    _, cluster, *_ = [None, *yaml.safe_load_all((CASES / "job-selector" / "input.yaml").read_text())]
    world.create(cluster)
    world.until(lambda: world.status["jobDeploymentStatus"] == "Running", 5)
    assert world.told == []
    assert (RAYCLUSTER, "host") in world.objects


def _plain(value: Any) -> Any:
    """Without empty members, server defaults and what the world adds; lists of free order are sorted."""
    if isinstance(value, dict):
        plain = {}
        for key, item in value.items():
            kept = _plain(item)
            defaults = {"protocol": "TCP", "numOfHosts": 1}
            dropped = ("uid", "namespace", "creationTimestamp", "resourceVersion", "status", "finalizers")
            if kept in (None, {}, [], "") or key in dropped or defaults.get(key) == kept:
                continue
            plain[key] = kept
        if "ports" in plain and all("name" in port for port in plain["ports"]):
            plain["ports"].sort(key=lambda port: str(port["name"]))
        return plain
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value
