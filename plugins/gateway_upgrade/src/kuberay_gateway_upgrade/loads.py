"""What the two RayClusters carry, and which of them gives and which receives: the pending one receives in an upgrade, the
active one when it is taken back. All arithmetic is on `Load`, so that a rollback is the mirror image of an upgrade.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from kuberay.hooks.service_upgrade import ServiceSide, Share

FULL = 100


@dataclass(frozen=True, slots=True)
class Load:
    """One side's capacity and traffic in percent, and when its traffic moved last."""

    capacity: int
    traffic: int
    moved: datetime | None = None


@dataclass(frozen=True, slots=True)
class Course:
    """Both sides and their loads, by what they do."""

    back: bool
    """Whether it goes back to the active RayCluster."""
    giver: ServiceSide
    receiver: ServiceSide
    gives: Load
    receives: Load

    @classmethod
    def of(cls, active: ServiceSide, pending: ServiceSide, *, back: bool) -> Course:
        loads = read(active.share, pending.share)
        if back:
            return cls(True, pending, active, loads[1], loads[0])
        return cls(False, active, pending, loads[0], loads[1])

    def shares(self, now: datetime) -> tuple[Share, Share]:
        """What the active and the pending RayCluster shall carry."""
        given, received = (self.giver, self.gives), (self.receiver, self.receives)
        (active, of_active), (pending, of_pending) = (received, given) if self.back else (given, received)
        before = read(active.share, pending.share)
        return _share(active.share, before[0], of_active, now), _share(pending.share, before[1], of_pending, now)

    def with_traffic(self, receiver: int) -> Course:
        """As much to the receiver, and what is left of the hundred to the giver."""
        return replace(
            self,
            gives=replace(self.gives, traffic=FULL - receiver),
            receives=replace(self.receives, traffic=receiver),
        )

    def with_capacity(self, giver: int, receiver: int) -> Course:
        return replace(
            self,
            gives=replace(self.gives, capacity=giver),
            receives=replace(self.receives, capacity=receiver),
        )


def read(active: Share, pending: Share) -> tuple[Load, Load]:
    """The loads of active and pending. What was never decided is with the active one (spec 3.4)."""
    traffic = pending.traffic or 0
    return (
        Load(FULL if active.capacity is None else active.capacity, FULL - traffic, active.moved),
        Load(pending.capacity or 0, traffic, pending.moved),
    )


def _share(stored: Share, before: Load, load: Load, now: datetime) -> Share:
    """The load as it is to be stored. A capacity that stays undecided is not told to Serve; a first traffic of 0 is no move,
    so that the first step need not wait for the interval."""
    capacity = stored.capacity if load.capacity == before.capacity else load.capacity
    moved = _whole_second(now) if load.traffic != (stored.traffic or 0) else stored.moved
    return Share(capacity, load.traffic, moved)


def _whole_second(now: datetime) -> datetime:
    """Times are stored in whole seconds; rounded down, the next move would come up to a second too soon."""
    return now if now.microsecond == 0 else now.replace(microsecond=0) + timedelta(seconds=1)
