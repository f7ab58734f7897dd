"""What one pass wants to happen to the pods of a group, and what decisions about it need to know.

Source: spec raycluster.md 4.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from kuberay.api.cluster import RayClusterSpec, WorkerGroupSpec
from kuberay.api.gates import MULTI_HOST_INDEXING
from kuberay.api.objects import Pod
from kuberay.plan.build.pods import PodPlace
from kuberay.plan.cluster.children import Children
from kuberay.plan.cluster.form import ClusterForm
from kuberay.plan.cluster.pod_names import PodNamer
from kuberay.plan.model import LeavingPod, Probe, Write
from kuberay.plan.observed import Observed


@dataclass(slots=True)
class ClusterPass:
    """One look at one RayCluster."""

    observed: Observed
    form: ClusterForm
    children: Children
    namer: PodNamer
    probes: list[Probe] = field(default_factory=list)
    """What this pass wants asked of the outside; any decision may add to it."""

    due: list[timedelta] = field(default_factory=list)
    """After how long something is due that no event will tell (a deadline, a warning); any decision may add to it."""
    held: bool = False
    """Whether something other than the spec wants the cluster suspended (`lifecycle`)."""
    shifted: dict[str, int] = field(default_factory=dict)
    """Replicas of worker groups that a fallback between groups raised or lowered, by group name (`fallback`)."""

    outdated: set[str] = field(default_factory=set)
    """Names of pods that a rolling upgrade has to replace (`outdated`)."""
    resizing: set[str] = field(default_factory=set)
    """Names of pods whose CPU and memory it changes in place."""

    may_replace: bool = True
    """Whether pods that an upgrade takes down could be made anew; else it takes none down."""

    leaving: list[LeavingPod] = field(default_factory=list)
    """Workers that Ray drains now (`drain`)."""

    def desired_replicas(self, group: WorkerGroupSpec) -> int:
        """Replicas wanted of *group* now: what the spec says, unless they run in a fallback group."""
        return (
            self.shifted.get(group.group_name, group.desired_replicas()) if self.shifted else group.desired_replicas()
        )

    @property
    def suspend_wanted(self) -> bool:
        """Whether no pods are wanted at all."""
        return self.held or bool(self.form.spec.suspend)

    @property
    def name(self) -> str:
        return self.observed.obj.name

    @property
    def namespace(self) -> str:
        return self.observed.obj.namespace

    @property
    def place(self) -> str:
        """``namespace/name``, as events write it."""
        return f"{self.namespace}/{self.name}"

    @property
    def picks_victims(self) -> bool:
        """Whether the operator itself may choose surplus workers; else the autoscaler alone does."""
        return chooses_victims(self.form.spec, random_pod_delete=self.observed.config.random_pod_delete)

    @property
    def indexed(self) -> bool:
        """Whether workers carry replica indices."""
        return self.observed.gate(MULTI_HOST_INDEXING)


def chooses_victims(spec: RayClusterSpec, *, random_pod_delete: bool) -> bool:
    """Whether surplus workers are the operator's to choose (`ClusterPass.picks_victims`)."""
    return not spec.autoscaling or random_pod_delete


@dataclass(slots=True)
class PodDecision:
    """Pods that fill their place, places to fill now, and pods that go."""

    keep: list[tuple[PodPlace, Pod]] = field(default_factory=list)
    create: list[PodPlace] = field(default_factory=list)
    delete: list[Write] = field(default_factory=list)
    """Deletions, and what comes before one (a worker that is drained first)."""
    blocked: str = ""
    """One sentence why nothing was decided; empty otherwise."""

    def merge(self, other: PodDecision) -> None:
        """Take over what *other* decided."""
        self.keep += other.keep
        self.create += other.create
        self.delete += other.delete
