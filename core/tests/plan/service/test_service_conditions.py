"""When Ready and UpgradeInProgress change, and when a status is worth a write (spec rayservice.md 5.1, 5.4, rows 50-60, 115)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from kuberay.api.conditions import find_condition
from kuberay.api.kinds import RAYSERVICE
from kuberay.api.objects import RayObject, from_dict
from kuberay.api.service import RayServiceSpec
from kuberay.plan.observed import Observed
from kuberay.plan.service import conditions
from kuberay.plan.service.draft import Draft
from kuberay.plan.service.persistence import NO_CLUSTER, status_to_write
from kuberay_testkit.builders import build_cluster_spec

NOW = datetime(2024, 1, 1, 12, tzinfo=UTC)
BEFORE = "2024-01-01T00:00:00Z"
INITIAL = "RayService is initializing"


def condition(type_: str, status: str, reason: str, message: str = "m") -> dict[str, Any]:
    return {"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": BEFORE}


def after(endpoints: int, *stored: dict[str, Any], active: str = "", pending: str = "") -> Draft:
    """The draft once conditions are up to date."""
    status: dict[str, Any] = {"conditions": list(stored), "observedGeneration": 3}
    for key, name in (("activeServiceStatus", active), ("pendingServiceStatus", pending)):
        status[key] = {"rayClusterName": name} if name else {}
    spec = {"rayClusterConfig": build_cluster_spec(1)}
    obj = from_dict(RAYSERVICE, {"metadata": {"name": "s", "generation": 3}, "spec": spec, "status": status})
    assert isinstance(obj, RayObject)
    draft = Draft.start(Observed(obj=obj, now=NOW), RayServiceSpec.parse(spec))
    conditions.update(draft, endpoints)
    return draft


def told(draft: Draft, type_: str) -> str:
    found = find_condition(draft.status["conditions"], type_) or {}
    return f"{found['status']}/{found['reason']}"


@pytest.mark.parametrize(
    ("stored", "endpoints", "active", "expected"),
    [
        pytest.param("False/X", 0, "a", "False/X", id="50"),
        pytest.param("True/X", 1, "a", "True/NonZeroServeEndpoints", id="51"),
        pytest.param("False/X", 1, "a", "True/NonZeroServeEndpoints", id="52"),
        pytest.param("True/NonZeroServeEndpoints", 0, "a", "False/ZeroServeEndpoints", id="53"),
        pytest.param("False/Initializing", 5, "a", "True/NonZeroServeEndpoints", id="59"),
        pytest.param("False/Initializing", 0, "", "False/Initializing", id="60"),
        pytest.param("False/InitializingTimeout", 0, "", "False/InitializingTimeout", id="5.1 d"),
        pytest.param("", 0, "", "False/Initializing", id="5.1 a"),
        pytest.param("", 2, "a", "True/NonZeroServeEndpoints", id="5.1 b"),
        # A corrected spec is no longer refused, whatever the endpoints say.
        pytest.param("False/ValidationFailed", 0, "", "False/Initializing", id="corrected before it served"),
        # With a service for each RayCluster there are endpoints before any application runs.
        pytest.param("False/Initializing", 2, "", "False/Initializing", id="endpoints before it serves"),
        pytest.param("", 2, "", "False/Initializing", id="endpoints at the first sight"),
        pytest.param("True/NonZeroServeEndpoints", 2, "", "False/Initializing", id="as KubeRay left it"),
        pytest.param("False/ValidationFailed", 2, "", "False/Initializing", id="corrected, with endpoints"),
        pytest.param("False/InitializingTimeout", 2, "", "False/InitializingTimeout", id="over, with endpoints"),
        pytest.param("False/ValidationFailed", 0, "a", "False/ZeroServeEndpoints", id="corrected while it serves"),
        pytest.param("False/ValidationFailed", 1, "a", "True/NonZeroServeEndpoints", id="corrected and served"),
    ],
)
def test_ready_follows_the_endpoints(stored: str, endpoints: int, active: str, expected: str) -> None:
    """Rows 50-53, 59, 60."""
    given = [condition("Ready", *stored.split("/"))] if stored else []
    assert told(after(endpoints, *given, active=active), "Ready") == expected


@pytest.mark.parametrize(
    ("stored", "active", "pending", "expected"),
    [
        pytest.param("False/NoPendingCluster", "a", "p", "True/BothActivePendingClustersExist", id="54"),
        pytest.param("True/BothActivePendingClustersExist", "a", "", "False/NoPendingCluster", id="55"),
        pytest.param("True/BothActivePendingClustersExist", "", "", "Unknown/NoActiveCluster", id="56"),
        pytest.param("False/Initializing", "", "p", "False/Initializing", id="57"),
        pytest.param("False/InitializingTimeout", "", "", "False/InitializingTimeout", id="58"),
        pytest.param("", "", "", "False/Initializing", id="5.1 a"),
        pytest.param("", "a", "", "False/NoPendingCluster", id="5.1 f"),
    ],
)
def test_upgrade_in_progress_follows_the_names(stored: str, active: str, pending: str, expected: str) -> None:
    """Rows 54-58."""
    given = [condition("UpgradeInProgress", *stored.split("/"))] if stored else []
    assert told(after(0, *given, active=active, pending=pending), "UpgradeInProgress") == expected


def test_messages_and_generations() -> None:
    """5.1: the messages word for word, with the generation that the status is about."""
    first = after(0).status["conditions"]
    assert {(c["type"], c["message"], c["observedGeneration"]) for c in first} == {
        ("Ready", INITIAL, 3),
        ("UpgradeInProgress", INITIAL, 3),
    }
    texts = {
        told(draft, type_): (find_condition(draft.status["conditions"], type_) or {})["message"]
        for draft in (
            after(1, active="a", pending="p"),
            after(0, condition("Ready", "True", "NonZeroServeEndpoints"), active="a"),
        )
        for type_ in ("Ready", "UpgradeInProgress")
    }
    assert texts == {
        "True/NonZeroServeEndpoints": "Number of serve endpoints is greater than 0",
        "False/ZeroServeEndpoints": "Number of serve endpoints dropped to 0",
        "True/BothActivePendingClustersExist": "Both active and pending Ray clusters exist",
        "False/NoPendingCluster": "Active Ray cluster exists and no pending Ray cluster",
    }


def test_the_time_of_a_condition_is_that_of_its_last_change() -> None:
    same = after(1, condition("Ready", "True", "NonZeroServeEndpoints"), active="a")
    changed = after(0, condition("Ready", "True", "NonZeroServeEndpoints"), active="a")
    times = [(find_condition(d.status["conditions"], "Ready") or {})["lastTransitionTime"] for d in (same, changed)]
    assert times == [BEFORE, "2024-01-01T12:00:00Z"]


SIDE = {
    "rayClusterName": "a",
    "rayClusterStatus": {"state": "ready", "head": {}},
    "applicationStatuses": {"app": {"status": "RUNNING", "serveDeploymentStatuses": {"D": {"status": "HEALTHY"}}}},
    "targetCapacity": 100,
    "trafficRoutedPercent": 100,
    "lastTrafficMigratedTime": BEFORE,
}
STORED = {
    "activeServiceStatus": SIDE,
    "pendingServiceStatus": {"rayClusterStatus": NO_CLUSTER},
    "serviceStatus": "Running",
    "numServeEndpoints": 2,
    "observedGeneration": 3,
    "lastUpdateTime": BEFORE,
    "conditions": [condition("Ready", "True", "NonZeroServeEndpoints")],
}


@pytest.mark.parametrize(
    ("change", "written"),
    [
        pytest.param({}, False, id="identical"),
        pytest.param({"serviceStatus": ""}, True, id="serviceStatus"),
        pytest.param({"numServeEndpoints": 3}, True, id="endpoints"),
        pytest.param({"observedGeneration": 4}, True, id="generation"),
        pytest.param({"lastUpdateTime": "2024-01-01T05:00:00Z"}, False, id="its own time"),
        pytest.param({"conditions": [condition("Ready", "True", "NonZeroServeEndpoints", "x")]}, True, id="condition"),
        pytest.param({"activeServiceStatus": {**SIDE, "rayClusterName": "b"}}, True, id="name"),
        pytest.param({"activeServiceStatus": {**SIDE, "rayClusterStatus": {"state": "x"}}}, False, id="mirror"),
        pytest.param({"activeServiceStatus": {**SIDE, "applicationStatuses": {}}}, True, id="applications"),
        pytest.param(
            {"activeServiceStatus": {**SIDE, "applicationStatuses": {"app": {"status": "RUNNING", "message": "m"}}}},
            True,
            id="message",
        ),
        pytest.param({"activeServiceStatus": {**SIDE, "targetCapacity": 50}}, True, id="capacity"),
        pytest.param({"activeServiceStatus": {**SIDE, "trafficRoutedPercent": 50}}, True, id="traffic"),
        pytest.param(
            {"activeServiceStatus": {**SIDE, "lastTrafficMigratedTime": "2024-01-01T01:00:00Z"}}, True, id="moved"
        ),
        pytest.param({"pendingServiceStatus": {}}, False, id="nothing in two ways"),
        pytest.param({"pendingServiceStatus": {"targetCapacity": 0}}, True, id="0 is not nothing"),
    ],
)
def test_what_is_worth_a_write(change: dict[str, Any], written: bool) -> None:
    """Row 115 and 5.4: compared by value, so that nothing is written every two seconds."""
    found = status_to_write(STORED, {**STORED, **change}, NOW)
    assert (found is not None) is written
    if found is not None:
        assert found["lastUpdateTime"] == "2024-01-01T12:00:00Z"


def test_no_empty_map_is_written() -> None:
    """One that is applied in place of a map with content becomes null, and the API server refuses the whole status."""
    side = {"rayClusterName": "a", "rayClusterStatus": {"state": "ready", "head": {}, "endpoints": {"client": "1"}}}
    side |= {"applicationStatuses": {"app": {"status": "RUNNING", "serveDeploymentStatuses": {"D": {}}}}}
    written = status_to_write({}, {"activeServiceStatus": side, "pendingServiceStatus": {}}, NOW)
    assert written is not None
    assert written["activeServiceStatus"] == {
        "rayClusterName": "a",
        "rayClusterStatus": {"state": "ready", "endpoints": {"client": "1"}},
        "applicationStatuses": {"app": {"status": "RUNNING"}},
    }
    assert written["pendingServiceStatus"] == {"rayClusterStatus": NO_CLUSTER}
    assert {} not in NO_CLUSTER.values()


def test_both_sides_are_always_there_and_zeros_are_kept() -> None:
    """1.3: an empty side has a RayCluster status of zeros; a share of 0 percent is written, 0 endpoints are not."""
    wanted = {"pendingServiceStatus": {"rayClusterName": "p", "targetCapacity": 0}, "numServeEndpoints": 0}
    assert status_to_write({}, wanted, NOW) == {
        "activeServiceStatus": {"rayClusterStatus": NO_CLUSTER},
        "pendingServiceStatus": {"rayClusterName": "p", "targetCapacity": 0, "rayClusterStatus": NO_CLUSTER},
        "lastUpdateTime": "2024-01-01T12:00:00Z",
    }
