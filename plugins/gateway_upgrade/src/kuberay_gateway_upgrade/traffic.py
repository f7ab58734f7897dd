"""How requests move: by a step, an interval after the last move, and never beyond the capacity of who receives them.

Source: spec rayservice.md 3.4, traffic step. Whether they may move at all is decided in `moves`.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from kuberay_gateway_upgrade.loads import FULL, Load

NOW = timedelta(0)


def next_weight(receiver: Load, step: int) -> int:
    """The weight of the receiving side after one step; the other side has the rest of the hundred."""
    return min(FULL, receiver.traffic + step, receiver.capacity)


def due_in(moved: datetime | None, interval: timedelta, now: datetime) -> timedelta:
    """How long it is until *interval* has passed since *moved*; nothing when it has, or when nothing ever moved."""
    if moved is None or moved - now > interval:
        # So far ahead of now is a clock that was set back since.
        return NOW
    return max(NOW, moved + interval - now)
