"""What the API server's refusals mean to callers: one exception class per thing that is handled differently.

Everything else is an `ApiError` with the status code, the machine-readable reason and the server's sentence.
"""

from __future__ import annotations

import contextlib

import orjson

from kuberay.kube.transport import Response, TransportError


class ApiError(Exception):
    """The API server answered with an error. ``reason`` is its CamelCase word (``Forbidden``, ``Invalid``, …)."""

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        retry_after: float | None = None,
        causes: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after
        """Seconds the server asked to wait, when it did."""
        self.causes = causes
        """Reasons among the details, for example ``NamespaceTerminating``."""

    @property
    def namespace_is_going(self) -> bool:
        """Whether nothing can be created because the namespace is being deleted."""
        return "NamespaceTerminating" in self.causes


class NotFoundError(ApiError):
    """404: the object, or the whole kind, does not exist."""


class AlreadyExistsError(ApiError):
    """409 on create: the name is taken."""


class ConflictError(ApiError):
    """409 otherwise: another version, another UID, or another field manager."""


class ExpiredError(ApiError):
    """410: the resourceVersion or continue token is too old; list again."""


class ForbiddenError(ApiError):
    """401 or 403: the operator may not do this (or a quota forbids it)."""


class InvalidError(ApiError):
    """400 or 422: the object does not fit its schema, or an immutable field would change."""


class ThrottledError(ApiError):
    """429: ask again after ``retry_after``."""


class NotLeadingError(ApiError):
    """The write was not sent: another replica may act now."""

    def __init__(self) -> None:
        super().__init__(0, "NotLeading", "not sent: this replica leads no more")


_BY_STATUS: dict[int, type[ApiError]] = {
    400: InvalidError,
    401: ForbiddenError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: ExpiredError,
    422: InvalidError,
    429: ThrottledError,
}

UNKNOWN_OUTCOME = (TransportError,)
"""Errors after which nobody knows whether the write took effect."""


def raise_for_status(response: Response) -> None:
    """Raise the matching `ApiError` unless the response is a success."""
    if response.status < 400:
        return
    causes: frozenset[str] = frozenset()
    reason, message = "", response.body[:500].decode(errors="replace")
    with contextlib.suppress(orjson.JSONDecodeError):
        status = orjson.loads(response.body)
        if isinstance(status, dict):
            reason = str(status.get("reason", ""))
            message = str(status.get("message", message))
            details = status.get("details") or {}
            causes = frozenset(str(cause.get("reason", "")) for cause in details.get("causes") or ())
    retry_after: float | None = None
    with contextlib.suppress(KeyError, ValueError):
        retry_after = float(response.headers["retry-after"])
    cls = _BY_STATUS.get(response.status, ApiError)
    if response.status == 409 and reason == "AlreadyExists":
        cls = AlreadyExistsError
    raise cls(response.status, reason, message, retry_after, causes)
