"""Group arithmetic, look-ups and the spec hash (spec plugins.md 2, raycluster.md 4.9)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from kuberay.api.cluster import RayClusterSpec
from kuberay.api.kinds import RAYCLUSTER, RAYJOB, SERVICE_ACCOUNT
from kuberay.api.objects import RayObject, from_dict
from kuberay.plan.build.context import group_sizes, owner_context, owner_reference, pod_requests
from kuberay.plan.build.spec_hash import spec_hash
from kuberay.plan.config import PlanConfig
from kuberay.plan.model import ObjectProbe, Probe, ProbeResult
from kuberay.plan.observed import Observed

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def template(*resources: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": f"c{n}", "resources": r} for n, r in enumerate(resources)]}}


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ([], {}),
        ([{"limits": {"cpu": 1, "memory": "1Gi"}}], {"cpu": "1", "memory": "1Gi"}),
        ([{"limits": {"cpu": "2"}, "requests": {"cpu": "500m", "memory": "1024Mi"}}], {"cpu": "500m", "memory": "1Gi"}),
        ([{"requests": {"cpu": "1500m"}}, {"limits": {"cpu": "500m"}}, None], {"cpu": "2"}),
        ([{"requests": {"cpu": "many"}}], {}),
    ],
)
def test_pod_requests(resources: list[Any], expected: dict[str, str]) -> None:
    given = template(*resources)
    before = copy.deepcopy(given)
    assert pod_requests(given) == expected
    assert given == before


@pytest.mark.parametrize(
    ("group", "desired", "minimum", "raw"),
    [
        ({"replicas": 3}, 3, 0, 3),
        ({}, 0, 0, 0),
        ({"minReplicas": 1}, 1, 1, 0),
        ({"replicas": 0, "minReplicas": 2}, 2, 2, 0),
        ({"replicas": 4, "maxReplicas": 3}, 3, 0, 4),
        ({"replicas": 4, "maxReplicas": 3, "minReplicas": 1, "numOfHosts": 4}, 12, 4, 16),
        ({"replicas": 4, "minReplicas": 1, "suspend": True}, 0, 0, 0),
    ],
)
def test_group_sizes(group: dict[str, Any], desired: int, minimum: int, raw: int) -> None:
    spec = RayClusterSpec.parse({"headGroupSpec": {}, "workerGroupSpecs": [{"groupName": "g", **group}]})
    head, worker = group_sizes(spec)
    assert (head.name, head.desired, head.minimum, head.raw_desired) == ("headgroup", 1, 1, 1)
    assert (worker.name, worker.desired, worker.minimum, worker.raw_desired) == ("g", desired, minimum, raw)


def test_submitter_is_the_last_group() -> None:
    (submitter,) = group_sizes(None, {"cpu": "500m"})
    assert (submitter.name, submitter.desired, submitter.requests) == ("submittergroup", 1, {"cpu": "500m"})


def test_owner_reference() -> None:
    obj = from_dict(RAYJOB, {"metadata": {"name": "j", "uid": "u"}})
    assert owner_reference(RAYJOB, obj)["kind"] == "RayJob"


def observed(obj: Any, probes: dict[Probe, ProbeResult]) -> Observed:
    return Observed(obj=obj, now=NOW, probes=probes)


@pytest.mark.parametrize(("outcome", "expected"), [("found", True), ("absent", False), ("error", None), (None, None)])
def test_lookup(outcome: Any, expected: bool | None) -> None:
    obj = from_dict(RAYCLUSTER, {"metadata": {"name": "c", "uid": "u"}, "spec": {"headGroupSpec": {}}})
    probe = ObjectProbe(SERVICE_ACCOUNT, "ns", "sa")
    results = {} if outcome is None else {probe: ProbeResult(outcome, NOW)}
    wanted: list[Probe] = []
    context = owner_context(observed(obj, results), kind=RAYCLUSTER, cluster_spec=None, lookups=wanted)  # type: ignore[arg-type]
    assert context.lookup(SERVICE_ACCOUNT, "ns", "sa") is expected
    assert context.lookup(SERVICE_ACCOUNT, "ns", "sa") is expected
    assert wanted == [probe]


def test_cluster_spec_of_a_job() -> None:
    obj = from_dict(RAYJOB, {"metadata": {"name": "j"}, "spec": {"rayClusterSpec": {"headGroupSpec": {}}}})
    assert isinstance(obj, RayObject)
    context = owner_context(observed(obj, {}), kind=RAYJOB, cluster_spec=None, lookups=[])
    assert context.cluster_spec == {"headGroupSpec": {}}


SPEC: dict[str, Any] = {
    "headGroupSpec": {"template": {"spec": {"containers": [{"name": "h", "image": "a"}]}}},
    "workerGroupSpecs": [{"groupName": "g", "replicas": 1, "template": {"spec": {"containers": [{"name": "w"}]}}}],
}


def _head(spec: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = spec["headGroupSpec"]
    return found


def _group(spec: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = spec["workerGroupSpecs"][0]
    return found


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.update(upgradeStrategy={"type": "Recreate"}),
        lambda s: _group(s).update(replicas=4, minReplicas=1, maxReplicas=9),
        lambda s: _group(s).update(scaleStrategy={"workersToDelete": ["x"]}),
        lambda s: _group(s).update(scaleStrategy={}),
        lambda s: _head(s)["template"]["spec"].update(tolerations=[{"key": "x"}], schedulingGates=[{"name": "y"}]),
        lambda s: _group(s)["template"]["spec"].update(tolerations=[{"key": "x"}]),
        lambda s: _head(s).update(rayStartParams={}),
        lambda s: _group(s).update(rayStartParams=None),
        lambda s: s.update(suspend=False),
        lambda s: _group(s).update(suspend=False),
    ],
)
def test_hash_does_not_change(change: Callable[[dict[str, Any]], Any]) -> None:
    """RC-17."""
    changed = copy.deepcopy(SPEC)
    change(changed)
    before = copy.deepcopy(changed)
    assert spec_hash(changed) == spec_hash(SPEC)
    assert changed == before


@pytest.mark.parametrize(
    "change",
    [
        lambda s: _head(s)["template"]["spec"]["containers"][0].update(image="b"),
        lambda s: _group(s).update(suspend=True),
        lambda s: s.update(autoscalerOptions={}),
        lambda s: s.update(workerGroupSpecs=[]),
        lambda s: _head(s).update(rayStartParams={"a": "b"}),
    ],
)
def test_hash_changes(change: Callable[[dict[str, Any]], Any]) -> None:
    changed = copy.deepcopy(SPEC)
    change(changed)
    assert spec_hash(changed) != spec_hash(SPEC)


def test_hash_is_that_of_earlier_versions() -> None:
    """A changed value would restart every cluster with the Recreate strategy at the second spec edit after an upgrade."""
    assert spec_hash(SPEC) == "EG8TCD456KB4ABLOPVL48A783UMN75TO"
    assert spec_hash(dict(reversed(SPEC.items()))) == "EG8TCD456KB4ABLOPVL48A783UMN75TO"


def test_sidecars_of_the_configuration_are_told_apart_from_what_the_user_asks_for() -> None:
    def container(cpu: str) -> dict[str, Any]:
        return {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}

    template = {"spec": {"containers": [container("1")]}}
    spec = RayClusterSpec.parse(
        {"headGroupSpec": {"template": template}, "workerGroupSpecs": [{"groupName": "w", "template": template}]}
    )
    seen = observed(from_dict(RAYCLUSTER, {"metadata": {"name": "a", "uid": "u"}, "spec": {}}), {})
    config = PlanConfig(head_sidecars=[container("100m"), container("50m")], worker_sidecars=[container("20m")])
    told = owner_context(
        replace(seen, config=config), kind=RAYCLUSTER, cluster_spec=spec, lookups=[], submitter_requests={"cpu": "2"}
    )
    assert [(each.name, each.requests, each.sidecars) for each in told.groups] == [
        ("headgroup", {"cpu": "1"}, {"cpu": "150m"}),
        ("w", {"cpu": "1"}, {"cpu": "20m"}),
        ("submittergroup", {"cpu": "2"}, {}),
    ]
    plain = owner_context(seen, kind=RAYCLUSTER, cluster_spec=spec, lookups=[])
    assert [each.sidecars for each in plain.groups] == [{}, {}]
