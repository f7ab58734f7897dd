"""How the log of a Ray job ends, read from the end of the dashboard's answer.

Source: spec rayjob.md 3.10 (``{"logs": …}``). The whole log may be huge, so only the end of the JSON text is kept.
"""

from __future__ import annotations

import re

import orjson

TAIL_BYTES = 64 * 1024
"""How much of the answer's end is kept."""
MAX_LINES = 20
MAX_CHARS = 4096
"""What is told of a log at most, from its end."""

_END = re.compile(rb'"\s*\}\s*$')
_LINE_END = rb"\n"
"""As JSON writes it: two characters."""


def last_lines(body: bytes, *, cut: bool) -> str:
    """The last lines of the log; empty when there are none. *cut*: *body* lacks the beginning of the answer.

    Raises ``ValueError`` with one sentence when it is no such answer.
    """
    text = _after_cut(body) if cut else _whole(body)
    lines = [line.rstrip() for line in text.split("\n")]
    kept = "\n".join(line for line in lines if line)
    return "\n".join(kept.split("\n")[-MAX_LINES:])[-MAX_CHARS:]


def _whole(body: bytes) -> str:
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ValueError("the answer is not JSON") from error
    logs = answer.get("logs") if isinstance(answer, dict) else None
    if not isinstance(logs, str):
        raise ValueError("the answer holds no log")
    return logs


def _after_cut(body: bytes) -> str:
    """What follows the first end of a line, which is written as two characters, in an answer without a beginning."""
    end = _END.search(body)
    if end is None:
        raise ValueError("the answer is not JSON")
    start = body.find(_LINE_END)
    while start > 0 and _escaped(body, start):
        start = body.find(_LINE_END, start + 1)
    if start <= 0:
        raise ValueError("the log has no line that is short enough")
    try:
        text = orjson.loads(b'"' + body[start + 2 : end.start()] + b'"')
    except orjson.JSONDecodeError as error:
        raise ValueError("the answer is not JSON") from error
    return str(text)


def _escaped(body: bytes, at: int) -> bool:
    """Whether the backslash at *at* is itself behind one that counts, or may be: nothing is known of what was cut off."""
    before = at
    while before > 0 and body[before - 1 : before] == b"\\":
        before -= 1
    return before == 0 or (at - before) % 2 == 1
