"""The operator is killed with SIGKILL while jobs start, run and end: the same endings as without that, and one run each."""

from __future__ import annotations

import operators
import pytest
import rayjobs
from ledger import Ledger
from rayjobs import HTTP, INTERACTIVE, K8S, SIDECAR, Dashboard
from waiting import eventually

from dev.demo.kubectl import Kubectl


@pytest.fixture
def fresh(kubectl: Kubectl, operator: str) -> str:
    """The operator in a pod that was not killed yet."""
    operators.renew(kubectl, operator)
    return operator


def name_of(mode: str, code: int) -> str:
    return f"{mode.removesuffix('Mode').lower()}-{'fails' if code else 'succeeds'}"


@pytest.mark.parametrize(
    ("jobs", "while_they_run"),
    [
        pytest.param([(SIDECAR, 0), (HTTP, 3)], False, id="two-modes"),
        pytest.param(
            [(K8S, 3), (HTTP, 0), (SIDECAR, 3), (INTERACTIVE, 0)], True, id="all-modes", marks=pytest.mark.long
        ),
    ],
)
def test_jobs_end_as_if_nothing_had_happened(
    kubectl: Kubectl, fresh: str, namespace: str, ledger: Ledger, jobs: list[tuple[str, int]], while_they_run: bool
) -> None:
    keys = {name_of(mode, code): f"{namespace}.{name_of(mode, code)}" for mode, code in jobs}
    manifests = [
        rayjobs.rayjob(name_of(mode, code), mode, ledger.entrypoint(keys[name_of(mode, code)])) for mode, code in jobs
    ]
    rayjobs.apply(kubectl, namespace, *manifests)
    ids: dict[str, str] = {}
    for mode, code in jobs:
        if mode != INTERACTIVE:
            ids[name_of(mode, code)] = rayjobs.job_id(kubectl, namespace, name_of(mode, code))
    operators.wait_for_the_next(kubectl, fresh, operators.kill(kubectl, fresh))

    for mode, code in jobs:
        name = name_of(mode, code)
        if mode == INTERACTIVE:
            ids[name] = rayjobs.submit_by_hand(kubectl, namespace, name, ledger.entrypoint(keys[name]))
        ledger.wait_for_run(keys[name])
    running = {name: rayjobs.wait_until_running(kubectl, namespace, name) for name in keys}
    if while_they_run:
        operators.replace(kubectl, fresh)

    # The last time it is not there when the jobs end.
    before = operators.kill(kubectl, fresh)
    for mode, code in jobs:
        ledger.end(keys[name_of(mode, code)], code)
    for name, status in running.items():
        ended = Dashboard(status["dashboardURL"])
        eventually(lambda ended=ended, name=name: ended.job(ids[name]) in ("SUCCEEDED", "FAILED"), 60, "Ray's end")
    operators.wait_for_the_next(kubectl, fresh, before)

    for mode, code in jobs:
        name = name_of(mode, code)
        status = rayjobs.wait_for_end(kubectl, namespace, name, seconds=120)
        ending = ("Failed", "FAILED", "AppFailed") if code else ("Complete", "SUCCEEDED", "Succeeded")
        assert rayjobs.outcome(status) == ending, status
        assert rayjobs.counts(status) == ((0, 1) if code else (1, 0))
        assert (status["jobId"], status["rayClusterName"]) == (ids[name], running[name]["rayClusterName"])
        assert Dashboard(status["dashboardURL"]).ids() == [ids[name]], "one submission"
        assert len(ledger.runs(keys[name])) == 1
        clusters = kubectl.list("rayclusters", namespace, f"ray.io/originated-from-cr-name={name}")
        assert [cluster["metadata"]["name"] for cluster in clusters] == [status["rayClusterName"]]
        sidecar = clusters[0]["metadata"].get("annotations", {}).get("ray.io/disable-provisioned-head-restart")
        assert sidecar == ("true" if mode == SIDECAR else None)
        assert len(rayjobs.submitters(kubectl, namespace, name)) == (1 if mode == K8S else 0)
        kubectl.delete("rayjob", name, namespace)
