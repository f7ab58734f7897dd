"""Which recorded scenarios are replayed, and where what happens is another thing on purpose (docs/differences.md).

All of them are. Where ours differs, ``ours.yaml`` beside the recorded files has the sections that do; the others count
as recorded. ``steps`` there stand for the script's where it waits for what does not come.
"""

from __future__ import annotations

from pathlib import Path

from kuberay.api.gates import CRON_JOB, DEFAULT_GATES
from kuberay.plugins.loader import load as load_plugins
from kuberay.plugins.manager import PluginManager
from kuberay_testkit.scenarios.script import Scenario, load_scenario

SCENARIOS = Path(__file__).parents[2] / "core" / "tests" / "data" / "golden" / "scenarios"
AREAS = ("rayjob", "raycronjob", "rayservice")

CASES = sorted(f"{area}/{folder.name}" for area in AREAS for folder in (SCENARIOS / area).iterdir())

GATES = {**DEFAULT_GATES, CRON_JOB: True}

PLUGINS = ("autoscaler-v2", "gateway-upgrade")
"""Those that scenarios need."""

SILENCED = "its submitter is suspended, so that it cannot submit again"
TOLD = "an event tells of each RayJob that is made"
STOPPED = "the Ray job is stopped when the RayJob ends before it"
KEPT = "the applications that serve are told of during an upgrade, too"
WAITED = "no capacity is moved before the new applications run"
STARTED = "Ready is False until a RayCluster is active"

SCENARIOS_DIFFERENT: dict[str, str] = {
    "raycronjob/bad-schedule-edit": TOLD,
    "raycronjob/deleted": TOLD,
    "raycronjob/resume-catches-up": f"of several missed starts the newest one is made, and an event tells of the others; {TOLD}",
    "raycronjob/schedule-edited": TOLD,
    "raycronjob/sub-minute-ticks": f"starts within one minute have names of their own, and all are made; {TOLD}",
    "raycronjob/two-ticks": f"the submitter is there before the namespace is quiet; {TOLD}",
    "raycronjob/two-ticks-finished": f"the first cluster is gone before the second tick; {TOLD}",
    "rayjob/active-deadline": STOPPED,
    "rayjob/active-deadline-shutdown": SILENCED,
    "rayjob/submitter-never-ends": SILENCED,
    "rayjob/cluster-deleted-running": "the attempt fails; no empty cluster of the same name is made",
    "rayjob/dashboard-500-json": "an answer with an error code is a failed check, not a job without status",
    "rayjob/dashboard-refuses-long": SILENCED,
    "rayjob/delete-running-dashboard-away": "an event tells that the Ray job could not be stopped",
    "rayjob/head-failed-k8s": f"while the head is away and the job may be lost, {SILENCED}",
    "rayjob/head-lost-k8s": f"a job that Ray has lost fails the attempt; {SILENCED}",
    "rayjob/http-head-lost": "a job that Ray has lost fails the attempt; it is not submitted a second time",
    "rayjob/interactive-active-deadline": "the deadline acts while the RayJob is Waiting, too",
    "rayjob/interactive-annotation": "the job id is also taken from the annotation",
    "rayjob/interactive-suspend": "suspend acts while the RayJob is Waiting, too",
    "rayjob/invalid-after-edit": "a job that runs goes on, and ends, when its spec becomes invalid",
    "rayjob/rules-other-status": STOPPED,
    "rayjob/sidecar-submit-fails": "a job that its submitter may have submitted is told to stop",
    "rayjob/submitter-done-job-running": STOPPED,
    "rayjob/submitter-failed-job-running": STOPPED,
    "rayservice/delete-pending": KEPT,
    "rayservice/incremental-100": f"{KEPT}; {WAITED}; {STARTED}",
    "rayservice/incremental-25-50": f"{KEPT}; {WAITED}; {STARTED}",
    "rayservice/incremental-40-60": f"{KEPT}; {WAITED}; {STARTED}",
    "rayservice/incremental-gateway-not-ready": STARTED,
    "rayservice/incremental-pending-fails": f"{KEPT}; {WAITED}; {STARTED}",
    "rayservice/incremental-rollback": f"{KEPT}; {WAITED}; {STARTED}",
    "rayservice/initializing-timeout": "a corrected spec is another try",
    "rayservice/invalid-after-edit": "serviceStatus is empty while the service is not Ready",
    "rayservice/replicas-only": "replicas reach the RayCluster that runs",
    "rayservice/strategy-none": "an event tells that the new image is not rolled out",
    "rayservice/suspend-while-pending": KEPT,
    "rayservice/upgrade": KEPT,
    "rayservice/upgrade-changed-while-pending": KEPT,
    "rayservice/upgrade-config-while-pending": KEPT,
    "rayservice/upgrade-pending-fails": KEPT,
    "rayservice/upgrade-reverted": f"{KEPT}; it goes back to the RayCluster that serves",
    "rayservice/upgrade-with-config": KEPT,
}
"""Case to the reason."""


def hooks() -> PluginManager:
    """What the operator runs with."""
    return PluginManager(load_plugins(PLUGINS))


def load(case: str) -> Scenario:
    """The scenario with what is expected of us."""
    folder = SCENARIOS / case
    return load_scenario(folder, ours=folder / "ours.yaml" if case in SCENARIOS_DIFFERENT else None)
