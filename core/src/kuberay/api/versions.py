"""How a Ray version string is read and compared: leniently, as users write it.

Source: spec raycluster.md 1.8: at least two numeric components, ``2.52`` equals ``2.52.0``, a leading ``v`` and a
trailing suffix are tolerated.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_VERSION = re.compile(r"\s*v?([0-9]+(?:\.[0-9]+)*)(.*)", re.DOTALL)


class Version(NamedTuple):
    """Compares by major, minor, patch; the suffix (``.dev0``, ``-rc1``, ``-py311``) plays no part."""

    major: int
    minor: int
    patch: int = 0

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


def parse_version(text: str) -> Version:
    """The version in *text*. Raises ValueError with one sentence when there are not two numeric components."""
    match = _VERSION.fullmatch(text)
    if match is None:
        raise ValueError(f'could not parse "{text}" as version')
    components = match[1].split(".")
    if len(components) < 2:
        raise ValueError(f'illegal version string "{text}"')
    if components[0].startswith("0") and components[0] != "0":
        raise ValueError(f'illegal zero-prefixed version component "{components[0]}" in "{text}"')
    parts = [int(part) for part in components]
    return Version(parts[0], parts[1], parts[2] if len(parts) > 2 else 0)


def try_parse_version(text: str) -> Version | None:
    """The version in *text*, or None when it is none."""
    try:
        return parse_version(text)
    except ValueError:
        return None
