"""How the operator logs: one JSON object a line on standard error, with the object, the reconcile and the plugin named.

Keys, times and logger names are KubeRay's (operator.md 7), so existing log pipelines keep working.
"""

from __future__ import annotations

import contextvars
import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import orjson

from kuberay.operator.log_files import LogFile
from kuberay.operator.log_levels import LOG_LEVELS
from kuberay.operator.log_sampling import Sampling
from kuberay.operator.redaction import without_secrets

_context: contextvars.ContextVar[Mapping[str, Any]] = contextvars.ContextVar("kuberay_log_context")


@contextmanager
def log_context(**values: Any) -> Iterator[None]:
    """Add keys (``RayCluster``, ``reconcileID``, …) to every record logged inside; one whose value is None is left out.

    ``logger`` is special: it is told instead of the name of the module's logger, which then stands under ``component``.
    """
    token = _context.set({**_context.get({}), **values})
    try:
        yield
    finally:
        _context.reset(token)


def object_context(kind: str, namespace: str, name: str) -> dict[str, Any]:
    """The keys of a pass over an object, as KubeRay's controllers log them."""
    return {"logger": f"controllers.{kind}", kind: {"name": name, "namespace": namespace}}


def _stamp(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _fields(record: logging.LogRecord) -> tuple[str, dict[str, Any]]:
    """The logger to tell, and what goes with the message."""
    fields = {key: value for key, value in _context.get({}).items() if value is not None}
    logger = fields.pop("logger", None)
    if logger is not None:
        fields["component"] = record.name
    plugin = getattr(record, "plugin", None)
    if plugin:
        fields["plugin"] = plugin
    left_out = getattr(record, "left_out", 0)
    if left_out:
        fields["leftOut"] = left_out
    return logger or record.name, fields


class JsonFormatter(logging.Formatter):
    """``level``, ``ts``, ``logger``, ``msg``, the keys of the context, and ``stacktrace`` for exceptions."""

    def format(self, record: logging.LogRecord) -> str:
        logger, fields = _fields(record)
        entry: dict[str, Any] = {
            "level": record.levelname.lower(),
            "ts": _stamp(record),
            "logger": logger,
            "msg": without_secrets(record.getMessage()),
            **fields,
        }
        if record.exc_info:
            entry["stacktrace"] = without_secrets(self.formatException(record.exc_info))
        return orjson.dumps(entry, default=str).decode()


class ConsoleFormatter(logging.Formatter):
    """Tab-separated, for people; what goes with the message is JSON in the last column."""

    def format(self, record: logging.LogRecord) -> str:
        logger, fields = _fields(record)
        columns = [_stamp(record), record.levelname, logger, without_secrets(record.getMessage())]
        if fields:
            columns.append(orjson.dumps(fields, default=str).decode())
        line = "\t".join(columns)
        return line + ("\n" + without_secrets(self.formatException(record.exc_info)) if record.exc_info else "")


def set_up_logging(
    *,
    level: str,
    encoder: str,
    log_file: str = "",
    file_encoder: str = "json",
    levels: Mapping[str, str] | None = None,
) -> None:
    """Configure the root logger. *level* is for all loggers but those of *levels*. Raises OSError when *log_file* cannot
    be written."""
    formatters = {"json": JsonFormatter, "console": ConsoleFormatter}
    root = logging.getLogger()
    root.handlers.clear()
    handlers: list[logging.Handler] = [logging.StreamHandler(sys.stderr)]
    handlers[0].setFormatter(formatters[encoder]())
    if log_file:
        handlers.append(LogFile(log_file))
        handlers[1].setFormatter(formatters[file_encoder]())
    for handler in handlers:
        handler.addFilter(Sampling())
        root.addHandler(handler)
    LOG_LEVELS.use(level, levels or {})
