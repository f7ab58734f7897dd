"""Taking over from KubeRay: on every recorded RayCluster, with the pods and services KubeRay left behind.

Nothing that runs is deleted, made anew or changed, whatever this operator would build.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kuberay.api.gates import DEFAULT_GATES
from kuberay.api.kinds import POD, SERVICE, SERVICE_ACCOUNT, Kind
from kuberay.plan.model import Patch, Write
from kuberay.plugins.loader import load
from kuberay.plugins.manager import PluginManager
from kuberay_testkit.golden import GoldenCase, load_case, main_key

GOLDEN = Path(__file__).parents[2] / "data" / "golden" / "raycluster"
CASES = sorted(folder.name for folder in GOLDEN.iterdir())
EXCEPTIONS = {
    "autoscale-sa-missing": "KubeRay had made nothing",
    "group-removed": "pods of a removed group are deleted (RC-03)",
    "gcsft-delete-job": "is being deleted",
    "managed-by-other": "nobody had made anything",
    "quota-full": "there is no quota any more",
    "suspend-field-removed": "absent suspend means false, so the cluster resumes",
}
CHANGED = {
    "head-svc-template": "its ports were recorded in random order",
    "params-ports": "the head service follows moved ports (RC-16)",
    "reserved-labels": "the head service selects the labels the head pod carries",
}
"""Cases whose head service is brought in line, on purpose (docs/differences)."""


def kuberays(case: GoldenCase, kubernetes: Any) -> Any:
    """The case as KubeRay left it, with its masks filled in."""
    documents = [document for step in case.steps for document in step]
    kind, name = main_key(documents)
    given = {(document["kind"], document["metadata"]["name"]): document for document in documents}
    tiny = kubernetes(
        given.pop((kind, name)),
        namespace=case.namespace,
        gates={**DEFAULT_GATES, **case.gates},
        hooks=PluginManager(load(["autoscaler-v2"])),
    )
    tiny.cluster["metadata"]["generation"] = 1 + sum(
        (document["kind"], document["metadata"]["name"]) == (kind, name) for step in case.steps[1:] for document in step
    )
    tiny.cluster["metadata"]["finalizers"] = case.expected.get("finalizers", [])
    for (other_kind, other), document in given.items():
        if other_kind == "ServiceAccount":
            tiny.others.add((SERVICE_ACCOUNT, other))
        else:
            tiny.add(kind_of(document), document)
    masks = Unmask(tiny)
    for child in case.expected["children"]:
        body = masks.fill(copy.deepcopy(child))
        labels = body["metadata"].get("labels", {})
        if "ray.io/worker-group-replica-name" in labels:
            # One name for all hosts of a replica.
            named = labels["ray.io/worker-group-replica-name"][:-5]
            labels["ray.io/worker-group-replica-name"] = f"{named}{labels['ray.io/worker-group-replica-index']:0>5}"
        for owner in body["metadata"].get("ownerReferences", ()):
            owner["uid"] = tiny.cluster["metadata"]["uid"]
        if body["kind"] == "Service":
            body["spec"].setdefault("type", "ClusterIP")
            for port in body["spec"].get("ports", ()):
                port.setdefault("protocol", "TCP")
        tiny.add(kind_of(body), body)
    tiny.start_pods()
    tiny.cluster["status"] = masks.fill(copy.deepcopy(case.expected["status"]))
    return tiny


def kind_of(body: Mapping[str, Any]) -> Kind:
    group, _, version = body["apiVersion"].rpartition("/")
    plural = body["kind"].lower() + ("es" if body["kind"].endswith("s") else "s")
    return Kind(group=group, version=version, kind=body["kind"], plural=plural)


class Unmask:
    def __init__(self, tiny: Any) -> None:
        self._tiny = tiny
        self._hosts = 0

    def fill(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: self.fill(item, name) for name, item in value.items()}
        if isinstance(value, list):
            return [self.fill(item, key) for item in value]
        if value == "<generation>":
            return self._tiny.cluster["metadata"]["generation"]
        return self._text(value, key) if isinstance(value, str) else value

    def _text(self, text: str, key: str) -> str:
        if "<rand>" in text:
            if key == "name":
                self._hosts += 1
            text = text.replace("<rand>", f"{self._hosts:05d}")
        for mask, filled in (
            ("<index>", "0"),
            ("<time>", "2025-12-31T00:00:00Z"),
            ("<ip>", "10.9.9.9"),
            ("<uid>", self._tiny.cluster["metadata"]["uid"]),
            ("<nodeport>", "30001"),
            ("<hash>", "3P9TQ2LJ8E6R1H0S5K7M4N2D9F8C6B1A"),
            ("<version>", "v1.7.0"),
        ):
            text = text.replace(mask, filled)
        return text


@pytest.mark.parametrize("old_status", ["same", "without conditions"])
@pytest.mark.parametrize("name", [name for name in CASES if name not in EXCEPTIONS])
def test_nothing_that_runs_is_touched(name: str, old_status: str, kubernetes: Any) -> None:
    tiny = kuberays(load_case(GOLDEN / name), kubernetes)
    if old_status == "without conditions":
        # KubeRay before 1.2
        tiny.status.pop("conditions", None)
    before, status = copy.deepcopy(tiny.objects), copy.deepcopy(tiny.status)
    tiny.settle()
    assert {(write.kind, write.name) for write in tiny.writes if not is_annotation_of_head(write)} == {
        (SERVICE, body["metadata"]["name"]) for body in head_services(before) if name in CHANGED
    }
    told_once = {"UpdatedService"} if name in CHANGED else set()
    if name == "ingress-collision":
        told_once = {"FailedToCreateIngress"}  # KubeRay repeats it; with us the condition remembers it.
    if name.startswith(("suspend-at", "suspend-later")):
        told_once = {"DeletedPod"} if old_status != "same" else set()
    assert {event.reason for event in tiny.events} == told_once
    assert tiny.objects.keys() == before.keys()
    for pod in tiny.pods.values():
        # Recreate brings what the head says about its making up to date.
        assert without_annotations(pod) == without_annotations(before[POD, pod["metadata"]["name"]])
    told = {condition["type"]: condition for condition in tiny.status["conditions"]}
    told.pop("IngressConflict", None)
    assert told.keys() == {
        "HeadPodReady",
        "RayClusterProvisioned",
        "RayClusterSuspended",
        "RayClusterSuspending",
    } | {condition["type"] for condition in status.get("conditions", ())}
    for condition in status.get("conditions", ()):
        assert told[condition["type"]] == condition
    for field in ("state", "stateTransitionTimes", "desiredCPU", "desiredWorkerReplicas", "maxWorkerReplicas"):
        assert tiny.status.get(field) == status.get(field)
    tiny.now += timedelta(hours=1)
    assert tiny.plan().status is None


def is_annotation_of_head(write: Write) -> bool:
    return isinstance(write, Patch) and write.kind == POD and list(write.body["metadata"]) == ["annotations"]


def head_services(objects: Mapping[tuple[Kind, str], Any]) -> list[Any]:
    return [
        body
        for (kind, _), body in objects.items()
        if kind == SERVICE and body["metadata"]["labels"].get("ray.io/node-type") == "head"
    ]


def without_annotations(pod: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in pod["metadata"].items() if key != "annotations"}
    return {**pod, "metadata": metadata}


@pytest.mark.parametrize("strategy", ["Recreate", "Rolling"])
@pytest.mark.parametrize("name", [name for name in CASES if name not in EXCEPTIONS])
def test_a_strategy_that_is_chosen_afterwards_replaces_nothing(name: str, strategy: str, kubernetes: Any) -> None:
    """What KubeRay hashed is of another scheme and version: only a later edit counts."""
    tiny = kuberays(load_case(GOLDEN / name), kubernetes)
    tiny.settle()
    before = set(tiny.pods)
    tiny.edit(lambda spec: spec.update(upgradeStrategy={"type": strategy}))
    tiny.settle()
    assert tiny.condition("RayClusterSpecValid") is None
    if name != "template-change-none":  # Its pods are of the spec before the last edit; Rolling sees that.
        assert set(tiny.pods) == before
