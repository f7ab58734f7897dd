"""The cluster of a simulated day: it remembers who has gone, and every status and event that the operator writes is judged."""

from __future__ import annotations

from typing import Any

from kuberay.api.condition_reference import find_entry
from kuberay.api.event_reference import find_event
from kuberay.api.kinds import EVENT
from kuberay.ray.dashboard import DashboardClient

from kuberay_testkit.sim.play import end_cleanups
from kuberay_testkit.sim.serve_world import ServeWorld
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.steadiness import KINDS, Steadiness, Watched
from kuberay_testkit.sim.store import Change


class DayWorld(ServeWorld):
    """As `ServeWorld`; what dashboards answer is known to `Steadiness`, and who has gone is remembered."""

    def __init__(self, seed: int, operator: str) -> None:
        server = SimServer(seed=seed, pod_grace=2.0, history=2000)
        super().__init__(seed=seed, server=server, behave=end_cleanups)
        self.steadiness = Steadiness(operator)
        self.watched = Watched(self.heads, server, self.steadiness)
        self.gone: set[str] = set()
        """UIDs and names."""
        self.always(self.steadiness)
        self.always(explained)
        self.always(self._note_gone)

    @property
    def dashboards(self) -> DashboardClient:
        client: Any = self.watched
        return client  # type: ignore[no-any-return]

    def _note_gone(self, _server: SimServer, change: Change) -> None:
        named = {change.stored.uid, change.stored.key.name}
        if change.type == "DELETED" and change.stored.key.kind != EVENT:
            self.gone |= named
        elif change.type == "ADDED":
            self.gone -= named  # A name that was free for long enough is given again.


def explained(_server: SimServer, change: Change) -> None:
    """Every condition and every event is one that docs/conditions.md and docs/events.md tell of."""
    stored = change.stored
    kind = stored.key.kind
    if kind == EVENT and change.type == "ADDED":
        about, reason, type_ = (stored.body[name] for name in ("regarding", "reason", "type"))
        event = find_event(about["kind"], reason)
        assert event is not None, f"an event nobody explains: {reason} of a {about['kind']}: {stored.body['note']}"
        assert event.type in ("", type_), f"{reason} of a {about['kind']} is explained as {event.type}, and is {type_}"
    elif kind in KINDS and change.type == "MODIFIED":
        for condition in (stored.body.get("status") or {}).get("conditions") or ():
            words = (kind.kind, condition["type"], condition["status"], condition["reason"])
            assert find_entry(*words) is not None, (
                f"a condition nobody explains: {' '.join(words)}: {condition['message']}"
            )
