"""Which operator a command speaks of: the options of ``kuberay run`` that other commands have, as settings read them.

What was not given is left out, so that the configuration file and the defaults count.
"""

from __future__ import annotations

from typing import Any


def operator_flags(*, plugins: str = "", batch_scheduler: str = "", feature_gates: str = "") -> dict[str, Any]:
    """For `kuberay.operator.settings.load_settings`."""
    flags: dict[str, Any] = {}
    if plugins:
        flags["plugins"] = only_plugins(plugins)
    if batch_scheduler:
        flags["batch_scheduler"] = batch_scheduler
    if feature_gates:
        flags["feature_gates"] = feature_gates
    return flags


def only_plugins(names: str) -> dict[str, list[str]]:
    """The setting ``plugins`` that turns on those of a comma-separated list, and no others."""
    return {"enabled": [name for part in names.split(",") if (name := part.strip())]}
