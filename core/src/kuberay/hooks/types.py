"""The types hooks take and return: contexts handed to plugins, and the answers the core understands. No I/O.

Contexts are values: what a plugin changes in them has no effect. What counts is what it returns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol

from kuberay.api.kinds import RAYJOB, RAYSERVICE, Kind
from kuberay.api.problems import Problem as Problem

Manifest = dict[str, Any]
Stage = Literal["ALPHA", "BETA", "GA"]


@dataclass(frozen=True, slots=True)
class FeatureGate:
    """A switch of the ``--feature-gates`` flag."""

    name: str
    default: bool
    stage: Stage
    description: str


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """One RBAC rule the operator needs for a plugin to work; granted only when the plugin is on."""

    api_groups: Sequence[str]
    resources: Sequence[str]
    verbs: Sequence[str]


@dataclass(frozen=True, slots=True)
class Watch:
    """A kind the operator should watch for a plugin.

    Objects map to their controller owner. ``prune`` lets the core delete owned objects of this kind that
    `extra_resources` no longer returns. A kind that the cluster does not serve is waited for.
    """

    kind: Kind
    label_selector: str = ""
    prune: bool = False
    create_only: bool = False
    """Objects of this kind are created when absent and otherwise left as they are, whoever made them."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Pods must not be created yet. ``reason`` is one sentence and shows as a condition."""

    reason: str
    event: str = ""
    """Reason of a Warning event that also tells it, for example ``AutoscalerServiceAccountNotFound``; empty: none."""


@dataclass(frozen=True, slots=True)
class RandomSecret:
    """A Secret of the owner with random content, which hooks cannot make themselves: they know no chance.

    It is created once, when the owner's namespace has none of that name, and never changed. With the label ``ray.io/plugin`` (set by
    the core) its content can be read through ``ctx.children`` by the plugin that asked for it, whose `watches` names Secrets.
    """

    name: str
    keys: Mapping[str, int]
    """Key of ``data`` to how many random bytes it stands for; what is stored is the text of their base64."""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PodAnnotations:
    """Annotations to put on a pod of the owner that exists. A pod that has gone meanwhile is nobody's problem."""

    pod: str
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class GroupSize:
    """One group of expected pods, as gangs need it (spec plugins.md 2). `kuberay.hooks.gang.gang_size` adds groups up."""

    name: str
    """``headgroup``, a worker group's name, or ``submittergroup``."""
    desired: int
    """Pods wanted now: replicas clamped to min and max, times numOfHosts; 0 when suspended."""
    minimum: int
    """minReplicas × numOfHosts; 0 when suspended."""
    requests: Mapping[str, str]
    """Requests of one pod; a limit counts where there is no request."""
    raw_desired: int = 0
    """``replicas × numOfHosts`` unclamped (missing: 0), as KubeRay's resource sums use it."""
    sidecars: Mapping[str, str] = field(default_factory=dict)
    """Requests of the containers that the operator's own configuration adds to each pod of the group (``headSidecarContainers``,
    ``workerSidecarContainers``). They are no part of ``requests``; a scheduler that compares pods with what was announced for
    them adds both. Containers that plugins add are in neither."""


class Lookup(Protocol):
    """Answers whether an unwatched object exists. The first question is answered by a later pass."""

    def __call__(self, kind: Kind, namespace: str, name: str) -> bool | None:
        """True, False, or None while it is not known yet (the pass is repeated when it is)."""
        ...


def _not_known(kind: Kind, namespace: str, name: str) -> bool | None:
    return None


@dataclass(frozen=True, slots=True)
class LivePod:
    """A pod of the owner that exists: neither terminating nor ended."""

    name: str
    node_type: str
    """``head`` or ``worker``."""
    group: str
    ip: str
    """Empty until the pod has an address."""
    uid: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)


class LivePods(Protocol):
    """Lists the owner's pods; worked out when asked."""

    def __call__(self) -> Sequence[LivePod]:
        """By name."""
        ...


class LiveChildren(Protocol):
    """Lists the owner's children of a kind that the plugin watches, as the API server has them."""

    def __call__(self, kind: Kind) -> Sequence[Manifest]:
        """Whole objects, by name; terminating ones are included."""
        ...


class Serves(Protocol):
    """Whether the API server serves a kind that the plugin watches."""

    def __call__(self, kind: Kind) -> bool:
        """False only for a kind whose CRD has been missing since the operator started."""
        ...


def _serves_all(kind: Kind) -> bool:
    return True


class LiveChild(Protocol):
    """Finds one object in the owner's namespace, of a kind that the plugin watches."""

    def __call__(self, kind: Kind, name: str) -> Manifest | None:
        """The whole object, whoever owns it, or None."""
        ...


def _no_child(kind: Kind, name: str) -> Manifest | None:
    return None


def _no_pods() -> Sequence[LivePod]:
    return ()


def _no_children(kind: Kind) -> Sequence[Manifest]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerContext:
    """The Ray object a hook is called for. ``spec`` and ``status`` are copies of the raw dictionaries."""

    kind: Kind
    name: str
    namespace: str
    uid: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    spec: Manifest
    status: Manifest
    cluster_spec: Manifest | None
    """The RayClusterSpec: ``spec`` itself for a RayCluster, ``spec.rayClusterSpec`` for a RayJob (may be None),
    ``spec.rayClusterConfig`` for a RayService."""
    groups: Sequence[GroupSize]
    """Head first, then worker groups in order, then the submitter (RayJob in K8sJobMode)."""
    now: datetime
    gates: Mapping[str, bool]
    settings: Any = None
    """The plugin's own settings model (see the ``settings`` hook), or None."""
    lookup: Lookup = _not_known
    owner_reference: Manifest = field(default_factory=dict)
    """Controller owner reference to put on children. The core adds it where a plugin leaves it out."""
    pods: LivePods = _no_pods
    """Pods the owner itself controls: a RayCluster's head and workers; a RayJob has none."""
    children: LiveChildren = _no_children
    child: LiveChild = _no_child
    """Of Secrets only those that a plugin made are found by `children` and `child`."""
    serves: Serves = _serves_all
    cluster_domain: str = "cluster.local"
    """DNS domain of the Kubernetes cluster."""
    operator_namespace: str = ""
    """Where the operator itself runs; empty when that is not known, as for a process outside the cluster."""
    login_shell: bool = False
    """Whether generated shell commands use a login shell (``ENABLE_LOGIN_SHELL``)."""

    @property
    def cluster_path(self) -> str:
        """Where ``cluster_spec`` stands in the object, for the paths of a `Problem`: ``spec``, ``spec.rayClusterSpec`` or
        ``spec.rayClusterConfig``."""
        return {RAYJOB: "spec.rayClusterSpec", RAYSERVICE: "spec.rayClusterConfig"}.get(self.kind, "spec")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodContext:
    """The pod a hook is called for."""

    owner: OwnerContext
    """The RayCluster (head and worker pods) or the RayJob (submitter pod template and new RayCluster)."""
    group: str
    node_type: Literal["head", "worker", "submitter"]
    replica_index: int = 0
    host_index: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeContext:
    """A running RayCluster whose pods were made from another spec than the present one, or a RayService."""

    owner: OwnerContext
    type: str
    """``spec.upgradeStrategy.type``."""
    head_hash: str = ""
    wanted_hash: str = ""
    """Empty for a RayService."""


@dataclass(frozen=True, slots=True)
class UpgradeStrategy:
    """What to do about pods of an older spec: ``recreate_all`` deletes all pods; otherwise nothing happens."""

    name: str
    recreate_all: Callable[[UpgradeContext], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishContext:
    """A job that is done, suspended or retried; or a cluster that is suspended."""

    owner: OwnerContext
    reason: Literal["Complete", "Failed", "Suspended", "Retrying", "Deleted"]
    """`Deleted` is reserved: no hook is called with it yet."""
    cluster_alive: bool
    """Whether the job's RayCluster still exists and is not being deleted."""
    cluster_groups: Sequence[GroupSize] = ()
    """Sizes from the live RayCluster when it is alive."""
