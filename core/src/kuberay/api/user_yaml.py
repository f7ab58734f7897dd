"""How YAML inside a field is read: YAML 1.1 as Kubernetes reads it, as far as JSON can say the same.

What cannot be read is a `UserYamlError`, however odd it is; nothing in a text can harm who reads it.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

import yaml

_MAX_VALUES = 100_000
"""Values a text may stand for: with aliases, a short one can stand for more than any memory holds."""


class UserYamlError(ValueError):
    """The text cannot be read; the message is for the user."""

    def __init__(self, message: str, *, line: int = 0, column: int = 0, detail: str = "") -> None:
        super().__init__(message)
        self.line = line
        """Counted from 1; 0 when no place is known."""
        self.column = column
        self.detail = detail or message
        """The message without its place."""


class _Loader(yaml.SafeLoader):
    """YAML 1.1 as Kubernetes reads it: times and ``12:30`` stay text, ``1e3`` is a number."""


_TAG = "tag:yaml.org,2002:"
_REPLACED = frozenset(_TAG + name for name in ("timestamp", "int", "float"))
_INT = r"[-+]?(?:0b[01_]*[01][01_]*|0x[0-9a-fA-F_]*[0-9a-fA-F][0-9a-fA-F_]*|0o?_*[0-7][0-7_]*|0|[1-9][0-9_]*)"
_FLOAT = (
    r"[-+]?(?:\.[0-9][0-9_]*|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _REPLACED]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _name, _pattern in (("int", _INT), ("float", _FLOAT)):
    _Loader.add_implicit_resolver(_TAG + _name, re.compile(rf"^(?:{_pattern})$", re.ASCII), list("-+.0123456789"))


def load_mapping(text: str) -> dict[str, Any] | None:
    """The mapping in *text*, in plain JSON values; None when it is only comments. Raises `UserYamlError`."""
    try:
        value = _load(text)
    except UserYamlError:
        raise
    except yaml.YAMLError as error:
        raise _unreadable(error) from error
    except RecursionError as error:
        raise UserYamlError("it is nested too deeply") from error
    except (ValueError, OverflowError) as error:
        raise UserYamlError(f"a value cannot be read: {error}") from error
    if value is not None and not isinstance(value, dict):
        raise UserYamlError(f"it must be a mapping, not a {type(value).__name__}")
    return value


def _unreadable(error: yaml.YAMLError) -> UserYamlError:
    message = " ".join(str(error).split())
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        parts = [part for part in (error.context, error.problem) if part]
        return UserYamlError(message, line=mark.line + 1, column=mark.column + 1, detail=": ".join(parts))
    return UserYamlError(message)


def _load(text: str) -> Any:
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        if _size(node, {}) > _MAX_VALUES:
            raise UserYamlError(f"it stands for more than {_MAX_VALUES:,} values")
        return _plain(loader.construct_document(node))
    finally:
        loader.dispose()


def _size(node: yaml.Node, known: dict[int, int]) -> int:
    """How many values *node* stands for once its aliases are followed. 0 in *known* marks one that is being counted."""
    size = known.get(id(node))
    if size == 0:
        raise UserYamlError("it contains itself")
    if size is None:
        known[id(node)] = 0
        children: list[yaml.Node] = []
        if isinstance(node, yaml.SequenceNode):
            children = node.value
        elif isinstance(node, yaml.MappingNode):
            children = [each for pair in node.value for each in pair]
        size = known[id(node)] = 1 + sum(_size(child, known) for child in children)
    return size


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {_key(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, str):
        return _text(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and abs(value) < 2**63:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise UserYamlError(f"a {type(value).__name__} of its values cannot be written as JSON")


def _key(key: Any) -> str:
    if isinstance(key, str):
        return _text(key)
    return json.dumps(_plain(key))


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise UserYamlError("a text holds half of a surrogate pair") from error
    return value
