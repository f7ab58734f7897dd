"""Which settings are in effect, as the log tells when the operator starts: the same however they reached it.

Only what differs from the defaults. Of environment variables and containers only the names: the rest may hold secrets.
"""

from __future__ import annotations

from typing import Any

import orjson

from kuberay.operator.settings import Settings

_NAMES_ONLY = ("defaultContainerEnvs", "headSidecarContainers", "workerSidecarContainers")


def in_effect(settings: Settings) -> str:
    """One line of JSON: the keys of the configuration file that say something else than the default (case HE-05)."""
    found: dict[str, Any] = settings.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    for key in _NAMES_ONLY:
        if key in found:
            found[key] = [entry.get("name", "") for entry in found[key]]
    return orjson.dumps(found, option=orjson.OPT_SORT_KEYS).decode()
