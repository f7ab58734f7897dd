"""How models say what their CRD demands beyond Python types: defaults, enums, rules, and types that Kubernetes owns.

`kuberay.api.crd` reads these markers from ``Annotated`` metadata; nothing here runs when an object is parsed, except
that an explicit null list or map counts as empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict
from pydantic.alias_generators import to_camel


@dataclass(frozen=True, slots=True)
class Rule:
    """One CEL rule of ``x-kubernetes-validations``."""

    rule: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Crd:
    """What the API server enforces for a field."""

    required: bool = False
    default: Any = None
    enum: Sequence[str] = ()
    minimum: int | None = None
    min_items: int | None = None
    min_length: int | None = None
    format: str = ""
    rules: Sequence[Rule] = ()
    list_map_keys: Sequence[str] = ()
    """Makes a list a list-map with these keys."""
    atomic: bool = False
    """Makes a list atomic: server-side apply replaces it as a whole."""
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Kubernetes:
    """The field holds a type of Kubernetes itself, for example ``io.k8s.api.core.v1.PodTemplateSpec``."""

    name: str


class Model(BaseModel):
    """Base of all API models: camelCase on the wire, unknown fields kept, no silent conversion of types."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="allow",
        strict=True,
        protected_namespaces=(),
    )
    crd_rules: ClassVar[Sequence[Rule]] = ()
    """CEL rules of the object as a whole."""


def _empty_list(value: Any) -> Any:
    return [] if value is None else value


def _empty_map(value: Any) -> Any:
    return {} if value is None else value


EmptyList = BeforeValidator(_empty_list)
"""For lists with a default: null means empty."""
EmptyMap = BeforeValidator(_empty_map)
"""For maps with a default: null means empty."""

Manifest = dict[str, Any]
StringMap = Annotated[dict[str, str], EmptyMap]
Strings = Annotated[list[str], EmptyList]

INT32 = Crd(format="int32")

MANAGED_BY_RULES = (
    Rule("self == oldSelf", "the managedBy field is immutable"),
    Rule(
        "self in ['ray.io/kuberay-operator', 'kueue.x-k8s.io/multikueue']",
        "the managedBy field value must be either 'ray.io/kuberay-operator' or 'kueue.x-k8s.io/multikueue'",
    ),
)

JsonSchema = dict[str, Any]
Schemas = Mapping[str, JsonSchema]
