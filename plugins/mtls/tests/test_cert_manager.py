"""Certificates before pods, pods that use them, and addresses that follow the pods (SE-02)."""

from __future__ import annotations

import asyncio
import os
import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from kuberay.api.gates import DEFAULT_GATES
from kuberay.api.kinds import POD, RAYCLUSTER
from kuberay.api.objects import from_dict
from kuberay.plan.cluster import plan_cluster
from kuberay.plan.config import PlanConfig
from kuberay.plan.model import Apply, Create
from kuberay.plan.observed import FixedView, Observed
from kuberay.plugins.loader import load
from kuberay.plugins.manager import PluginManager
from kuberay_mtls import pod_changes
from kuberay_mtls.cert_manager import CERTIFICATE, ISSUER
from kuberay_testkit.builders import build_raycluster
from kuberay_testkit.sim.clock import run_sim
from kuberay_testkit.sim.operator import RayWorld, SimOperator

NAMESPACE = "lab"
CONFIG = PlanConfig(cluster_domain="abc.test")
GATES = {**DEFAULT_GATES, "RayClusterMTLS": True}


def cluster(**spec: Any) -> dict[str, Any]:
    return build_raycluster("safe", namespace=NAMESPACE, groups=1, tlsOptions={"enabled": True}, **spec)


@pytest.fixture
def hooks() -> PluginManager:
    return PluginManager(load(["mtls"]))


def plan(
    hooks: PluginManager, body: dict[str, Any], *live: tuple[Any, dict[str, Any]], config: PlanConfig = CONFIG
) -> Any:
    body["metadata"] |= {"uid": "0a1b2c3d-0000-4000-8000-000000000001", "generation": 1}
    obj = from_dict(RAYCLUSTER, body)
    observed = Observed(
        obj=obj,  # type: ignore[arg-type]
        now=datetime(2026, 1, 1, tzinfo=UTC),
        view=FixedView(live),
        config=config,
        gates=GATES,
        hooks=hooks,
    )
    return plan_cluster(observed)


def issued(manifest: dict[str, Any], *, generation: int = 1, observed: int = 1, ready: str = "True") -> dict[str, Any]:
    condition = {"type": "Ready", "status": ready, "observedGeneration": observed, "message": "issuer not found"}
    return {
        **manifest,
        "metadata": {**manifest["metadata"], "generation": generation, "uid": manifest["metadata"]["name"]},
        "status": {"conditions": [condition]},
    }


def applied(plan: Any, kind: Any) -> dict[str, dict[str, Any]]:
    return {w.name: w.body for stage in plan.stages for w in stage if isinstance(w, Apply) and w.kind == kind}


def created(plan: Any) -> list[dict[str, Any]]:
    return [w.body for stage in plan.stages for w in stage if isinstance(w, Create)]


def test_certificates_come_first(hooks: PluginManager) -> None:
    first = plan(hooks, cluster())
    assert created(first) == []
    assert first.waiting == "waiting for Certificate lab/ray-head-cert-safe to be created"
    assert sorted(applied(first, ISSUER)) == ["ray-ca-issuer-safe", "ray-selfsigned-issuer-safe"]
    certificates = applied(first, CERTIFICATE)
    assert sorted(certificates) == ["ray-ca-certificate-safe", "ray-head-cert-safe", "ray-worker-cert-safe"]
    head = certificates["ray-head-cert-safe"]
    assert head["spec"]["dnsNames"] == ["localhost", "safe-head-svc.lab.svc.abc.test"]
    assert head["spec"]["ipAddresses"] == ["127.0.0.1"]
    assert head["metadata"]["labels"]["app.kubernetes.io/component"] == "head-certificate"
    assert head["metadata"]["ownerReferences"][0]["controller"] is True
    assert certificates["ray-ca-certificate-safe"]["spec"]["secretName"] == "safe-ca-secret-0a1b2c3d"


@pytest.mark.parametrize(
    ("generation", "observed", "ready", "waits"),
    [(1, 1, "True", False), (2, 1, "True", True), (1, 1, "False", True)],
    ids=["issued", "an older version is issued", "not ready"],
)
def test_pods_wait_for_both_certificates(
    hooks: PluginManager, generation: int, observed: int, ready: str, waits: bool
) -> None:
    certificates = applied(plan(hooks, cluster()), CERTIFICATE)
    head = issued(certificates["ray-head-cert-safe"])
    worker = issued(certificates["ray-worker-cert-safe"], generation=generation, observed=observed, ready=ready)
    second = plan(hooks, cluster(), (CERTIFICATE, head), (CERTIFICATE, worker))
    assert bool(created(second)) is not waits
    if ready == "False":
        assert second.waiting.endswith("Certificate lab/ray-worker-cert-safe: issuer not found")


def test_what_speaks_to_ray_has_the_certificate_and_waits_for_its_address(hooks: PluginManager) -> None:
    certificates = applied(plan(hooks, cluster()), CERTIFICATE)
    live = [(CERTIFICATE, issued(certificates[f"ray-{kind}-cert-safe"])) for kind in ("head", "worker")]
    body = cluster()
    side = {"name": "side", "image": "example.test/side"}
    body["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"].append(side)
    pods = {pod["metadata"]["labels"]["ray.io/node-type"]: pod for pod in created(plan(hooks, body, *live))}
    for node_type, inits in (("head", 1), ("worker", 2)):
        spec = pods[node_type]["spec"]
        assert spec["initContainers"][0]["name"] == "wait-for-tls-ip-san"
        assert len(spec["initContainers"]) == inits
        assert {"name": "ray-tls", "secret": {"secretName": f"ray-{node_type}-secret-safe"}} in spec["volumes"]
        for container in [spec["containers"][0], *spec["initContainers"][1:]]:
            env = {entry["name"]: entry.get("value") for entry in container["env"]}
            assert env["RAY_USE_TLS"] == "1"
            assert env["RAY_TLS_CA_CERT"] == "/etc/ray/tls/ca.crt"
            assert {"name": "ray-tls", "mountPath": "/etc/ray/tls", "readOnly": True} in container["volumeMounts"]
    beside = next(c for c in pods["worker"]["spec"]["containers"] if c["name"] == "side")
    assert "volumeMounts" not in beside
    assert "env" not in beside


@pytest.mark.parametrize(
    ("address", "waits"),
    [("10.0.0.12", 0), ("10.0.0.1", 1), ("10.0.0.123", 1), ("10a0b0c12", 1), ("fd00::1", 0), ("fd00::2", 1)],
)
def test_a_pod_waits_until_its_own_address_is_in_the_certificate(address: str, waits: int, tmp_path: Path) -> None:
    """What openssl says is as it says it; a sleep ends the script."""
    names = "IP Address:10.0.0.12, IP Address:FD00:0:0:0:0:0:0:1, DNS:localhost"
    tools = {
        "openssl": f"""
            case "$*" in
              *-text) echo "                {names}" ;;
              *"-checkip fd00::1") echo "IP fd00::1 does match certificate" ;;
              *) echo "IP x does NOT match certificate" ;;
            esac""",
        "sleep": "kill $PPID",
    }
    for name, text in tools.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    environment = {"POD_IP": address, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["/bin/sh", "-c", pod_changes.SHARED_SCRIPT], env=environment, capture_output=True, text=True)
    assert done.stdout.count("Waiting for") == waits
    assert (done.returncode == 0) is (waits == 0)


def test_a_default_of_the_operator_does_not_turn_it_off(hooks: PluginManager) -> None:
    certificates = applied(plan(hooks, cluster()), CERTIFICATE)
    live = [(CERTIFICATE, issued(certificates[f"ray-{kind}-cert-safe"])) for kind in ("head", "worker")]
    config = replace(CONFIG, default_envs=[{"name": "RAY_USE_TLS", "value": "0"}, {"name": "A", "value": "b"}])
    for pod in created(plan(hooks, cluster(), *live, config=config)):
        env = [(entry["name"], entry.get("value")) for entry in pod["spec"]["containers"][0]["env"]]
        assert [value for name, value in env if name == "RAY_USE_TLS"] == ["1"]
        assert ("A", "b") in env


def test_se02_a_new_address_is_in_the_certificate_at_once_and_nothing_is_written_while_none_is_new() -> None:
    """SE-02: workers come and go; the certificate follows within one pass, and a settled cluster costs nothing."""

    async def run() -> None:
        async with RayWorld(seed=1) as world:
            for kind in (ISSUER, CERTIFICATE):
                world.server.register(kind)
            hooks = PluginManager(load(["mtls"]))
            operator = SimOperator(world=world, hooks=hooks, gates=GATES)
            issuer = world.start(lambda _: _issue(world), client="cert-manager").main
            world.server.create(cluster())
            operator.start()
            await world.rest(quiet=90)
            await operator.idle_calls()

            async def addresses() -> tuple[set[str], set[str]]:
                (certificate,) = [
                    c
                    for c in world.server.objects(CERTIFICATE, NAMESPACE)
                    if c["metadata"]["name"] == "ray-worker-cert-safe"
                ]
                pods = world.server.objects(POD, NAMESPACE, "ray.io/node-type=worker")
                return set(certificate["spec"]["ipAddresses"]) - {"127.0.0.1"}, {p["status"]["podIP"] for p in pods}

            signed, there = await addresses()
            assert signed == there
            assert there
            groups = cluster()["spec"]["workerGroupSpecs"]
            groups[0]["replicas"] = groups[0]["maxReplicas"] = 5
            world.server.patch(RAYCLUSTER, NAMESPACE, "safe", {"spec": {"workerGroupSpecs": groups}})
            await world.pass_time(15)
            signed, there = await addresses()
            assert len(there) == 5
            assert signed == there
            await world.rest(quiet=90)
            assert [str(call) for call in await operator.idle_calls()] == []
            issuer.cancel()

    run_sim(run, seed=1)


async def _issue(world: RayWorld) -> None:
    """cert-manager: signs whatever is asked for."""
    while True:
        for certificate in world.server.objects(CERTIFICATE, NAMESPACE):
            generation = certificate["metadata"]["generation"]
            status = {"conditions": [{"type": "Ready", "status": "True", "observedGeneration": generation}]}
            if certificate.get("status") != status:
                world.server.set_status(CERTIFICATE, NAMESPACE, certificate["metadata"]["name"], status)
        await asyncio.sleep(1)
