"""The form of one entry of the reference, and the words entries share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Lasting = Literal["normal", "transient", "terminal"]
"""``normal``: nothing is wrong; ``transient``: it ends by itself; ``terminal``: it stays until somebody acts."""

ANY = "*"
"""Stands for reasons that are names: of plugins, or Kubernetes' own."""

RAYCLUSTER = "RayCluster"
RAYJOB = "RayJob"
RAYSERVICE = "RayService"
RAYCRONJOB = "RayCronJob"

SEE_EVENTS = "Look at the pod's events and logs: kubectl describe pod NAME; kubectl logs NAME --previous."


@dataclass(frozen=True, slots=True)
class Entry:
    """One condition with one reason."""

    kind: str
    type: str
    status: str
    reason: str
    lasting: Lasting
    meaning: str
    advice: str = ""


def cluster(type_: str, status: str, reason: str, lasting: Lasting, meaning: str, advice: str = "") -> Entry:
    """An entry of a RayCluster."""
    return Entry(RAYCLUSTER, str(type_), status, str(reason), lasting, meaning, advice)


def job(type_: str, status: str, reason: str, lasting: Lasting, meaning: str, advice: str = "") -> Entry:
    """An entry of a RayJob."""
    return Entry(RAYJOB, str(type_), status, str(reason), lasting, meaning, advice)


def service(type_: str, status: str, reason: str, lasting: Lasting, meaning: str, advice: str = "") -> Entry:
    """An entry of a RayService."""
    return Entry(RAYSERVICE, str(type_), status, str(reason), lasting, meaning, advice)


def cronjob(type_: str, status: str, reason: str, lasting: Lasting, meaning: str, advice: str = "") -> Entry:
    """An entry of a RayCronJob."""
    return Entry(RAYCRONJOB, str(type_), status, str(reason), lasting, meaning, advice)
