"""Every recorded RayService case on the simulated cluster: children, status and events as KubeRay made them.

As in the recording, pods become ready and nobody ever answers where Ray would.
"""

from __future__ import annotations

from typing import Any

import pytest
from golden_scope import SERVICE_CASES, SERVICES_DIFFERENT, folder, without_ours
from kube_world import CHILD_KINDS
from kuberay.api.kinds import EVENT, RAYSERVICE, Kind
from kuberay.plugins.loader import load
from kuberay.plugins.manager import PluginManager
from kuberay_testkit.golden import GoldenCase, Outcome, differences, load_case, normalise
from kuberay_testkit.sim.clock import run_sim
from kuberay_testkit.sim.operator import RayWorld, SimOperator


@pytest.mark.parametrize("name", SERVICE_CASES)
def test_equals_the_recorded_case(name: str, request: pytest.FixtureRequest) -> None:
    if name in SERVICES_DIFFERENT:
        request.applymarker(pytest.mark.xfail(reason=SERVICES_DIFFERENT[name], strict=True, raises=AssertionError))
    case = load_case(folder(name))
    diff = differences(case, normalise(played(case)))
    assert not diff, f"\n{diff}"


def played(case: GoldenCase) -> Outcome:
    async def run() -> Outcome:
        async with RayWorld(seed=0) as world:
            world.dashboard.strict = True
            SimOperator(world=world, hooks=PluginManager(load(["autoscaler-v2"]))).start()
            for step in case.steps:
                for document in step:
                    document["metadata"]["namespace"] = case.namespace
                    world.server.create(document)
                await world.pass_time(20)
            return outcome(world, case)

    return run_sim(run)


def outcome(world: RayWorld, case: GoldenCase) -> Outcome:
    def all_of(kind: Kind) -> list[dict[str, Any]]:
        found = world.server.objects(kind, case.namespace)
        return [{"apiVersion": kind.api_version, "kind": kind.kind, **obj} for obj in found]

    (main,) = all_of(RAYSERVICE)
    if "status" in main:
        main["status"]["conditions"] = without_ours("RayService", main["status"].get("conditions") or ())

    events = [
        {"about": e["regarding"]["kind"], "type": e["type"], "reason": e["reason"], "message": e["note"]}
        for e in world.server.objects(EVENT, case.namespace)
    ]
    children = [obj for kind in CHILD_KINDS for obj in all_of(kind)]
    for cluster in (obj for obj in children if obj["kind"] == "RayCluster"):
        for group in cluster["spec"].get("workerGroupSpecs") or ():
            group.setdefault("numOfHosts", 1)  # of the schema, which is not there in the simulation
    return Outcome(main=main, children=children, events=events)
