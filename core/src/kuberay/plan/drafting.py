"""A pass in the making: what handlers of a kind read of it, and how writes, events, probes and conditions are collected.

`kuberay.plan.job.draft` and `kuberay.plan.service.draft` add what is special to their kinds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from kuberay.api.conditions import TRUE, find_condition, remove_condition, set_condition
from kuberay.api.objects import RayObject
from kuberay.api.times import parse_time
from kuberay.hooks.calls import PluginFailure, PluginWarning
from kuberay.hooks.types import OwnerContext
from kuberay.plan import plugin_warnings, slow_plugins
from kuberay.plan.model import Event, Plan, Probe, Write
from kuberay.plan.observed import Observed

Status = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class Drafting:
    """``status`` is a copy that handlers change freely."""

    observed: Observed
    status: Status
    plan: Plan = field(default_factory=Plan)
    lookups: list[Probe] = field(default_factory=list)
    """Questions that hooks asked about unwatched objects."""
    _wake: datetime | None = None
    _failures: list[PluginFailure] = field(default_factory=list)
    _warnings: Sequence[PluginWarning] | None = None
    """What plugins warn of; None: they were not asked in this pass."""

    # What is read

    @property
    def obj(self) -> RayObject:
        return self.observed.obj

    @property
    def now(self) -> datetime:
        return self.observed.now

    @property
    def where(self) -> str:
        """``namespace/name``, as notes have it."""
        return f"{self.obj.namespace}/{self.obj.name}"

    def time(self, *path: str) -> datetime | None:
        """A time in the status; None when absent or unreadable."""
        value: Any = self.status
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        if not isinstance(value, str):
            return None
        try:
            return parse_time(value)
        except ValueError:
            return None

    def controls(self, obj: Any) -> bool:
        """Whether the planned object is the controller of *obj*."""
        controller = obj.metadata.controller
        return controller is not None and controller.uid == self.obj.uid

    def found(self, type_: StrEnum) -> Mapping[str, Any] | None:
        """The condition as the status has it now."""
        return find_condition(self.status.get("conditions") or [], type_.value)

    def is_true(self, type_: StrEnum) -> bool:
        """Whether the condition is there and True."""
        found = self.found(type_)
        return found is not None and found.get("status") == TRUE

    # What is decided

    def write(self, *writes: Write) -> None:
        """Add a stage of writes."""
        if writes:
            self.plan.stages.append(list(writes))

    def event(self, reason: str, note: str, *, action: str, warning: bool = False, field_path: str = "") -> None:
        """Tell of something once the pass has been written."""
        self.plan.events.append(Event(reason, note, "Warning" if warning else "Normal", action, field_path=field_path))

    def want(self, probe: Probe) -> None:
        """Keep a probe going."""
        if probe not in self.plan.probes:
            self.plan.probes.append(probe)

    def wake_at(self, moment: datetime | None) -> None:
        """Look again at *moment* at the latest."""
        if moment is not None and (self._wake is None or moment < self._wake):
            self._wake = moment

    def wait(self, sentence: str) -> None:
        """Say what is awaited in the usual course of things."""
        self.plan.waiting = self.plan.waiting or sentence

    @property
    def blamed(self) -> bool:
        """Whether a plugin failed in this pass."""
        return bool(self._failures)

    @property
    def failures(self) -> Sequence[PluginFailure]:
        """Plugins that raised in this pass."""
        return self._failures

    def blame(self, failures: list[PluginFailure]) -> None:
        """Remember plugins that raised, for the condition."""
        self._failures.extend(failures)

    def ask_for_warnings(self, owner: OwnerContext) -> None:
        """Have plugins say what has no effect; shows as a condition."""
        self._warnings, failures = self.observed.hooks.warn(owner)
        self.blame(list(failures))

    def condition(self, type_: StrEnum, value: str, reason: str, message: str) -> None:
        """Set a condition. *reason* is one word; the name of a hook is made one."""
        self.status["conditions"] = set_condition(
            self.status.get("conditions") or [],
            type_.value,
            value,
            _camel(reason),
            message,
            self.now,
            self.condition_generation,
        )

    @property
    def condition_generation(self) -> int | None:
        """``observedGeneration`` of conditions that are set; None: they have none."""
        return None

    def drop_condition(self, type_: StrEnum) -> None:
        """Remove a condition."""
        conditions = remove_condition(self.status.get("conditions") or [], type_.value)
        if conditions:
            self.status["conditions"] = conditions
        else:
            self.status.pop("conditions", None)

    def tell_of_plugins(self, type_: StrEnum) -> None:
        """Set or drop the condition about plugins that raised in this pass."""
        if not self._failures:
            self.drop_condition(type_)
            return
        texts = [f"plugin {failure.plugin} failed in {failure.hook}: {failure.error}" for failure in self._failures]
        text = "; ".join(dict.fromkeys(texts))
        self.wait(text)
        if (self.found(type_) or {}).get("message") != text:
            self.event("PluginFailed", text, action="Reconcile", warning=True)
        self.condition(type_, TRUE, self._failures[0].hook, text)

    def tell_of_slow_plugins(self, type_: StrEnum) -> None:
        """Set or drop the condition about plugins that take long for this object, with one event when it is news."""
        calls = self.observed.hooks.slow_calls(self.obj.uid)
        told = slow_plugins.told(calls)
        if told is None:
            self.drop_condition(type_)
            return
        if (self.found(type_) or {}).get("message") != told[1]:
            self.plan.events.append(slow_plugins.event(calls))
        self.condition(type_, TRUE, *told)

    def tell_of_warnings(self, type_: StrEnum) -> None:
        """Set or drop the condition about what plugins warn of, with one event when it is news; as it is when none was asked."""
        if self._warnings is None:
            return
        told = plugin_warnings.told(self._warnings)
        if told is None:
            self.drop_condition(type_)
            return
        if (self.found(type_) or {}).get("message") != told[1]:
            self.plan.events.append(plugin_warnings.event(self._warnings))
        self.condition(type_, TRUE, *told)

    def close(self) -> Plan:
        """The plan with the probes of lookups and the time to look again; its status is the kind's own matter."""
        for probe in self.lookups:
            self.want(probe)
        if self._wake is not None:
            self.plan.requeue_after = max(self._wake - self.now, timedelta(0))
        return self.plan


def _camel(word: str) -> str:
    """A hook's name as a condition's reason."""
    return "".join(part[:1].upper() + part[1:] for part in word.split("_"))
