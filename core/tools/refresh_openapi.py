"""Fetches the schemas of Kubernetes types that CRDs embed, from the API server that ``kubectl`` talks to.

Usage: ``dev/cluster exec python core/tools/refresh_openapi.py`` (any Kubernetes will do). Writes
``core/src/kuberay/api/data/openapi.json.gz``: structural schemas by type name, references spelled out, descriptions and
native enums left out, so that nothing is refused that the API server would take in a pod template.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

Schema = dict[str, Any]

CORE = "io.k8s.api.core.v1."
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
DOCUMENTS = ("/openapi/v3/api/v1", "/openapi/v3/apis/networking.k8s.io/v1")
WANTED = (
    CORE + "PodTemplateSpec",
    CORE + "Service",
    CORE + "EnvVar",
    CORE + "EnvVarSource",
    CORE + "EnvFromSource",
    CORE + "VolumeMount",
    CORE + "ResourceRequirements",
    CORE + "SecurityContext",
    "io.k8s.api.networking.v1.IngressTLS",
    "io.k8s.api.networking.v1.NetworkPolicyIngressRule",
    "io.k8s.api.networking.v1.NetworkPolicyEgressRule",
)
KEPT = (
    "type",
    "format",
    "required",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
)
STRINGS = {"type": "object", "additionalProperties": {"type": "string"}}
EMBEDDED_META: Schema = {
    "type": "object",
    "properties": {
        "annotations": STRINGS,
        "finalizers": {"type": "array", "items": {"type": "string"}},
        "labels": STRINGS,
        "name": {"type": "string"},
        "namespace": {"type": "string"},
    },
}
INT_OR_STRING: Schema = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
QUANTITY_PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)


def fetch(path: str) -> dict[str, Schema]:
    """The component schemas of one OpenAPI v3 document."""
    command = ["kubectl", "get", "--raw", path]
    answer = subprocess.run(command, check=True, capture_output=True, timeout=60)  # noqa: S603 - fixed words
    schemas: dict[str, Schema] = json.loads(answer.stdout)["components"]["schemas"]
    return schemas


def structural(name: str, schemas: dict[str, Schema]) -> Schema:
    """The structural schema of a named type."""
    if name == META + "ObjectMeta":
        return EMBEDDED_META
    if name == QUANTITY:
        return {**INT_OR_STRING, "pattern": QUANTITY_PATTERN}
    if name.endswith(".IntOrString"):
        return INT_OR_STRING
    return convert(schemas[name], schemas)


def convert(schema: Schema, schemas: dict[str, Schema]) -> Schema:
    """One schema node, without what CRDs must not or need not carry."""
    references = [part["$ref"] for part in schema.get("allOf", ()) if "$ref" in part]
    references += [schema["$ref"]] if "$ref" in schema else []
    if references:
        if len(references) > 1:
            sys.exit(f"a type made of several others cannot be spelled out: {references}")
        return structural(references[0].rpartition("/")[2], schemas)
    result = {key: schema[key] for key in KEPT if key in schema}
    if schema.get("default") not in (None, "", 0, False, {}, []):
        result["default"] = schema["default"]
    if "items" in schema:
        result["items"] = convert(schema["items"], schemas)
    if isinstance(schema.get("additionalProperties"), dict):
        result["additionalProperties"] = convert(schema["additionalProperties"], schemas)
    if "properties" in schema:
        result["properties"] = {key: convert(value, schemas) for key, value in sorted(schema["properties"].items())}
    complete_map_keys(result)
    return result


def complete_map_keys(schema: Schema) -> None:
    """Keys of list-maps must be required or have a default."""
    items = schema.get("items", {})
    for key in schema.get("x-kubernetes-list-map-keys", ()):
        if key not in items.get("required", ()):
            items["properties"][key] = {"default": "", **items["properties"][key]}


def main() -> None:
    """Fetch, convert, write."""
    schemas: dict[str, Schema] = {}
    for path in DOCUMENTS:
        schemas.update(fetch(path))
    data = {name: structural(name, schemas) for name in WANTED}
    text = json.dumps(data, sort_keys=True, separators=(",", ":")).encode()
    target = Path(__file__).parents[1] / "src/kuberay/api/data/openapi.json.gz"
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(gzip.compress(text, mtime=0))
    sys.stderr.write(f"{target}: {len(data)} types, {len(text)} bytes, {target.stat().st_size} packed\n")


if __name__ == "__main__":
    main()
