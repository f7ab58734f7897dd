"""What every condition and reason of the Ray kinds means, whether it passes by itself, and what to do about it.

The page docs/conditions.md and ``kuberay why`` are made from this table (cases.md RC-34).
"""

from __future__ import annotations

from collections.abc import Sequence

from kuberay.api.condition_reference.crons import CRONS
from kuberay.api.condition_reference.entry import ANY, RAYCLUSTER, RAYCRONJOB, RAYJOB, RAYSERVICE, Entry
from kuberay.api.condition_reference.jobs import JOBS
from kuberay.api.condition_reference.kuberay import KUBERAY
from kuberay.api.condition_reference.own import OWN
from kuberay.api.condition_reference.pods import PODS
from kuberay.api.condition_reference.services import SERVICES

__all__ = ["ANY", "ENTRIES", "RAYCLUSTER", "RAYCRONJOB", "RAYJOB", "RAYSERVICE", "Entry", "find_entry"]

ENTRIES: Sequence[Entry] = (*KUBERAY, *PODS, *OWN, *JOBS, *SERVICES, *CRONS)


def find_entry(kind: str, type_: str, status: str, reason: str) -> Entry | None:
    """The entry for that reason, else the one for any reason of the condition."""
    those = [entry for entry in ENTRIES if (entry.kind, entry.type, entry.status) == (kind, type_, status)]
    return next((entry for wanted in (reason, ANY) for entry in those if entry.reason == wanted), None)
