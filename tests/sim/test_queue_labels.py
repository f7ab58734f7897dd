"""Queues and gangs that are asked for in vain: told once on the object that a user wrote, whatever happens to the operator."""

from __future__ import annotations

import pytest
from kuberay.api.kinds import EVENT, RAYCLUSTER, RAYJOB, RAYSERVICE, Kind
from kuberay.hooks.types import Manifest
from kuberay_testkit.builders import build_group, build_raycluster, build_rayjob, build_rayservice
from kuberay_testkit.lab import NAMESPACE, Lab, Setup, play

QUEUE = "kai.scheduler/queue"
GANG = {"ray.io/gang-scheduling-enabled": "true"}


def warnings(lab: Lab) -> list[tuple[str, str, int]]:
    """Kind and name of what events warn about, and how often."""
    return [
        (event["regarding"]["kind"], event["regarding"]["name"], (event.get("series") or {}).get("count", 1))
        for event in lab.all(EVENT)
        if event["type"] == "Warning" and event["reason"] == "PluginWarning"
    ]


@pytest.mark.parametrize(
    ("manifest", "kind"),
    [
        (build_raycluster("x", groups=3, annotations={QUEUE: "q1"}), RAYCLUSTER),
        (build_rayjob("x", groups=3, annotations={QUEUE: "q1"}), RAYJOB),
        (build_rayservice("x", groups=3, annotations={QUEUE: "q1"}), RAYSERVICE),
    ],
    ids=["RayCluster", "RayJob", "RayService"],
)
def test_a_missing_queue_is_told_once(manifest: Manifest, kind: Kind) -> None:
    """KA-03: one Warning event on the object, none per pod, pass or process; and it goes with the label."""

    async def story(lab: Lab) -> None:
        lab.create(manifest)
        await lab.until(lambda: len(lab.pods()) >= 4, "the pods")
        assert "PluginWarning" in lab.conditions(kind, "x")
        await lab.restart()
        if kind == RAYCLUSTER:
            await lab.until_ready("x")
            lab.edit_group("x", replicas=5)
            await lab.until(lambda: len(lab.pods("x")) == 6, "more pods")
        await lab.rest()
        assert warnings(lab) == [(kind.kind, "x", 1)], lab.describe()
        if kind != RAYJOB:  # That one is over.
            lab.server.patch(kind, NAMESPACE, "x", {"metadata": {"labels": {QUEUE: "q1"}}})
            await lab.rest()
            assert "PluginWarning" not in lab.conditions(kind, "x")
            assert warnings(lab) == [(kind.kind, "x", 1)]
        await lab.rest(quiet=150)
        assert await lab.idle() == []

    play(story, Setup(plugins=["kai-scheduler"], serve=kind == RAYSERVICE))


def test_a_default_mode_job_runs_under_kai() -> None:
    """KA-01"""

    async def story(lab: Lab) -> None:
        lab.create(build_rayjob("x", groups=2, labels={QUEUE: "q1"}, shutdownAfterJobFinishes=True))
        await lab.until_job("x")
        assert warnings(lab) == []

    play(story, Setup(plugins=["kai-scheduler"]))


def test_a_gang_label_on_a_selector_job_is_told_and_the_job_runs() -> None:
    """YU-05"""

    async def story(lab: Lab) -> None:
        lab.create(build_raycluster("shared", groups=[build_group(minReplicas=1)]))
        await lab.until_ready("shared")
        lab.create(build_rayjob("guest", labels=GANG, clusterSelector={"ray.io/cluster": "shared"}))
        await lab.until_job("guest")
        await lab.rest()
        assert warnings(lab) == [("RayJob", "guest", 1)]

    play(story, Setup(plugins=["yunikorn"]))
