"""How capacity moves from one RayCluster to the other: up by the surge where requests shall go, down where they left.

Source: spec rayservice.md 3.4, table of the capacity step, whose rollback rows are its upgrade rows mirrored.
"""

from __future__ import annotations

from kuberay_gateway_upgrade.loads import FULL, Load


def shortage(load: Load) -> bool:
    """Whether a side carries more requests than it has capacity for. No step leads there; another cluster that was deleted
    in the middle, or another operator, may."""
    return load.capacity < load.traffic


def next_step(giver: Load, receiver: Load, surge: int, *, giver_counts: bool = True) -> tuple[int, int]:
    """What the giver and the receiver shall have; one of both changes, or none when nothing is due.

    With *giver_counts* False the giver has capacity in name only (its head is gone), so nothing is waited for.
    """
    if receiver.capacity != receiver.traffic:
        return giver.capacity, receiver.capacity
    if giver_counts and giver.capacity + receiver.capacity > FULL:
        # Not below what it still carries: the surge may have been edited since the last step.
        return max(0, giver.capacity - surge, giver.traffic), receiver.capacity
    return giver.capacity, min(FULL, receiver.capacity + surge)
