"""Recorded cases with TLS on the simulated cluster, cert-manager played by a stand-in: children as KubeRay made them (P51, P55)."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from kuberay.api.gates import DEFAULT_GATES
from kuberay.api.kinds import POD, RAYCLUSTER, ROLE, ROLE_BINDING, SECRET, SERVICE, SERVICE_ACCOUNT, Kind
from kuberay.plugins.loader import load
from kuberay.plugins.manager import PluginManager
from kuberay_mtls.cert_manager import CERTIFICATE, ISSUER
from kuberay_mtls.pod_changes import WAIT
from kuberay_testkit.golden import GoldenCase, Outcome, differences, load_case, normalise
from kuberay_testkit.sim.clock import run_sim
from kuberay_testkit.sim.operator import RayWorld, SimOperator

DATA = Path(__file__).parent / "data"
GATES = {**DEFAULT_GATES, "RayClusterMTLS": True}
KINDS = (CERTIFICATE, ISSUER, POD, SERVICE, SERVICE_ACCOUNT, ROLE, ROLE_BINDING, SECRET)
MASK = "<script: loop until the certificate names this pod IP>"
OURS = "ray.io/tls-ready-for"
"""An annotation of pods that KubeRay has not: it makes the kubelet look at the renewed Secret at once."""


@pytest.mark.parametrize("name", ["tls-cluster", "tls-disabled", "tls-token"])
def test_children_and_status_are_kuberays(name: str) -> None:
    case = load_case(DATA / name)
    found = played(case)
    marked = [pod for pod in found.children if pod["kind"] == "Pod" and OURS in pod["metadata"]["annotations"]]
    assert len(marked) == (0 if name == "tls-disabled" else 2)
    for pod in marked:
        del pod["metadata"]["annotations"][OURS]
    diff = differences(case, normalise(found), events=False)
    assert not diff, f"\n{diff}"


def played(case: GoldenCase) -> Outcome:
    async def run() -> Outcome:
        async with RayWorld(seed=0) as world:
            for kind in (ISSUER, CERTIFICATE):
                world.server.register(kind)
            SimOperator(world=world, hooks=PluginManager(load(["autoscaler-v2", "mtls"])), gates=GATES).start()
            for step in case.steps:
                for document in step:
                    document["metadata"]["namespace"] = case.namespace
                    world.server.create(document)
                for _ in range(20):
                    await world.pass_time(2)
                    sign(world, case.namespace)
            return outcome(world, case)

    return run_sim(run)


def sign(world: RayWorld, namespace: str) -> None:
    """cert-manager: signs whatever is asked for."""
    for certificate in world.server.objects(CERTIFICATE, namespace):
        generation = certificate["metadata"]["generation"]
        status = {"conditions": [{"type": "Ready", "status": "True", "observedGeneration": generation}]}
        if certificate.get("status") != status:
            world.server.set_status(CERTIFICATE, namespace, certificate["metadata"]["name"], status)


def outcome(world: RayWorld, case: GoldenCase) -> Outcome:
    def all_of(kind: Kind) -> list[dict[str, Any]]:
        found = world.server.objects(kind, case.namespace)
        return [{"apiVersion": kind.api_version, "kind": kind.kind, **obj} for obj in found]

    (main,) = all_of(RAYCLUSTER)
    children = [obj for kind in KINDS for obj in all_of(kind)]
    addresses = {pod["status"]["podIP"] for pod in all_of(POD)}
    for child in children:
        if child["kind"] == "Pod":
            child["metadata"].setdefault("annotations", {})
            for init in child["spec"].get("initContainers") or ():
                # What it does is what tests of the script are about.
                init["args"] = [MASK] if init["name"] == WAIT else init["args"]
        if child["kind"] == "Certificate":
            spec = child["spec"]
            listed = spec.get("ipAddresses") or ()
            spec.update({"ipAddresses": ["<ip>" if ip in addresses else ip for ip in listed]} if listed else {})
    return Outcome(main=main, children=children)


def test_p54_without_cert_manager_pods_wait_and_the_object_says_for_what() -> None:
    """P54: KubeRay refuses such objects until the operator is restarted; here all goes on once cert-manager is there."""

    async def run() -> None:
        async with RayWorld(seed=0) as world:
            case = load_case(DATA / "tls-token")
            ((document,),) = case.steps
            document["metadata"]["namespace"] = case.namespace
            SimOperator(world=world, hooks=PluginManager(load(["autoscaler-v2", "mtls"])), gates=GATES).start()
            world.server.create(document)
            await world.pass_time(30)
            assert world.server.objects(POD, case.namespace) == []
            (cluster,) = world.server.objects(RAYCLUSTER, case.namespace)
            (waiting,) = [c for c in cluster["status"]["conditions"] if c["type"] == "PodsWaiting"]
            assert re.search(r"\.cert-manager\.io is not served by this cluster: install its CRD", waiting["message"])
            for kind in (ISSUER, CERTIFICATE):
                world.server.register(kind)
            for _ in range(60):
                await asyncio.sleep(2)
                sign(world, case.namespace)
            assert len(world.server.objects(POD, case.namespace)) == 2

    run_sim(run)
