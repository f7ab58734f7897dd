"""How a RayJob ends that nothing happens to, in each mode: it succeeds, fails, or is stopped through Ray; and it ran once.

SidecarMode has a cluster for each job; the others share one, with a RayCluster of a head only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import rayjobs
from ledger import Ledger
from rayjobs import HTTP, INTERACTIVE, K8S, MODES, SIDECAR, Dashboard
from waiting import eventually

from dev.demo.kubectl import Kubectl


class Ending(NamedTuple):
    code: int | None
    """Exit code of the entrypoint; None: it does not end by itself."""
    outcome: tuple[str, str, str]
    counts: tuple[int, int]


SHARED = "shared"
ENDINGS = {
    "succeeds": Ending(0, ("Complete", "SUCCEEDED", "Succeeded"), (1, 0)),
    "fails": Ending(3, ("Failed", "FAILED", "AppFailed"), (0, 1)),
    "stopped": Ending(None, ("Complete", "STOPPED", "Stopped"), (0, 0)),
}
SHORT = {(HTTP, "succeeds"), (HTTP, "fails"), (SIDECAR, "succeeds")}
CASES = [
    pytest.param((mode, word), id=f"{mode}-{word}", marks=() if (mode, word) in SHORT else pytest.mark.long)
    for word in ENDINGS
    for mode in MODES
]


def name_of(mode: str, word: str) -> str:
    return f"{mode.removesuffix('Mode').lower()}-{word}"


@pytest.fixture(scope="module")
def begun(kubectl: Kubectl, namespace: str, ledger: Ledger, chosen: Callable[[str], list[Any]]) -> None:
    """The RayJobs of all chosen cases. What ends by itself gives its place on the node back at once."""
    manifests = []
    for mode, word in chosen("case"):
        name = name_of(mode, word)
        if ENDINGS[word].code is not None:
            ledger.end(f"{namespace}.{name}", ENDINGS[word].code or 0)
        place = {"ttlSecondsAfterFinished": 0} if mode == SIDECAR else {"cluster": SHARED}
        manifests.append(rayjobs.rayjob(name, mode, ledger.entrypoint(f"{namespace}.{name}"), **place))
    rayjobs.apply(kubectl, namespace, rayjobs.head_only(SHARED), *manifests)


@pytest.mark.parametrize("case", CASES)
def test_a_job_ends_as_ray_says(
    kubectl: Kubectl, namespace: str, ledger: Ledger, begun: None, case: tuple[str, str]
) -> None:
    mode, word = case
    ending, name = ENDINGS[word], name_of(mode, word)
    key = f"{namespace}.{name}"
    if mode == INTERACTIVE:
        rayjobs.submit_by_hand(kubectl, namespace, name, ledger.entrypoint(key))
    if ending.code is None:
        ledger.wait_for_run(key)
        running = rayjobs.status(kubectl, namespace, name)
        Dashboard(running["dashboardURL"]).stop(rayjobs.job_id(kubectl, namespace, name))
    status = rayjobs.wait_for_end(kubectl, namespace, name)
    assert (rayjobs.outcome(status), rayjobs.counts(status)) == (ending.outcome, ending.counts), status
    assert len(ledger.runs(key)) == 1
    if word == "fails":
        assert status["reason"] == "AppFailed"
        assert f"{key} ends with 3" in status["message"], "the message has the last lines of the log"
    if mode != SIDECAR:
        dashboard = Dashboard(status["dashboardURL"])
        assert status["jobId"] in dashboard.ids()
        assert f"{key} runs" in dashboard.log(status["jobId"])
    jobs = rayjobs.live(kubectl, "jobs", namespace, f"ray.io/originated-from-cr-name={name}")
    assert len(jobs) == (1 if mode == K8S else 0)
    if mode == K8S:
        (submitter,) = rayjobs.submitters(kubectl, namespace, name)
        assert f"{key} runs" in kubectl.run("-n", namespace, "logs", submitter["metadata"]["name"])
        counted = jobs[0]["status"]
        assert (counted.get("succeeded", 0), counted.get("failed", 0)) == (1, 0), "the submitter only follows the log"

    if case == (SIDECAR, "succeeds"):
        # Suspending needs the cluster's shutdown, so it is asked of a job with a cluster of its own, which goes by now.
        rayjobs.patch(kubectl, namespace, name, suspend=True)
        of_job = f"ray.io/originated-from-cr-name={name}"
        eventually(lambda: not kubectl.list("rayclusters", namespace, of_job), 90, "its cluster is gone")
        assert rayjobs.outcome(rayjobs.status(kubectl, namespace, name)) == ending.outcome, "suspended after the end"
