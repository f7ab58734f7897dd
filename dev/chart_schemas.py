"""Renders ``values.schema.json`` of both charts from the models: settings, plugins' settings, and the spec of RayClusters.

Unknown values are refused, with the path in Helm's message; what Kubernetes alone knows (affinity, volumes, …) is let through.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import yaml
from kuberay.api.cluster import RayClusterSpec
from kuberay.api.crd import object_schema
from kuberay.hooks.types import PolicyRule
from kuberay.operator.settings import Settings

from dev.chart_facts import HEADER, managers

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
BOOLEAN: Schema = {"type": "boolean"}
OBJECT: Schema = {"type": "object"}
OBJECTS: Schema = {"type": "array", "items": OBJECT}
STRINGS: Schema = {"type": "array", "items": STRING}
STRING_MAP: Schema = {"type": "object", "additionalProperties": STRING}
SCALAR_MAP: Schema = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}
COUNT: Schema = {"type": "integer", "minimum": 0}
PULL_POLICY: Schema = {"enum": ["", "Always", "IfNotPresent", "Never"]}
SERVICE_TYPE: Schema = {"enum": ["ClusterIP", "NodePort", "LoadBalancer"]}
ENCODER: Schema = {"enum": ["json", "console"]}
SUBCHART: dict[str, Schema] = {"global": OBJECT, "enabled": BOOLEAN}
"""What charts that have this one as a dependency put beside its values."""

ELSEWHERE = {
    "metricsAddr",
    "probeAddr",
    "enableLeaderElection",
    "leaderElectionNamespace",
    "reconcileConcurrency",
    "qps",
    "burst",
    "watchNamespace",
    "logFile",
    "logFileEncoder",
    "logStdoutEncoder",
    "batchScheduler",
    "enableBatchScheduler",
    "useKubernetesProxy",
    "enableMetrics",
    "plugins",
    "featureGates",
    "enableWebhooks",
    "webhookPort",
    "webhookCertificates",
    "webhookCertDir",
    "webhookName",
}
"""Keys of the configuration file that values of other names stand for, or that the chart itself decides."""

REQUIREMENT = r"^[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9,._-]+\])?==[^\s*]+( --hash=sha256:[0-9a-f]{64})*$"
PLUGIN_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"


def closed(properties: Mapping[str, Schema], required: tuple[str, ...] = ()) -> Schema:
    """An object with these properties and no others."""
    more = {"required": list(required)} if required else {}
    return {"type": "object", "additionalProperties": False, "properties": dict(properties), **more}


def operator_schema() -> str:
    """``charts/kuberay-operator/values.schema.json``."""
    monitor = {"enabled": BOOLEAN, "interval": STRING, "honorLabels": BOOLEAN}
    placed = {"additionalLabels": STRING_MAP, "namespace": STRING}
    properties: dict[str, Schema] = {
        **SUBCHART,
        "nameOverride": STRING,
        "fullnameOverride": STRING,
        "componentOverride": STRING,
        "replicas": COUNT,
        "image": closed(
            {
                "repository": STRING,
                "tag": {"type": ["string", "number"]},
                "digest": {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
                "pullPolicy": PULL_POLICY,
            }
        ),
        "imagePullSecrets": OBJECTS,
        "operatorCommand": {"type": ["string", "array"], "items": STRING},
        "nodeSelector": STRING_MAP,
        "affinity": OBJECT,
        "tolerations": OBJECTS,
        "topologySpreadConstraints": OBJECTS,
        "priorityClassName": STRING,
        "labels": STRING_MAP,
        "annotations": STRING_MAP,
        "serviceAccount": closed({"create": BOOLEAN, "name": STRING}),
        "singleNamespaceInstall": BOOLEAN,
        "watchNamespace": {"type": ["array", "string"], "items": {"type": "string", "minLength": 1}},
        "rbacEnable": BOOLEAN,
        "crNamespacedRbacEnable": BOOLEAN,
        "userRoles": closed({"create": BOOLEAN, "aggregate": BOOLEAN}),
        "leaderElectionEnabled": BOOLEAN,
        "reconcileConcurrency": {"type": ["integer", "string"], "minimum": 1, "pattern": "^[1-9][0-9]*$"},
        "kubeClient": closed(
            {
                "qps": {"type": ["number", "string"], "minimum": 0, "pattern": r"^[0-9]+(\.[0-9]+)?$"},
                "burst": {"type": ["integer", "string"], "minimum": 0, "pattern": "^[0-9]+$"},
            }
        ),
        "useKubernetesProxy": BOOLEAN,
        "logging": closed(
            {
                "stdoutEncoder": ENCODER,
                "fileEncoder": ENCODER,
                "baseDir": STRING,
                "fileName": STRING,
                "sizeLimit": STRING,
            }
        ),
        "batchScheduler": closed({"enabled": BOOLEAN, "name": STRING}),
        "featureGates": {
            "type": "array",
            "items": closed({"name": {"type": "string", "minLength": 1}, "enabled": BOOLEAN}, ("name", "enabled")),
        },
        "plugins": closed({**_plugins(), "extra": {"type": "array", "items": _extra()}}),
        "pluginInstaller": closed(
            {
                "image": STRING,
                "pullPolicy": PULL_POLICY,
                "indexUrl": STRING,
                "env": OBJECTS,
                "resources": OBJECT,
            }
        ),
        "configuration": closed({"enabled": BOOLEAN, **_settings()}),
        "webhooks": closed(
            {
                "enabled": BOOLEAN,
                "certificates": {"enum": ["self", "cert-manager", "secret"]},
                "secretName": STRING,
                "caBundle": STRING,
                "issuerRef": OBJECT,
                "port": {"type": "integer", "minimum": 1, "maximum": 65535},
                "failurePolicy": {"enum": ["Fail", "Ignore"]},
                "timeoutSeconds": {"type": "integer", "minimum": 1, "maximum": 30},
                "namespaceSelector": OBJECT,
                "objectSelector": OBJECT,
                "defaulting": closed({"enabled": BOOLEAN}),
            }
        ),
        "env": OBJECTS,
        "resources": OBJECT,
        "startupProbe": _probe(),
        "livenessProbe": _probe(),
        "readinessProbe": _probe(),
        "podSecurityContext": OBJECT,
        "securityContext": OBJECT,
        "service": closed({"type": SERVICE_TYPE, "port": {"type": "integer", "minimum": 1, "maximum": 65535}}),
        "metrics": closed(
            {
                "enabled": BOOLEAN,
                "serviceMonitor": closed({**monitor, **placed}),
                "podMonitor": closed({**monitor, **placed}),
                "prometheusRule": closed({"enabled": BOOLEAN, **placed}),
                "dashboards": closed({"enabled": BOOLEAN, **placed, "annotations": STRING_MAP}),
            }
        ),
    }
    return _text("Values of the chart kuberay-operator", properties)


def _probe() -> Schema:
    names = (
        "initialDelaySeconds",
        "periodSeconds",
        "timeoutSeconds",
        "successThreshold",
        "failureThreshold",
        "terminationGracePeriodSeconds",
    )
    return closed(dict.fromkeys(names, COUNT))


def _plugins() -> dict[str, Schema]:
    """Each shipped plugin: on or off, beside its own settings."""
    found = {}
    for name, manager in managers().items():
        model = manager.settings_models().get(name)
        own = _inlined(model.model_json_schema()) if model else {}
        found[name] = closed({"enabled": BOOLEAN, **own.get("properties", {})})
    return found


def _extra() -> Schema:
    names = {"apiGroups": STRINGS, "resources": STRINGS, "verbs": STRINGS}
    assert len(names) == len(PolicyRule.__dataclass_fields__)
    return closed(
        {
            # Beside the sections of plugins, the configuration has the key enabled.
            "name": {"type": "string", "pattern": PLUGIN_NAME, "not": {"const": "enabled"}},
            "enabled": BOOLEAN,
            "requirements": {"type": "array", "items": {"type": "string", "pattern": REQUIREMENT}},
            "rules": {"type": "array", "items": closed(names, tuple(names))},
            "settings": OBJECT,
        },
        ("name",),
    )


def _settings() -> dict[str, Schema]:
    properties: dict[str, Schema] = _inlined(Settings.model_json_schema(by_alias=True))["properties"]
    return {name: schema for name, schema in properties.items() if name not in ELSEWHERE}


def _inlined(schema: Schema) -> Schema:
    """The schema with every reference replaced by what it refers to, and without titles."""
    definitions = schema.get("$defs", {})

    def walk(node: Any, names: bool = False) -> Any:
        """*names*: the keys of *node* are names of properties, and no words of JSON Schema."""
        if isinstance(node, list):
            return [walk(item) for item in node]
        if not isinstance(node, dict):
            return node
        if not names and "$ref" in node:
            rest = {key: value for key, value in node.items() if key != "$ref"}
            return walk(definitions[node["$ref"].rpartition("/")[2]] | rest)
        return {
            key: walk(value, names=not names and key == "properties")
            for key, value in node.items()
            if names or key not in ("title", "$defs")
        }

    inlined: Schema = walk(schema)
    return inlined


OF_POD = {
    "annotations": STRING_MAP,
    "labels": STRING_MAP,
    "nodeSelector": STRING_MAP,
    "tolerations": OBJECTS,
    "affinity": OBJECT,
    "topologySpreadConstraints": OBJECTS,
    "podSecurityContext": OBJECT,
    "initContainers": OBJECTS,
    "sidecarContainers": OBJECTS,
    "volumes": OBJECTS,
    "imagePullSecrets": OBJECTS,
    "priorityClassName": STRING,
    "priority": {"type": "integer"},
    "runtimeClassName": STRING,
    "schedulerName": STRING,
    "restartPolicy": STRING,
    "serviceAccountName": STRING,
    "automountServiceAccountToken": BOOLEAN,
    "terminationGracePeriodSeconds": COUNT,
    "dnsConfig": OBJECT,
    "dnsPolicy": STRING,
    "hostAliases": OBJECTS,
    "hostNetwork": BOOLEAN,
}
"""Values of a group that are parts of its pods."""

OF_CONTAINER = {
    "command": STRINGS,
    "args": STRINGS,
    "containerEnv": OBJECTS,
    "envFrom": OBJECTS,
    "ports": OBJECTS,
    "lifecycle": OBJECT,
    "livenessProbe": OBJECT,
    "readinessProbe": OBJECT,
    "startupProbe": OBJECT,
    "resources": OBJECT,
    "securityContext": OBJECT,
    "volumeMounts": OBJECTS,
}
"""Values of a group that are parts of its Ray container."""

SAME_NAME_IN_POD = sorted(
    OF_POD.keys() - {"annotations", "labels", "imagePullSecrets", "podSecurityContext", "sidecarContainers"}
)
SAME_NAME_IN_CONTAINER = sorted(OF_CONTAINER.keys() - {"containerEnv"})
IN_HEAD = ("rayVersion", "enableInTreeAutoscaling", "autoscalerOptions")
"""Fields of the spec that KubeRay's chart has among the values of the head, too."""

IMAGE = closed(
    {
        "repository": STRING,
        "tag": {"type": ["string", "number"]},
        "digest": {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
        "pullPolicy": PULL_POLICY,
    }
)


def ray_cluster_schema() -> str:
    """``charts/ray-cluster/values.schema.json``."""
    spec = _as_values(object_schema(RayClusterSpec, {}))["properties"]
    head, worker = spec.pop("headGroupSpec"), spec.pop("workerGroupSpecs")["items"]
    options = spec["gcsFaultToleranceOptions"]["properties"]
    properties: dict[str, Schema] = {
        **SUBCHART,
        **spec,
        "nameOverride": STRING,
        "fullnameOverride": STRING,
        "labels": STRING_MAP,
        "annotations": STRING_MAP,
        "image": IMAGE,
        "imagePullSecrets": OBJECTS,
        "gcsFaultTolerance": closed({"enabled": BOOLEAN, **options}),
        "common": closed({"containerEnv": OBJECTS}),
        "service": closed({"type": SERVICE_TYPE}),
        "head": _group(head, {name: spec[name] for name in IN_HEAD}),
        "worker": _group(worker, {"disabled": BOOLEAN}),
        "additionalWorkerGroups": {
            "type": "object",
            "additionalProperties": _group(worker, {"disabled": BOOLEAN}),
        },
    }
    return _text("Values of the chart ray-cluster", properties)


def ray_cluster_fields() -> str:
    """``charts/ray-cluster/files/fields.yaml``: which values go where under their own names, for the templates."""
    spec = object_schema(RayClusterSpec, {})["properties"]
    head, worker = spec["headGroupSpec"], spec["workerGroupSpecs"]["items"]
    fields = {
        "spec": [name for name in spec if name not in ("headGroupSpec", "workerGroupSpecs")],
        "headSpec": list(IN_HEAD),
        "head": _same_name_in_group(head),
        "worker": _same_name_in_group(worker),
        "pod": SAME_NAME_IN_POD,
        "container": SAME_NAME_IN_CONTAINER,
    }
    return HEADER + yaml.safe_dump(fields, sort_keys=False, default_flow_style=None, width=120)


def _same_name_in_group(group: Schema) -> list[str]:
    """Fields of a group that are values of the same name; where KubeRay's chart means the pods' by it, they are not."""
    elsewhere = {"template", "serviceType", "rayStartParams", *OF_POD, *OF_CONTAINER}
    return [name for name in group["properties"] if name not in elsewhere]


def _group(group: Schema, more: Mapping[str, Schema]) -> Schema:
    """A group's values: its fields, its pods' and its container's in KubeRay's names, and ``groupSpec`` for all there is."""
    fields = {name: group["properties"][name] for name in _same_name_in_group(group)}
    ours = {"image": IMAGE, "rayStartParams": SCALAR_MAP, "initArgs": SCALAR_MAP, "groupSpec": group}
    return closed({**fields, **OF_POD, **OF_CONTAINER, **ours, **more})


def _as_values(schema: Any) -> Any:
    """A structural schema as JSON Schema: objects closed, nothing required, Kubernetes' own words left out."""
    if isinstance(schema, list):
        return [_as_values(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found: Schema = {}
    for key, value in schema.items():
        if key == "properties":
            found[key] = {name: _as_values(inner) for name, inner in value.items()}
        elif key not in ("required", "default", "format", "nullable") and not key.startswith("x-kubernetes"):
            found[key] = _as_values(value)
    if "properties" in found and not schema.get("x-kubernetes-preserve-unknown-fields"):
        found["additionalProperties"] = False
    return found


def _text(title: str, properties: Mapping[str, Schema]) -> str:
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "title": title, **closed(properties)}
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"
