"""What a Ray dashboard says about its Serve applications, parsed from its JSON answer.

Source: spec rayservice.md 2.10. Statuses are Ray's words and passed on as they come, also those of a later Ray.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kuberay.ray.lenient import decode_json

APPLICATIONS_PATH = "/api/serve/applications/"
DEFAULT_APPLICATION = "default"
"""Name of the application that Serve was given without one."""


class ServeDeployment(msgspec.Struct, kw_only=True):
    """One deployment: ``UPDATING``, ``HEALTHY``, ``UNHEALTHY`` or a word of a later Ray."""

    status: str = ""
    message: str = ""


class ServeApplication(msgspec.Struct, kw_only=True):
    """One application: ``NOT_STARTED``, ``DEPLOYING``, ``RUNNING``, ``DEPLOY_FAILED``, ``DELETING``, ``UNHEALTHY``, …"""

    status: str = ""
    message: str = ""
    deployments: dict[str, ServeDeployment] = {}


class ServeDetails(msgspec.Struct, kw_only=True):
    """All applications by name, the default one by its name, too."""

    deploy_mode: str = ""
    applications: dict[str, ServeApplication] = {}

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as a probe result carries it to a plan; equal while nothing changes."""
        return {"applications": msgspec.to_builtins(self.applications)}


def parse_serve_details(body: bytes) -> ServeDetails:
    """Read an answer of ``GET /api/serve/applications/``. Raises ``ValueError`` when it is none."""
    answer = decode_json(body)
    if not isinstance(answer, dict):
        raise ValueError("the answer is not a JSON object")
    try:
        details = msgspec.convert(_without_nulls(answer), ServeDetails)
    except msgspec.ValidationError as error:
        raise ValueError(f"the answer does not tell of Serve ({error})") from error
    details.applications = {name or DEFAULT_APPLICATION: app for name, app in details.applications.items()}
    return details


def _without_nulls(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Null is the same as nothing: of the answer, of its applications and of their deployments."""
    plain = {key: answer[key] for key in ("deploy_mode", "applications") if answer.get(key) is not None}
    if isinstance(plain.get("applications"), dict):
        plain["applications"] = {name: _told(app) for name, app in plain["applications"].items()}
    return plain


def _told(item: Any) -> Any:
    if not isinstance(item, dict):
        return item
    told = {key: item[key] for key in ("status", "message", "deployments") if item.get(key) is not None}
    if isinstance(told.get("deployments"), dict):
        told["deployments"] = {name: _told(deployment) for name, deployment in told["deployments"].items()}
    return told
