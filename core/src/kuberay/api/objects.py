"""What of a Kubernetes object the operator keeps in memory: lean msgspec structs, decoded straight from the wire.

Unknown fields are skipped by the decoder and cost nothing. Attribute names are snake_case, wire names camelCase.
Kinds whose full content matters (services, role bindings, pod groups, …) are kept as `Child`, which holds the bytes.
"""

from __future__ import annotations

import sys
from datetime import datetime
from typing import Any

import msgspec
import orjson

from kuberay.api.kinds import Kind
from kuberay.api.names import LABEL_PLUGIN

_ENCODER = msgspec.json.Encoder()


class OwnerReference(msgspec.Struct, rename="camel", gc=False):
    """One entry of ``metadata.ownerReferences``."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(msgspec.Struct, rename="camel"):
    """The parts of ``metadata`` that decisions read."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[OwnerReference] = []
    finalizers: list[str] = []

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages this object, if any."""
        for owner in self.owner_references:
            if owner.controller:
                return owner
        return None


class Object(msgspec.Struct, rename="camel", kw_only=True):
    """Any object of which only the metadata is read."""

    metadata: ObjectMeta

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        return self.metadata.namespace

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def deleting(self) -> bool:
        """Whether the API server has accepted a delete of it."""
        return self.metadata.deletion_timestamp is not None


class Condition(msgspec.Struct, rename="camel", gc=False):
    """A condition as pods, Jobs and Ray kinds carry it. ``status`` is ``True``, ``False`` or ``Unknown``."""

    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class ContainerStateDetail(msgspec.Struct, rename="camel", gc=False):
    """What of the three states is read; each state fills its own part of it."""

    reason: str = ""
    message: str = ""
    exit_code: int = 0
    started_at: datetime | None = None
    finished_at: datetime | None = None


class ContainerState(msgspec.Struct, rename="camel"):
    """Exactly one of the three is set."""

    waiting: ContainerStateDetail | None = None
    running: ContainerStateDetail | None = None
    terminated: ContainerStateDetail | None = None


class ContainerStatus(msgspec.Struct, rename="camel"):
    name: str
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = msgspec.field(default_factory=ContainerState)
    last_state: ContainerState = msgspec.field(default_factory=ContainerState)


class ContainerResources(msgspec.Struct, gc=False):
    """``resources`` of a container; amounts as they were written."""

    limits: dict[str, str | int | float] = {}
    requests: dict[str, str | int | float] = {}


class Container(msgspec.Struct, gc=False):
    """What rolling upgrades compare of a container that says nothing about the spec it was made from."""

    name: str = ""
    image: str = ""
    resources: ContainerResources | None = None


class PodSpec(msgspec.Struct, rename="camel"):
    containers: list[Container] = []
    restart_policy: str = ""
    node_name: str = ""


class PodStatus(msgspec.Struct, rename="camel"):
    phase: str = ""
    reason: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(name="podIP", default="")
    conditions: list[Condition] = []
    container_statuses: list[ContainerStatus] = []
    init_container_statuses: list[ContainerStatus] = []
    observed_generation: int = 0
    """The version of the spec that the kubelet works by; 0 where it does not say."""


_UNREAD_CONDITIONS = frozenset(("ContainersReady", "Initialized", "PodReadyToStartContainers"))
"""Conditions of a pod that no decision looks at; every pod has them."""
_MOST_SHARED = 10_000
_shared_containers: dict[bytes, list[Container]] = {}


class Pod(Object, kw_only=True):
    """There are thousands of them, so what is equal in many is kept once, and what nobody reads is not kept."""

    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)

    def __post_init__(self) -> None:
        metadata, spec, status = self.metadata, self.spec, self.status
        metadata.labels = {sys.intern(key): sys.intern(value) for key, value in metadata.labels.items()}
        if any(condition.type in _UNREAD_CONDITIONS for condition in status.conditions):
            status.conditions = [c for c in status.conditions if c.type not in _UNREAD_CONDITIONS]
        key = _ENCODER.encode(spec.containers)
        shared = _shared_containers.get(key)
        if shared is None:
            if len(_shared_containers) >= _MOST_SHARED:
                _shared_containers.clear()
            shared = _shared_containers[key] = spec.containers
        spec.containers = shared


class JobStatus(msgspec.Struct, rename="camel"):
    conditions: list[Condition] = []
    active: int = 0
    succeeded: int = 0
    failed: int = 0


class JobSpec(msgspec.Struct, gc=False):
    suspend: bool = False


class Job(Object, kw_only=True):
    """A batch/v1 Job."""

    spec: JobSpec = msgspec.field(default_factory=JobSpec)
    status: JobStatus = msgspec.field(default_factory=JobStatus)

    @property
    def suspended(self) -> bool:
        """Whether it is asked to run no pod."""
        return self.spec.suspend


class OwnedFields(msgspec.Struct):
    """``fieldsV1``: which fields of the spec are meant."""

    spec: dict[str, Any] = msgspec.field(name="f:spec", default_factory=dict)


class FieldsOwner(msgspec.Struct, rename="camel"):
    """One entry of ``metadata.managedFields``, as far as it is about the spec."""

    manager: str = ""
    subresource: str = ""
    time: datetime | None = None
    """When it last changed one of its fields."""
    fields: OwnedFields = msgspec.field(name="fieldsV1", default_factory=OwnedFields)
    owned: frozenset[str] = frozenset()
    """Fields right below ``spec``, and right below ``spec.rayClusterSpec`` (``rayClusterSpec.headGroupSpec``)."""

    def __post_init__(self) -> None:
        if self.fields.spec:
            # Deeper ones are many and nobody asks for them.
            names = {sys.intern(key[2:]) for key in self.fields.spec if key.startswith("f:")}
            inner = self.fields.spec.get("f:rayClusterSpec") or {}
            names |= {sys.intern(f"rayClusterSpec.{key[2:]}") for key in inner if key.startswith("f:")}
            self.owned = frozenset(names)
        self.fields = _NO_FIELDS


_NO_FIELDS = OwnedFields()


class RayMeta(ObjectMeta):
    """Metadata of a Ray kind: who wrote its spec is told, too."""

    managed_fields: list[FieldsOwner] = []

    def __post_init__(self) -> None:
        if any(entry.subresource or not entry.owned for entry in self.managed_fields):
            self.managed_fields = [entry for entry in self.managed_fields if entry.owned and not entry.subresource]


class RayObject(Object, kw_only=True):
    """A RayCluster, RayJob, … : spec and status stay raw; `kuberay.api` models give them types where needed."""

    metadata: RayMeta
    api_version: str = ""
    kind: str = ""
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}
    parsed: Any = None
    """Typed form of ``spec``, cached by whoever parses it first; never serialised, dropped with the object."""

    def same_spec_as(self, other: RayObject) -> bool:
        """Whether both are versions of one object with one spec (the API server counts spec changes)."""
        mine, others = self.metadata, other.metadata
        return mine.uid == others.uid and mine.generation == others.generation > 0


class Secret(Object, kw_only=True):
    """A Secret without its content: whether it is there is all that counts, and what is not kept cannot leak. One that a
    plugin made for itself (label ``ray.io/plugin``) is a `Child` instead."""

    def __post_init__(self) -> None:
        # kubectl writes what was applied, tokens and all, into an annotation.
        self.metadata.annotations = {}


class EndpointConditions(msgspec.Struct, gc=False):
    ready: bool | None = None


class TargetRef(msgspec.Struct, gc=False):
    uid: str = ""


class Endpoint(msgspec.Struct, rename="camel"):
    """One address of a service, and which pod has it."""

    conditions: EndpointConditions = msgspec.field(default_factory=EndpointConditions)
    target_ref: TargetRef | None = None


class EndpointSlice(Object, kw_only=True):
    """Pods behind a service. Of many addresses only who is ready is kept."""

    endpoints: list[Endpoint] | None = None
    """As on the wire; empty afterwards."""
    ready: frozenset[str] = frozenset()
    """UIDs of pods that are said to be ready; nothing said is not ready."""

    def __post_init__(self) -> None:
        self.ready |= {
            each.target_ref.uid
            for each in self.endpoints or ()
            if each.conditions.ready and each.target_ref is not None and each.target_ref.uid
        }
        self.endpoints = None
        # The time of the last change, for measurements.
        self.metadata.annotations = {}


class Child(Object, kw_only=True):
    """An object the operator applies (Service, ServiceAccount, Role, PodGroup, …), kept with its bytes."""

    raw: bytes = b""

    def body(self) -> dict[str, Any]:
        """The whole object as the API server sent it. Parsed at each call: use sparingly."""
        parsed: dict[str, Any] = orjson.loads(self.raw)
        return parsed


STRUCTS: dict[str, type[Object]] = {
    "Pod": Pod,
    "Job": Job,
    "Secret": Secret,
    "EndpointSlice": EndpointSlice,
    "RayCluster": RayObject,
    "RayJob": RayObject,
    "RayService": RayObject,
    "RayCronJob": RayObject,
}
"""Kinds with a struct of their own; all others are `Child`."""

_DECODERS: dict[type[Object], msgspec.json.Decoder[Any]] = {
    struct: msgspec.json.Decoder(struct) for struct in (Pod, Job, Secret, EndpointSlice, RayObject, Child)
}


def decode(kind: Kind, raw: bytes | memoryview | msgspec.Raw) -> Object:
    """The struct for *kind* from JSON bytes. Raises ``msgspec.ValidationError`` when the bytes do not fit."""
    struct = STRUCTS.get(kind.kind, Child)
    obj: Object = _DECODERS[struct].decode(raw)
    if isinstance(obj, Secret) and LABEL_PLUGIN in obj.metadata.labels:
        obj = _DECODERS[Child].decode(raw)
    if isinstance(obj, Child):
        obj.raw = bytes(raw)
    return obj


def from_dict(kind: Kind, body: dict[str, Any]) -> Object:
    """The struct for *kind* from a parsed object, as an event source or a test has it."""
    if STRUCTS.get(kind.kind) is RayObject:
        return msgspec.convert(body, RayObject)
    return decode(kind, orjson.dumps(body))
