"""How the simulated API server says no: a code, a reason and the ``Status`` body that real clients parse.

Messages follow the real server's wording, because people and programs match on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from kuberay.api.kinds import Kind
from kuberay.kube.transport import Response

JSON_HEADERS = {"content-type": "application/json"}


class APIError(Exception):
    """One refused request."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = dict(details or {})
        self.retry_after = retry_after

    def status(self) -> dict[str, Any]:
        """The ``Status`` object."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        details = dict(self.details)
        if self.retry_after is not None:
            details["retryAfterSeconds"] = self.retry_after
        if details:
            body["details"] = details
        body["code"] = self.code
        return body

    def response(self) -> Response:
        headers = dict(JSON_HEADERS)
        if self.retry_after is not None:
            headers["retry-after"] = str(self.retry_after)
        return Response(self.code, orjson.dumps(self.status()), headers)


class NoSuchPath(Exception):  # noqa: N818
    """A path of a group, version or plural that is not served; the real server answers in plain text."""

    def response(self) -> Response:
        return Response(404, b"404 page not found\n", {"content-type": "text/plain; charset=utf-8"})


def _details(
    kind: Kind, name: str, causes: Sequence[Mapping[str, str]] = (), *, by_kind: bool = False
) -> dict[str, Any]:
    details: dict[str, Any] = {"name": name} if name else {}
    if kind.group:
        details["group"] = kind.group
    details["kind"] = kind.kind if by_kind else kind.plural
    if causes:
        details["causes"] = list(causes)
    return details


def bad_request(message: str) -> APIError:
    return APIError(400, "BadRequest", message)


def not_found(kind: Kind, name: str) -> APIError:
    return APIError(404, "NotFound", f'{kind} "{name}" not found', details=_details(kind, name))


def already_exists(kind: Kind, name: str) -> APIError:
    return APIError(409, "AlreadyExists", f'{kind} "{name}" already exists', details=_details(kind, name))


def conflict(kind: Kind, name: str, why: str) -> APIError:
    message = f'Operation cannot be fulfilled on {kind} "{name}": {why}'
    return APIError(409, "Conflict", message, details=_details(kind, name))


def modified(kind: Kind, name: str) -> APIError:
    """The resourceVersion given is not the current one."""
    return conflict(
        kind, name, "the object has been modified; please apply your changes to the latest version and try again"
    )


def apply_conflict(conflicts: Sequence[tuple[str, str]]) -> APIError:
    """*conflicts* are pairs of the manager as it is printed and the field's path."""
    by_manager: dict[str, list[str]] = {}
    for manager, path in conflicts:
        by_manager.setdefault(manager, []).append(path)
    if len(conflicts) == 1:
        text = f"conflict with {conflicts[0][0]}: {conflicts[0][1]}"
    else:
        text = "\n".join(
            "\n".join([f"conflicts with {manager}:", *(f"- {path}" for path in paths)])
            for manager, paths in sorted(by_manager.items())
        )
    plural = "" if len(conflicts) == 1 else "s"
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {manager}", "field": path}
        for manager, path in conflicts
    ]
    return APIError(
        409, "Conflict", f"Apply failed with {len(conflicts)} conflict{plural}: {text}", details={"causes": causes}
    )


def invalid(kind: Kind, name: str, *problems: tuple[str, str, str]) -> APIError:
    """*problems* are (cause reason, field path, text)."""
    texts = [f"{path}: {text}" for _, path, text in problems]
    joined = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    qualified = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    causes = [{"reason": reason, "message": text, "field": path} for reason, path, text in problems]
    return APIError(
        422,
        "Invalid",
        f'{qualified} "{name}" is invalid: {joined}',
        details=_details(kind, name, causes, by_kind=True),
    )


def forbidden(kind: Kind, name: str, why: str, causes: Sequence[Mapping[str, str]] = ()) -> APIError:
    details = {**_details(kind, name), **({"causes": list(causes)} if causes else {})}
    return APIError(403, "Forbidden", f'{kind} "{name}" is forbidden: {why}', details=details)


def too_old(requested: int, oldest: int) -> APIError:
    """In-stream error of a watch that starts before what the server remembers."""
    return APIError(410, "Expired", f"too old resource version: {requested} ({oldest})")


def continue_expired() -> APIError:
    return APIError(
        410,
        "Expired",
        "The provided continue parameter is too old to display a consistent list result. You can start a new list "
        "without the continue parameter.",
    )


def too_many(seconds: int) -> APIError:
    return APIError(429, "TooManyRequests", "The server is currently unable to handle the request", retry_after=seconds)


def internal(message: str) -> APIError:
    return APIError(500, "InternalError", f"Internal error occurred: {message}")


def method_not_allowed() -> APIError:
    return APIError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


def no_such_resource() -> APIError:
    """A path of a built-in group, or a subresource, that is not served."""
    return APIError(404, "NotFound", "the server could not find the requested resource")


def unsupported_media_type(content_type: str) -> APIError:
    return APIError(
        415,
        "UnsupportedMediaType",
        f"the body of the request was in an unknown format - accepted media types include: application/json (got {content_type})",
    )
