"""Puts new settings into force in an operator that runs: plugins, logs, the rate of requests, what plans are told, profiling.

Nothing here wakes an object. What is decided anew is decided when an object is looked at for another reason.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields
from typing import Any

from kuberay.kube.limits import RateLimit
from kuberay.operator.log_levels import LogLevels
from kuberay.operator.settings import Settings, SettingsError
from kuberay.plan.config import PlanConfig
from kuberay.plugins import startup
from kuberay.plugins.gates import FeatureGates, GateError
from kuberay.plugins.loader import PluginError
from kuberay.plugins.manager import PluginManager


def found_at_start(config: PlanConfig, from_settings: PlanConfig) -> dict[str, Any]:
    """What of *config* no setting says, so that it stays when settings change: what was found out about the cluster."""
    return {
        each.name: getattr(config, each.name)
        for each in fields(PlanConfig)
        if getattr(config, each.name) != getattr(from_settings, each.name)
    }


async def _nowhere(_address: str) -> None:
    return None


@dataclass(slots=True)
class Running:
    """What of a running operator takes new settings."""

    settings: Settings
    """Those in force."""
    plugins: PluginManager
    limit: RateLimit
    levels: LogLevels
    plan_config: Callable[[Settings], PlanConfig]
    """What plans are told, with what was found out at start."""
    use: Callable[[PlanConfig], None]
    listen: Callable[[str], Awaitable[None]] = _nowhere
    """Moves the profiling listener to an address. Raises OSError when it cannot."""

    def check(self, settings: Settings) -> None:
        """Raise `SettingsError` for what would keep an operator from starting with *settings*, as far as it can be told without
        loading other plugins."""
        names, _ = settings.enabled_plugins()
        others = {name for name in names if not self.plugins.has(name)}
        models = {name: model for name, model in self.plugins.settings_models().items() if name in names}
        sections = {name: each for name, each in (settings.plugins.model_extra or {}).items() if name not in others}
        try:
            startup.read_settings(models, sections)
            if not others:
                FeatureGates(settings.feature_gates, self.plugins.feature_gates())
        except (PluginError, GateError) as error:
            raise SettingsError(f"{error}.") from error

    async def take(self, settings: Settings) -> None:
        """All of *settings* or, with a `SettingsError`, nothing of it."""
        before = self.settings
        try:
            self.plugins.configure(settings.plugins.model_extra or {})
        except PluginError as error:
            raise SettingsError(f"{error}.") from error
        if settings.profiling_addr != before.profiling_addr:
            try:
                await self.listen(settings.profiling_addr)
            except OSError as error:
                self.plugins.configure(before.plugins.model_extra or {})
                raise SettingsError(f"Cannot listen on profilingAddr {settings.profiling_addr}: {error}.") from error
        if (settings.log_level, settings.log_levels) != (before.log_level, before.log_levels):
            self.levels.use(settings.log_level, settings.log_levels)
        if (settings.qps, settings.burst) != (before.qps, before.burst):
            self.limit.change(settings.qps, settings.burst)
        self.use(self.plan_config(settings))
        self.settings = settings
