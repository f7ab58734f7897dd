"""How soon to look again where no watch and no probe tells of a change: objects the RayJob does not own.

Source: spec rayjob.md 0 (requeue period R3) and cases.md RJ-18.
"""

from __future__ import annotations

from datetime import timedelta

from kuberay.plan.job.draft import Draft

STEADY = timedelta(seconds=3)


def look_again_soon(draft: Draft) -> None:
    """Repeat the pass after the requeue period. It reads what is in memory and costs no API call."""
    draft.wake_at(draft.now + STEADY)
