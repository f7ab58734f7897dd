"""How ``spec.runtimeEnvYAML`` is read: YAML 1.1 as Kubernetes reads it, as far as JSON can say the same.

Source: spec rayjob.md 3.3 and 6.2 (S25). What cannot be read is a `RuntimeEnvError`, however odd it is.
"""

from __future__ import annotations

import json
import math
from functools import lru_cache
from typing import Any

import yaml

_MAX_VALUES = 100_000
"""Values a text may stand for: with aliases, a short one can stand for more than any memory holds."""


class RuntimeEnvError(ValueError):
    """The runtime environment cannot be read; the text is for the user."""


class _Loader(yaml.SafeLoader):
    """YAML 1.1 as Kubernetes reads it: times stay text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def load_runtime_env(text: str) -> dict[str, Any] | None:
    """The runtime environment in *text*, in plain JSON values; None when it is only comments. Raises `RuntimeEnvError`."""
    try:
        value = _load(text)
    except RuntimeEnvError:
        raise
    except yaml.YAMLError as error:
        raise RuntimeEnvError(" ".join(str(error).split())) from error
    except RecursionError as error:
        raise RuntimeEnvError("it is nested too deeply") from error
    except (ValueError, OverflowError) as error:
        raise RuntimeEnvError(f"a value cannot be read: {error}") from error
    if value is not None and not isinstance(value, dict):
        raise RuntimeEnvError(f"it must be a mapping, not a {type(value).__name__}")
    return value


@lru_cache(maxsize=256)
def runtime_env_error(text: str) -> str:
    """Why *text* is no runtime environment; empty when it is one."""
    try:
        load_runtime_env(text)
    except RuntimeEnvError as error:
        return str(error)
    return ""


def _load(text: str) -> Any:
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        if _size(node, {}) > _MAX_VALUES:
            raise RuntimeEnvError(f"it stands for more than {_MAX_VALUES:,} values")
        return _plain(loader.construct_document(node))
    finally:
        loader.dispose()


def _size(node: yaml.Node, known: dict[int, int]) -> int:
    """How many values *node* stands for once its aliases are followed. 0 in *known* marks one that is being counted."""
    size = known.get(id(node))
    if size == 0:
        raise RuntimeEnvError("it contains itself")
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
    raise RuntimeEnvError(f"a {type(value).__name__} of its values cannot be written as JSON")


def _key(key: Any) -> str:
    if isinstance(key, str):
        return _text(key)
    return json.dumps(_plain(key))


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise RuntimeEnvError("a text holds half of a surrogate pair") from error
    return value
