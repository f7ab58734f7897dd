"""What a plugin's author tells a conformance suite about the plugin: how to load it, and what its answers look like.

Everything is data or a small function of a manifest; the suites do the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from kuberay.api.kinds import Kind
from kuberay.hooks.types import Manifest

from kuberay_testkit.sim.controller import Controller
from kuberay_testkit.sim.serve_world import ServeWorld
from kuberay_testkit.sim.world import SimWorld


def _nobody(_world: SimWorld) -> Sequence[Controller]:
    return ()


def _no_gang(_pod: Manifest) -> str:
    return ""


@dataclass(frozen=True, kw_only=True)
class PluginUnderTest:
    """What every suite needs."""

    plugin: Any
    """The entry point name of an installed plugin, its module (or the object its entry point names), or a
    `kuberay.plugins.loader.Plugin`."""
    name: str = ""
    """The entry point name, where `plugin` is a module; the module's own name where this is empty."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What stands under ``plugins.<name>`` of the configuration."""
    gates: Mapping[str, bool] = field(default_factory=dict)
    """Feature gates that the plugin needs on or off."""
    with_plugins: Sequence[Any] = ()
    """Other plugins that run beside it, in the same forms as `plugin`."""
    kinds: Sequence[Kind] = ()
    """Kinds the plugin makes or reads that a bare Kubernetes does not serve: its CRDs. The simulation serves them, and
    takes them away where a case is about that."""
    controllers: Callable[[SimWorld], Sequence[Controller]] = _nobody
    """Stand-ins for controllers of third parties that act on those kinds, cert-manager for example."""


@dataclass(frozen=True, kw_only=True)
class SchedulerUnderTest(PluginUnderTest):
    """A plugin that lets a batch scheduler place pods together.

    Three kinds of schedulers fit: with a gang object (`group` and `gang_size` of that object), with the gang written on
    each pod (`group` None and `gang_size` of a pod), and without any gang data (`gang_size` None).
    """

    scheduler_name: str
    """``schedulerName`` of every pod, also of the submitter unless `schedules_submitter` is False."""
    group: Kind | None = None
    """The kind of the gang object that stands before the pods; None when there is none."""
    gang_of: Callable[[Manifest], str] = _no_gang
    """From a pod, the gang it says it is in (with `group`, that object's name); empty when it is in none."""
    gang_size: Callable[[Manifest], int] | None = None
    """How many pods must fit at once: from the gang object, or without `group` from a pod. None: nothing says it."""
    gang_resources: Callable[[Manifest], Mapping[str, str]] | None = None
    """What they request together, from the same object; None: nothing says it."""
    opt_in_labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of a RayCluster, RayJob or RayService that ask for a gang. Without them no gang may be made; empty: every
    object is in a gang."""
    insist_labels: Mapping[str, str] = field(default_factory=dict)
    """Labels with which an object waits for its gang even where the CRD is absent, for a plugin that lets others start
    without. Empty: `opt_in_labels` are enough."""
    job_gangs: Literal["owner", "cluster"] = "owner"
    """Whose gang object holds the pods of a RayJob: the RayJob's, or that of its RayCluster."""
    sizes: Literal["desired", "minimum"] = "desired"
    """Whether the size follows ``replicas`` or ``minReplicas``, times ``numOfHosts``; the head is counted always."""
    autoscaled_sizes: Literal["desired", "minimum"] = "minimum"
    """The same with ``enableInTreeAutoscaling``."""
    counts_submitter: bool = False
    """Whether the size of a RayJob's gang counts the submitter's pod (K8sJobMode). That deadlocks unless the scheduler
    holds places by itself; see `reserves`."""
    schedules_submitter: bool = True
    """Whether the submitter's pod (K8sJobMode) is this scheduler's, too; else it is left to Kubernetes' own."""
    reserves: Literal["pods", "placeholders"] = "pods"
    """What the scheduler waits for before it starts a gang: that so many of its pods exist, or pods of its own that hold
    the places. The simulated scheduler of the suite acts accordingly, so that a gang that can never be complete shows."""
    idle_size: int = 0
    """Size of the gang object of an owner that should have no pods now, where that object stays."""


@dataclass(frozen=True, kw_only=True)
class MutatorUnderTest(PluginUnderTest):
    """A plugin that changes pods, makes objects that pods need, or both."""

    asks: Mapping[str, Any] = field(default_factory=dict)
    """Fields of a RayCluster's spec that turn the plugin on for it, ``{"tlsOptions": {"enabled": True}}`` for example.
    Empty: it acts on every cluster."""
    asks_annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations of the RayCluster that do so."""
    asks_labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the RayCluster that do so."""
    changed: Callable[[Manifest], bool] | None = None
    """From a pod, whether it carries the plugin's change; None: the plugin changes no pods."""
    changes: Sequence[Literal["head", "worker"]] = ("head", "worker")
    """Which pods it changes."""
    before_pods: Sequence[Kind] = ()
    """Kinds of which at least one object of the cluster exists before its first pod."""


@dataclass(frozen=True, kw_only=True)
class StrategyUnderTest(PluginUnderTest):
    """A plugin that offers a strategy for upgrades of RayServices."""

    type: str
    """``spec.upgradeStrategy.type``."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What else stands in ``spec.upgradeStrategy``. Steps and intervals should be short: a case runs for up to an hour of
    virtual time."""
    wrong_options: Sequence[Mapping[str, Any]] = ()
    """``spec.upgradeStrategy`` without its type, each with a mistake that the strategy must refuse by its field path."""
    cluster: Mapping[str, Any] = field(default_factory=dict)
    """Fields of ``spec.rayClusterConfig`` that the strategy needs."""
    weights: Callable[[ServeWorld, str], Mapping[str, int]] | None = None
    """From the world and the name of a RayService in namespace ``lab``, where requests go at this moment: weights in percent by
    Service. None: to the service's own serve service, which is what NewCluster does."""
    gate: str = ""
    """The feature gate that must be on for the strategy to be offered; empty: none."""
    keeps_serving: bool = True
    """Whether a healthy service is served at every moment of an upgrade."""
