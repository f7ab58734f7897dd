"""How something wrong with an object is told: where it is, and one sentence that says what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

from kuberay.api.gates import DEFAULT_GATES, how_to_switch_on


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason to refuse an object."""

    path: str
    """Field path as users write it, for example ``spec.workerGroupSpecs[0].minReplicas``."""
    message: str
    """KubeRay's text where it has one (spec raycluster.md 1.8, rayjob.md 6), else one sentence of our own."""
    reason: str = ""
    """Event reason, for example ``InvalidRayClusterSpec``; empty means the kind's usual one."""
    of_cluster: bool = False
    """Only counts in what the hook `warn` says of a RayCluster: it is about this RayCluster itself, its pods for example, and not
    about what it was made from. So it is told of one that a RayJob or RayService made, too."""

    @property
    def told(self) -> str:
        """The message, and how to switch a gate on where it names one that is off: KubeRay's words leave that open."""
        gate = next((name for name in DEFAULT_GATES if f"{name} feature gate" in self.message), "")
        return f"{self.message}; {how_to_switch_on(gate)}" if gate else self.message

    def __str__(self) -> str:
        if not self.path or self.message.startswith((f"{self.path}:", f"{self.path} ")):
            return self.told
        return f"{self.path}: {self.told}"
