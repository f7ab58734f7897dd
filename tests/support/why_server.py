"""The reading half of an API server, for tests of ``kuberay why``: it holds one namespace and fails on every write."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import orjson
from kuberay.api.gates import DEFAULT_GATES
from kuberay.api.kinds import POD, RAYCLUSTER, SERVICE
from kuberay.api.objects import from_dict
from kuberay.kube.transport import Response, TransportError
from kuberay.plan.cluster import plan_cluster
from kuberay.plan.observed import FixedView, Observed
from kuberay_testkit.builders import build_group, build_raycluster

Manifest = dict[str, Any]

BORN = "2024-01-01T00:00:00Z"
LATER = datetime(2024, 1, 1, 1, tzinfo=UTC)


class Server:
    """The reading half of an API server that holds one namespace, ``lab``."""

    def __init__(self) -> None:
        self.objects: dict[str, list[Manifest]] = {
            plural: []
            for plural in ("rayclusters", "rayjobs", "raycronjobs", "jobs", "pods", "services", "events", "workloads")
        }
        self.logs: dict[str, str] = {}
        """By pod."""
        self.forbidden: set[str] = set()
        self.down = False
        self.installed = True

    async def request(
        self, method: str, path: str, *, params: Mapping[str, str] | None = None, **_: object
    ) -> Response:
        assert method == "GET", "nothing is ever written"
        if self.down:
            raise TransportError("GET: connection refused")
        _, _, rest = path.partition("/namespaces/lab/")
        plural, _, name = rest.partition("/")
        name, _, subresource = name.partition("/")
        if not self.installed:
            return Response(404, b"404 page not found\n")
        if plural in self.forbidden:
            text = f'{plural} is forbidden: User "me" cannot read resource "{plural}"'
            return Response(403, orjson.dumps({"kind": "Status", "reason": "Forbidden", "message": text}))
        if subresource == "log":
            if name not in self.logs:
                return Response(404, orjson.dumps({"kind": "Status", "reason": "NotFound", "message": "no log"}))
            return Response(200, self.logs[name].encode())
        if name:
            found = [body for body in self.objects[plural] if body["metadata"]["name"] == name]
            if not found:
                text = f'{plural}.ray.io "{name}" not found'
                return Response(404, orjson.dumps({"kind": "Status", "reason": "NotFound", "message": text}))
            return Response(200, orjson.dumps(found[0]))
        wanted = params or {}
        items = [body for body in self.objects.get(plural, ()) if _selected(body, wanted)]
        return Response(200, orjson.dumps({"metadata": {"resourceVersion": "9"}, "items": items}))

    # -- what is there

    def cluster(self, **spec: Any) -> Manifest:
        body = build_raycluster("demo", namespace="lab", groups=[build_group("gpu", 2)], **spec)
        body["metadata"] |= {"uid": "u1", "generation": 1, "creationTimestamp": BORN, "resourceVersion": "1"}
        self.objects["rayclusters"] = [body]
        return body

    def pod(self, name: str, group: str, status: Manifest) -> Manifest:
        node_type = "head" if group == "headgroup" else "worker"
        labels = {"ray.io/cluster": "demo", "ray.io/node-type": node_type, "ray.io/group": group}
        body = self._owned(name, labels)
        body |= {"spec": {"nodeName": "n1", "containers": [{"name": "ray"}]}, "status": status}
        self.objects["pods"].append(body)
        return body

    def service(self) -> None:
        labels = {
            "ray.io/cluster": "demo",
            "ray.io/node-type": "head",
            "ray.io/identifier": "demo-head",
        }
        self.objects["services"].append(self._owned("demo-head-svc", labels) | {"spec": {"clusterIP": "None"}})

    def _owned(self, name: str, labels: dict[str, str]) -> Manifest:
        owner = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "demo", "uid": "u1", "controller": True}
        metadata = {"name": name, "namespace": "lab", "uid": f"uid-{name}", "labels": labels}
        return {"metadata": {**metadata, "creationTimestamp": BORN, "ownerReferences": [owner]}}

    def reconciled(self, at: datetime = LATER, failure: Any = None) -> Manifest:
        """The status that an operator writes about it."""
        (body,) = self.objects["rayclusters"]
        children = [(POD, pod) for pod in self.objects["pods"]] + [(SERVICE, s) for s in self.objects["services"]]
        observed = Observed(
            obj=from_dict(RAYCLUSTER, body), now=at, view=FixedView(children), gates=DEFAULT_GATES, failure=failure
        )
        status = plan_cluster(observed).status
        assert status is not None
        body["status"] = status
        return status


def _selected(body: Manifest, params: Mapping[str, str]) -> bool:
    labels = dict(part.split("=") for part in params.get("labelSelector", "").split(",") if part)
    fields = dict(part.split("=") for part in unquote(params.get("fieldSelector", "")).split(",") if part)
    about = body.get("regarding", {})
    return labels.items() <= body["metadata"].get("labels", {}).items() and all(
        about.get(field.removeprefix("regarding.")) == value for field, value in fields.items()
    )
