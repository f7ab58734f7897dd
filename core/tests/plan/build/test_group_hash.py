"""What a group's hash depends on (cases.md RC-04, RC-17; docs/upgrades.md)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from kuberay.api.cluster import RayClusterSpec
from kuberay.plan.build.group_hash import group_hashes, known_scheme, same_but_size

Change = Callable[[dict[str, Any]], Any]


def pod(name: str) -> dict[str, Any]:
    resources = {"limits": {"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "1"}, "requests": {"cpu": "1"}}
    return {"spec": {"containers": [{"name": name, "image": "a", "resources": resources}]}}


SPEC: dict[str, Any] = {
    "rayVersion": "2.54.0",
    "headGroupSpec": {"template": pod("h")},
    "workerGroupSpecs": [
        {"groupName": "g", "replicas": 1, "template": pod("w")},
        {"groupName": "other", "replicas": 1, "template": pod("w")},
    ],
}


def hashes(change: Change = lambda spec: None) -> dict[str, str]:
    raw = copy.deepcopy(SPEC)
    change(raw)
    before = copy.deepcopy(raw)
    found = group_hashes(raw, RayClusterSpec.parse(raw))
    assert raw == before
    return found


def changed(change: Change) -> set[str]:
    """Names of the groups whose hash is another one."""
    before, after = hashes(), hashes(change)
    return {name for name in before if before[name] != after[name]}


def worker(spec: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = spec["workerGroupSpecs"][0]
    return found


def container(group: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = group["template"]["spec"]["containers"][0]
    return found


def test_it_is_that_of_earlier_versions() -> None:
    """RC-04: another value would replace the pods of every cluster with the strategy Rolling after an upgrade. A new way
    of hashing needs a new scheme."""
    assert hashes() == {
        "g": "1-d12e71c922a7014ae956-451dc65c52acb13218ba",
        "other": "1-d12e71c922a7014ae956-451dc65c52acb13218ba",
        "headgroup": "1-c8002c7731a2f3671a0f-451dc65c52acb13218ba",
    }


@pytest.mark.parametrize(
    "change",
    [
        lambda s: worker(s).update(replicas=5, minReplicas=1, maxReplicas=9),
        lambda s: worker(s).update(scaleStrategy={"workersToDelete": ["a"]}),
        lambda s: worker(s).update(suspend=True),
        lambda s: worker(s).update(priority=3, idleTimeoutSeconds=9),
        lambda s: worker(s).update(rayStartParams=None),
        lambda s: worker(s).update(rayStartParams={}, resources={}, labels={}),
        lambda s: worker(s)["template"].update(metadata={"creationTimestamp": None}),
        lambda s: worker(s)["template"]["spec"].update(tolerations=[{"key": "k"}], schedulingGates=[{"name": "x"}]),
        lambda s: container(worker(s))["resources"]["limits"].update(cpu="2000m", memory="4096Mi"),
        lambda s: s["headGroupSpec"]["template"]["spec"].update(tolerations=[{"key": "k"}]),
        lambda s: s["headGroupSpec"].update(enableIngress=True, serviceType="NodePort"),
        lambda s: s["headGroupSpec"].update(headService={"metadata": {"labels": {"a": "b"}}}),
        lambda s: s.update(upgradeStrategy={"type": "Rolling", "maxSurge": 1}),
        lambda s: s.update(suspend=True),
        lambda s: s.update(autoscalerOptions={"idleTimeoutSeconds": 5}),
        lambda s: s.update(headServiceAnnotations={"a": "b"}),
        lambda s: s.update(networkPolicy={"mode": "DenyAll"}),
        lambda s: s.update(authOptions={"mode": "disabled"}),
        lambda s: s["workerGroupSpecs"].append({"groupName": "third", "template": pod("w")}),
    ],
)
def test_what_shapes_no_pod(change: Change) -> None:
    """RC-17."""
    assert changed(change) == set()


@pytest.mark.parametrize(
    ("change", "groups"),
    [
        (lambda s: container(worker(s)).update(image="b"), {"g"}),
        (lambda s: container(worker(s)).update(env=[{"name": "A", "value": "b"}]), {"g"}),
        (lambda s: container(worker(s))["resources"]["limits"].update(cpu="3"), {"g"}),
        (lambda s: container(worker(s))["resources"]["limits"].update({"nvidia.com/gpu": "2"}), {"g"}),
        (lambda s: worker(s)["template"].update(metadata={"labels": {"a": "b"}}), {"g"}),
        (lambda s: worker(s).update(rayStartParams={"num-cpus": "1"}), {"g"}),
        (lambda s: worker(s).update(resources={"CPU": "1"}), {"g"}),
        (lambda s: worker(s).update(numOfHosts=2), {"g"}),
        (lambda s: container(s["headGroupSpec"]).update(image="b"), {"headgroup"}),
        (lambda s: s.update(enableInTreeAutoscaling=True), {"headgroup"}),
        (lambda s: s["headGroupSpec"].update(rayStartParams={"dashboard-port": "1"}), {"headgroup"}),
        (lambda s: s["headGroupSpec"].update(rayStartParams={"port": "1"}), {"headgroup", "g", "other"}),
        (lambda s: s["headGroupSpec"].update(headService={"metadata": {"name": "x"}}), {"headgroup", "g", "other"}),
        (lambda s: s.update(rayVersion="2.55.0"), {"headgroup", "g", "other"}),
        (lambda s: s.update(authOptions={"mode": "token"}), {"headgroup", "g", "other"}),
        (lambda s: s.update(tlsOptions={"enabled": True}), {"headgroup", "g", "other"}),
        (lambda s: s.update(gcsFaultToleranceOptions={"redisAddress": "r:1"}), {"headgroup", "g", "other"}),
        (
            lambda s: s.update(enableInTreeAutoscaling=True, autoscalerOptions={"version": "v2"}),
            {"headgroup", "g", "other"},
        ),
    ],
)
def test_what_shapes_pods(change: Change, groups: set[str]) -> None:
    assert changed(change) == groups


def test_settings_of_the_head_alone_leave_workers_as_they_are() -> None:
    """With fault tolerance on, another Redis changes the head; with autoscaling on, idle timeouts change nothing."""

    def redis(address: str) -> Change:
        return lambda spec: spec.update(gcsFaultToleranceOptions={"redisAddress": address})

    one, other = hashes(redis("r:1")), hashes(redis("r:2"))
    assert {name for name in one if one[name] != other[name]} == {"headgroup"}

    def idle(seconds: int) -> Change:
        return lambda spec: spec.update(
            enableInTreeAutoscaling=True, autoscalerOptions={"idleTimeoutSeconds": seconds, "upscalingMode": "Default"}
        )

    assert hashes(idle(5)) == hashes(idle(6))


def test_size_is_told_apart() -> None:
    size = hashes(lambda s: container(worker(s))["resources"]["limits"].update(cpu="3"))["g"]
    image = hashes(lambda s: container(worker(s)).update(image="b"))["g"]
    assert same_but_size(hashes()["g"], size)
    assert not same_but_size(hashes()["g"], image)


def test_schemes() -> None:
    assert known_scheme(hashes()["g"])
    assert not known_scheme("0-a-b")
    assert not known_scheme("10-a-b")
