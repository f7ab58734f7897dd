"""What goes wrong and when: a seeded plan of failing requests and misbehaving watches.

A plan is a list of rules. For each request (or watch event) the first rule that matches, still has turns left and wins
its draw is the fault. The same seed and the same requests give the same faults.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Literal, Self

from kuberay_testkit.sim.paths import Subject

RequestFault = Literal[
    "conflict", "throttle", "refuse", "error_before", "error_after", "timeout_before", "timeout_after", "slow"
]
"""``conflict`` 409; ``throttle`` 429 with Retry-After; ``refuse`` a chosen code; ``error_before``/``error_after`` 500
before or after the commit; ``timeout_before``/``timeout_after`` no answer (`TransportError`); ``slow`` a late answer."""

WatchFault = Literal["drop_watch", "close_watch", "delay_event", "repeat_event", "silence_watch", "expire_watch"]
"""``drop_watch`` breaks the connection before the event is delivered; ``close_watch`` ends it cleanly; ``delay_event``
delivers late; ``repeat_event`` delivers twice; ``silence_watch`` delivers nothing more and stays open; ``expire_watch`` forgets all history and breaks the
connection, so that the next watch gets 410."""

Action = RequestFault | WatchFault

_WATCH_ACTIONS = frozenset(
    {"drop_watch", "close_watch", "delay_event", "repeat_event", "silence_watch", "expire_watch"}
)
_SHARES = {"expire_watch": 0.25, "close_watch": 0.25, "silence_watch": 0.05}
"""How much rarer than the others in a mixture."""
_READS = frozenset({"get", "list", "watch"})
_CONFLICTING = frozenset({"update", "patch", "apply", "delete"})


@dataclass(slots=True)
class Rule:
    """One kind of trouble."""

    action: Action
    match: dict[str, str] = field(default_factory=dict)
    chance: float = 1.0
    times: int | None = None
    """How often at most; None: without end."""
    skip: int = 0
    """How many matching requests pass first."""
    seconds: float = 1.0
    """Retry-After, delay, or how long until a request is given up."""
    code: int = 403
    reason: str = "Forbidden"
    message: str = "refused by the fault plan"

    def takes(self, subject: Subject, random: Random) -> bool:
        if self.times == 0 or any(getattr(subject, name) != value for name, value in self.match.items()):
            return False
        if self.action not in _WATCH_ACTIONS and not self._fits(subject.verb):
            return False
        if self.skip:
            self.skip -= 1
            return False
        if self.chance < 1.0 and random.random() >= self.chance:
            return False
        if self.times is not None:
            self.times -= 1
        return True

    def _fits(self, verb: str) -> bool:
        """Whether *verb* can meet this fault at all, so that plans need not name verbs."""
        if self.action == "conflict":
            return verb in _CONFLICTING
        if self.action in ("error_after", "timeout_after"):
            return verb not in _READS
        return True


class Faults:
    """A plan. Empty by default; `add` takes rules, `stop` ends all trouble so that convergence can be checked."""

    def __init__(self, seed: int = 0, *, until: float | None = None) -> None:
        """*until* is in seconds on the server's clock: no faults from then on."""
        self.seed = seed
        self.until = until
        self.rules: list[Rule] = []
        self._random = Random(seed)
        self._stopped = False

    def add(
        self,
        action: Action,
        *,
        chance: float = 1.0,
        times: int | None = None,
        skip: int = 0,
        seconds: float = 1.0,
        code: int = 403,
        reason: str = "Forbidden",
        message: str = "refused by the fault plan",
        **match: str,
    ) -> Self:
        """Add a rule; *match* names fields of `Subject` (``verb="create"``, ``resource="pods"``, …). Returns self."""
        unknown = match.keys() - set(Subject.__slots__)
        if unknown:
            raise TypeError(f"a request has no {', '.join(sorted(unknown))}")
        self.rules.append(Rule(action, match, chance, times, skip, seconds, code, reason, message))
        return self

    @classmethod
    def mixture(cls, seed: int, *, intensity: float = 0.05, until: float | None = None, client: str = "") -> Faults:
        """Everything at once: each request fails with about *intensity* probability, watches break now and then."""
        match = {"client": client} if client else {}
        random = Random(seed)
        plan = cls(seed, until=until)
        actions: list[Action] = [
            "conflict",
            "throttle",
            "error_before",
            "error_after",
            "timeout_before",
            "timeout_after",
            "slow",
            "drop_watch",
            "close_watch",
            "delay_event",
            "repeat_event",
            "silence_watch",
            "expire_watch",
        ]
        random.shuffle(actions)
        for action in actions:
            chance = _SHARES.get(action, 1.0) * intensity * random.uniform(0.5, 1.5) / 4
            plan.rules.append(Rule(action, match, chance, seconds=random.choice((0.5, 1.0, 3.0))))
        return plan

    def stop(self) -> None:
        """No faults from now on."""
        self._stopped = True

    def _active(self, now: float) -> bool:
        return not self._stopped and bool(self.rules) and (self.until is None or now < self.until)

    def for_request(self, subject: Subject, now: float) -> Rule | None:
        if not self._active(now):
            return None
        for rule in self.rules:
            if rule.action not in _WATCH_ACTIONS and rule.takes(subject, self._random):
                return rule
        return None

    def for_event(self, subject: Subject, now: float) -> Rule | None:
        """Asked before each watch event is delivered."""
        if not self._active(now):
            return None
        for rule in self.rules:
            if rule.action in _WATCH_ACTIONS and rule.takes(subject, self._random):
                return rule
        return None
