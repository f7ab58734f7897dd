"""Whether the steps of a rolling upgrade make sense: ``maxUnavailable`` and ``maxSurge`` of ``upgradeStrategy``.

Rules and words are those of a Deployment's ``rollingUpdate``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kuberay.api.cluster import UpgradeStrategy

_PERCENT = re.compile(r"[0-9]+%")
_MOST_PERCENT = 10_000
"""No more than a hundred times a group: beyond that it is a typing error."""


def rolling_problems(strategy: UpgradeStrategy) -> Iterator[tuple[str, str]]:
    """Field name below ``upgradeStrategy`` and what is wrong with it."""
    unavailable, surge = strategy.max_unavailable, strategy.max_surge
    for name, value, most in (("maxUnavailable", unavailable, 100), ("maxSurge", surge, _MOST_PERCENT)):
        wrong = _wrong(value, most)
        if wrong:
            yield name, f"{name} {value!r} {wrong}"
            return
    if _zero(unavailable) and (surge is None or _zero(surge)):
        yield "maxUnavailable", "maxUnavailable may not be 0 when maxSurge is 0: no pod could ever be replaced"


def _wrong(value: int | str | None, most_percent: int) -> str:
    if isinstance(value, int):
        return "must not be negative" if value < 0 else ""
    if isinstance(value, str):
        if not _PERCENT.fullmatch(value):
            return "must be a whole number or a percentage such as 25%"
        if len(value) > len(str(most_percent)) + 1 or int(value[:-1]) > most_percent:
            return f"must not be more than {most_percent}%"
    return ""


def _zero(value: int | str | None) -> bool:
    return value is not None and int(str(value).rstrip("%")) == 0
