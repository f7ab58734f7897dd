"""What the operator must not do to objects over a day: take a status back without a cause, and write what is its users' to write.

A cause is anything the operator can have seen: a commit that concerns the object or what belongs to it, or another answer of a
dashboard. A field of a status that goes from A to B and back to A, with no cause after B was written and the state of the whole
being what it was, flaps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from kuberay.api.kinds import ENDPOINT_SLICE, POD, RAYCLUSTER, RAYCRONJOB, RAYJOB, RAYSERVICE, SERVICE, Kind
from kuberay.api.names import LABEL_CLUSTER, LABEL_ORIGIN_NAME
from kuberay.ray.dashboard import DashboardError

from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.store import Change, Key, Stored

KINDS = (RAYCLUSTER, RAYJOB, RAYSERVICE, RAYCRONJOB)

_TIMES = ("lastUpdateTime", "observedGeneration", "heartbeatTime")
"""Fields that tell when, not what; so does whatever ends in ``Time``."""
IN_FLIGHT = 0.25
"""Seconds from the view that a status was made of until it is written: what happens in between is a cause to take it back."""
_STATES = ("state", "jobDeploymentStatus", "serviceStatus", "lastScheduleTime")
"""Fields that tell the state of the whole: what a state machine passes through on its way is no flapping. Of a RayCronJob it is
the last start that was made, or given up because its time was over."""
_SIDES = ("activeServiceStatus", "pendingServiceStatus")

Path = tuple[str, ...]


@dataclass(slots=True)
class _Field:
    """One field of one status: what it says, what it said before, and since when."""

    value: str = ""
    before: str | None = None
    since: float = 0.0


@dataclass(slots=True)
class Steadiness:
    """An `Invariant`. *operator* is the client whose writes are judged."""

    operator: str
    checked: Counter[str] = field(default_factory=Counter)
    """Statuses and specs that were compared, by kind: a check that saw nothing proves nothing."""
    returns: int = 0
    """Fields that went back to what they had said before, with a cause."""
    _fields: dict[str, dict[Path, _Field]] = field(default_factory=dict)
    _causes: dict[str, float] = field(default_factory=dict)
    """When something last happened that concerns an object, by UID."""
    _now: float = 0.0

    def __call__(self, server: SimServer, change: Change) -> None:
        self._now = server.now().timestamp()
        stored, ours = change.stored, server.acting == self.operator
        for uid in _concerned(server, stored):
            if uid != stored.uid or not ours:
                self._causes[uid] = self._now
        if stored.key.kind not in KINDS:
            return
        if change.type == "DELETED":
            self._fields.pop(stored.uid, None)
            self._causes.pop(stored.uid, None)
            return
        if ours and change.previous is not None:
            self._expect_spec_untouched(change.previous, stored)
        self._follow(stored, judged=ours)

    def caused(self, server: SimServer, namespace: str, cluster: str) -> None:
        """Something that no commit shows happened to the Ray of a RayCluster."""
        self._now = server.now().timestamp()
        stored = server.store.get(Key(RAYCLUSTER, namespace, cluster))
        for uid in _concerned(server, stored) if stored is not None else ():
            self._causes[uid] = self._now

    def _expect_spec_untouched(self, before: Stored, after: Stored) -> None:
        self.checked[f"{after.key.kind.kind} spec"] += 1
        owned = any(owner.get("controller") for owner in after.owners())
        if after.key.kind == RAYCLUSTER and owned:
            return  # The operator's own child; its user is the RayJob or the RayService.
        changed = [
            name
            for name in {**before.body["spec"], **after.body["spec"]}
            if before.body["spec"].get(name) != after.body["spec"].get(name)
        ]
        assert not changed, f"the operator wrote spec.{changed[0]} of {after.key}, which is its user's"

    def _follow(self, stored: Stored, *, judged: bool) -> None:
        fields = self._fields.setdefault(stored.uid, {})
        status = stored.body.get("status") or {}
        state = " ".join(str(status.get(name, "")) for name in _STATES).strip()
        said = {path: f"{text} ({state})" for path, text in _said(status)}
        cause = self._causes.get(stored.uid, 0.0)
        if judged:
            self.checked[f"{stored.key.kind.kind} status"] += 1
        for path in fields.keys() | said.keys():
            value = said.get(path, f"nothing ({state})")
            known = fields.setdefault(path, _Field(since=self._now))
            if value == known.value:
                continue
            back = value == known.before
            assert not (judged and back and cause < known.since - IN_FLIGHT), (
                f"status.{'.'.join(path)} of {stored.key} flaps: {known.before}, then {known.value}, then again {value}, "
                f"and nothing had happened"
            )
            self.returns += back
            fields[path] = _Field(value, known.value, self._now)


class Watched:
    """A `DashboardClient` that tells when an answer differs from the one before; what it tells is a cause."""

    def __init__(self, dashboards: Any, server: SimServer, steadiness: Steadiness) -> None:
        self._dashboards = dashboards
        self._server = server
        self._steadiness = steadiness
        self._answers: dict[tuple[str, ...], str] = {}

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._dashboards, name)

        async def ask(*words: Any) -> Any:
            try:
                answer = await call(*words)
            except DashboardError as error:
                self._tell(name, words, repr(error))
                raise
            self._tell(name, words, repr(answer))
            return answer

        return ask

    def _tell(self, name: str, words: tuple[Any, ...], answer: str) -> None:
        target = words[0]
        address = target if isinstance(target, str) else target.address
        rest = words[1:] if isinstance(target, str) else (target.namespace, target.service, *map(repr, words[1:]))
        asked = (name, address, *map(str, rest))
        if self._answers.get(asked) == answer:
            return
        self._answers[asked] = answer
        namespace, named = str(rest[0]), str(rest[1])
        kind = POD if isinstance(target, str) else SERVICE
        stored = self._server.store.get(Key(kind, namespace, named))
        cluster = stored.labels.get(LABEL_CLUSTER) if stored is not None else named.removesuffix("-head-svc")
        self._steadiness.caused(self._server, namespace, str(cluster))

    def forget(self) -> None:
        """Start anew: an answer that comes then counts as another one."""
        self._answers.clear()


def _concerned(server: SimServer, stored: Stored) -> Iterator[str]:
    """The object, its owners, and the Ray objects that refer to any of them by name."""
    ready, seen = [stored], set()
    while ready:
        one = ready.pop()
        if one.uid in seen:
            continue
        seen.add(one.uid)
        yield one.uid
        ready += [owner for each in one.owners() if (owner := server.store.by_uid(each["uid"])) is not None]
        if one.key.kind in (RAYCLUSTER, RAYJOB):
            ready += [job for job in server.store.all_of(RAYJOB, one.key.namespace) if _runs_on(job, one)]
        if one.key.kind in (ENDPOINT_SLICE, SERVICE, POD):
            ready += _named(server, one, LABEL_ORIGIN_NAME, (RAYSERVICE, RAYCLUSTER, RAYJOB))
            ready += _named(server, one, LABEL_CLUSTER, (RAYCLUSTER,))


def _runs_on(job: Stored, cluster: Stored) -> bool:
    return (job.body.get("status") or {}).get("rayClusterName") == cluster.key.name


def _named(server: SimServer, stored: Stored, label: str, kinds: tuple[Kind, ...]) -> list[Stored]:
    name = stored.labels.get(label)
    if not name:
        return []
    found = (server.store.get(Key(kind, stored.key.namespace, name)) for kind in kinds)
    return [each for each in found if each is not None]


def _said(status: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    """What a status says, field by field, without the times at which it did."""
    for name, value in status.items():
        if name == "conditions":
            for condition in value or ():
                words = [str(condition.get(key, "")) for key in ("status", "reason", "message")]
                yield ("conditions", str(condition["type"])), " | ".join(words)
        elif name in _SIDES and isinstance(value, dict):
            for path, said in _said(value):
                yield (name, *path), said
        elif not name.endswith("Time") and name not in _TIMES:
            yield (name,), orjson.dumps(_timeless(value), option=orjson.OPT_SORT_KEYS).decode()


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _timeless(v) for k, v in value.items() if not k.endswith("Time") and k not in _TIMES}
    return [_timeless(each) for each in value] if isinstance(value, list) else value
