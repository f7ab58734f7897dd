"""The autoscaler's side of a RayCluster on a real API server: who owns which fields, and what its account may do."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import orjson
import yaml
from kube_world import Operator, World
from kuberay.api.kinds import POD, RAYCLUSTER
from kuberay.kube.client import Client
from kuberay.kube.connection import connect
from kuberay.kube.http import HttpTransport


def cluster(name: str = "ray", **group: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "ray", "image": "rayproject/ray:2.54.0"}]}}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": name},
        "spec": {
            "rayVersion": "2.54.0",
            "enableInTreeAutoscaling": True,
            "headGroupSpec": {"template": template},
            "workerGroupSpecs": [
                {"groupName": "small", "minReplicas": 1, "maxReplicas": 5, "template": template, **group}
            ],
        },
    }


async def workers(world: World, count: int) -> list[str]:
    async def check() -> list[str] | None:
        found = [pod["metadata"]["name"] for pod in await world.pods(group="small")]
        status = (await world.get(RAYCLUSTER, "ray")).get("status", {})
        return found if len(found) == count == status.get("readyWorkerReplicas") else None

    names: list[str] = await world.eventually(check, what=f"{count} workers")
    return names


async def test_nobody_fights_over_replicas(operators: Operator, world: World) -> None:
    """AS-06: a sync tool that says nothing of replicas, the autoscaler that decides them, and an operator that owns no
    field of the spec; each sync brings the schema's default back, and no worker goes for that."""
    operators.ensure()
    transport = HttpTransport(await connect(), user_agent="tests")
    sync = Client(transport, field_manager="argocd")
    try:
        await sync.apply(RAYCLUSTER, world.namespace, "ray", cluster())
        (first,) = await workers(world, 1)
        # Ray's autoscaler names no field manager; its requests carry this user agent.
        scaled = HttpTransport(await connect(), user_agent="python-requests/2.32")
        patch = [{"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": 3}]
        await Client(scaled, field_manager="python-requests").json_patch(RAYCLUSTER, world.namespace, "ray", patch)
        await scaled.close()
        before = await workers(world, 3)
        assert first in before
        for _ in range(2):
            await sync.apply(RAYCLUSTER, world.namespace, "ray", cluster())
            await world.settled(quiet=2)
            assert sorted(await workers(world, 3)) == sorted(before)
    finally:
        await transport.close()
    live = await world.get(RAYCLUSTER, "ray")
    owned = {
        entry["manager"]: sorted(entry["fieldsV1"])
        for entry in live["metadata"]["managedFields"]
        if "f:spec" in entry["fieldsV1"]
    }
    assert "argocd" in owned
    assert "kuberay-operator" not in owned
    assert live["metadata"]["generation"] == 1 + 1 + 1, "created, scaled, synced: the operator has written no spec"


async def test_only_the_autoscaler_can_use_its_account(operators: Operator, world: World, tmp_path: Path) -> None:
    """SE-01: with least_privilege the token is in one container, and the account may change its RayCluster only."""
    settings = {
        "apiVersion": "config.ray.io/v1alpha1",
        "kind": "Configuration",
        "metricsAddr": "127.0.0.1:18090",
        "probeAddr": "127.0.0.1:18092",
        "leaderElectionNamespace": "default",
        "plugins": {"autoscaler-v2": {"least_privilege": True}},
    }
    file = tmp_path / "settings.yaml"
    file.write_text(yaml.safe_dump(settings))
    operators.ensure((f"--config={file}",))
    await world.put(cluster())
    await workers(world, 1)
    (head,) = await world.pods(node_type="head")
    where = "/var/run/secrets/kubernetes.io/serviceaccount"
    holders = [c["name"] for c in head["spec"]["containers"] if where in _paths(c)]
    assert holders == ["autoscaler"]
    assert _may(world, "patch", "rayclusters", "ray", group="ray.io")
    assert _may(world, "list", "pods")
    assert not _may(world, "patch", "rayclusters", "other", group="ray.io")
    assert not _may(world, "create", "rayclusters", group="ray.io")
    for verb, resource in (("patch", "pods"), ("create", "pods"), ("delete", "pods"), ("get", "secrets")):
        assert not _may(world, verb, resource, "x"), f"{verb} {resource}"
    assert not _may(world, "create", "pods", "x", subresource="exec")
    assert not _may(world, "patch", "pods", "x", subresource="resize")
    await world.patch(RAYCLUSTER, "ray", {"metadata": {"annotations": {"ray.io/ippr": "{}"}}})

    async def may_resize() -> bool:
        return _may(world, "patch", "pods", "x", subresource="resize")

    await world.eventually(may_resize)
    assert [pod["metadata"]["uid"] for pod in await world.pods(node_type="head")] == [head["metadata"]["uid"]]
    assert len(await world.list(POD)) == 2


def _paths(container: dict[str, Any]) -> list[str]:
    return [mount["mountPath"] for mount in container.get("volumeMounts", ())]


def _may(world: World, verb: str, resource: str, name: str = "", *, group: str = "", subresource: str = "") -> bool:
    """Whether the account of cluster ``ray`` may do it, as the API server's own authoriser says."""
    asked = {"verb": verb, "group": group, "resource": resource, "name": name, "subresource": subresource}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{world.namespace}:ray",
            "groups": ["system:serviceaccounts", "system:authenticated"],
            "resourceAttributes": {"namespace": world.namespace, **asked},
        },
    }
    words = ["kubectl", "create", "-o", "json", "-f", "-"]
    answer = subprocess.run(words, input=orjson.dumps(review), capture_output=True, check=True)
    return bool(orjson.loads(answer.stdout)["status"]["allowed"])
