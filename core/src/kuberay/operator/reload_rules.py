"""Which settings may change while the operator runs, and what of a new configuration file is therefore taken at once.

A key that is not listed needs a restart: that is always safe. Listed are those that change how the operator works or what it
makes from now on, and nothing that stands already: no pod, no PodGroup, no Service is touched because of a reload.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel

from kuberay.hooks.reload import Reloads
from kuberay.operator.settings import PluginSettings, Settings

Effect = Literal["at once", "new pods"]

RELOADED: Mapping[str, Effect] = {
    "qps": "at once",
    "burst": "at once",
    "log_level": "at once",
    "log_levels": "at once",
    "profiling_addr": "at once",
    "drain_timeout_seconds": "at once",
    "ray_cluster_requeue_seconds": "at once",
    "ray_job_status_check_timeout_seconds": "at once",
    "ray_job_transition_grace_seconds": "at once",
    # Pods that exist keep what they were made with: they are compared with what users wrote, not with these.
    "propagate_job_metadata": "new pods",
    "default_container_envs": "new pods",
    "default_pod_annotations": "new pods",
    "default_pod_labels": "new pods",
    "pod_security_standard": "new pods",
    "wait_gcs_ready_resources": "new pods",
}
"""By field of `Settings`: whether a change counts for everything from now on, or for pods that are made from now on."""

WHY_NOT: Mapping[str, str] = {
    "head_sidecar_containers": "gangs that run are sized with it",
    "worker_sidecar_containers": "gangs that run are sized with it",
    "delete_ray_job_after_job_finishes": "RayJobs that are over could be deleted",
    "watch_namespace": "other objects would have to be listed and others forgotten",
    "feature_gates": "gates decide what is watched and which plugins are on",
    "batch_scheduler": "plugins are loaded once",
    "enable_batch_scheduler": "plugins are loaded once",
}
"""Why some others need a restart, where users may ask."""


@dataclass(frozen=True, slots=True)
class Change:
    """One key of the configuration file that is not what it was, ``plugins.<name>.<field>`` for those of plugins."""

    key: str
    effect: Effect | Literal["restart"]
    why: str = ""

    def __str__(self) -> str:
        if self.effect == "restart":
            return f"{self.key} changed: restart the operator{f' ({self.why})' if self.why else ''}"
        return f"{self.key} (for pods made from now on)" if self.effect == "new pods" else self.key


@dataclass(slots=True)
class Comparison:
    """What of a new configuration is taken."""

    in_force: Settings
    """The former settings with the new values of what is `applied`."""
    applied: list[Change] = field(default_factory=list)
    needs_restart: list[Change] = field(default_factory=list)


def reloaded_fields(models: Mapping[str, type[BaseModel]]) -> dict[str, frozenset[str]]:
    """By plugin: those of its settings that it says may change (`kuberay.hooks.reload`)."""
    return {
        name: frozenset(
            known for known, of in model.model_fields.items() if any(isinstance(m, Reloads) for m in of.metadata)
        )
        for name, model in models.items()
    }


def compare(old: Settings, new: Settings, of_plugins: Mapping[str, Set[str]]) -> Comparison:
    """What changes from the settings in force to those of the file, and which of it is taken at once. *of_plugins*: fields
    of each plugin's section that may change while it runs."""
    found = Comparison(old)
    values: dict[str, Any] = {}
    for name, info in Settings.model_fields.items():
        before, after = getattr(old, name), getattr(new, name)
        if name == "plugins":
            values[name] = _compare_plugins(before, after, of_plugins, found)
        elif before != after:
            effect = RELOADED.get(name)
            change = Change(str(info.alias), effect or "restart", "" if effect else WHY_NOT.get(name, ""))
            _note(change, found)
            if effect is not None:
                values[name] = after
    found.in_force = old.model_copy(update=values)
    return found


def _compare_plugins(
    old: PluginSettings, new: PluginSettings, of_plugins: Mapping[str, Set[str]], found: Comparison
) -> PluginSettings:
    if old.enabled != new.enabled:
        _note(Change("plugins.enabled", "restart", "plugins are loaded once"), found)
    before, after = dict(old.model_extra or {}), dict(new.model_extra or {})
    taken: dict[str, Any] = {}
    for plugin in [*before, *(name for name in after if name not in before)]:
        section, wanted = before.get(plugin) or {}, after.get(plugin) or {}
        if not isinstance(section, dict) or not isinstance(wanted, dict):
            wanted = section
        result = dict(section)
        for key in sorted({*section, *wanted}):
            if section.get(key, _NOTHING) == wanted.get(key, _NOTHING):
                continue
            reloads = key in of_plugins.get(plugin, ())
            _note(Change(f"plugins.{plugin}.{key}", "at once" if reloads else "restart"), found)
            if reloads:
                result.pop(key, None)
                result.update({key: wanted[key]} if key in wanted else {})
        if result or plugin in before:
            taken[plugin] = result
    return PluginSettings(enabled=old.enabled, **taken)


_NOTHING = object()


def _note(change: Change, found: Comparison) -> None:
    (found.needs_restart if change.effect == "restart" else found.applied).append(change)
