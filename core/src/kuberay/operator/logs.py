"""How the operator logs: one JSON object a line on standard error, with the object, the reconcile and the plugin named.

Keys and times are KubeRay's (operator.md 7), so existing log pipelines keep working.
"""

from __future__ import annotations

import contextvars
import logging
import logging.handlers
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import orjson

_context: contextvars.ContextVar[dict[str, str]] = contextvars.ContextVar("kuberay_log_context")


@contextmanager
def log_context(**values: str) -> Iterator[None]:
    """Add keys (``object``, ``reconcileID``, ``plugin``, …) to every record logged inside."""
    token = _context.set({**_context.get({}), **values})
    try:
        yield
    finally:
        _context.reset(token)


def _stamp(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class JsonFormatter(logging.Formatter):
    """``level``, ``ts``, ``logger``, ``msg``, context keys, and ``stacktrace`` for exceptions."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "level": record.levelname.lower(),
            "ts": _stamp(record),
            "logger": record.name,
            "msg": record.getMessage(),
            **_context.get({}),
        }
        plugin = getattr(record, "plugin", None)
        if plugin:
            entry["plugin"] = plugin
        if record.exc_info:
            entry["stacktrace"] = self.formatException(record.exc_info)
        return orjson.dumps(entry, default=str).decode()


class ConsoleFormatter(logging.Formatter):
    """Tab-separated, for people."""

    def format(self, record: logging.LogRecord) -> str:
        context = "\t".join(f"{k}={v}" for k, v in _context.get({}).items())
        line = "\t".join(filter(None, (_stamp(record), record.levelname, record.name, record.getMessage(), context)))
        return line + ("\n" + self.formatException(record.exc_info) if record.exc_info else "")


def set_up_logging(*, level: str, encoder: str, log_file: str = "", file_encoder: str = "json") -> None:
    """Configure the root logger. Rotation of the file: 500 MB, 10 backups (KubeRay's numbers)."""
    formatters = {"json": JsonFormatter, "console": ConsoleFormatter}
    root = logging.getLogger()
    root.handlers.clear()
    handlers: list[logging.Handler] = [logging.StreamHandler(sys.stderr)]
    handlers[0].setFormatter(formatters[encoder]())
    if log_file:
        handlers.append(logging.handlers.RotatingFileHandler(log_file, maxBytes=500 * 2**20, backupCount=10))
        handlers[1].setFormatter(formatters[file_encoder]())
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel(level.upper())
    # kopf tells of every event at debug and of its set-up at info; neither is news to users of this operator.
    logging.getLogger("kopf").setLevel(logging.WARNING)
    # It warns that signals are not its own: they are ours.
    logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
