"""What an ended RayJob deletes stage by stage, and RayJobs that are deleted, on a real API server without any Ray."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from kube_world import Operator, World
from kuberay.api.kinds import JOB, NAMESPACE, RAYCLUSTER, RAYJOB
from kuberay.api.names import RAYJOB_FINALIZER
from kuberay.api.times import format_time
from kuberay.kube.client import Client
from kuberay.kube.errors import ConflictError, NotFoundError
from kuberay_testkit.builders import build_rayjob

HOUR = 3600


def rule(policy: str, hours: int) -> dict[str, Any]:
    return {"policy": policy, "condition": {"jobStatus": "SUCCEEDED", "ttlSeconds": hours * HOUR}}


async def running(world: World, **spec: Any) -> dict[str, Any]:
    """A RayJob whose cluster is ready and whose submitter Job is there; returns its status."""
    manifest = build_rayjob("rj", groups={"a": 1, "b": 1}, **spec)
    del manifest["metadata"]["namespace"]
    await world.put(manifest)

    async def check() -> dict[str, Any] | None:
        status: dict[str, Any] = (await world.get(RAYJOB, "rj")).get("status", {})
        ready = status.get("rayClusterStatus", {}).get("state") == "ready"
        return status if ready and status.get("jobDeploymentStatus") == "Running" else None

    return await world.eventually(check, seconds=60)  # type: ignore[no-any-return]


async def ended(world: World, hours_ago: float) -> None:
    """Have it ended so long ago: stages fall due without anybody waiting for them."""
    when = format_time(datetime.now(UTC) - timedelta(hours=hours_ago))
    status = {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED", "endTime": when}
    await world.patch(RAYJOB, "rj", {"status": status}, subresource="status")


async def is_gone(world: World, kind: Any, name: str) -> bool:
    try:
        await world.get(kind, name)
    except NotFoundError:
        return True
    return False


async def test_stages_come_one_after_the_other(operators: Operator, world: World) -> None:
    operators.ensure()
    rules = [rule("DeleteWorkers", 1), rule("DeleteCluster", 2), rule("DeleteSelf", 3)]
    name = (await running(world, deletionStrategy={"deletionRules": rules}))["rayClusterName"]
    await ended(world, 0)
    await world.settled()
    assert len(await world.pods(node_type="worker")) == 2

    await ended(world, 1.5)

    async def only_the_head() -> bool:
        return [pod["metadata"]["labels"]["ray.io/node-type"] for pod in await world.pods(cluster=name)] == ["head"]

    await world.eventually(only_the_head)
    groups = (await world.get(RAYCLUSTER, name))["spec"]["workerGroupSpecs"]
    assert [(group["groupName"], group["replicas"], group["suspend"]) for group in groups] == [
        ("a", 1, True),
        ("b", 1, True),
    ]
    requests = operators.requests()
    await world.settled()
    assert operators.requests() == requests, "at rest until the next stage"

    await ended(world, 2.5)
    await world.eventually(lambda: is_gone(world, RAYCLUSTER, name))
    assert not await is_gone(world, JOB, "rj")
    assert not await is_gone(world, RAYJOB, "rj")

    await ended(world, 3.5)
    await world.eventually(lambda: is_gone(world, RAYJOB, "rj"))
    await world.eventually(lambda: is_gone(world, JOB, "rj"))
    told = [event["reason"] for event in await world.events() if event["regarding"]["kind"] == "RayJob"]
    assert {"UpdatedRayCluster", "DeletedRayCluster"} <= set(told)


async def test_a_patch_that_names_another_group_is_refused_as_a_whole(
    operators: Operator, world: World, client: Client
) -> None:
    """What keeps `suspend` from reaching a group that took another's place in the list."""
    operators.ensure()
    name = (await running(world))["rayClusterName"]
    path = "/spec/workerGroupSpecs"
    operations = [
        {"op": "add", "path": f"{path}/0/suspend", "value": True},
        {"op": "test", "path": f"{path}/1/groupName", "value": "a"},
        {"op": "add", "path": f"{path}/1/suspend", "value": True},
    ]
    with pytest.raises(ConflictError):
        await client.json_patch(RAYCLUSTER, world.namespace, name, operations)
    groups = (await world.get(RAYCLUSTER, name))["spec"]["workerGroupSpecs"]
    assert [group.get("suspend") for group in groups] == [None, None]


async def test_deleted_while_running_it_goes_although_no_dashboard_answers(operators: Operator, world: World) -> None:
    """RJ-29: and says so."""
    operators.ensure()
    await running(world)
    await world.delete(RAYJOB, "rj")
    await world.eventually(lambda: is_gone(world, RAYJOB, "rj"), seconds=40)

    async def told() -> bool:
        return "FailedToStopRayJob" in [event["reason"] for event in await world.events()]

    await world.eventually(told)


async def test_one_of_another_controller_loses_our_finalizer(operators: Operator, world: World) -> None:
    operators.ensure()
    manifest = build_rayjob("rj", managedBy="kueue.x-k8s.io/multikueue")
    manifest["metadata"] = {"name": "rj", "finalizers": [RAYJOB_FINALIZER]}
    await world.put(manifest)
    await world.settled()
    assert "status" not in await world.get(RAYJOB, "rj")
    await world.delete(RAYJOB, "rj")
    await world.eventually(lambda: is_gone(world, RAYJOB, "rj"))


async def test_a_namespace_with_a_running_job_goes(operators: Operator, world: World, client: Client) -> None:
    operators.ensure()
    await running(world)
    await client.transport.request("DELETE", NAMESPACE.path(None, world.namespace))

    async def gone() -> bool:
        try:
            await client.get(NAMESPACE, "", world.namespace)
        except NotFoundError:
            return True
        return False

    await world.eventually(gone, seconds=90)
