"""EndpointSlices of the simulated cluster: which pods are in them, what they say of each, and who owns them."""

from __future__ import annotations

from typing import Any

import pytest
from kuberay.api.kinds import ENDPOINT_SLICE, POD, SERVICE
from kuberay_testkit.sim.clock import run_sim
from kuberay_testkit.sim.endpoints import SERVICE_NAME, SimEndpoints, ready_pods
from kuberay_testkit.sim.gc import GarbageCollector
from kuberay_testkit.sim.kubelet import SimKubelet
from kuberay_testkit.sim.server import SimServer

SELECTOR = {"app": "a"}


class Lab:
    def __init__(self) -> None:
        self.server = SimServer()
        self.kubelet = SimKubelet(self.server, delay=(0, 0))
        self.endpoints = SimEndpoints(self.server, delay=(0, 0))
        self.gc = GarbageCollector(self.server)

    def settle(self) -> None:
        for controller in (self.kubelet, self.gc, self.endpoints):
            controller.settle()

    def pod(self, name: str, **labels: str) -> str:
        body = {"metadata": {"name": name, "labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        return str(self.server.create({"apiVersion": "v1", "kind": "Pod", **body})["metadata"]["uid"])

    def service(self, name: str = "s", **spec: Any) -> None:
        metadata = {"name": name, "labels": {"team": "x"}}
        spec = {"selector": SELECTOR, "ports": [{"name": "http", "port": 80}], **spec}
        self.server.create({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})

    def slice(self, name: str = "s") -> dict[str, Any]:
        self.settle()
        (found,) = self.server.objects(ENDPOINT_SLICE, "default", f"{SERVICE_NAME}={name}")
        return found

    def ready(self) -> set[str]:
        self.settle()
        return ready_pods(self.server, "default", "s")


def test_a_slice_carries_its_services_labels_and_goes_with_it() -> None:
    lab = Lab()
    lab.service()
    found = lab.slice()
    assert found["metadata"]["labels"]["team"] == "x"
    assert found["metadata"]["ownerReferences"][0]["kind"] == "Service"
    assert found["endpoints"] == []
    lab.server.delete(SERVICE, "default", "s")
    lab.settle()
    assert lab.server.objects(ENDPOINT_SLICE) == []


def test_only_pods_that_match_and_have_an_address_are_endpoints() -> None:
    lab = Lab()
    lab.service()
    mine, _ = lab.pod("mine", **SELECTOR), lab.pod("other", app="b")
    assert lab.ready() == {mine}
    (endpoint,) = lab.slice()["endpoints"]
    assert endpoint["targetRef"]["uid"] == mine
    assert endpoint["addresses"] == [lab.server.peek(POD, "default", "mine")["status"]["podIP"]]  # type: ignore[index]


def test_who_is_not_ready_is_there_but_gets_nothing() -> None:
    lab = Lab()
    lab.service()
    uid = lab.pod("p", **SELECTOR)
    assert lab.ready() == {uid}
    lab.kubelet.probed("default", "p", ready=False)
    assert lab.ready() == set()
    assert lab.slice()["endpoints"][0]["conditions"] == {"ready": False, "serving": False, "terminating": False}
    lab.kubelet.probed("default", "p", ready=True)
    assert lab.ready() == {uid}


def test_a_pod_that_goes_is_not_ready_but_serving() -> None:
    lab = Lab()
    lab.server.pod_grace = 30.0
    lab.service()
    lab.pod("p", **SELECTOR)
    lab.settle()
    lab.server.delete(POD, "default", "p")
    lab.endpoints.settle()
    (found,) = lab.server.objects(ENDPOINT_SLICE)
    assert found["endpoints"][0]["conditions"] == {"ready": False, "serving": True, "terminating": True}


@pytest.mark.parametrize("phase", ["finish", "fail"])
def test_a_pod_that_ended_is_no_endpoint(phase: str) -> None:
    lab = Lab()
    lab.service()
    lab.pod("p", **SELECTOR)
    lab.settle()
    getattr(lab.kubelet, phase)("default", "p")
    assert lab.slice()["endpoints"] == []


def test_addresses_that_are_published_in_any_case_are_ready() -> None:
    lab = Lab()
    lab.service(publishNotReadyAddresses=True)
    uid = lab.pod("p", **SELECTOR)
    lab.settle()
    lab.kubelet.probed("default", "p", ready=False)
    assert lab.ready() == {uid}


def test_it_follows_labels_and_selectors() -> None:
    lab = Lab()
    lab.service()
    first, second = lab.pod("first", **SELECTOR), lab.pod("second", app="b")
    assert lab.ready() == {first}
    lab.server.patch(POD, "default", "first", {"metadata": {"labels": {"app": "c"}}})
    assert lab.ready() == set()
    lab.server.patch(
        SERVICE, "default", "s", {"spec": {"selector": {"app": "b"}}, "metadata": {"labels": {"team": None}}}
    )
    assert lab.ready() == {second}
    assert "team" not in lab.slice()["metadata"]["labels"]


def test_a_service_without_a_selector_has_none_and_a_deleted_slice_comes_back() -> None:
    lab = Lab()
    lab.service("bare", selector=None)
    lab.service()
    name = lab.slice()["metadata"]["name"]
    assert len(lab.server.objects(ENDPOINT_SLICE)) == 1
    lab.server.delete(ENDPOINT_SLICE, "default", name)
    assert lab.slice()["metadata"]["name"] != name


def test_the_controller_takes_its_time() -> None:
    async def run() -> None:
        import asyncio

        server = SimServer()
        kubelet, endpoints = SimKubelet(server, delay=(0, 0)), SimEndpoints(server, delay=(5, 5))
        tasks = [asyncio.create_task(each.run()) for each in (kubelet, endpoints)]
        lab = object.__new__(Lab)
        lab.server = server
        lab.service()
        lab.pod("p", **SELECTOR)
        await asyncio.sleep(4.9)
        assert server.objects(ENDPOINT_SLICE) == []
        await asyncio.sleep(0.2)
        assert len(ready_pods(server, "default", "s")) == 1
        for task in tasks:
            task.cancel()

    run_sim(run)
