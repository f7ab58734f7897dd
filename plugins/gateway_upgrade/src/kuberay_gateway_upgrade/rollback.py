"""When an upgrade goes back to the active RayCluster, and when it has arrived, there or at the pending one.

Source: spec rayservice.md 3.5; cases.md GW-02.
"""

from __future__ import annotations

from dataclasses import dataclass

from kuberay.api.names import ANNOTATION_UPGRADE_ABORTED
from kuberay.hooks.service_upgrade import ServiceSide

from kuberay_gateway_upgrade.loads import FULL, Load

REVERTED = "Goal state reverted to original cluster, rolling back."
CHANGED = "Goal state changed mid-upgrade, rolling back to original cluster."
ABORTED = f"Upgrade aborted by annotation {ANNOTATION_UPGRADE_ABORTED}, rolling back to original cluster."


@dataclass(frozen=True, slots=True)
class Verdict:
    """Which way it goes, and the message of ``RollbackInProgress``."""

    back: bool
    message: str = ""


def decide(active: ServiceSide, pending: ServiceSide, *, aborted: bool) -> Verdict:
    """Follows from what is wanted now, so that another edit, or an annotation taken away, turns the course at any point."""
    if aborted:
        return Verdict(back=True, message=ABORTED)
    if active.relation != "differs":
        return Verdict(back=True, message=REVERTED)
    if pending.relation == "differs":
        return Verdict(back=True, message=CHANGED)
    return Verdict(back=False)


def arrived(giver: Load, receiver: Load, *, giver_head: bool) -> bool:
    """Whether the receiver has everything, and the giver nothing or no head that could still be told to give it up."""
    return receiver.capacity == receiver.traffic == FULL and (giver.capacity == 0 or not giver_head)
