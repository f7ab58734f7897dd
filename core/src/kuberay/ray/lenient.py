"""Reads JSON that a program of the user has a part in: messages may hold bytes and halves of letters that are no text."""

from __future__ import annotations

import json
from typing import Any

import msgspec


def decode_json(body: bytes) -> Any:
    """What *body* says, with � for letters that are none. Raises ``ValueError`` when it is not JSON."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        try:
            parsed = json.loads(body.decode(errors="replace"))
            return json.loads(json.dumps(parsed, ensure_ascii=False).encode(errors="replace"))
        except (ValueError, RecursionError):
            raise ValueError(f"the answer is not JSON ({error})") from error
