"""``kuberay diff`` for RayServices: what is done in place, what counts later, what does nothing, and what is refused."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from kuberay_testkit.builders import build_rayservice

from core.tests.cli.service_edits import (
    FROM_FILE,
    GROUPS,
    IMAGE,
    OLD,
    OTHER_CONFIG,
    Manifest,
    annotated,
    answer,
    append,
    edited,
    effects,
    field,
    image,
    sentences,
    service,
    tolerate,
)


def test_no_change(diff_service: Any) -> None:
    told = diff_service(OLD, edited(suspend=False, old=service()))
    assert (told["code"], told["atOnce"], told["then"]) == (0, [], [])
    assert diff_service(OLD, OLD)["text"] == "RayService default/s: no change\n"


@pytest.mark.parametrize(
    ("new", "at_once", "words"),
    [
        pytest.param(
            edited(serveConfigV2=OTHER_CONFIG),
            "Serve of RayCluster A is given its configuration",
            "spec.serveConfigV2: applications[app].import_path: app:v1 -> app:v2",
            id="RS-12, what Serve has",
        ),
        pytest.param(
            edited(field("maxReplicas", 30)),
            "RayCluster A: spec.workerGroupSpecs[g].maxReplicas 10 -> 30",
            "no pod more or less",
            id="RS-07, bounds",
        ),
        pytest.param(
            edited(field("replicas", 3)),
            "RayCluster A: spec.workerGroupSpecs[g].replicas 1 -> 3",
            "1 pod become 3",
            id="RS-07, replicas",
        ),
        pytest.param(
            edited(append),
            "RayCluster A: spec.workerGroupSpecs[more] (none) ->",
            "the group is new",
            id="RS-08, a group at the end",
        ),
        pytest.param(
            edited(serveService={"metadata": {"annotations": {"a": "b"}}}),
            "Service s-serve-svc: metadata.annotations.a (none) -> b",
            "Service s-serve-svc",
            id="RS-18, the serve service",
        ),
        pytest.param(
            edited(serveService={"metadata": {"name": "mine"}}),
            "Service mine is made",
            "Service mine is made",
            id="GW-05, its name",
        ),
        pytest.param(
            edited(excludeHeadPodFromServeSvc=True),
            "Pod A-head gets no requests any more",
            "gets no requests any more",
            id="the head takes no requests",
        ),
        pytest.param(
            edited(upgradeStrategy={"type": "Rolling"}),
            'RayCluster A: spec.upgradeStrategy (none) -> {"type":"Rolling"}',
            "spec.upgradeStrategy",
            id="the strategy itself",
        ),
    ],
)
def test_what_is_done_in_place(diff_service: Any, new: Manifest, at_once: str, words: str) -> None:
    told = diff_service(OLD, new)
    assert set(effects(told).values()) == {"in-place"}
    assert [what for what in told["atOnce"] if what.startswith(at_once)], told["atOnce"]
    assert (told["newClusters"], told["restartedGroups"], told["code"]) == ([], [], 0)
    assert words in told["text"]
    assert told["text"].startswith("RayService default/s: changes in place; no pod is replaced\n")
    assert told["notes"] == [FROM_FILE]


@pytest.mark.parametrize(
    ("new", "words"),
    [
        (
            edited(serviceUnhealthySecondThreshold=5),
            "nothing: the field is accepted and means nothing, as in KubeRay",
        ),
        (
            edited(image, upgradeStrategy={"type": "None"}),
            "nothing: upgradeStrategy.type None rolls nothing out; the RayCluster that serves stays as it was made",
        ),
    ],
)
def test_what_does_nothing(diff_service: Any, new: Manifest, words: str) -> None:
    old = copy.deepcopy(OLD)
    if "upgradeStrategy" in new["spec"]:
        old["spec"]["upgradeStrategy"] = new["spec"]["upgradeStrategy"]
    told = diff_service(old, new)
    (change,) = told["changes"]
    assert (change["effect"], told["atOnce"]) == ("nothing", [])
    assert change["sentence"].startswith(words)
    assert told["text"].startswith("RayService default/s: changes nothing\n")


def test_the_autoscaler_decides_about_replicas(diff_service: Any) -> None:
    """RS-07: bounds reach the RayCluster all the same."""
    old = service(cluster={"enableInTreeAutoscaling": True})
    told = diff_service(old, edited(field("replicas", 3), field("maxReplicas", 30), old=old))
    assert sentences(told)[f"{GROUPS}[g].replicas"] == "nothing: the autoscaler decides about it"
    assert effects(told) == {f"{GROUPS}[g].replicas": "nothing", f"{GROUPS}[g].maxReplicas": "in-place"}


@pytest.mark.parametrize(
    ("new", "words"),
    [
        (edited(rayClusterDeletionDelaySeconds=5), "counts when a RayCluster is no longer used"),
        (edited(tolerate), "counts for RayClusters that are made from now on"),
        (annotated("upgrade-paused", "true"), "counts for upgrades: there is none to pause now"),
        (annotated("upgrade-aborted", "true"), "counts for upgrades: there is none to abort now"),
        (
            annotated("delete-when-drained", "true"),
            "counts when a RayCluster is no longer used: whether it may go before",
        ),
        (annotated("initializing-timeout", "5m"), "counts until the service has served for the first time"),
        (annotated("ft-enabled", "true"), "reaches RayClusters that are made or changed from now on"),
    ],
)
def test_what_counts_later(diff_service: Any, new: Manifest, words: str) -> None:
    told = diff_service(OLD, new)
    (change,) = told["changes"]
    assert (change["effect"], told["atOnce"], told["then"]) == ("later", [], [])
    assert change["sentence"].startswith(words)
    assert told["text"].startswith("RayService default/s: touches nothing that runs; counts later\n")


def test_annotations_that_hold_the_upgrade_of_the_same_edit(diff_service: Any) -> None:
    told = diff_service(OLD, annotated("upgrade-aborted", "true", image))
    assert (told["newClusters"], told["atOnce"], told["then"]) == ([], [], [])
    assert set(effects(told).values()) == {"later"}
    assert all("stays while annotation ray.io/upgrade-aborted is set" in text for text in sentences(told).values())
    told = diff_service(OLD, annotated("upgrade-paused", "true", image))
    assert effects(told)[IMAGE] == "new-cluster"
    (pause,) = [text for name, text in sentences(told).items() if "paused" in name]
    assert pause.startswith("keeps this from happening: RayCluster B becomes the active one")


def test_what_serve_would_refuse_is_not_sent(diff_service: Any) -> None:
    """RS-14: whoever serves goes on with what it has; a service that never served is refused."""
    told = diff_service(OLD, edited(serveConfigV2="applications: 5"))
    assert (told["code"], effects(told), told["atOnce"]) == (0, {"serveConfigV2": "later"}, [])
    assert "applications must be a list, not 5. It is not sent to Serve" in sentences(told)["serveConfigV2"]
    told = diff_service(OLD, edited(image, serveConfigV2="applications: 5"))
    assert told["newClusters"] == [], "none is made that nothing could be deployed on"
    assert all(text.startswith("not now: spec.serveConfigV2") for text in sentences(told).values())
    wrong = service(serveConfigV2="applications: 5")
    told = diff_service(wrong, edited(old=wrong, serveConfigV2="applications: 6"))
    assert (told["code"], told["refused"]) == (1, True)


@pytest.mark.parametrize(
    ("new", "path"),
    [
        (edited(upgradeStrategy={"type": "Bogus"}), "spec.upgradeStrategy.type"),
        (edited(rayClusterDeletionDelaySeconds=-1), "spec.rayClusterDeletionDelaySeconds"),
        (annotated("initializing-timeout", "soon"), "metadata.annotations[ray.io/initializing-timeout]"),
        (edited(upgradeStrategy={"type": "Rolling", "maxSurge": "x"}), "spec.upgradeStrategy.maxSurge"),
    ],
)
def test_refused(diff_service: Any, new: Manifest, path: str) -> None:
    told = diff_service(OLD, new)
    assert (told["code"], told["refused"], told["atOnce"]) == (1, True, [])
    assert path in [problem["field"] for problem in told["problems"]]
    assert set(effects(told).values()) == {"refused"}
    assert told["text"].startswith("RayService default/s: the edit would be refused; what runs is not touched\n")


def test_suspend_and_resume(diff_service: Any) -> None:
    """RS-17."""
    told = diff_service(OLD, edited(suspend=True))
    assert effects(told) == {"suspend": "suspends"}
    assert "RayCluster A is deleted" in told["atOnce"]
    assert told["text"].startswith("RayService default/s: is suspended: all that it owns is deleted\n")
    asleep = edited(suspend=True)
    told = diff_service(asleep, edited(image, old=asleep))
    assert sentences(told) == {IMAGE: "counts when the RayService is resumed"}
    told = diff_service(asleep, OLD)
    assert told["atOnce"] == ["the RayService is resumed", "RayCluster B is made"]
    assert sentences(told)["suspend"].startswith("another RayCluster is made, B: nothing serves yet")


def test_suspending_only_its_cluster(diff_service: Any) -> None:
    """RS-01."""
    told = diff_service(OLD, edited(lambda config: config.__setitem__("suspend", True)))
    assert effects(told) == {"rayClusterConfig.suspend": "suspends"}
    assert sentences(told)["rayClusterConfig.suspend"] == "in RayCluster A: all pods are deleted; services stay"
    assert told["newClusters"] == []
    assert told["text"].startswith("RayService default/s: its RayCluster is suspended: nothing serves meanwhile\n")


def test_one_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "new").write_text(yaml.safe_dump(OLD))
    (tmp_path / "old").write_text(yaml.safe_dump(build_rayservice("another")))
    told = answer(["diff", "-f", str(tmp_path / "new"), "--against", str(tmp_path / "old")])
    assert (told["exists"], told["code"]) == (False, 0)
    assert "is not there yet; it would be made ('kuberay render' shows of what)" in told["text"]


def test_managed_elsewhere(diff_service: Any) -> None:
    old = service(managedBy="kueue.x-k8s.io/multikueue")
    told = diff_service(old, edited(image, old=old))
    assert sentences(told) == {IMAGE: "left to who manages it"}
    assert told["atOnce"] == []
