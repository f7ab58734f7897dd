"""When a schedule starts something: the first start after an instant, the last one up to another, and how many lie between.

Source: spec rayjob.md 5.1. An instant is a start when the zone's wall clock shows a time that the schedule names: a time
that is skipped in spring starts nothing that day, one that is repeated in autumn starts twice if both match.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from kuberay.api.cron import CronFields, Every, Schedule

_SECOND = timedelta(seconds=1)
_PROBE = timedelta(days=7)
"""No zone changes its offset and changes it back within a week."""


@dataclass(frozen=True, slots=True)
class Ticks:
    """The starts of a schedule. All instants are aware, UTC; starts are whole seconds."""

    schedule: Schedule
    zone: tzinfo
    anchor: datetime
    """The start before, or the creation: what ``@every`` counts from."""

    @property
    def dense(self) -> bool:
        """Whether two starts may fall into one minute."""
        return isinstance(self.schedule, Every) and self.schedule.interval < timedelta(minutes=1)

    def after(self, moment: datetime) -> datetime:
        """The first start strictly after *moment*."""
        if isinstance(self.schedule, Every):
            return self._every_after(self.schedule.interval, moment)
        return self._fields_after(self.schedule, moment)

    def latest(self, moment: datetime, until: datetime) -> datetime | None:
        """The last start after *moment* and not after *until*."""
        if self.after(moment) > until:
            return None
        # A start follows the lower bound and is not after `until`, always: so the bounds close in on the last one.
        low, high = moment, until
        while high - low > _SECOND:
            middle = low + (high - low) / 2
            if self.after(middle) <= until:
                low = middle
            else:
                high = middle
        return self.after(low)

    def count(self, moment: datetime, before: datetime, most: int) -> int:
        """How many starts lie strictly between *moment* and *before*; *most* stands for that many or more."""
        found, tick = 0, self.after(moment)
        while found < most and tick < before:
            found, tick = found + 1, self.after(tick)
        return found

    def _every_after(self, interval: timedelta, moment: datetime) -> datetime:
        begin = self.anchor.replace(microsecond=0)
        return begin + interval * max((moment - begin) // interval + 1, 1)

    def _fields_after(self, fields: CronFields, moment: datetime) -> datetime:
        since, offset = moment, self._offset(moment)
        wall = _wall(moment, offset)
        while True:
            tick = (fields.next_wall_time(wall) - offset).replace(tzinfo=UTC)
            change = self._change(since, tick, offset)
            if change is None:
                return tick
            # The clock is set before that time comes: look on from what it shows then.
            since, offset = change, self._offset(change)
            wall = _wall(change, offset) - _SECOND

    def _offset(self, moment: datetime) -> timedelta:
        return moment.astimezone(self.zone).utcoffset() or timedelta(0)

    def _change(self, since: datetime, until: datetime, offset: timedelta) -> datetime | None:
        """The first second up to *until* at which the zone no longer has *offset*, which it has at *since*."""
        same = since
        while same < until:
            probe = min(same + _PROBE, until)
            if self._offset(probe) != offset:
                return self._first_second(same, probe, offset)
            same = probe
        return None

    def _first_second(self, same: datetime, other: datetime, offset: timedelta) -> datetime:
        low, high = same.replace(microsecond=0), other
        while high - low > _SECOND:
            middle = low + timedelta(seconds=(high - low) // _SECOND // 2)
            low, high = (middle, high) if self._offset(middle) == offset else (low, middle)
        return high


def _wall(moment: datetime, offset: timedelta) -> datetime:
    """What a clock with that offset shows, without a zone."""
    return moment.astimezone(UTC).replace(tzinfo=None) + offset
