"""What an operator left behind, in the form of ``expected.yaml``: children, events and status without what is free to differ.

The rules are those of the recording (core/tests/data/golden/README.md).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kuberay_testkit.golden.case import Manifest
from kuberay_testkit.golden.noise import Masks, clean, clean_job, clean_pod

_COUNTERS_ALWAYS_SHOWN = frozenset({"failed", "succeeded"})
ADDED_STATUS = frozenset({"workerGroups", "resources", "nextScheduleTime", "lastSuccessfulTime", "active"})
ADDED_CONDITIONS = frozenset({"PodsNotReady", "RedisStorageUnused", "HeadStarted"})
"""What a status of this operator says beyond KubeRay's, whatever the case: no part of what is compared."""
GENERATION = "<generation>"
COPIED_STATUS = "<copy of the cluster status>"
_MASKED_ANNOTATIONS = {
    "ray.io/kuberay-version": "<version>",
    "ray.io/upgrade-strategy-recreate-hash": "<hash>",
    "ray.io/hash-without-replicas-and-workers-to-delete": "<hash>",
}
SIDES = ("activeServiceStatus", "pendingServiceStatus")
_MINUTES = re.compile(r"-\d{8}$")
_RANDOM = re.compile(r"-[a-z0-9]{5}$")


@dataclass(slots=True)
class Outcome:
    """What an operator left behind in the namespace of a case, as the API server shows it."""

    main: Manifest
    """The main object, with its status."""
    children: list[Manifest] = field(default_factory=list)
    """All objects in the namespace that the input did not contain."""
    events: list[Manifest] = field(default_factory=list)
    """``about``, ``type``, ``reason`` and ``message``; those about Ray kinds."""
    generate_names: set[str] = field(default_factory=set)
    """``generateName`` of every pod that was ever made, those that are gone too."""
    any_index: bool = False


def normalise(outcome: Outcome) -> Manifest:
    """The outcome in the form of ``expected.yaml``."""
    metadata = outcome.main["metadata"]
    prefixes = set(outcome.generate_names)
    for child in outcome.children:
        generate_name = child["metadata"].get("generateName")
        if generate_name:
            prefixes.add(generate_name)
    if outcome.main["kind"] in ("RayJob", "RayService"):
        prefixes.add(f"{metadata['name']}-")
    prefix = f"{metadata['name']}-"
    cut = outcome.main["kind"] == "RayJob" and len(prefix) + 5 > 50
    clusters = tuple(
        c["metadata"]["uid"] for c in outcome.children if c["kind"] == "RayCluster" and "uid" in c["metadata"]
    )
    masks = Masks(prefixes, str(metadata.get("uid", "")), outcome.any_index, prefix if cut else "", clusters)
    result: Manifest = {}
    result["children"] = _once([_child(child, masks) for child in outcome.children])
    events = {
        (event["about"], masks.text(event["message"]), event["reason"], event["type"]) for event in outcome.events
    }
    result["events"] = [
        dict(zip(("about", "message", "reason", "type"), event, strict=True)) for event in sorted(events)
    ]
    generation = metadata.get("generation")
    result["status"] = _status(outcome.main.get("status") or {}, generation, masks)
    if outcome.main["kind"] == "RayService":
        _clean_sides(result["status"], generation)
    if outcome.main["kind"] == "RayCronJob":
        result["status"].pop("observedGeneration", None)  # KubeRay's has none
    finalizers = list(metadata.get("finalizers") or [])
    if metadata.get("deletionTimestamp"):
        finalizers.append("(deletion pending)")
    if finalizers:
        result["finalizers"] = finalizers
    return canonical(result)


def canonical(value: Manifest) -> Manifest:
    """*value* with everything whose order is free in one order, to compare two of them."""
    ordered: Manifest = _ordered(value)
    ordered["children"] = sorted(ordered.get("children") or [], key=_child_order)
    for event in ordered.get("events") or []:
        event["message"] = event["message"].strip()
    return ordered


def _once(children: list[Manifest]) -> list[Manifest]:
    """Equal RayJobs of one schedule are listed once."""
    return [child for index, child in enumerate(children) if child["kind"] != "RayJob" or child not in children[:index]]


def _child(child: Manifest, masks: Masks) -> Manifest:
    body = {key: value for key, value in child.items() if key != "status"}
    if body["kind"] == "Secret":
        body = {key: value for key, value in body.items() if not (key == "type" and value == "Opaque")}
        if body.get("data"):
            body["data"] = dict.fromkeys(body["data"], "<masked>")
    found: Manifest = clean(body, masks)
    metadata = found["metadata"]
    annotations = metadata.get("annotations") or {}
    for key, mask in _MASKED_ANNOTATIONS.items():
        if key in annotations:
            annotations[key] = mask
    if "ray.io/cronjob-scheduled-timestamp" in annotations:
        annotations["ray.io/cronjob-scheduled-timestamp"] = "<time>"
        metadata["name"] = _MINUTES.sub("-<minutes>", metadata["name"])
    labels = metadata.get("labels") or {}
    replica = labels.get("ray.io/worker-group-replica-name")
    if replica:
        labels["ray.io/worker-group-replica-name"] = _RANDOM.sub("-<rand>", replica)
    if masks.any_index and "ray.io/worker-group-replica-index" in labels:
        labels["ray.io/worker-group-replica-index"] = "<index>"
    for owner in metadata.get("ownerReferences") or []:
        owner.pop("uid", None)
    if found["kind"] == "PersistentVolumeClaim" and metadata.get("finalizers") == ["kubernetes.io/pvc-protection"]:
        del metadata["finalizers"]  # of the API server
    if found["kind"] == "Service":
        spec = found.get("spec") or {}
        if spec.get("clusterIP") != "None":
            spec.pop("clusterIP", None)
        if spec.get("type") == "ClusterIP":
            del spec["type"]
        for port in spec.get("ports") or []:
            if port.get("targetPort") == port.get("port"):
                port.pop("targetPort", None)
    if found["kind"] == "Pod":
        clean_pod(found.get("spec") or {})
    if found["kind"] == "Job":
        clean_job(found)
    return found


def _status(status: Mapping[str, Any], generation: Any, masks: Masks) -> Manifest:
    found: Manifest = clean(_without_additions(status), masks)
    for condition in found.get("conditions") or []:
        condition["lastTransitionTime"] = "<time>"
    if found.get("stateTransitionTimes"):
        found["stateTransitionTimes"] = dict.fromkeys(found["stateTransitionTimes"], "<time>")
    if generation is not None and found.get("observedGeneration") == generation:
        found["observedGeneration"] = GENERATION
    head = found.get("head") or {}
    for name in ("podIP", "serviceIP"):
        if head.get(name):
            head[name] = "<ip>"
    if "head" in found:
        found["head"] = {name: value for name, value in head.items() if value}
    for name, port in (found.get("endpoints") or {}).items():
        if port.isdigit() and 30000 <= int(port) <= 32767:
            found["endpoints"][name] = "<nodeport>"
    for name in ("startTime", "endTime", "jobStatusCheckFailureStartTime", "lastScheduleTime"):
        if found.get(name):
            found[name] = "<time>"
    if found.get("rayClusterStatus"):
        found["rayClusterStatus"] = COPIED_STATUS
    return {
        name: value
        for name, value in found.items()
        if name in _COUNTERS_ALWAYS_SHOWN or (value not in ("", 0) and value != {})
    }


def _clean_sides(status: Manifest, generation: Any) -> None:
    """Both clusters of a RayService, and the generation that each of its conditions is about."""
    for key in SIDES:
        side = {name: value for name, value in (status.pop(key, None) or {}).items() if value not in ("", {})}
        if side:
            status[key] = {**side, "rayClusterStatus": COPIED_STATUS}
    for condition in status.get("conditions") or ():
        if generation is not None and condition.get("observedGeneration") == generation:
            condition["observedGeneration"] = GENERATION


def _without_additions(status: Mapping[str, Any]) -> Manifest:
    """Without the time of the write, and what KubeRay never writes."""
    found = {key: value for key, value in status.items() if key not in ADDED_STATUS and key != "lastUpdateTime"}
    conditions = [c for c in found.get("conditions") or () if c["type"] not in ADDED_CONDITIONS]
    if conditions:
        found["conditions"] = conditions
    else:
        found.pop("conditions", None)
    if found.keys() == {"observedGeneration"}:
        # Refused: KubeRay leaves the status empty.
        return {}
    return found


def _ordered(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _ordered(item, name) for name, item in value.items()}
    if not isinstance(value, list):
        return value
    items = [_ordered(item) for item in value]
    if key in ("env", "volumes", "conditions"):
        return sorted(items, key=lambda item: item.get("name") or item.get("type") or "")
    if key == "volumeMounts":
        return sorted(items, key=lambda item: (item["mountPath"], item["name"]))
    if key == "ports":
        return sorted(
            items, key=lambda item: (str(item.get("name", "")), str(item.get("containerPort", item.get("port"))))
        )
    return items


def _child_order(child: Mapping[str, Any]) -> tuple[str, ...]:
    labels = child["metadata"].get("labels") or {}
    return (
        child["kind"],
        child["metadata"]["name"],
        labels.get("ray.io/worker-group-replica-index", ""),
        labels.get("ray.io/replica-host-index", ""),
        labels.get("ray.io/worker-group-replica-name", ""),
    )
