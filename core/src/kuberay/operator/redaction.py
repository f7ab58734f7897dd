"""What must not stand in a log or on a page: tokens, passwords in addresses, and values of settings that hold secrets.

Nothing of the operator logs a secret on purpose. This is the net below: libraries and servers put into their errors what they like.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

HIDDEN = "***"

_BEARER = re.compile(r"(?i)\b(bearer|basic)(\s+)[\w.~+/=-]{8,}")
_JWT = re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*")
_PASSWORD = re.compile(r"(://[^/\s:@]*:)[^/\s@]+(?=@)")
_SECRET_NAME = re.compile(r"(?i)(token|passw(or)?d|secret|credential|api_?key|private_?key|authorization)s?$")


def without_secrets(text: str) -> str:
    """*text* with bearer tokens, JSON web tokens and passwords of addresses replaced by three stars."""
    text = _JWT.sub(HIDDEN, _BEARER.sub(rf"\1\2{HIDDEN}", text))
    return _PASSWORD.sub(rf"\1{HIDDEN}", text) if "://" in text else text


def without_secret_values(value: Any) -> Any:
    """The same of plain data; text under a key that is named like a secret (``token``, ``apiKey``) is hidden as a whole."""
    if isinstance(value, Mapping):
        return {
            key: HIDDEN
            if isinstance(inner, str) and inner and _SECRET_NAME.search(str(key))
            else without_secret_values(inner)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [without_secret_values(inner) for inner in value]
    return without_secrets(value) if isinstance(value, str) else value
