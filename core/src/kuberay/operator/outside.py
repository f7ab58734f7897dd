"""What stands in for Ray where plans are played in memory: looked-up objects are there, and heads do what they are told.

`kuberay render` and `kuberay diff` let all go well; for `kuberay why` applications stay as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

import orjson

from kuberay.api.service import ServeApplicationStatus
from kuberay.plan.model import (
    JobInfoProbe,
    ObjectProbe,
    Probe,
    ProbeResult,
    ProxyHealthProbe,
    ServeConfigCall,
    ServeProbe,
    SubmitJobCall,
)


class Outside:
    """What is no object. By default all goes well."""

    def __init__(
        self,
        applications: Mapping[str, Mapping[str, Any]] | None = None,
        *,
        all_goes_well: bool = True,
        silent: Collection[str] = (),
        proxies: Mapping[str, bool] | None = None,
    ) -> None:
        self.results: dict[Probe, ProbeResult] = {}
        self.applications = {address: dict(told) for address, told in (applications or {}).items()}
        """By address of a dashboard, what its Serve runs."""
        self.all_goes_well = all_goes_well
        """Whether applications that Serve is given run; otherwise they stay as they are, and new ones deploy."""
        self.silent = silent
        """Addresses of dashboards that give no answer."""
        self.proxies = proxies or {}
        """By pod, whether its Serve proxy is healthy, where not all goes well."""

    def answer(self, probe: Probe, now: datetime) -> bool:
        """Whether the answer is news."""
        result = self._answer(probe, now)
        known = self.results.get(probe)
        if result is None or (known is not None and (known.outcome, known.value) == (result.outcome, result.value)):
            return False
        self.results[probe] = result
        return True

    def _answer(self, probe: Probe, now: datetime) -> ProbeResult | None:
        match probe:
            case ServeConfigCall() | ServeProbe() if probe.address in self.silent:
                return ProbeResult("error", now, error="no answer", failing_since=now, since=now)
            case ObjectProbe() | SubmitJobCall():
                return ProbeResult("found", now, since=now)
            case JobInfoProbe():
                # A dashboard takes a job that it does not know; whether that runs is beyond what can be foretold.
                return ProbeResult("absent", now, since=now)
            case ServeConfigCall():
                self._take(probe)
                return ProbeResult("found", now, since=now)
            case ServeProbe():
                return ProbeResult("found", now, {"applications": self.applications.get(probe.address, {})}, since=now)
            case ProxyHealthProbe() if self.all_goes_well or probe.pod in self.proxies:
                healthy = self.all_goes_well or self.proxies[probe.pod]
                return ProbeResult("found", now, {"healthy": healthy}, since=now)
            case _:
                return None

    def _take(self, call: ServeConfigCall) -> None:
        """Serve is given a configuration; the same call has no effect a second time."""
        known = self.results.get(call)
        if known is not None and known.outcome == "found":
            return
        before = self.applications.get(call.address, {})
        after = running_applications(call.config)
        if not self.all_goes_well:
            deploying = {"status": ServeApplicationStatus.DEPLOYING.value, "message": ""}
            after = {name: before.get(name, deploying) for name in after}
        self.applications[call.address] = after


def running_applications(config: str) -> dict[str, Any]:
    """What becomes of a Serve configuration when all goes well."""
    return {
        str(app.get("name") or "default"): {
            "status": ServeApplicationStatus.RUNNING.value,
            "message": "",
            "deployments": {
                str(each.get("name")): {"status": "HEALTHY", "message": ""} for each in app.get("deployments") or ()
            },
        }
        for app in orjson.loads(config).get("applications") or ()
    }
