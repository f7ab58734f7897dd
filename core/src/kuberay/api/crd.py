"""How the models become CustomResourceDefinitions, full or slim.

Full ones carry the schemas of pod templates, Services and other Kubernetes types, taken from a real API server
(``data/openapi.json.gz``). Slim ones keep those parts as they come, small enough for a plain ``kubectl apply``.
Source: spec operator.md 14, raycluster.md 1, rayjob.md 1.5, rayservice.md 1.
"""

from __future__ import annotations

import copy
import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import orjson

from kuberay.api.cluster import RayClusterSpec
from kuberay.api.cronjob import RayCronJobSpec
from kuberay.api.job import RayJobSpec
from kuberay.api.kinds import RAYCLUSTER, RAYCRONJOB, RAYJOB, RAYSERVICE, Kind
from kuberay.api.schema import Crd, JsonSchema, Kubernetes, Model, Rule, Schemas
from kuberay.api.service import RayServiceSpec
from kuberay.api.status import RayClusterStatus, RayCronJobStatus, RayJobStatus, RayServiceStatus

INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
CONDITION = "io.k8s.apimachinery.pkg.apis.meta.v1.Condition"
QUANTITY_PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
_ANYTHING: JsonSchema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_SCALARS: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


@dataclass(frozen=True, slots=True)
class Column:
    """A printer column."""

    name: str
    path: str
    type: str = "string"
    wide: bool = False


_AGE = Column("age", ".metadata.creationTimestamp", "date")
_CLUSTER_COLUMNS = (
    Column("desired workers", ".status.desiredWorkerReplicas", "integer"),
    Column("available workers", ".status.availableWorkerReplicas", "integer"),
    Column("cpus", ".status.desiredCPU"),
    Column("memory", ".status.desiredMemory"),
    Column("gpus", ".status.desiredGPU"),
    Column("tpus", ".status.desiredTPU", wide=True),
    Column("status", ".status.state"),
    _AGE,
    Column("head pod IP", ".status.head.podIP", wide=True),
    Column("head service IP", ".status.head.serviceIP", wide=True),
)
_JOB_COLUMNS = (
    Column("job status", ".status.jobStatus"),
    Column("deployment status", ".status.jobDeploymentStatus"),
    Column("ray cluster name", ".status.rayClusterName"),
    Column("start time", ".status.startTime"),
    Column("end time", ".status.endTime"),
    _AGE,
)
_SERVICE_COLUMNS = (
    Column("service status", ".status.serviceStatus"),
    Column("num serve endpoints", ".status.numServeEndpoints"),
)
_CRON_COLUMNS = (
    Column("schedule", ".spec.schedule"),
    Column("timezone", ".spec.timeZone"),
    Column("last schedule", ".status.lastScheduleTime", "date"),
    _AGE,
    Column("suspend", ".spec.suspend", "boolean"),
)


def crds(slim: bool) -> list[JsonSchema]:
    """The CustomResourceDefinitions of all kinds, ready to apply."""
    schemas = {} if slim else load_kubernetes_schemas()
    cluster = _crd(RAYCLUSTER, RayClusterSpec, RayClusterStatus, _CLUSTER_COLUMNS, _CLUSTER_COLUMNS, schemas)
    job = _crd(RAYJOB, RayJobSpec, RayJobStatus, _JOB_COLUMNS, (), schemas)
    job["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["properties"]["spec"]["required"] = ["entrypoint"]
    cron = _crd(RAYCRONJOB, RayCronJobSpec, RayCronJobStatus, _CRON_COLUMNS, (), schemas)
    del cron["spec"]["versions"][1:]
    service = _crd(RAYSERVICE, RayServiceSpec, RayServiceStatus, _SERVICE_COLUMNS, (), schemas)
    return [cluster, job, service, cron]


def load_kubernetes_schemas() -> Schemas:
    """Structural schemas of Kubernetes types by name, as ``core/tools/refresh_openapi.py`` wrote them."""
    packed = resources.files("kuberay.api").joinpath("data/openapi.json.gz").read_bytes()
    schemas: Schemas = orjson.loads(gzip.decompress(packed))
    return schemas


def _crd(
    kind: Kind,
    spec: type[Model],
    status: type[Model],
    columns: tuple[Column, ...],
    old_columns: tuple[Column, ...],
    schemas: Schemas,
) -> JsonSchema:
    schema: JsonSchema = {
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": object_schema(spec, schemas),
            "status": object_schema(status, schemas),
        },
    }
    stored = {"name": "v1", "served": True, "storage": True}
    deprecated = {
        "name": "v1alpha1",
        "served": True,
        "storage": False,
        "deprecated": True,
        "deprecationWarning": f"ray.io/v1alpha1 {kind.kind} is deprecated and will be removed in 1.9; use ray.io/v1",
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": str(kind)},
        "spec": {
            "group": kind.group,
            "names": {
                "kind": kind.kind,
                "listKind": f"{kind.kind}List",
                "plural": kind.plural,
                "singular": kind.kind.lower(),
                "categories": ["all"],
            },
            "scope": "Namespaced",
            "versions": [
                _version(stored, columns, schema),
                _version(deprecated, old_columns, copy.deepcopy(schema)),
            ],
        },
    }


def _version(head: JsonSchema, columns: tuple[Column, ...], schema: JsonSchema) -> JsonSchema:
    version = {**head, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": schema}}
    if columns:
        version["additionalPrinterColumns"] = [
            {"name": column.name, "jsonPath": column.path, "type": column.type}
            | ({"priority": 1} if column.wide else {})
            for column in columns
        ]
    return version


def object_schema(model: type[Model], schemas: Schemas) -> JsonSchema:
    """The structural schema of a model. Types found in *schemas* are spelled out, others preserved as they come."""
    properties: JsonSchema = {}
    required = []
    hints = get_type_hints(model, include_extras=True)
    for name, info in model.model_fields.items():
        wire = info.alias or name
        properties[wire] = _field_schema(hints[name], schemas)
        if any(isinstance(mark, Crd) and mark.required for mark in _unwrap(hints[name])[1]):
            required.append(wire)
    schema: JsonSchema = {"type": "object", "properties": dict(sorted(properties.items()))}
    if required:
        schema["required"] = sorted(required)
    if model.crd_rules:
        schema["x-kubernetes-validations"] = _rules(model.crd_rules)
    return schema


def _unwrap(hint: Any) -> tuple[Any, list[Any]]:
    """The bare type of an annotation and its markers, outer ones last; None is dropped from unions."""
    marks: list[Any] = []
    while True:
        if get_origin(hint) is Annotated:
            hint, *found = get_args(hint)
            marks = found + marks
        elif get_origin(hint) in (Union, UnionType):
            options = [option for option in get_args(hint) if option is not NoneType]
            if len(options) > 1:
                return options, marks
            hint = options[0]
        else:
            return hint, marks


def _field_schema(hint: Any, schemas: Schemas) -> JsonSchema:
    bare, marks = _unwrap(hint)
    owned = next((mark for mark in marks if isinstance(mark, Kubernetes)), None)
    if owned is not None:
        schema = _owned_schema(owned.name, schemas)
        if get_origin(bare) is list:
            schema = {"type": "array", "items": schema}
    elif get_origin(bare) is list:
        schema = {"type": "array", "items": _field_schema(get_args(bare)[0], schemas)}
    elif get_origin(bare) is dict:
        schema = {"type": "object", "additionalProperties": _field_schema(get_args(bare)[1], schemas)}
    elif isinstance(bare, type) and issubclass(bare, Model):
        schema = object_schema(bare, schemas)
    else:
        schema = {"type": _SCALARS[bare]}
    for mark in marks:
        if isinstance(mark, Crd):
            _apply(mark, schema)
    return schema


def _owned_schema(name: str, schemas: Schemas) -> JsonSchema:
    if name == QUANTITY:
        return {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": QUANTITY_PATTERN,
            "x-kubernetes-int-or-string": True,
        }
    if name == INT_OR_STRING:
        return {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
    if name == CONDITION:
        return copy.deepcopy(_CONDITION)
    return copy.deepcopy(schemas[name] if schemas else _ANYTHING)


def _apply(mark: Crd, schema: JsonSchema) -> None:
    if mark.enum:
        schema["enum"] = [str(value) for value in mark.enum]
    if mark.default is not None:
        schema["default"] = mark.default
    for key, value in (("minimum", mark.minimum), ("minItems", mark.min_items), ("minLength", mark.min_length)):
        if value is not None:
            schema[key] = value
    if mark.format:
        schema["format"] = mark.format
    if mark.nullable:
        schema["nullable"] = True
    if mark.list_map_keys:
        schema["x-kubernetes-list-type"] = "map"
        schema["x-kubernetes-list-map-keys"] = list(mark.list_map_keys)
    if mark.atomic:
        schema["x-kubernetes-list-type"] = "atomic"
    if mark.rules:
        schema["x-kubernetes-validations"] = _rules(mark.rules)


def _rules(rules: Sequence[Rule]) -> list[JsonSchema]:
    return [{"rule": rule.rule, "message": rule.message} for rule in rules]


_CONDITION: JsonSchema = {
    "type": "object",
    "properties": {
        "lastTransitionTime": {"type": "string", "format": "date-time"},
        "message": {"type": "string", "maxLength": 32768},
        "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
        "reason": {
            "type": "string",
            "maxLength": 1024,
            "minLength": 1,
            "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        },
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "type": {
            "type": "string",
            "maxLength": 316,
            "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
            r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
        },
    },
    "required": ["lastTransitionTime", "message", "reason", "status", "type"],
}
