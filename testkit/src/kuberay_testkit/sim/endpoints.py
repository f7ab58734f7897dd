"""Which pods stand behind each Service: one EndpointSlice per Service with a selector, a while after what it follows from.

As the endpoint slice controller of a real cluster has it for IPv4 and up to a hundred pods.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kuberay.api.kinds import ENDPOINT_SLICE, POD, SERVICE

from kuberay_testkit.sim.controller import Controller
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.store import Change, Key, Stored

SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
HEADLESS = "service.kubernetes.io/headless"


class SimEndpoints(Controller):
    """Keeps one slice per Service up to date."""

    def observe(self, change: Change) -> None:
        stored = change.stored
        if stored.key.kind == SERVICE and change.type != "DELETED":
            self.enqueue(stored.key)
        elif stored.key.kind == ENDPOINT_SLICE:
            # Somebody else changed or deleted it.
            name = stored.labels.get(SERVICE_NAME)
            if name:
                self.enqueue(Key(SERVICE, stored.key.namespace, name))
        elif stored.key.kind == POD:
            before = change.previous.labels if change.previous is not None else {}
            for service in self.server.store.all_of(SERVICE, stored.key.namespace):
                selector = selector_of(service)
                if selector and (selects(selector, stored.labels) or selects(selector, before)):
                    self.enqueue(service.key)

    def sync(self, key: Key) -> None:
        service = self.server.store.get(key)
        if service is None or service.deleting or not selector_of(service):
            return
        wanted = self._slice(service)
        found = slices_of(self.server, service)
        if not found:
            owner = {"apiVersion": "v1", "kind": "Service", "name": key.name, "uid": service.uid}
            metadata = {
                "generateName": f"{key.name}-",
                "namespace": key.namespace,
                "labels": wanted.pop("labels"),
                "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
            }
            body = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata, **wanted}
            self.server.create(body, manager="kube-controller-manager")
            return
        there = found[0]
        labels = wanted.pop("labels")
        if there.labels == labels and all(there.body.get(name) == value for name, value in wanted.items()):
            return
        # A merge patch takes a label away where it says null.
        changed = {**dict.fromkeys(there.labels), **labels}
        change = {"metadata": {"labels": changed}, **wanted}
        self.server.patch(*there.key, change, manager="kube-controller-manager")

    def _slice(self, service: Stored) -> dict[str, Any]:
        spec, kept = service.body["spec"], {SERVICE_NAME, MANAGED_BY, HEADLESS}
        labels = {name: value for name, value in service.labels.items() if name not in kept}
        labels[SERVICE_NAME] = service.key.name
        labels[MANAGED_BY] = "endpointslice-controller.k8s.io"
        if spec.get("clusterIP") == "None":
            labels[HEADLESS] = ""
        ports = [
            {"name": port.get("name", ""), "port": port.get("port"), "protocol": port.get("protocol", "TCP")}
            for port in spec.get("ports") or ()
        ]
        public = bool(spec.get("publishNotReadyAddresses"))
        pods = selected(self.server, service)
        endpoints = [_endpoint(pod, public=public) for pod in pods if _has_address(pod)]
        return {"labels": labels, "addressType": "IPv4", "endpoints": endpoints, "ports": ports}


def selector_of(service: Stored) -> Mapping[str, str]:
    """Which pods a Service stands for; empty when it has no selector."""
    return service.body["spec"].get("selector") or {}


def selects(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Whether a selector takes pods with these labels."""
    return all(labels.get(name) == value for name, value in selector.items())


def selected(server: SimServer, service: Stored) -> list[Stored]:
    """The pods that a Service selects at this moment, by name."""
    selector = selector_of(service)
    return [pod for pod in server.store.all_of(POD, service.key.namespace) if selects(selector, pod.labels)]


def slices_of(server: SimServer, service: Stored) -> list[Stored]:
    """The slices that belong to a Service, by UID."""
    return [each for each in server.store.dependents(service.uid) if each.key.kind == ENDPOINT_SLICE]


def ready_pods(server: SimServer, namespace: str, service: str) -> set[str]:
    """UIDs of the pods that a Service's slices call ready: where its traffic goes."""
    stored = server.store.get(Key(SERVICE, namespace, service))
    return {
        str(endpoint["targetRef"]["uid"])
        for each in (slices_of(server, stored) if stored is not None else ())
        for endpoint in each.body.get("endpoints") or ()
        if endpoint["conditions"]["ready"]
    }


def is_ready(pod: Stored) -> bool:
    """Whether the pod's condition Ready is True."""
    conditions = (pod.body.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _has_address(pod: Stored) -> bool:
    status = pod.body.get("status") or {}
    return bool(status.get("podIP")) and status.get("phase") not in ("Succeeded", "Failed")


def _endpoint(pod: Stored, *, public: bool) -> dict[str, Any]:
    serving = public or is_ready(pod)
    return {
        "addresses": [pod.body["status"]["podIP"]],
        "conditions": {
            "ready": serving and (public or not pod.deleting),
            "serving": serving,
            "terminating": pod.deleting,
        },
        "targetRef": {"kind": "Pod", "namespace": pod.key.namespace, "name": pod.key.name, "uid": pod.uid},
    }
