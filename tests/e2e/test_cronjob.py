"""A RayCronJob on real Ray: nothing while it is suspended, then a RayJob a minute that runs and completes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import rayjobs
from ledger import Ledger
from waiting import eventually

from dev.demo import install
from dev.demo.kubectl import Kubectl

pytestmark = pytest.mark.long

NAME = "minutely"


@pytest.fixture(scope="module")
def scheduling(kubectl: Kubectl, operator: str) -> Iterator[None]:
    """An operator with the gate RayCronJob open, for this module only."""
    where = ("-n", operator, "patch", "deployment", install.NAME, "--type=json", "-p")
    path = "/spec/template/spec/containers/0/args"
    kubectl.run(*where, json.dumps([{"op": "add", "path": f"{path}/-", "value": "--feature-gates=RayCronJob=true"}]))
    install.wait_for_operator(kubectl)
    yield
    install.install_operator(kubectl)
    install.wait_for_operator(kubectl)


def children(kubectl: Kubectl, namespace: str) -> list[dict[str, Any]]:
    return kubectl.list("rayjobs", namespace, f"ray.io/cronjob-name={NAME}")


def now_in(kubectl: Kubectl, namespace: str) -> dict[str, Any]:
    found = kubectl.get("raycronjob", NAME, namespace)
    assert found is not None
    return found


def test_it_runs_jobs_once_it_is_resumed(kubectl: Kubectl, namespace: str, ledger: Ledger, scheduling: None) -> None:
    """CJ-02: of the starts that were missed meanwhile, only the latest may be made up for."""
    key = f"{namespace}.{NAME}"
    ledger.end(key)
    template = rayjobs.rayjob(NAME, rayjobs.HTTP, ledger.entrypoint(key), ttlSecondsAfterFinished=0)["spec"]
    suspended = {"schedule": "*/1 * * * *", "suspend": True, "jobTemplate": template}
    rayjobs.apply(
        kubectl,
        namespace,
        {"apiVersion": "ray.io/v1", "kind": "RayCronJob", "metadata": {"name": NAME}, "spec": suspended},
        # Tells when two ticks have passed: it is not suspended, and its jobs are refused a cluster for want of one.
        {
            "apiVersion": "ray.io/v1",
            "kind": "RayCronJob",
            "metadata": {"name": "clock"},
            "spec": {
                "schedule": "*/1 * * * *",
                "jobTemplate": {"entrypoint": "true", "clusterSelector": {"ray.io/cluster": "nowhere"}},
            },
        },
    )
    ticks = "ray.io/cronjob-name=clock"
    eventually(lambda: len(kubectl.list("rayjobs", namespace, ticks)) >= 2, 150, "two ticks have passed")
    kubectl.delete("raycronjob", "clock", namespace)
    assert children(kubectl, namespace) == [], "made while suspended"

    resumed = datetime.now(UTC)
    kubectl.run("-n", namespace, "patch", "raycronjob", NAME, "--type=merge", "-p", '{"spec":{"suspend":false}}')
    eventually(lambda: len(children(kubectl, namespace)) >= 1, 90, "a RayJob")
    kubectl.run("-n", namespace, "patch", "raycronjob", NAME, "--type=merge", "-p", '{"spec":{"suspend":true}}')
    made = children(kubectl, namespace)
    for child in made:
        status = rayjobs.wait_for_end(kubectl, namespace, child["metadata"]["name"])
        assert rayjobs.outcome(status) == ("Complete", "SUCCEEDED", "Succeeded"), status
    assert len(ledger.runs(key)) == len(made)
    ticks_made = sorted(child["metadata"]["annotations"]["ray.io/cronjob-scheduled-timestamp"] for child in made)
    assert datetime.fromisoformat(ticks_made[0]) > resumed - timedelta(minutes=1), "older starts were made up for"
    assert now_in(kubectl, namespace)["status"]["lastScheduleTime"] == ticks_made[-1]
