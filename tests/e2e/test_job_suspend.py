"""A running RayJob that is suspended gives everything back, takes a scheduling edit meanwhile, and runs anew when resumed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import rayjobs
from ledger import Ledger
from rayjobs import INTERACTIVE, K8S, MODES, SIDECAR
from waiting import eventually

from dev.demo.kubectl import Kubectl

pytestmark = pytest.mark.long

PLACE = {"kubernetes.io/os": "linux"}
"""What a queue controller would write into a suspended RayJob: where its pods go."""


def name_of(mode: str) -> str:
    return mode.removesuffix("Mode").lower()


@pytest.fixture(scope="module")
def before(
    kubectl: Kubectl, namespace: str, ledger: Ledger, chosen: Callable[[str], list[Any]]
) -> dict[str, dict[str, Any]]:
    """RayJobs of all chosen modes that ran and are to be suspended now; their statuses from before."""
    modes = chosen("mode")
    jobs = [rayjobs.rayjob(name_of(mode), mode, ledger.entrypoint(f"{namespace}.{name_of(mode)}")) for mode in modes]
    rayjobs.apply(kubectl, namespace, *jobs)
    found = {}
    for mode in modes:
        name = name_of(mode)
        if mode == INTERACTIVE:
            rayjobs.submit_by_hand(kubectl, namespace, name, ledger.entrypoint(f"{namespace}.{name}"), "first")
        ledger.wait_for_run(f"{namespace}.{name}")
        found[mode] = rayjobs.wait_until_running(kubectl, namespace, name)
    for mode in modes:
        rayjobs.patch(kubectl, namespace, name_of(mode), suspend=True)
    return found


@pytest.mark.parametrize("mode", MODES)
def test_a_suspended_job_gives_everything_back(
    kubectl: Kubectl, namespace: str, ledger: Ledger, before: dict[str, dict[str, Any]], mode: str
) -> None:
    name = name_of(mode)
    status = rayjobs.wait_for_state(kubectl, namespace, name, "Suspended", seconds=120)
    of_job = f"ray.io/originated-from-cr-name={name}"

    def left() -> list[dict[str, Any]]:
        pods = kubectl.list("pods", namespace, f"ray.io/cluster={before[mode]['rayClusterName']}")
        pods += rayjobs.submitters(kubectl, namespace, name)
        return [*kubectl.list("rayclusters", namespace, of_job), *kubectl.list("jobs", namespace, of_job), *pods]

    # The API server lets an owner go before what it owns, in the background.
    eventually(lambda: left() == [], 60, "RayCluster, submitter and pods are gone")
    assert rayjobs.outcome(status) == ("Suspended", "", "")
    assert rayjobs.counts(status) == (0, 0)
    assert [status.get(key, "") for key in ("rayClusterName", "jobId", "dashboardURL", "reason")] == [""] * 4
    assert len(ledger.runs(f"{namespace}.{name}")) == 1


@pytest.fixture(scope="module")
def resumed(kubectl: Kubectl, namespace: str, before: dict[str, Any], chosen: Callable[[str], list[Any]]) -> None:
    """All of them are edited while they are suspended, and resumed."""
    for mode in chosen("mode"):
        rayjobs.wait_for_state(kubectl, namespace, name_of(mode), "Suspended", seconds=120)
        edit = {"headGroupSpec": {"template": {"spec": {"nodeSelector": PLACE}}}}
        rayjobs.patch(kubectl, namespace, name_of(mode), rayClusterSpec=edit)
    for mode in chosen("mode"):
        rayjobs.patch(kubectl, namespace, name_of(mode), suspend=False)


@pytest.mark.parametrize("mode", MODES)
def test_a_resumed_job_runs_anew_and_completes(
    kubectl: Kubectl, namespace: str, ledger: Ledger, before: dict[str, dict[str, Any]], resumed: None, mode: str
) -> None:
    name = name_of(mode)
    key = f"{namespace}.{name}"
    if mode == INTERACTIVE:
        # The id of the first attempt is still told; the new one takes its place.
        rayjobs.submit_by_hand(kubectl, namespace, name, ledger.entrypoint(key), "second")
    ledger.wait_for_run(key, count=2)
    running = rayjobs.wait_until_running(kubectl, namespace, name)
    assert running["rayClusterName"] != before[mode]["rayClusterName"]
    assert running["jobId"] != before[mode]["jobId"]
    head = rayjobs.head_of(kubectl, namespace, running["rayClusterName"])
    assert PLACE.items() <= head["spec"]["nodeSelector"].items()
    assert ledger.runs(key)[1] == head["status"]["podIP"]
    ledger.end(key)
    status = rayjobs.wait_for_end(kubectl, namespace, name)
    assert rayjobs.outcome(status) == ("Complete", "SUCCEEDED", "Succeeded"), status
    assert rayjobs.counts(status) == (1, 0)
    assert len(ledger.runs(key)) == 2, "one run in each attempt"
    containers = [container["name"] for container in head["spec"]["containers"]]
    assert ("ray-job-submitter" in containers) == (mode == SIDECAR), json.dumps(containers)
    assert len(rayjobs.submitters(kubectl, namespace, name)) == (1 if mode == K8S else 0)
