"""What one pass wants to happen to the pods of a group, and what decisions about it need to know.

Source: spec raycluster.md 4.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kuberay.api.gates import MULTI_HOST_INDEXING
from kuberay.api.objects import Pod
from kuberay.plan.build.pods import PodPlace
from kuberay.plan.cluster.children import Children
from kuberay.plan.cluster.form import ClusterForm
from kuberay.plan.cluster.pod_names import PodNamer
from kuberay.plan.model import Probe, Write
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
        return not self.form.spec.autoscaling or self.observed.config.random_pod_delete

    @property
    def indexed(self) -> bool:
        """Whether workers carry replica indices."""
        return self.observed.gate(MULTI_HOST_INDEXING)


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
