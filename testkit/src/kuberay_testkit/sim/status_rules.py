"""What a status must never say, or never take back, checked after every commit."""

from __future__ import annotations

from typing import Any

from kuberay.api.kinds import RAYCLUSTER, RAYCRONJOB, RAYJOB, RAYSERVICE

from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.store import Change


class SteadyStatus:
    """``observedGeneration`` never goes back nor ahead; a condition's ``lastTransitionTime`` moves exactly when its
    ``status`` changes; each type of condition is there once; a cluster is never suspending and suspended at once."""

    def __init__(self) -> None:
        self._generations: dict[str, int] = {}
        self._conditions: dict[str, dict[str, tuple[str, str]]] = {}
        self._initializing: set[str] = set()

    def __call__(self, server: SimServer, change: Change) -> None:
        stored = change.stored
        if stored.key.kind not in (RAYCLUSTER, RAYJOB, RAYSERVICE, RAYCRONJOB) or change.type == "DELETED":
            return
        status: dict[str, Any] = stored.body.get("status") or {}
        self._check_generation(stored.uid, status, int(stored.metadata.get("generation") or 0))
        before, found = self._conditions.get(stored.uid, {}), status.get("conditions") or ()
        now = {c["type"]: (c["status"], c["lastTransitionTime"]) for c in found}
        assert len(now) == len(found), f"a condition is there twice: {sorted(c['type'] for c in found)}"
        # A RayService that is resumed, or corrected, has all its time to initialise from then on (spec rayservice.md 2.4).
        begins = any(
            (c["type"], c["reason"]) == ("Ready", "Initializing") for c in found if stored.key.kind == RAYSERVICE
        )
        resumed = begins and stored.uid not in self._initializing
        (self._initializing.add if begins else self._initializing.discard)(stored.uid)
        for kind, (value, time) in now.items():
            old_value, old_time = before.get(kind, (None, ""))
            if value == old_value and not (resumed and time > old_time):
                assert time == old_time, f"{kind} stayed {value}, but its lastTransitionTime moved"
            else:
                assert time >= old_time, f"the lastTransitionTime of {kind} went back to {time} from {old_time}"
        both = [now.get(f"RayCluster{kind}", ("", ""))[0] for kind in ("Suspending", "Suspended")]
        assert both != ["True", "True"], "suspending and suspended at once"
        self._conditions[stored.uid] = now

    def _check_generation(self, uid: str, status: dict[str, Any], generation: int) -> None:
        observed, before = int(status.get("observedGeneration") or 0), self._generations.get(uid, 0)
        assert observed >= before, f"observedGeneration went back from {before} to {observed}"
        assert observed <= generation, f"observedGeneration {observed} is ahead of generation {generation}"
        self._generations[uid] = observed
