"""How it is told on an object that a plugin takes long for it: a condition while it does, and one event.

Which calls were slow is measured where plugins are called (`kuberay.hooks.calls.Hooks.slow_calls`).
"""

from __future__ import annotations

from collections.abc import Sequence

from kuberay.hooks.calls import SlowCall
from kuberay.plan.model import Event


def told(calls: Sequence[SlowCall]) -> tuple[str, str] | None:
    """Reason and message of the condition ``PluginSlow``; None: no plugin is slow."""
    return (_reason(calls[0].plugin), _sentence(calls)) if calls else None


def event(calls: Sequence[SlowCall]) -> Event:
    """Tells of the same."""
    return Event("PluginSlow", _sentence(calls), type="Warning")


def _sentence(calls: Sequence[SlowCall]) -> str:
    hooks: dict[str, list[str]] = {}
    for call in calls:
        hooks.setdefault(call.plugin, []).append(call.hook)
    slow = " and ".join(f"plugin {plugin} takes long in {', '.join(names)}" for plugin, names in hooks.items())
    return f"{slow}: what is done about this object waits for it, other objects do not"


def _reason(plugin: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in plugin.replace("_", "-").split("-")) or "PluginSlow"
