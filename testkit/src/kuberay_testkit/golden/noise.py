"""What an API server, its controllers and chance add to objects: left out or masked before two outcomes are compared.

The rules are those of the recording (core/tests/data/golden/README.md).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kuberay.api import quantity

from kuberay_testkit.golden.case import Manifest

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
_JOB_LABELS = ("controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name")
_PROBES = frozenset({"livenessProbe", "readinessProbe", "startupProbe"})
_NODE_TOLERATIONS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_WAIT_GCS = re.compile(r"ray health-check --address (\S+?)(?=[\s;])")
_KUBERAY_VERSION = re.compile(r"kuberay_version=[^;]*;")
_GO_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \+0000 UTC")


@dataclass(frozen=True, slots=True)
class Masks:
    """Words for what is random in the names and texts of one case."""

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


def clean_job(job: Manifest) -> None:
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
    clean_pod(spec["template"]["spec"])


def clean_pod(spec: Manifest) -> None:
    """Drop what the API server adds to the spec of a pod, and shorten the scripts that are each operator's own."""
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


def clean(value: Any, masks: Masks, key: str = "", parent: str = "") -> Any:
    """*value*, which stands under *key* of *parent*, without defaults and without what the API server adds."""
    if isinstance(value, list):
        return [clean(item, masks, key, parent) for item in value]
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
        found = clean(item, masks, name, key)
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
