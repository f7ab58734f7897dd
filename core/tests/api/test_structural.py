"""What the API server makes of an object by its schema: defaults, and refusals with paths."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from kuberay.api.structural import defaulted, structural_problems, transition_problems

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["name", "size"],
    "properties": {
        "name": {"type": "string"},
        "size": {"type": "integer", "default": 1, "minimum": 0},
        "mode": {"type": "string", "enum": ["a", "b"]},
        "amount": {"x-kubernetes-int-or-string": True},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "maybe": {"type": "string", "nullable": True},
        "fixed": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is fixed"}]},
        "owner": {"type": "string", "x-kubernetes-validations": [{"rule": "self in ['x', 'y']", "message": "x or y"}]},
        "items": {
            "type": "array",
            "items": {"type": "object", "properties": {"port": {"type": "integer"}, "kind": {"default": "TCP"}}},
        },
        "options": {"type": "object", "default": {}, "properties": {"deep": {"type": "boolean", "default": True}}},
    },
}


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        ({}, {"size": 1, "options": {"deep": True}}),
        ({"size": None, "maybe": None, "name": None}, {"size": 1, "maybe": None, "options": {"deep": True}}),
        ({"options": {"deep": False}}, {"size": 1, "options": {"deep": False}}),
        (
            {"items": [{"port": 1}, {"kind": "UDP"}], "labels": {"a": "b"}},
            {
                "size": 1,
                "items": [{"port": 1, "kind": "TCP"}, {"kind": "UDP"}],
                "labels": {"a": "b"},
                "options": {"deep": True},
            },
        ),
    ],
)
def test_defaults(value: dict[str, Any], stored: dict[str, Any]) -> None:
    before = copy.deepcopy(value)
    assert defaulted(value, SCHEMA) == stored
    assert value == before


def test_defaults_are_copies() -> None:
    defaulted({}, SCHEMA)["options"]["deep"] = False
    assert defaulted({}, SCHEMA)["options"] == {"deep": True}


@pytest.mark.parametrize(
    ("value", "problems"),
    [
        ({"name": "n"}, []),
        ({"name": "n", "amount": "5Gi", "labels": {"a": "b"}, "free": {"x": [1]}, "maybe": None, "owner": "x"}, []),
        ({}, ["s.name: is required"]),
        ({"name": 5}, ["s.name: must be of type string, not integer"]),
        ({"name": "n", "size": True}, ["s.size: must be of type integer, not boolean"]),
        ({"name": "n", "size": -1}, ["s.size: -1 is less than 0"]),
        ({"name": "n", "mode": "c"}, ["s.mode: 'c' is none of a, b"]),
        ({"name": "n", "amount": 1.5}, ["s.amount: must be a number or a string, not number"]),
        ({"name": "n", "amount": True}, ["s.amount: must be a number or a string, not boolean"]),
        ({"name": "n", "labels": {"a": 1}}, ["s.labels.a: must be of type string, not integer"]),
        ({"name": "n", "sise": 1}, ["s.sise: is no known field"]),
        ({"name": "n", "items": {}}, ["s.items: must be of type array, not object"]),
        ({"name": "n", "items": [{"port": "http"}]}, ["s.items[0].port: must be of type integer, not string"]),
        ({"name": "n", "items": [{}, {"prot": 1}]}, ["s.items[1].prot: is no known field"]),
        ({"name": "n", "owner": "z"}, ["s.owner: x or y"]),
        ("n", ["s: must be of type object, not string"]),
    ],
)
def test_what_is_refused(value: Any, problems: list[str]) -> None:
    assert [str(problem) for problem in structural_problems(value, SCHEMA, "s")] == problems


@pytest.mark.parametrize(
    ("before", "after", "problems"),
    [
        ({"fixed": "a"}, {"fixed": "a"}, []),
        ({"fixed": "a"}, {"fixed": "b"}, ["s.fixed: is fixed"]),
        ({}, {"fixed": "b"}, []),
        ({"fixed": "a"}, {}, []),
    ],
)
def test_what_may_not_change(before: Any, after: Any, problems: list[str]) -> None:
    """Only where the field is there before and after."""
    assert [str(problem) for problem in transition_problems(before, after, SCHEMA, "s")] == problems
