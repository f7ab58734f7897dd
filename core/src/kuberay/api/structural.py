"""What the API server makes of an object by the schema of its CRD alone: defaults filled in, and what it would refuse.

For tools that look at a manifest before it is applied; the operator itself never needs it.
"""

from __future__ import annotations

import ast
import copy
import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kuberay.api.problems import Problem
from kuberay.api.schema import JsonSchema

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}
_ONE_OF = re.compile(r"self in (\[.*\])")
_IMMUTABLE = "self == oldSelf"


def defaulted(value: Any, schema: JsonSchema) -> Any:
    """A copy of *value* as the API server stores it: defaults are there, nulls are gone."""
    if isinstance(value, Mapping):
        filled: dict[str, Any] = {}
        for key, item in value.items():
            if item is not None or property_schema(schema, key).get("nullable"):
                filled[key] = defaulted(item, property_schema(schema, key))
        for key, child in (schema.get("properties") or {}).items():
            if key not in filled and "default" in child:
                filled[key] = defaulted(copy.deepcopy(child["default"]), child)
        return filled
    if isinstance(value, list):
        return [defaulted(item, schema.get("items") or {}) for item in value]
    return value


def property_schema(schema: JsonSchema, key: str) -> JsonSchema:
    """The schema of one field of an object; empty when it says nothing of it."""
    known = (schema.get("properties") or {}).get(key)
    if known is not None:
        return dict(known)
    extra = schema.get("additionalProperties")
    return dict(extra) if isinstance(extra, Mapping) else {}


def structural_problems(value: Any, schema: JsonSchema, path: str) -> list[Problem]:
    """Unknown fields, missing ones, wrong types and values that are not among those allowed, with their paths."""
    return [Problem(where, message) for where, message in _problems(value, schema, path)]


def transition_problems(before: Any, after: Any, schema: JsonSchema, path: str) -> list[Problem]:
    """Fields that were set, are set, differ, and may not (``self == oldSelf``)."""
    if before == after or before is None or after is None:
        return []
    found = [
        Problem(path, rule["message"])
        for rule in schema.get("x-kubernetes-validations") or ()
        if rule["rule"] == _IMMUTABLE
    ]
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in before:
            if key in after:
                child = property_schema(schema, key)
                found += transition_problems(before[key], after[key], child, f"{path}.{key}")
    return found


def _problems(value: Any, schema: JsonSchema, path: str) -> Iterator[tuple[str, str]]:
    wanted = schema.get("type", "")
    if schema.get("x-kubernetes-int-or-string"):
        if isinstance(value, bool) or not isinstance(value, int | str):
            yield path, f"must be a number or a string, not {_kind(value)}"
        return
    fits = isinstance(value, _TYPES.get(wanted, (object,))) and not (isinstance(value, bool) and wanted != "boolean")
    if wanted and not fits:
        yield path, f"must be of type {wanted}, not {_kind(value)}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield path, f"{value!r} is none of {', '.join(map(str, schema['enum']))}"
    if "minimum" in schema and value < schema["minimum"]:
        yield path, f"{value} is less than {schema['minimum']}"
    for rule in schema.get("x-kubernetes-validations") or ():
        allowed = _ONE_OF.fullmatch(rule["rule"])
        if allowed is not None and value not in ast.literal_eval(allowed[1]):
            yield path, rule["message"]
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _problems(item, schema.get("items") or {}, f"{path}[{number}]")
    elif isinstance(value, dict):
        yield from _field_problems(value, schema, path)


def _field_problems(value: Mapping[str, Any], schema: JsonSchema, path: str) -> Iterator[tuple[str, str]]:
    properties = schema.get("properties") or {}
    for key in schema.get("required") or ():
        if value.get(key) is None and "default" not in properties.get(key, {}):
            yield f"{path}.{key}", "is required"
    closed = schema.get("type") == "object" and not schema.get("x-kubernetes-preserve-unknown-fields")
    for key, item in value.items():
        if key in properties or isinstance(schema.get("additionalProperties"), Mapping):
            if item is not None:
                yield from _problems(item, property_schema(schema, key), f"{path}.{key}")
        elif closed:
            yield f"{path}.{key}", f"is no known field{_meant(key, properties)}"


def _meant(key: str, known: Iterable[str]) -> str:
    """A field of nearly that name, as part of a sentence; empty when there is none."""
    names = {name.lower(): name for name in known}
    close = difflib.get_close_matches(str(key).lower(), names, n=1, cutoff=0.8)
    return f"; did you mean {names[close[0]]}?" if close else ""


def _kind(value: Any) -> str:
    names = {dict: "object", list: "array", str: "string", int: "integer", bool: "boolean", float: "number"}
    return names.get(type(value), type(value).__name__)
