"""What plugins warn of, as a condition and an event: of an object that is accepted although not all of it has an effect.

Source: hooks/spec.py (`warn`), cases.md KA-03, VO-05 and YU-05.
"""

from __future__ import annotations

from collections.abc import Sequence

from kuberay.api.kinds import RAYCLUSTER
from kuberay.hooks.calls import Hooks, PluginFailure, PluginWarning
from kuberay.hooks.types import OwnerContext
from kuberay.plan.build.pods import creator_crd
from kuberay.plan.model import Event

EVENT = "PluginWarning"
"""Reason of the event, unless the first warning names one."""


def of_cluster(hooks: Hooks, owner: OwnerContext) -> tuple[Sequence[PluginWarning], Sequence[PluginFailure]]:
    """What plugins warn of about a RayCluster. Of one that a RayJob or RayService made, only what is about itself: that object is
    warned of the rest, which its user wrote there."""
    warnings, failures = hooks.warn(owner)
    if creator_crd(owner.labels) != RAYCLUSTER.kind:
        warnings = [each for each in warnings if each.problem.of_cluster]
    return warnings, failures


def told(warnings: Sequence[PluginWarning]) -> tuple[str, str] | None:
    """Reason and message of the condition; None when there is nothing to warn of."""
    if not warnings:
        return None
    sentences = dict.fromkeys(str(warning.problem) for warning in warnings)
    return _one_word(warnings[0].plugin), "; ".join(sentences)


def event(warnings: Sequence[PluginWarning]) -> Event:
    """The event that tells of them."""
    first = warnings[0].problem
    _, message = told(warnings) or ("", "")
    return Event(first.reason or EVENT, message, type="Warning", action="Validate", field_path=first.path)


def _one_word(plugin: str) -> str:
    """The plugin's name as a condition's reason: ``kai-scheduler`` becomes ``KaiScheduler``."""
    parts = plugin.replace("_", "-").split("-")
    return "".join(part[:1].upper() + part[1:] for part in parts) or EVENT
