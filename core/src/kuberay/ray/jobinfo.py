"""What a Ray dashboard says about one submission, parsed from its JSON answer.

Source: spec rayjob.md 3.10. Times are milliseconds since the epoch; 0 means Ray has not set them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kuberay.ray.lenient import decode_json

TERMINAL = frozenset({"STOPPED", "SUCCEEDED", "FAILED"})
"""Job statuses Ray never leaves."""


class JobInfo(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The members of Ray's ``JobDetails`` the operator reads. Members it does not know are skipped; null is empty."""

    status: str = ""
    message: str = ""
    entrypoint: str = ""
    job_id: str = ""
    submission_id: str = ""
    error_type: str = ""
    start_time: int = 0
    end_time: int = 0
    metadata: dict[str, str] = {}
    runtime_env: dict[str, Any] = {}

    @property
    def terminal(self) -> bool:
        """Whether Ray has finished with the job."""
        return self.status in TERMINAL

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as a probe result carries it to a plan; unset members are left out."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain


def parse_job_info(body: bytes) -> JobInfo:
    """Read an answer of ``GET /api/jobs/<id>``. Raises ``ValueError`` with one sentence when it is no job."""
    members = decode_json(body)
    if not isinstance(members, dict):
        raise ValueError("the answer is not a JSON object")
    try:
        info = msgspec.convert({key: value for key, value in members.items() if value is not None}, JobInfo)
    except msgspec.ValidationError as err:
        raise ValueError(f"the answer is not a Ray job ({err})") from err
    if not info.status:
        raise ValueError("the answer names no job status")
    return info
