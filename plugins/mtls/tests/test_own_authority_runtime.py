"""The real runtime with an authority of its own: how long a new worker waits, what a kill in the middle leaves, what time brings (SE-02)."""

from __future__ import annotations

import functools
from base64 import b64decode
from typing import Any

from cryptography import x509
from kuberay.api.gates import DEFAULT_GATES
from kuberay.api.kinds import POD, RAYCLUSTER, SECRET
from kuberay.plugins.loader import load
from kuberay.plugins.manager import PluginManager
from kuberay_mtls.cert_manager import CERTIFICATE, ISSUER
from kuberay_testkit.builders import build_raycluster
from kuberay_testkit.sim.clock import run_sim
from kuberay_testkit.sim.operator import RayWorld, SimOperator, operator_rules

NAMESPACE = "lab"
SETTINGS = {"issuer": "own", "certificate_lifetime": "1h", "authority_lifetime": "3h"}
GATES = {**DEFAULT_GATES, "RayClusterMTLS": True}


def cluster() -> dict[str, Any]:
    return build_raycluster("safe", namespace=NAMESPACE, groups=1, tlsOptions={"enabled": True})


def operator_of(world: RayWorld) -> SimOperator:
    """With no more permissions than `kuberay rbac` grants, on a cluster that has cert-manager, too."""
    for kind in (ISSUER, CERTIFICATE):
        world.server.register(kind)
    hooks = PluginManager(load(["mtls"]))
    hooks.configure({"mtls": SETTINGS})
    rules = [rule for found in hooks.rbac_rules().values() for rule in found]
    world.server.restrict("operator", operator_rules(rules))
    return SimOperator(world=world, hooks=hooks, gates=GATES)


def pods(world: RayWorld) -> list[dict[str, Any]]:
    return [pod for pod in world.server.objects(POD, NAMESPACE) if not pod["metadata"].get("deletionTimestamp")]


def secrets(world: RayWorld) -> dict[str, dict[str, Any]]:
    return {secret["metadata"]["name"]: secret for secret in world.server.objects(SECRET, NAMESPACE)}


def unready(world: RayWorld) -> list[str]:
    """Pods that would still wait: without a Secret for their address, or without a hint to the kubelet to look at it."""
    found = []
    for pod in pods(world):
        name, address = pod["metadata"]["name"], (pod.get("status") or {}).get("podIP", "")
        secret = secrets(world).get(f"{name}-tls") or {"data": {}}
        issued = b64decode(secret["data"].get("address", "")).decode()
        hinted = (pod["metadata"].get("annotations") or {}).get("ray.io/tls-ready-for")
        if not address or not issued == hinted == address:
            found.append(name)
    return found


def hints(world: RayWorld) -> dict[str, str | None]:
    """By address of the pods that have one: for which address the kubelet was told to look."""
    return {
        pod["status"]["podIP"]: (pod["metadata"].get("annotations") or {}).get("ray.io/tls-ready-for")
        for pod in pods(world)
        if (pod.get("status") or {}).get("podIP")
    }


def scale(world: RayWorld, replicas: int) -> None:
    groups = cluster()["spec"]["workerGroupSpecs"]
    groups[0] |= {"replicas": replicas, "minReplicas": 0, "maxReplicas": 50}
    world.server.patch(RAYCLUSTER, NAMESPACE, "safe", {"spec": {"workerGroupSpecs": groups}})


def test_se02_new_workers_have_their_certificate_within_seconds_and_a_settled_cluster_costs_nothing() -> None:
    """SE-02: scaled from 0 to 5, every worker's certificate is there a second after its address is."""

    async def run() -> None:
        async with RayWorld(seed=1) as world:
            operator = operator_of(world)
            operator.start()
            world.server.create(cluster())
            await world.rest(quiet=60)
            scale(world, 0)
            await world.until(lambda: len(pods(world)) == 1, within=120)
            await world.rest(quiet=60)
            scale(world, 5)
            await world.until(lambda: len(hints(world)) == 6, within=120)
            await world.until(lambda: not unready(world), within=1)
            await world.rest(quiet=60)
            assert [str(call) for call in await operator.idle_calls()] == []
            names = {pod["metadata"]["name"] for pod in pods(world)}
            assert {name for name in secrets(world) if name.endswith("-tls")} == {f"{name}-tls" for name in names}

    run_sim(run, seed=1)


def test_the_certificates_of_pods_that_have_gone_go_with_them() -> None:
    async def run() -> None:
        async with RayWorld(seed=2) as world:
            operator_of(world).start()
            world.server.create(cluster())
            scale(world, 3)
            await world.rest(quiet=60)
            assert len(secrets(world)) == 6
            scale(world, 1)
            await world.rest(quiet=60)
            assert len(secrets(world)) == 4
            world.server.delete(RAYCLUSTER, NAMESPACE, "safe")
            await world.rest(quiet=60)
            assert secrets(world) == {}

    run_sim(run, seed=2)


def test_a_certificate_that_is_deleted_is_made_again_at_once() -> None:
    async def run() -> None:
        async with RayWorld(seed=3) as world:
            operator_of(world).start()
            world.server.create(cluster())
            await world.rest(quiet=60)
            name = next(name for name in secrets(world) if name.endswith("-tls"))
            before = secrets(world)[name]["metadata"]["uid"]
            world.server.delete(SECRET, NAMESPACE, name)
            await world.until(lambda: name in secrets(world), within=2)
            assert secrets(world)[name]["metadata"]["uid"] != before

    run_sim(run, seed=3)


def story(crash_at: int | None) -> int:
    """A cluster is made and scaled, with a kill at *crash_at*; in the end all is there once. Returns the boundaries passed."""

    async def run() -> int:
        async with RayWorld(seed=4) as world:
            operator = operator_of(world)
            seen: dict[str, set[str]] = {}
            process = operator.start(crash_at=crash_at)
            world.server.create(cluster())
            await world.pass_time(3)
            scale(world, 2)
            for _ in range(2):
                await world.rest(quiet=5)
                for name, secret in secrets(world).items():
                    seen.setdefault(name, set()).add(secret["data"].get("tls.key") or secret["data"]["seed"])
                if process.transport.crashed.is_set() and operator.process is process:
                    await operator.kill()
                    operator.start()
            assert len(pods(world)) == 3
            assert unready(world) == []
            assert len(secrets(world)) == 5
            assert {name: len(keys) for name, keys in seen.items()} == dict.fromkeys(seen, 1)
            return process.transport.boundaries

    return run_sim(run, seed=4)


@functools.cache
def boundaries() -> int:
    return story(None)


def test_killed_at_any_request_it_ends_with_one_authority_and_one_certificate_for_each_pod() -> None:
    """And no key that was given out is replaced by another. Every third request: the others are alike, and each costs a story."""
    assert boundaries() > 20, "the story is shorter than its writes"
    for boundary in range(1, boundaries(), 3):
        story(boundary)


def test_over_the_hours_certificates_and_the_authority_are_renewed_in_time() -> None:
    """Nothing happens in the cluster; the operator looks by itself, and is killed and started again between."""

    async def run() -> None:
        async with RayWorld(seed=5) as world:
            operator = operator_of(world)
            operator.start()
            world.server.create(cluster())
            await world.rest(quiet=60)
            serials: set[int] = set()
            issuers: list[str] = []
            for _ in range(8):
                await world.pass_time(1500)
                await operator.kill()
                operator.start()
                await world.pass_time(300)
                for name, secret in secrets(world).items():
                    if not name.endswith("-tls"):
                        continue
                    certificate = x509.load_pem_x509_certificate(b64decode(secret["data"]["tls.crt"]))
                    left = (certificate.not_valid_after_utc - world.server.now()).total_seconds()
                    assert left > 600, "renewed too late"
                    serials.add(certificate.serial_number)
                    issuers.append(certificate.issuer.rfc4514_string())
            assert issuers[0] == "CN=ray-ca-safe-1"
            assert issuers[-1] == "CN=ray-ca-safe-2"
            assert issuers == sorted(issuers)
            assert len(pods(world)) == 2
            assert len(serials) >= 2 * 5
            assert unready(world) == []

    run_sim(run, seed=5)


def test_with_cert_manager_a_worker_is_hinted_at_when_its_address_has_been_signed() -> None:
    """SE-02: the kubelet shows a changed Secret to a waiting pod at once when the pod's annotations change."""

    async def run() -> None:
        async with RayWorld(seed=6) as world:
            operator = operator_of(world)
            operator.hooks = PluginManager(load(["mtls"]))
            operator.start()
            world.server.create(cluster())
            await world.pass_time(10)
            sign(world)
            await world.until(lambda: len(hints(world)) == 2, within=60)
            await world.pass_time(5)
            assert set(hints(world).values()) == {None}, "the certificate with the addresses has not been issued yet"
            sign(world)
            await world.until(lambda: all(address == hint for address, hint in hints(world).items()), within=1)

    run_sim(run, seed=6)


def sign(world: RayWorld) -> None:
    """cert-manager: signs whatever is asked for."""
    for certificate in world.server.objects(CERTIFICATE, NAMESPACE):
        generation = certificate["metadata"]["generation"]
        status = {"conditions": [{"type": "Ready", "status": "True", "observedGeneration": generation}]}
        world.server.set_status(CERTIFICATE, NAMESPACE, certificate["metadata"]["name"], status)
