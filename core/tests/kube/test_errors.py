"""Which error class each answer of the API server becomes."""

from __future__ import annotations

import orjson
import pytest
from kuberay.kube.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    ExpiredError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    ThrottledError,
    raise_for_status,
)
from kuberay.kube.transport import Response


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        (400, "BadRequest", InvalidError),
        (401, "Unauthorized", ForbiddenError),
        (403, "Forbidden", ForbiddenError),
        (404, "NotFound", NotFoundError),
        (409, "AlreadyExists", AlreadyExistsError),
        (409, "Conflict", ConflictError),
        (410, "Expired", ExpiredError),
        (422, "Invalid", InvalidError),
        (429, "TooManyRequests", ThrottledError),
        (500, "InternalError", ApiError),
        (503, "ServiceUnavailable", ApiError),
    ],
)
def test_each_status_has_its_class(status: int, reason: str, expected: type[ApiError]) -> None:
    body = orjson.dumps({"kind": "Status", "reason": reason, "message": "what happened", "code": status})
    with pytest.raises(ApiError) as caught:
        raise_for_status(Response(status, body))
    assert type(caught.value) is expected
    assert (caught.value.status, caught.value.reason, str(caught.value)) == (status, reason, "what happened")
    assert caught.value.retry_after is None


@pytest.mark.parametrize("status", [200, 201, 202])
def test_a_success_is_no_error(status: int) -> None:
    raise_for_status(Response(status, b"whatever"))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"404 page not found\n", "404 page not found\n"),
        (b"", ""),
        (b'["no status"]', '["no status"]'),
        (b"\xff" * 3, "\ufffd" * 3),
        (b"x" * 2000, "x" * 500),
    ],
)
def test_a_body_that_is_no_status_is_told_as_it_is(body: bytes, message: str) -> None:
    with pytest.raises(NotFoundError) as caught:
        raise_for_status(Response(404, body))
    assert (caught.value.message, caught.value.reason) == (message, "")


@pytest.mark.parametrize(("header", "seconds"), [("7", 7.0), ("0.5", 0.5), ("Wed, 21 Oct 2026 07:28:00 GMT", None)])
def test_retry_after_is_read_when_it_is_a_number(header: str, seconds: float | None) -> None:
    with pytest.raises(ThrottledError) as caught:
        raise_for_status(Response(429, b"{}", {"retry-after": header}))
    assert caught.value.retry_after == seconds
