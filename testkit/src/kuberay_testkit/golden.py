"""Golden cases: what KubeRay really makes of a manifest, and how to compare another operator's outcome with it.

The format and the rules of normalising are those of the recording (core/tests/data/golden/README.md).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from kuberay.api import quantity

Manifest = dict[str, Any]

RAY_KINDS = ("RayCronJob", "RayService", "RayJob", "RayCluster")
"""In the order in which the main object of a case is chosen."""
DELETE_ANNOTATION = "golden/delete"

_METADATA_DROPPED = frozenset(
    {
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "managedFields",
        "generation",
        "selfLink",
        "namespace",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    }
)
_DROPPED_WHEN_EMPTY = frozenset(
    {
        "resources",
        "securityContext",
        "metadata",
        "labels",
        "annotations",
        "scaleStrategy",
        "status",
        "loadBalancer",
        "affinity",
        "strategy",
        "rayJobInfo",
    }
)
_DEFAULTS: Mapping[str, tuple[Any, ...]] = {
    "restartPolicy": ("Always",),
    "dnsPolicy": ("ClusterFirst",),
    "schedulerName": ("default-scheduler",),
    "terminationGracePeriodSeconds": (30,),
    "terminationMessagePath": ("/dev/termination-log",),
    "terminationMessagePolicy": ("File",),
    "enableServiceLinks": (True,),
    "preemptionPolicy": ("PreemptLowerPriority",),
    "priority": (0,),
    "successThreshold": (1,),
    "protocol": ("TCP",),
    "defaultMode": (420,),
    "scheme": ("HTTP",),
    "expirationSeconds": (3600,),
    "recursiveReadOnly": ("Disabled",),
    "sessionAffinity": ("None",),
    "internalTrafficPolicy": ("Cluster",),
    "externalTrafficPolicy": ("Cluster",),
    "ipFamilyPolicy": ("SingleStack",),
    "allocateLoadBalancerNodePorts": (True,),
    "volumeMode": ("Filesystem",),
    "completions": (1,),
    "parallelism": (1,),
    "completionMode": ("NonIndexed",),
    "podReplacementPolicy": ("TerminatingOrFailed",),
    "serviceAccountName": ("default",),
}
_ADDRESS = re.compile(r"\d+(\.\d+){3}")
_ALWAYS_DROPPED = frozenset(
    {"nodeName", "serviceAccount", "clusterIPs", "ipFamilies", "nodePort", "healthCheckNodePort"}
)
_COUNTERS_ALWAYS_SHOWN = frozenset({"failed", "succeeded"})
ADDED_STATUS = frozenset({"workerGroups", "resources", "nextScheduleTime", "lastSuccessfulTime", "active"})
ADDED_CONDITIONS = frozenset({"PodsNotReady", "RedisStorageUnused", "HeadStarted"})
"""What a status of this operator says beyond KubeRay's, whatever the case: no part of what is compared."""
GENERATION = "<generation>"
_WITH_FINALIZER = 2
"""The generation of a RayService that was created before KubeRay added its finalizer."""
COPIED_STATUS = "<copy of the cluster status>"
_JOB_LABELS = ("controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name")
_MASKED_ANNOTATIONS = {
    "ray.io/kuberay-version": "<version>",
    "ray.io/upgrade-strategy-recreate-hash": "<hash>",
    "ray.io/hash-without-replicas-and-workers-to-delete": "<hash>",
}
_SIDES = ("activeServiceStatus", "pendingServiceStatus")
_PROBES = frozenset({"livenessProbe", "readinessProbe", "startupProbe"})
_NODE_TOLERATIONS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_WAIT_GCS = re.compile(r"ray health-check --address (\S+?)(?=[\s;])")
_KUBERAY_VERSION = re.compile(r"kuberay_version=[^;]*;")
_GO_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \+0000 UTC")
_MINUTES = re.compile(r"-\d{8}$")
_RANDOM = re.compile(r"-[a-z0-9]{5}$")


@dataclass(frozen=True, slots=True)
class GoldenCase:
    """One recorded case."""

    name: str
    steps: Sequence[Sequence[Manifest]]
    """What is applied, step after step; all have settled before the next."""
    operator: str
    """Flags the operator needs, as recorded; empty for the defaults."""
    any_index: bool
    expected: Manifest

    @property
    def namespace(self) -> str:
        return f"g-{self.name}"

    @property
    def gates(self) -> dict[str, bool]:
        """Feature gates that the case sets."""
        found = re.search(r"--feature-gates=(\S+)", self.operator)
        pairs = (item.split("=") for item in found[1].split(",")) if found else ()
        return {name: value == "true" for name, value in pairs}


def load_case(folder: Path) -> GoldenCase:
    """The case in *folder* (``input.yaml`` and ``expected.yaml``)."""
    text = (folder / "input.yaml").read_text()
    header = [line[1:].strip() for line in text.splitlines() if line.startswith("#")]
    steps: list[list[Manifest]] = [[]]
    seen: set[tuple[str, str]] = set()
    for document in _load_all(text):
        if not document:
            continue
        key = (document["kind"], document["metadata"]["name"])
        if key in seen:
            steps.append([])
        seen.add(key)
        steps[-1].append(document)
    return GoldenCase(
        name=folder.name,
        steps=steps,
        operator=next((line.removeprefix("operator:").strip() for line in header if line.startswith("operator:")), ""),
        any_index=any(line.startswith("any-index") for line in header),
        expected=_load_all((folder / "expected.yaml").read_text())[0],
    )


def _load_all(text: str) -> list[Any]:
    """All documents, read by libyaml where it is there: much quicker, equally safe."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return list(yaml.load_all(text, loader))


def main_key(documents: Iterable[Mapping[str, Any]]) -> tuple[str, str]:
    """Kind and name of the object whose status counts: the last one of the highest kind."""
    found = list(documents)
    for kind in RAY_KINDS:
        names = [document["metadata"]["name"] for document in found if document["kind"] == kind]
        if names:
            return kind, names[-1]
    raise ValueError("the case holds no Ray object")


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
    masks = _Masks(prefixes, str(metadata.get("uid", "")), outcome.any_index, prefix if cut else "", clusters)
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


def differences(case: GoldenCase, actual: Manifest, *, events: bool = True) -> str:
    """A readable diff between what was recorded and *actual* (normalised); empty when they agree.

    Of events, one common message per (about, type, reason) is enough.
    """
    expected = canonical(case.expected)
    actual = dict(actual)
    if "rayClusterStatus" not in (actual.get("status") or {}):
        # KubeRay writes an empty cluster status where there is no cluster; leaving it out says the same.
        expected = {**expected, "status": dict(expected.get("status") or {})}
        expected["status"].pop("rayClusterStatus", None)
    observed = (expected.get("status") or {}).get("observedGeneration")
    if isinstance(observed, int) and (actual.get("status") or {}).get("observedGeneration") == GENERATION:
        # KubeRay's lags behind the spec when nothing else of the status changes.
        expected["status"] = {**expected["status"], "observedGeneration": GENERATION}
    expected["status"] = _comparable_service(expected.get("status") or {}, actual.get("status") or {})
    expected_events = expected.pop("events", []) or []
    actual_events = actual.pop("events", []) or []
    text = _diff(expected, actual)
    if events:
        text += _event_differences(expected_events, actual_events)
    return text


def _comparable_service(expected: Manifest, actual: Manifest) -> Manifest:
    """Of a RayService KubeRay writes both clusters where there are none, too, and its conditions are about the generation
    that it made itself when it added its finalizer."""
    kept = {
        key: value
        for key, value in expected.items()
        if key not in _SIDES or set(value) != {"rayClusterStatus"} or key in actual
    }
    told = {c["type"]: c.get("observedGeneration") for c in actual.get("conditions") or ()}
    if "conditions" in kept:
        kept["conditions"] = [
            {**c, "observedGeneration": GENERATION}
            if told.get(c["type"]) == GENERATION and c.get("observedGeneration") == _WITH_FINALIZER
            else c
            for c in kept["conditions"]
        ]
    return kept


def _event_differences(expected: Sequence[Mapping[str, str]], actual: Sequence[Mapping[str, str]]) -> str:
    def grouped(events: Sequence[Mapping[str, str]]) -> dict[tuple[str, str, str], set[str]]:
        groups: dict[tuple[str, str, str], set[str]] = {}
        for event in events:
            groups.setdefault((event["about"], event["type"], event["reason"]), set()).add(event["message"])
        return groups

    wanted, found = grouped(expected), grouped(actual)
    lines = [f"event missing: {key} {sorted(wanted[key])}" for key in sorted(wanted.keys() - found.keys())]
    lines += [f"event not recorded: {key} {sorted(found[key])}" for key in sorted(found.keys() - wanted.keys())]
    lines += [
        f"event differs: {key}\n  recorded {sorted(wanted[key])}\n  actual   {sorted(found[key])}"
        for key in sorted(wanted.keys() & found.keys())
        if not wanted[key] & found[key]
    ]
    return "".join(f"{line}\n" for line in lines)


def _diff(expected: Manifest, actual: Manifest) -> str:
    if expected == actual:
        return ""
    recorded, found = (
        yaml.safe_dump(item, sort_keys=True, width=200).splitlines(keepends=True) for item in (expected, actual)
    )
    return "".join(difflib.unified_diff(recorded, found, "recorded", "actual", n=4))


@dataclass(frozen=True, slots=True)
class _Masks:
    prefixes: set[str]
    uid: str
    any_index: bool
    cut_prefix: str = ""
    """``<job>-`` where pod names have no room for the whole suffix of the RayCluster's name."""
    cluster_uids: tuple[str, ...] = ()
    """Of RayClusters among the children: what is stored in Redis is named after them."""

    def text(self, text: str) -> str:
        for prefix in sorted(self.prefixes, key=len, reverse=True):
            text = re.sub(re.escape(prefix) + r"[a-z0-9]{5}(?![a-z0-9])", f"{prefix}<rand>", text)
        if self.uid:
            text = text.replace(self.uid, "<uid>").replace(self.uid[:8], "<uid8>")
        for uid in self.cluster_uids:
            text = text.replace(uid, "<uid>")
        text = _GO_TIME.sub("<time>", text)
        if self.cut_prefix:
            text = re.sub(
                re.escape(self.cut_prefix) + r"[a-z0-9]{0,4}-(?=head|worker)", f"{self.cut_prefix}<rand, cut>-", text
            )
        return _KUBERAY_VERSION.sub("kuberay_version=<version>;", text)


def _once(children: list[Manifest]) -> list[Manifest]:
    """Equal RayJobs of one schedule are listed once."""
    return [child for index, child in enumerate(children) if child["kind"] != "RayJob" or child not in children[:index]]


def _child(child: Manifest, masks: _Masks) -> Manifest:
    body = {key: value for key, value in child.items() if key != "status"}
    if body["kind"] == "Secret":
        body = {key: value for key, value in body.items() if not (key == "type" and value == "Opaque")}
        if body.get("data"):
            body["data"] = dict.fromkeys(body["data"], "<masked>")
    found: Manifest = _clean(body, masks)
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
        _clean_pod(found.get("spec") or {})
    if found["kind"] == "Job":
        _clean_job(found)
    return found


def _clean_job(job: Manifest) -> None:
    """Drop what the API server and the Job controller add to a batch/v1 Job."""
    spec = job["spec"]
    spec.pop("selector", None)
    for name, default in (("suspend", False), ("manualSelector", False), ("backoffLimit", 6)):
        if spec.get(name) == default:
            del spec[name]
    for metadata in (job["metadata"], spec["template"].get("metadata") or {}):
        for key in _JOB_LABELS:
            (metadata.get("labels") or {}).pop(key, None)
        (metadata.get("annotations") or {}).pop("batch.kubernetes.io/job-tracking", None)
        if metadata.get("annotations") == {}:
            del metadata["annotations"]
    _clean_pod(spec["template"]["spec"])


def _clean_pod(spec: Manifest) -> None:
    tolerations = [t for t in spec.get("tolerations") or [] if not _is_node_toleration(t)]
    spec.pop("tolerations", None)
    if tolerations:
        spec["tolerations"] = tolerations
    volumes = [volume for volume in spec.get("volumes") or [] if not volume["name"].startswith("kube-api-access-")]
    spec.pop("volumes", None)
    if volumes:
        spec["volumes"] = volumes
    for container in [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]:
        mounts = [m for m in container.get("volumeMounts") or [] if not m["name"].startswith("kube-api-access-")]
        container.pop("volumeMounts", None)
        if mounts:
            container["volumeMounts"] = mounts
        tag = container.get("image", "").rpartition("/")[2].partition(":")[2]
        default = "IfNotPresent" if tag and tag != "latest" else "Always"
        if container.get("imagePullPolicy") == default:
            del container["imagePullPolicy"]
        _drop_equal_requests(container)
        if any("cleanup_redis_storage" in argument for argument in container.get("args") or ()):
            used = "used" if any("username=" in argument for argument in container["args"]) else "not used"
            container["args"] = [f"<script: redis cleanup, username {used}>"]
        if container.get("name") == "wait-gcs-ready":
            address = _WAIT_GCS.search(container["args"][0])
            if address is not None:
                container["args"] = [f'<script: loop until "ray health-check --address {address[1]}" succeeds>']


def _is_node_toleration(toleration: Mapping[str, Any]) -> bool:
    return toleration.get("key") in _NODE_TOLERATIONS and toleration.get("tolerationSeconds") == 300


def _drop_equal_requests(container: Manifest) -> None:
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name in [name for name in requests if name in limits and requests[name] == limits[name]]:
        del requests[name]
    if "requests" in resources and not requests:
        del resources["requests"]


def _clean(value: Any, masks: _Masks, key: str = "", parent: str = "") -> Any:
    if isinstance(value, list):
        return [_clean(item, masks, key, parent) for item in value]
    if isinstance(value, str):
        return masks.text(value)
    if not isinstance(value, dict):
        return value
    cleaned: Manifest = {}
    for name, item in value.items():
        # A template only has a namespace when the operator put it there.
        if _is_noise(name, item, key) and (parent, name) != ("template", "namespace"):
            continue
        if key in ("limits", "requests") or name == "sizeLimit":
            cleaned[name] = quantity.canonical(item)
            continue
        if key == "ipBlock" and name == "cidr":
            cleaned[name] = _ADDRESS.sub("<ip>", item)
            continue
        found = _clean(item, masks, name, key)
        if found == {} and name in _DROPPED_WHEN_EMPTY:
            continue
        cleaned[name] = found
    if key == "fieldRef" and cleaned.get("apiVersion") == "v1":
        del cleaned["apiVersion"]
    return cleaned


def _is_noise(name: str, item: Any, key: str) -> bool:
    if item is None or (key == "metadata" and name in _METADATA_DROPPED):
        return True
    if key == "env" and (name, item) == ("value", ""):
        return True
    if key in ("labels", "annotations", "data", "matchLabels", "selector", "nodeSelector"):
        return False
    if name in _ALWAYS_DROPPED or item in _DEFAULTS.get(name, ()):
        return True
    return key in _PROBES and (name, item) in (("timeoutSeconds", 1), ("periodSeconds", 10), ("failureThreshold", 3))


def _status(status: Mapping[str, Any], generation: Any, masks: _Masks) -> Manifest:
    found: Manifest = _clean(_without_additions(status), masks)
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
    for key in _SIDES:
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
