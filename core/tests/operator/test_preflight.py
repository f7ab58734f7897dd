"""Start-up checks: each thing that is missing ends the start with one sentence that says what to do."""

from __future__ import annotations

from typing import Any

import pytest
from kuberay.api.gates import CRON_JOB, SIDECAR_SUBMITTER_RESTART
from kuberay.api.kinds import JOB, POD, RAYCLUSTER, RAYJOB, ROUTE, SERVICE
from kuberay.kube.client import Client
from kuberay.operator.preflight import StartError, check_cluster, check_gates, is_openshift, offers_resize
from kuberay_testkit.sim.faults import Faults
from kuberay_testkit.sim.operator import operator_rules
from kuberay_testkit.sim.registry import POD_GROUP
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.transport import SimTransport
from kuberay_testkit.sim.virtual import in_virtual_time

URL = "https://api.example:6443"


def check(
    server: SimServer, *, namespaces: tuple[str, ...] = (), children: tuple[Any, ...] = (POD, SERVICE, JOB)
) -> None:
    @in_virtual_time
    async def run() -> None:
        await check_cluster(Client(SimTransport(server)), URL, (RAYCLUSTER, RAYJOB), children, namespaces)

    run()


def refusal(server: SimServer, **options: Any) -> str:
    with pytest.raises(StartError) as caught:
        check(server, **options)
    return str(caught.value)


def without(plural: str) -> list[dict[str, Any]]:
    """The operator's rules but for one resource."""
    return [
        {**rule, "resources": [resource for resource in rule["resources"] if resource != plural]}
        for rule in operator_rules()
    ]


@pytest.mark.parametrize("namespaces", [(), ("a", "b")])
def test_a_cluster_with_everything_passes(namespaces: tuple[str, ...]) -> None:
    server = SimServer()
    server.restrict("operator", operator_rules())
    check(server, namespaces=namespaces)
    lists = [call for call in server.calls if call.verb == "list"]
    assert {call.namespace for call in lists} == (set(namespaces) or {""})
    assert {call.resource for call in lists} == {"rayclusters", "rayjobs", "pods", "services", "jobs"}


def test_an_unreachable_api_server() -> None:
    server = SimServer(faults=Faults().add("timeout_before"))
    assert refusal(server) == (
        f"The API server at {URL} cannot be reached (connection refused); check the kubeconfig and the network."
    )


def test_refused_credentials() -> None:
    server = SimServer(faults=Faults().add("refuse", code=401, reason="Unauthorized", message="Unauthorized"))
    assert refusal(server) == f"The API server at {URL} refuses the operator's credentials: Unauthorized."


@pytest.mark.parametrize(("kind", "name"), [(RAYCLUSTER, "rayclusters.ray.io"), (RAYJOB, "rayjobs.ray.io")])
def test_a_missing_crd(kind: Any, name: str) -> None:
    server = SimServer()
    server.unregister(kind)
    sentence = f"The CRD {name} is not installed; run: kuberay crds | kubectl apply --server-side -f -"
    assert refusal(server) == sentence


def test_no_crd_at_all() -> None:
    server = SimServer()
    for kind in (RAYCLUSTER, RAYJOB):
        server.unregister(kind)
    assert refusal(server).startswith("The CRD rayclusters.ray.io is not installed;")


@pytest.mark.parametrize(("namespaces", "where"), [((), "in all namespaces"), (("a",), "in namespace a")])
@pytest.mark.parametrize("plural", ["rayclusters", "pods", "jobs"])
def test_a_missing_permission(plural: str, namespaces: tuple[str, ...], where: str) -> None:
    server = SimServer()
    server.restrict("operator", without(plural))
    sentence = refusal(server, namespaces=namespaces)
    assert sentence.startswith(f"The operator may not list {plural}")
    assert f"{where}; grant it with: kuberay rbac | kubectl apply -f - (the API server says: " in sentence
    assert "\n" not in sentence


def test_a_plugins_kind_may_be_missing_but_not_forbidden() -> None:
    server = SimServer()
    server.restrict("operator", operator_rules())
    assert "may not list podgroups.scheduling.volcano.sh" in refusal(server, children=(POD, POD_GROUP))
    server = SimServer()
    server.unregister(POD_GROUP)
    check(server, children=(POD, POD_GROUP))


@pytest.mark.parametrize("served", [True, False])
def test_openshift_is_known_by_its_api_groups(served: bool) -> None:
    server = SimServer()
    if not served:
        server.unregister(ROUTE)

    @in_virtual_time
    async def run() -> None:
        assert await is_openshift(Client(SimTransport(server))) is served

    run()


@pytest.mark.parametrize("ask", [is_openshift, offers_resize])
@pytest.mark.parametrize("fault", [{"action": "timeout_before"}, {"action": "refuse", "message": "no"}])
def test_an_api_server_that_does_not_tell_what_it_serves(ask: Any, fault: dict[str, Any]) -> None:
    server = SimServer(faults=Faults().add(**fault))

    @in_virtual_time
    async def run() -> None:
        with pytest.raises(StartError, match="does not tell what it serves") as caught:
            await ask(Client(SimTransport(server)))
        assert "\n" not in str(caught.value)

    run()


@pytest.mark.parametrize("served", [True, False])
def test_changing_pods_in_place_is_known_by_its_subresource(served: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    server = SimServer()
    if not served:
        monkeypatch.setattr("kuberay_testkit.sim.reads.RESIZE", "attach")

    @in_virtual_time
    async def run() -> None:
        assert await offers_resize(Client(SimTransport(server))) is served

    run()


def check_sidecar_gate(monkeypatch: pytest.MonkeyPatch, version: str, *, on: bool = True) -> int:
    """Returns how many requests it took."""
    monkeypatch.setattr("kuberay_testkit.sim.reads.VERSION", version)
    server = SimServer()

    @in_virtual_time
    async def run() -> None:
        await check_gates(Client(SimTransport(server)), {SIDECAR_SUBMITTER_RESTART: on, CRON_JOB: True})

    run()
    return len(server.calls)


@pytest.mark.parametrize("version", ["v1.35.0", "v1.35.2-gke.1234567", "v1.36.0+k3s1", "v2.0.0"])
def test_sidecars_may_be_restarted_from_kubernetes_1_35_on(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_sidecar_gate(monkeypatch, version) == 1


@pytest.mark.parametrize(("version", "told"), [("v1.34.9", "v1.34.9"), ("", "no version"), ("dev", "dev")])
def test_a_gate_that_needs_a_later_kubernetes(version: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StartError) as caught:
        check_sidecar_gate(monkeypatch, version)
    assert str(caught.value) == (
        "The feature gate SidecarSubmitterRestart needs Kubernetes 1.35.0 or later, and the API server says "
        f"{told}: turn the gate off or upgrade the cluster."
    )


def test_a_gate_that_is_off_needs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_sidecar_gate(monkeypatch, "v1.20.0", on=False) == 0
