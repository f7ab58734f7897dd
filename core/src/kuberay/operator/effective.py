"""Which settings are in effect, as the log tells at start and ``/configz`` at any time: the same however they reached it.

Only what differs from the defaults. Of environment variables and containers only the names: the rest may hold secrets; and in
sections of plugins what is named like a secret is hidden.
"""

from __future__ import annotations

from typing import Any

import orjson

from kuberay.operator.redaction import without_secret_values
from kuberay.operator.settings import Settings

_NAMES_ONLY = ("defaultContainerEnvs", "headSidecarContainers", "workerSidecarContainers")


def in_effect(settings: Settings) -> str:
    """One line of JSON: the keys of the configuration file that say something else than the default (case HE-05)."""
    return orjson.dumps(told(settings), option=orjson.OPT_SORT_KEYS).decode()


def told(settings: Settings) -> dict[str, Any]:
    """The same as plain data."""
    found: dict[str, Any] = settings.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    for key in _NAMES_ONLY:
        if key in found:
            found[key] = [entry.get("name", "") for entry in found[key]]
    hidden: dict[str, Any] = without_secret_values(found)
    return hidden
