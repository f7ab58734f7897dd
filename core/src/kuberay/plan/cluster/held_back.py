"""Why pods that are wanted are not made, as conditions and events: plugins that wait, fail or are missing.

Source: architecture "Waiting is explicit"; spec raycluster.md 4.4 for heads. Each is told once, and shows while it lasts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kuberay.api.conditions import ClusterCondition
from kuberay.hooks.calls import PluginFailure
from kuberay.plan.cluster.conditions import GROUP_REMOVED, Conditions
from kuberay.plan.cluster.plugin_calls import PluginWishes
from kuberay.plan.model import Event


@dataclass(frozen=True, slots=True)
class Hold:
    """Something that keeps pods from being made. ``event`` is the reason of its event; empty: none."""

    reason: str
    sentence: str
    event: str = ""


def plugin_hold(wishes: PluginWishes) -> Hold | None:
    """What plugins say must come first."""
    if wishes.waits:
        plugin, _ = wishes.waits[0]
        sentences = "; ".join(waiting.reason for _, waiting in wishes.waits)
        return Hold(camel_case(plugin), sentences, next((w.event for _, w in wishes.waits if w.event), ""))
    return failed_hold(wishes.failures) if wishes.holds_pods else None


def failed_hold(failures: Sequence[PluginFailure]) -> Hold:
    """Pods wait for plugins that failed."""
    return Hold("PluginFailed", _failures_text(failures))


def set_held_back(
    conditions: Conditions,
    *,
    hold: Hold | None,
    missing: str,
    failures: Sequence[PluginFailure],
    removed_groups: Sequence[str],
) -> list[Event]:
    """Sets or removes the conditions, and returns the events that are news."""
    events: list[Event] = []
    if conditions.set_present(ClusterCondition.PODS_WAITING, (hold.reason, hold.sentence) if hold else None):
        assert hold is not None
        if hold.event:
            events.append(_warning(hold.event, hold.sentence))
    if conditions.set_present(ClusterCondition.PLUGIN_MISSING, ("PluginNotEnabled", missing) if missing else None):
        events.append(_warning("PluginMissing", missing))
    told = (camel_case(failures[0].plugin), _failures_text(failures)) if failures else None
    if conditions.set_present(ClusterCondition.PLUGIN_FAILED, told):
        events.append(_warning("PluginFailed", _failures_text(failures)))
    gone = f"pods of worker groups [{', '.join(removed_groups)}] are being deleted: the spec no longer names them"
    conditions.set_present(GROUP_REMOVED, ("NotInSpec", gone) if removed_groups else None)
    return events


def camel_case(plugin: str) -> str:
    """A plugin name as a condition reason: ``autoscaler-v2`` becomes ``AutoscalerV2``."""
    parts = plugin.replace("_", "-").split("-")
    return "".join(part[:1].upper() + part[1:] for part in parts) or "PluginFailed"


def _failures_text(failures: Iterable[PluginFailure]) -> str:
    texts = [f"plugin {failure.plugin} failed in {failure.hook}: {failure.error}" for failure in failures]
    return "; ".join(dict.fromkeys(texts))


def _warning(reason: str, note: str) -> Event:
    return Event(reason, note, type="Warning")
