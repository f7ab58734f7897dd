"""The Serve of a played Ray head: what its dashboard says of the applications it was given, and its proxy's health.

Nothing runs: a configuration's applications have the status that the scenario gives them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

Answer = tuple[int, bytes]
APPLICATIONS = "/api/serve/applications/"
HEALTH = "/-/healthz"

_DEPLOYMENTS = {"RUNNING": "HEALTHY", "UNHEALTHY": "UNHEALTHY", "DEPLOY_FAILED": "UNHEALTHY"}
"""Status of an application's deployments; those of all others are being updated."""


@dataclass(slots=True)
class Serve:
    """One cluster's Serve. Its state outlives the head."""

    gives: str = "RUNNING"
    """Status that the applications of a new configuration get."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """The newest that was accepted."""
    applications: dict[str, str] = field(default_factory=dict)
    """Status by name."""

    def set_all(self, status: str) -> None:
        """Put all applications of the configuration, and of those to come, into *status*; ``none``: the list is empty."""
        if status == "none":
            self.applications = {}
        else:
            self.gives = status
            self._start_all()

    def answer(self, method: str, body: Any) -> Answer:
        """To a request about all applications."""
        if method == "GET":
            return 200, orjson.dumps(self._details())
        if method == "PUT" and isinstance(body, Mapping):
            self.config = body
            self._start_all()
            return 200, b""
        return 400, b"Bad Request"

    def _start_all(self) -> None:
        self.applications = {str(each.get("name") or ""): self.gives for each in self.config.get("applications") or ()}

    def _details(self) -> dict[str, Any]:
        given = {str(each.get("name") or ""): each for each in self.config.get("applications") or ()}
        details: dict[str, Any] = {"deploy_mode": "MULTI_APP", "applications": {}}
        if "target_capacity" in self.config:
            details["target_capacity"] = self.config["target_capacity"]
        for name, status in self.applications.items():
            details["applications"][name] = {
                "name": name,
                "status": status,
                "message": "",
                "route_prefix": given[name].get("route_prefix"),
                "docs_path": None,
                "deployments": {
                    str(each["name"]): {
                        "name": each["name"],
                        "status": _DEPLOYMENTS.get(status, "UPDATING"),
                        "message": "",
                    }
                    for each in given[name].get("deployments") or ()
                },
            }
        return details
