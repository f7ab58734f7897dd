"""How something wrong with an object is told: where it is, and one sentence that says what to do about it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason to refuse an object."""

    path: str
    """Field path as users write it, for example ``spec.workerGroupSpecs[0].minReplicas``."""
    message: str
    """KubeRay's text where it has one (spec raycluster.md 1.8, rayjob.md 6), else one sentence of our own."""
    reason: str = ""
    """Event reason, for example ``InvalidRayClusterSpec``; empty means the kind's usual one."""

    def __str__(self) -> str:
        if not self.path or self.message.startswith((f"{self.path}:", f"{self.path} ")):
            return self.message
        return f"{self.path}: {self.message}"
