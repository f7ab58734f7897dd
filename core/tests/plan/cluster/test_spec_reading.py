"""Odd combinations of features, from seeds: pods, services and totals are those of a second reading of raycluster.md."""

from __future__ import annotations

from typing import Any

import pytest
from kuberay.api import quantity
from kuberay.api.gates import DEFAULT_GATES
from kuberay.api.kinds import POD, SERVICE
from kuberay.plugins.loader import load
from kuberay.plugins.manager import PluginManager
from kuberay_testkit.golden import GoldenCase, Outcome, differences, normalise
from random_clusters import RandomCluster
from spec_pods import UID, Reading

SEEDS = 120


@pytest.mark.parametrize("seed", range(SEEDS))
def test_children_are_those_of_the_spec(kubernetes: Any, seed: int) -> None:
    case = RandomCluster(seed)
    hooks = PluginManager(load(["autoscaler-v2"]))
    tiny = kubernetes(case.manifest, namespace="ns", gates=DEFAULT_GATES, hooks=hooks, config=case.config)
    tiny.settle()
    assert tiny.condition("RayClusterSpecValid") is None
    assert tiny.status["state"] == "ready"
    reading = Reading(case.manifest, case.config)
    expected = _normalised(UID, reading.children(), case.manifest)
    made = [body for (kind, _), body in tiny.objects.items() if kind in (POD, SERVICE)]
    found = _normalised(tiny.cluster["metadata"]["uid"], made, tiny.cluster)
    recorded = GoldenCase(name=f"seed-{seed}", steps=(), operator="", any_index=False, expected=expected)
    assert differences(recorded, found) == ""
    totals = {name: quantity.to_float(tiny.status[name]) for name in reading.desired()}
    assert totals == pytest.approx(reading.desired())


def _normalised(uid: str, children: list[Any], manifest: dict[str, Any]) -> dict[str, Any]:
    """Only the children count."""
    main = {"kind": "RayCluster", "metadata": {"name": manifest["metadata"]["name"], "uid": uid}}
    return normalise(Outcome(main=main, children=children)) | {"status": {}}
