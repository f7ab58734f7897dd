"""Which resources are served and how each behaves: status subresource, name rule, what deletes and updates mean.

A path whose group or plural is not registered is answered like by an API server without that CRD.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from kuberay.api import kinds
from kuberay.api.kinds import Kind

NameRule = Literal["subdomain", "label", "service", "path"]
Propagation = Literal["Background", "Foreground", "Orphan"]

CONFIG_MAP = Kind("", "v1", "configmaps", "ConfigMap")
POD_GROUP = Kind("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup")

_BUILTIN_SUFFIX = ".k8s.io"
_BUILTIN_GROUPS = frozenset({"", "apps", "batch", "autoscaling", "policy"})
_CUSTOM_K8S_IO = frozenset({"gateway.networking.k8s.io", "snapshot.storage.k8s.io"})


@dataclass(frozen=True, slots=True)
class Traits:
    """How a kind differs from the plainest one."""

    custom: bool = True
    """Defined by a CRD: list items carry kind and apiVersion, every change outside metadata and status is a new generation."""
    status: bool = True
    """Has a status subresource, so writes to the object ignore ``status`` and the other way round."""
    generation: bool = True
    unconditional_update: bool = False
    """A PUT without resourceVersion overwrites."""
    create_on_update: bool = False
    """A PUT of an object that does not exist creates it."""
    returns_deleted: bool = False
    """DELETE answers with the object instead of a ``Status``."""
    name_rule: NameRule = "subdomain"
    default_propagation: Propagation = "Background"


_PLAIN = Traits(custom=False, status=False, generation=False, unconditional_update=True)

_TRAITS: dict[Kind, Traits] = {
    kinds.POD: Traits(custom=False, unconditional_update=True, returns_deleted=True),
    kinds.SERVICE: Traits(
        custom=False,
        generation=False,
        unconditional_update=True,
        create_on_update=True,
        returns_deleted=True,
        name_rule="service",
    ),
    # An API call without a policy orphans a batch/v1 Job's pods: the real server kept that for old clients.
    kinds.JOB: Traits(custom=False, unconditional_update=True, default_propagation="Orphan"),
    kinds.SERVICE_ACCOUNT: Traits(
        custom=False, status=False, generation=False, unconditional_update=True, returns_deleted=True
    ),
    kinds.POD_DISRUPTION_BUDGET: Traits(custom=False),
    kinds.NAMESPACE: Traits(custom=False, generation=False, unconditional_update=True, name_rule="label"),
    kinds.ROLE: Traits(
        custom=False,
        status=False,
        generation=False,
        unconditional_update=True,
        create_on_update=True,
        name_rule="path",
    ),
    kinds.ROLE_BINDING: Traits(
        custom=False,
        status=False,
        generation=False,
        unconditional_update=True,
        create_on_update=True,
        name_rule="path",
    ),
    kinds.ENDPOINT_SLICE: Traits(custom=False, status=False, unconditional_update=True),
    kinds.EVENT: Traits(custom=False, status=False, generation=False, unconditional_update=True, create_on_update=True),
    kinds.LEASE: Traits(custom=False, status=False, generation=False, create_on_update=True),
    kinds.CRD: Traits(custom=False, unconditional_update=False),
    kinds.SECRET: _PLAIN,
    kinds.INGRESS: Traits(custom=False, unconditional_update=True),
    kinds.NETWORK_POLICY: Traits(custom=False, status=False, unconditional_update=True),
    kinds.PERSISTENT_VOLUME_CLAIM: Traits(
        custom=False, generation=False, unconditional_update=True, returns_deleted=True
    ),
    CONFIG_MAP: _PLAIN,
}


def is_builtin_group(group: str) -> bool:
    """Whether the API server serves *group* without a CRD."""
    return group in _BUILTIN_GROUPS or (group.endswith(_BUILTIN_SUFFIX) and group not in _CUSTOM_K8S_IO)


def default_kinds() -> list[Kind]:
    """Every kind `kuberay.api.kinds` names, config maps, and Volcano's PodGroup."""
    named = [value for value in vars(kinds).values() if isinstance(value, Kind)]
    return [*dict.fromkeys(named), CONFIG_MAP, POD_GROUP]


class Registry:
    """The served kinds, by group, version and plural."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str, str], tuple[Kind, Traits]] = {}

    def register(self, kind: Kind, traits: Traits | None = None) -> None:
        if traits is None:
            fallback = _PLAIN if is_builtin_group(kind.group) else Traits()
            traits = _TRAITS.get(kind, fallback)
        self._kinds[kind.group, kind.version, kind.plural] = kind, traits

    def unregister(self, kind: Kind) -> None:
        self._kinds.pop((kind.group, kind.version, kind.plural), None)

    def find(self, group: str, version: str, plural: str) -> tuple[Kind, Traits] | None:
        return self._kinds.get((group, version, plural))

    def by_kind(self, api_version: str, kind_name: str) -> Kind | None:
        """The kind an owner reference or a manifest names."""
        for kind, _ in self._kinds.values():
            if kind.kind == kind_name and kind.api_version == api_version:
                return kind
        return None

    def traits(self, kind: Kind) -> Traits:
        return self._kinds[kind.group, kind.version, kind.plural][1]

    def __contains__(self, kind: Kind) -> bool:
        return (kind.group, kind.version, kind.plural) in self._kinds

    def __iter__(self) -> Iterator[Kind]:
        return iter([kind for kind, _ in self._kinds.values()])
