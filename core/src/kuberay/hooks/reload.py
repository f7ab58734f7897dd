"""How a plugin says which of its settings may change while the operator runs: a field annotated with `RELOADS`.

``settle_seconds: Annotated[int, RELOADS] = 5`` is such a field. A field without it needs a restart of the operator. What a
plugin promises with it: a new value changes what is decided from then on, and nothing that stands already, so that an object
at which nothing else changed is not written to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Reloads:
    """The type of `RELOADS`."""


RELOADS: Final = Reloads()
"""The field takes a new value from the configuration file while the operator runs."""
