"""An authority of its own: which Secrets are wanted when, decided from what is there and the time alone (SE-02)."""

from __future__ import annotations

import subprocess
from base64 import b64decode, b64encode
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from kuberay.api.gates import DEFAULT_GATES
from kuberay.api.kinds import POD, RAYCLUSTER, SECRET, Kind
from kuberay.api.objects import RayObject, from_dict
from kuberay.api.times import format_time, parse_time
from kuberay.plan.cluster import plan_cluster
from kuberay.plan.config import PlanConfig
from kuberay.plan.model import Apply, Create, Patch, Plan
from kuberay.plan.observed import FixedView, Observed
from kuberay.plugins.loader import PluginError, load
from kuberay.plugins.manager import PluginManager
from kuberay_mtls import pod_changes
from kuberay_mtls.cert_manager import CERTIFICATE
from kuberay_testkit.builders import build_raycluster

NAMESPACE = "lab"
UID = "0a1b2c3d-0000-4000-8000-000000000001"
BORN = datetime(2026, 1, 1, tzinfo=UTC)
GATES = {**DEFAULT_GATES, "RayClusterMTLS": True}
SETTINGS = {"issuer": "own", "certificate_lifetime": "30h", "authority_lifetime": "300h"}
AUTHORITY = "safe-tls-authority-0a1b2c3d-1"
HOUR = timedelta(hours=1)


class World:
    """What is there, changed by the writes of plans as the API server would."""

    def __init__(self, **changes: Any) -> None:
        self.hooks = PluginManager(load(["mtls"]))
        self.hooks.configure({"mtls": SETTINGS})
        self.body = build_raycluster("safe", namespace=NAMESPACE, groups=1, tlsOptions={"enabled": True}, **changes)
        self.body["metadata"] |= {"uid": UID, "generation": 1}
        self.now = BORN
        self.live: dict[tuple[Kind, str], dict[str, Any]] = {}
        self.seeds = 0

    def plan(self) -> Plan:
        obj = from_dict(RAYCLUSTER, self.body)
        assert isinstance(obj, RayObject)
        view = FixedView([(kind, body) for (kind, _), body in self.live.items()])
        observed = Observed(obj=obj, now=self.now, view=view, config=PlanConfig(), gates=GATES, hooks=self.hooks)
        plan = plan_cluster(observed)
        assert _told(plan_cluster(observed)) == _told(plan), "the same question, another answer"
        return plan

    def settle(self, *, addresses: bool = True) -> list[str]:
        """Perform plans until one asks for nothing about TLS; returns what was written, as ``verb name``."""
        written: list[str] = []
        for _ in range(5):
            writes = [
                write
                for stage in self.plan().stages
                for write in stage
                if write.kind in (SECRET, POD, CERTIFICATE) and not self._in_sync(write)
            ]
            if not writes:
                return written
            written += [f"{type(write).__name__} {write.name}" for write in writes]
            for write in writes:
                self._perform(write)
            if addresses:
                self.give_addresses()
        raise AssertionError(f"it comes to no end: {written}")

    def _in_sync(self, write: Any) -> bool:
        live = self.live.get((write.kind, write.name))
        return isinstance(write, Apply) and live is not None and live.get("data") == write.body.get("data")

    def _perform(self, write: Any) -> None:
        key = (write.kind, write.name)
        if isinstance(write, Patch):
            self.live[key]["metadata"]["annotations"] |= write.body["metadata"]["annotations"]
            return
        body = write.body() if callable(write.body) else dict(write.body)
        body["metadata"] = {
            "annotations": {},
            **body["metadata"],
            "uid": write.name,
            "creationTimestamp": format_time(self.now),
        }
        if isinstance(write, Create) and write.random_data:
            self.seeds += 1
            seed = b64encode(bytes([self.seeds]) * 32)
            assert write.random_data == {"seed": 32}
            body["data"] = {"seed": b64encode(seed).decode()}
        self.live[key] = body

    def give_addresses(self) -> None:
        for number, pod in enumerate(self.pods()):
            pod.setdefault("status", {"podIP": f"10.0.0.{number + 1}", "phase": "Running"})

    def pods(self) -> list[dict[str, Any]]:
        return [body for (kind, _), body in self.live.items() if kind == POD]

    def secrets(self) -> dict[str, dict[str, Any]]:
        return {name: body for (kind, name), body in self.live.items() if kind == SECRET}

    def certificate(self, secret: str) -> x509.Certificate:
        return x509.load_pem_x509_certificate(b64decode(self.secrets()[secret]["data"]["tls.crt"]))

    def trusted(self, secret: str) -> list[str]:
        bundle = x509.load_pem_x509_certificates(b64decode(self.secrets()[secret]["data"]["ca.crt"]))
        return [each.subject.rfc4514_string() for each in bundle]


def _told(plan: Plan) -> list[str]:
    return [
        f"{type(write).__name__} {write.kind} {write.name} {write.body() if callable(write.body) else write.body}"
        for stage in plan.stages
        for write in stage
        if isinstance(write, Apply | Create | Patch)
    ]


@pytest.fixture
def world() -> World:
    world = World()
    world.settle()
    return world


def names(certificate: x509.Certificate) -> tuple[list[str], list[str]]:
    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return found.get_values_for_type(x509.DNSName), [str(each) for each in found.get_values_for_type(x509.IPAddress)]


def test_first_the_authority_and_no_pod_waits_for_it() -> None:
    world = World()
    first = world.plan()
    created = [write.name for stage in first.stages for write in stage if isinstance(write, Create)]
    assert created[0] == AUTHORITY
    assert len(created) == 3, "head and worker are made in the same pass"
    assert not [write for stage in first.stages for write in stage if write.kind == CERTIFICATE]


def test_each_pod_has_a_certificate_of_its_own_once_it_has_an_address(world: World) -> None:
    head, worker = (pod["metadata"]["name"] for pod in world.pods())
    assert set(world.secrets()) == {AUTHORITY, "ray-worker-secret-safe", f"{head}-tls", f"{worker}-tls"}
    dns, addresses = names(world.certificate(f"{head}-tls"))
    inside = "safe-head-svc.lab"
    assert sorted(dns) == ["localhost", "safe-head-svc", inside, f"{inside}.svc", f"{inside}.svc.cluster.local"]
    assert addresses == ["10.0.0.1", "127.0.0.1", "::1"]
    assert names(world.certificate(f"{worker}-tls")) == (["localhost"], ["10.0.0.2", "127.0.0.1", "::1"])
    secret = world.secrets()[f"{worker}-tls"]
    assert secret["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Pod", "name": worker, "uid": worker, "controller": True}
    ]
    assert b64decode(secret["data"]["address"]) == b"10.0.0.2"
    assert world.pods()[1]["metadata"]["annotations"]["ray.io/tls-ready-for"] == "10.0.0.2"


def test_a_pod_mounts_its_own_certificate_which_need_not_be_there_yet(world: World) -> None:
    for pod in world.pods():
        name, spec = pod["metadata"]["name"], pod["spec"]
        (volume,) = [each for each in spec["volumes"] if each["name"] == "ray-tls"]
        assert volume["secret"] == {"secretName": f"{name}-tls", "optional": True}
        assert spec["initContainers"][0]["name"] == "wait-for-tls-ip-san"
        assert {"name": "RAY_USE_TLS", "value": "1"} in spec["containers"][0]["env"]


def test_the_key_of_the_authority_is_in_no_pod(world: World) -> None:
    for pod in world.pods():
        assert AUTHORITY not in str(pod)


def test_se02_a_new_worker_changes_nothing_of_others(world: World) -> None:
    """SE-02: no list of addresses grows, so there is no upper size, and nobody waits for a certificate of others."""
    before = {name: dict(body) for name, body in world.secrets().items()}
    groups = world.body["spec"]["workerGroupSpecs"]
    groups[0]["replicas"] = groups[0]["maxReplicas"] = 3
    world.body["metadata"]["generation"] = 2
    written = world.settle()
    new = [pod["metadata"]["name"] for pod in world.pods()[2:]]
    assert len(new) == 2
    assert sorted(written) == sorted(f"{verb} {name}" for pod in new for verb, name in (
        ("Create", pod), ("Apply", f"{pod}-tls"), ("Patch", pod)
    ))  # fmt: skip
    assert {name: world.secrets()[name] for name in before} == before


def test_a_pod_that_gets_another_address_gets_another_certificate(world: World) -> None:
    pod = world.pods()[1]
    name = pod["metadata"]["name"]
    pod["status"]["podIP"] = "fd00::7"
    assert world.settle() == [f"Apply {name}-tls", f"Patch {name}"]
    assert "fd00::7" in names(world.certificate(f"{name}-tls"))[1]
    assert pod["metadata"]["annotations"]["ray.io/tls-ready-for"] == "fd00::7"


@pytest.mark.parametrize("ends", [{"deletionTimestamp": "2026-01-01T00:00:00Z"}, {}], ids=["terminating", "ended"])
def test_a_pod_that_ends_keeps_its_certificate_to_the_last_moment_and_gets_no_other(
    world: World, ends: dict[str, Any]
) -> None:
    pod = world.pods()[1]
    pod["metadata"] |= ends
    pod["status"] |= {"podIP": "10.0.0.99"} if ends else {"podIP": "10.0.0.99", "phase": "Failed"}
    name = pod["metadata"]["name"]
    assert f"Apply {name}-tls" not in {
        f"{type(write).__name__} {write.name}" for stage in world.plan().stages for write in stage
    }
    assert f"{name}-tls" in world.secrets()


@pytest.mark.parametrize("key", ["tls.crt", "tls.key", "ca.crt", "address"])
def test_p53_a_secret_that_lacks_something_is_made_whole(world: World, key: str) -> None:
    """P53: KubeRay holds all pods back and names the key."""
    name = f"{world.pods()[1]['metadata']['name']}-tls"
    del world.secrets()[name]["data"][key]
    assert world.settle() == [f"Apply {name}"]
    assert set(world.secrets()[name]["data"]) == {"tls.crt", "tls.key", "ca.crt", "address"}


def test_certificates_are_renewed_after_two_thirds_of_their_life(world: World) -> None:
    certificates = {name for name in world.secrets() if name != AUTHORITY}
    world.now = BORN + 20 * HOUR - timedelta(seconds=1)
    assert world.settle() == []
    world.now = BORN + 20 * HOUR
    assert set(world.settle()) == {f"Apply {name}" for name in certificates}
    for name in certificates:
        assert world.certificate(name).not_valid_after_utc == BORN + 50 * HOUR
    assert world.settle() == []


def test_an_authority_is_replaced_after_two_thirds_of_its_life_and_trusted_until_it_ends(world: World) -> None:
    worker = f"{world.pods()[1]['metadata']['name']}-tls"
    for hours in range(20, 200, 20):
        world.now = BORN + hours * HOUR
        world.settle()
    assert world.trusted(worker) == ["CN=ray-ca-safe-1"]
    world.now = BORN + 200 * HOUR
    second = AUTHORITY[:-1] + "2"
    assert world.settle()[0] == f"Create {second}"
    assert world.trusted(worker) == ["CN=ray-ca-safe-2", "CN=ray-ca-safe-1"]
    assert world.certificate(worker).issuer.rfc4514_string() == "CN=ray-ca-safe-2"
    chain = x509.load_pem_x509_certificates(b64decode(world.secrets()[worker]["data"]["tls.crt"]))
    assert [each.issuer.rfc4514_string() for each in chain] == ["CN=ray-ca-safe-2", "CN=ray-ca-safe-1"]
    seeds = {world.secrets()[name]["data"]["seed"] for name in (AUTHORITY, second)}
    assert len(seeds) == 2, "a new authority has nothing of the old one"
    for hours in range(220, 300, 20):
        world.now = BORN + hours * HOUR
        world.settle()
    assert len(world.trusted(worker)) == 2
    world.now = BORN + 300 * HOUR
    world.settle()
    assert world.trusted(worker) == ["CN=ray-ca-safe-2"]
    assert world.settle() == []


def test_an_authority_is_replaced_when_the_user_asks(world: World) -> None:
    world.body["metadata"]["annotations"] = {"ray.io/tls-authority": "2"}
    written = world.settle()
    assert written[0] == f"Create {AUTHORITY[:-1]}2"
    assert {name for verb, name in map(str.split, written) if verb == "Apply"} == set(world.secrets()) - {
        AUTHORITY,
        f"{AUTHORITY[:-1]}2",
    }
    assert world.settle() == [], "asked once, replaced once"


def test_an_authority_whose_secret_is_deleted_is_trusted_no_more(world: World) -> None:
    world.body["metadata"]["annotations"] = {"ray.io/tls-authority": "2"}
    world.settle()
    del world.live[SECRET, AUTHORITY]
    worker = f"{world.pods()[1]['metadata']['name']}-tls"
    world.settle()
    assert world.trusted(worker) == ["CN=ray-ca-safe-2"]
    assert AUTHORITY not in world.secrets()


@pytest.mark.parametrize("value", ["two", "-1", "0", "1.5", "99999", "²"])
def test_a_number_that_is_none_is_told_and_stops_nothing(world: World, value: str) -> None:
    world.body["metadata"]["annotations"] = {"ray.io/tls-authority": value}
    assert world.settle() == []
    status = world.plan().status
    assert status is not None
    (warning,) = [each for each in status["conditions"] if each["type"] == "PluginWarning"]
    assert "metadata.annotations[ray.io/tls-authority]" in warning["message"]
    assert repr(value) in warning["message"]
    assert "write a whole number from 1 to 9999" in warning["message"]


@pytest.mark.parametrize("maker", ["RayCluster", "RayJob", "RayService"])
def test_processes_that_started_long_ago_are_told_of_before_their_certificate_ends(world: World, maker: str) -> None:
    """Ray reads certificates when a process starts; what is renewed in files does not reach it. Only the RayCluster knows its pods,
    so it tells, whoever made it."""
    world.body["metadata"].setdefault("labels", {})["ray.io/originated-from-crd"] = maker
    for hours in (10, 19):
        world.now = BORN + hours * HOUR
        world.settle()
        assert "PluginWarning" not in str(world.plan().status)
    world.now = BORN + 20 * HOUR
    world.settle()
    status = world.plan().status
    assert status is not None
    (warning,) = [each for each in status["conditions"] if each["type"] == "PluginWarning"]
    head = world.pods()[0]["metadata"]["name"]
    assert f"pod {head} and of 1 more started ends at {format_time(BORN + 30 * HOUR)}" in warning["message"]


def test_an_authority_without_a_seed_signs_nothing_and_says_so(world: World) -> None:
    world.secrets()[AUTHORITY]["data"] = {}
    assert world.settle() == []
    world.pods()[1]["status"] = {
        "podIP": "10.0.0.2",
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": format_time(BORN)}],
    }
    world.now = BORN + HOUR
    told = world.plan().waiting
    assert f"the Secret lab/{AUTHORITY} of the certificate authority has no seed; delete it" in told


def test_the_secret_of_somebody_else_is_left_alone_and_told(world: World) -> None:
    """That of a former pod of the name, too, which is about to be collected."""
    pod = world.pods()[1]
    name = f"{pod['metadata']['name']}-tls"
    world.secrets()[name]["metadata"]["ownerReferences"][0]["uid"] = "another"
    pod["metadata"]["annotations"].pop("ray.io/tls-ready-for")
    pod["status"]["phase"] = "Pending"
    assert [write for stage in world.plan().stages for write in stage if write.kind in (SECRET, POD)] == []
    world.now = BORN + HOUR
    assert f"has no certificate because the Secret lab/{name} is not its own" in world.plan().waiting


def test_a_pod_is_not_told_before_its_certificate_is_there(world: World) -> None:
    pod = world.pods()[1]
    pod["status"]["podIP"] = "10.0.0.77"
    writes = [write for stage in world.plan().stages for write in stage if write.kind in (SECRET, POD)]
    assert [(type(write), write.name) for write in writes] == [(Apply, f"{pod['metadata']['name']}-tls")]


def test_the_head_is_found_under_the_name_that_the_user_gave_its_service() -> None:
    world = World()
    world.body["spec"]["headGroupSpec"]["headService"] = {"metadata": {"name": "front"}}
    world.settle()
    head = world.pods()[0]["metadata"]["name"]
    dns, _ = names(world.certificate(f"{head}-tls"))
    assert sorted(dns) == ["front", "front.lab", "front.lab.svc", "front.lab.svc.cluster.local", "localhost"]


def test_a_cluster_stays_with_who_signed_for_it_whatever_the_settings_say(world: World) -> None:
    world.hooks.configure({"mtls": {**SETTINGS, "issuer": "cert-manager"}})
    assert world.settle() == []
    other = World()
    other.hooks.configure({})
    names_before = {write.name for stage in other.plan().stages for write in stage if write.kind == CERTIFICATE}
    assert "ray-head-cert-safe" in names_before
    for stage in other.plan().stages:
        for write in stage:
            if write.kind == CERTIFICATE:
                other._perform(write)
    other.hooks.configure({"mtls": SETTINGS})
    assert not [write for stage in other.plan().stages for write in stage if write.kind == SECRET]


def test_turning_tls_off_deletes_nothing(world: World) -> None:
    world.body["spec"]["tlsOptions"] = {"enabled": False}
    world.body["metadata"]["generation"] = 2
    before = set(world.secrets())
    assert world.settle() == []
    assert set(world.secrets()) == before


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"certificate_lifetime": "30m"}, "at least 1h is needed"),
        ({"authority_lifetime": "8760h"}, "at least three times certificate_lifetime"),
        ({"certificate_lifetime": "1 year"}, "certificate_lifetime"),
        ({"issuer": "vault"}, "issuer"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, str], told: str) -> None:
    with pytest.raises(PluginError, match=told):
        PluginManager(load(["mtls"])).configure({"mtls": settings})


@pytest.mark.parametrize(("address", "waits"), [("10.0.0.12", 0), ("10.0.0.1", 2), (None, 2)])
def test_a_pod_waits_for_the_certificate_of_its_own_address(address: str | None, waits: int, tmp_path: Path) -> None:
    """The file comes while it waits; any image with a shell will do."""
    folder = tmp_path / "tls"
    folder.mkdir()
    if address:
        (folder / "address").write_text(address)
    sleep = tmp_path / "sleep"
    sleep.write_text(
        f'#!/bin/sh\necho x >> {tmp_path}/slept\n[ "$(wc -l < {tmp_path}/slept)" -lt 2 ] || printf 10.0.0.12 > {folder}/address\n'
    )
    sleep.chmod(0o755)
    script = pod_changes.OWN_SCRIPT.replace(pod_changes.PATH, str(folder))
    environment = {"POD_IP": "10.0.0.12", "PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(["/bin/sh", "-c", script], env=environment, capture_output=True, text=True, timeout=10)
    assert done.returncode == 0
    assert done.stdout.count("Waiting for the certificate of 10.0.0.12") == waits


def test_renewal_times_are_told_on_the_secret(world: World) -> None:
    for name, secret in world.secrets().items():
        if name == AUTHORITY:
            continue
        annotations = secret["metadata"]["annotations"]
        assert parse_time(annotations["ray.io/tls-expires"]) == world.certificate(name).not_valid_after_utc
        assert parse_time(annotations["ray.io/tls-renew-after"]) == BORN + 20 * HOUR
