"""``kuberay why`` and ``kuberay diff`` of RayServices on a real API server, where no Ray answers."""

from __future__ import annotations

import copy
import json
from typing import Any

from kube_world import Operator, World, kuberay
from kuberay.api.kinds import RAYCLUSTER, RAYSERVICE
from kuberay_testkit.builders import build_rayservice

NAME = "sv"
CONFIG = "applications:\n- name: app\n  import_path: mod.app\n"


def service(**spec: Any) -> dict[str, Any]:
    body = build_rayservice(NAME, groups={"a": 1}, serveConfigV2=CONFIG, **spec)
    del body["metadata"]["namespace"]
    return body


def with_image(body: dict[str, Any], image: str = "rayproject/ray:2.99.0") -> dict[str, Any]:
    changed = copy.deepcopy(body)
    (group,) = changed["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    group["template"]["spec"]["containers"][0]["image"] = image
    return changed


async def prepared(world: World) -> str:
    """Name of the pending RayCluster, once it is ready."""

    async def check() -> str:
        status = (await world.get(RAYSERVICE, NAME)).get("status", {})
        name = str(status["pendingServiceStatus"]["rayClusterName"])
        ready = (await world.get(RAYCLUSTER, name)).get("status", {}).get("state") == "ready"
        return name if ready else ""

    found: str = await world.eventually(check, seconds=60, what="the first RayCluster is ready")
    return found


def report(world: World) -> dict[str, Any]:
    told = kuberay(world, "why", f"rayservice/{NAME}", "-o", "json")
    assert told.returncode == 0, told.stderr
    found: dict[str, Any] = json.loads(told.stdout)
    return found


def diff(world: World, body: dict[str, Any]) -> dict[str, Any]:
    answer = kuberay(world, "diff", "-f", "-", "-o", "json", stdin=json.dumps(body))
    assert answer.returncode == 0, answer.stderr
    (found,) = json.loads(answer.stdout)
    assert isinstance(found, dict)
    return found


async def test_why_a_service_waits_for_serve(operators: Operator, world: World) -> None:
    operators.ensure()
    await world.put(service())
    name = await prepared(world)

    async def told() -> bool:
        conditions = (await world.get(RAYSERVICE, NAME))["status"]["conditions"]
        return any((c["type"], c["reason"]) == ("RayServiceWaiting", "DashboardAway") for c in conditions)

    await world.eventually(told, seconds=60, what="the condition tells of the dashboard")
    found = report(world)
    assert (found["state"], found["summary"]) == ("starting", f"Nothing serves yet; RayCluster {name} is prepared.")
    assert found["findings"][0]["reason"] == "DashboardAway", found["findings"]
    assert f"the dashboard of RayCluster {world.namespace}/{name} does not answer" in found["findings"][0]["what"]
    assert found["notes"] == []
    page = kuberay(world, "why", f"rayservice/{NAME}").stdout
    assert page.startswith(f"RayService {world.namespace}/{NAME}: starting\n"), page


async def test_diff_says_in_advance_what_an_edit_does(operators: Operator, world: World) -> None:
    """In place, another RayCluster, or nothing: by the objects as the API server holds them, defaults and all."""
    operators.ensure()
    await world.put(service())
    name = await prepared(world)
    operators.stop()
    serving = {"rayClusterName": name, "applicationStatuses": {"app": {"status": "RUNNING"}}}
    status = {"activeServiceStatus": serving, "pendingServiceStatus": None, "serviceStatus": "Running"}
    await world.patch(RAYSERVICE, NAME, {"status": status}, subresource="status")

    assert diff(world, service())["changes"] == []
    scaled = service()
    scaled["spec"]["rayClusterConfig"]["workerGroupSpecs"][0]["replicas"] = 2
    found = diff(world, scaled)
    assert (found["servingCluster"], found["newClusters"]) == (name, [])
    assert [change["effect"] for change in found["changes"]] == ["in-place"]
    found = diff(world, with_image(service()))
    assert len(found["newClusters"]) == 1
    assert [change["effect"] for change in found["changes"]] == ["new-cluster"]
    found = diff(world, with_image(service(upgradeStrategy={"type": "Rolling"})))
    assert (found["newClusters"], found["restartedGroups"]) == ([], ["a"])
    found = diff(world, with_image(service(upgradeStrategy={"type": "None"})))
    assert (found["newClusters"], found["restartedGroups"]) == ([], [])
    refused = kuberay(world, "diff", "-f", "-", stdin=json.dumps(service(upgradeStrategy={"type": "Sideways"})))
    assert refused.returncode == 1
    assert "Sideways" in refused.stdout
