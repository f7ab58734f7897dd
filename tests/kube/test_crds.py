"""Both sets of CRDs on a real API server: what KubeRay's take they take whole, what KubeRay's refuse they refuse.

The CRDs are installed under a group of their own, so that no operator acts on the objects.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from kube_world import World
from kuberay.api.crd import crds
from kuberay.api.kinds import CRD, Kind
from kuberay.kube.client import Client
from kuberay.kube.errors import ApiError, InvalidError

GOLDEN = Path(__file__).parents[2] / "core/tests/data/golden"
PLURALS = {"RayCluster": "rayclusters", "RayJob": "rayjobs", "RayService": "rayservices"}


@dataclass
class Installed:
    """One set of CRDs, and a namespace to try them in."""

    group: str
    client: Client
    namespace: str

    async def store(self, manifest: dict[str, Any], *, replaces: bool) -> dict[str, Any]:
        """Create or replace an object of a Ray kind; the stored form."""
        version = manifest["apiVersion"].partition("/")[2]
        kind = Kind(self.group, version, PLURALS[manifest["kind"]], manifest["kind"])
        body = copy.deepcopy(manifest) | {"apiVersion": kind.api_version}
        name = body["metadata"]["name"]
        if not replaces:
            return orjson.loads(await self.client.create(kind, self.namespace, body))
        live = orjson.loads(await self.client.get(kind, self.namespace, name))
        body["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"]
        return orjson.loads(await self.client.replace(kind, self.namespace, name, body))


@pytest.fixture(params=["full", "slim"])
async def installed(client: Client, world: World, request: pytest.FixtureRequest) -> AsyncIterator[Installed]:
    group = f"{request.param}.crds.test"
    names = []
    for crd in crds(slim=request.param == "slim"):
        crd["spec"]["group"] = group
        crd["metadata"]["name"] = f"{crd['spec']['names']['plural']}.{group}"
        crd["spec"]["names"].pop("categories")
        names.append(crd["metadata"]["name"])
        await client.apply(CRD, "", names[-1], crd)
    for name in names:
        await established(client, name)
    yield Installed(group, client, world.namespace)
    for name in names:
        uid = orjson.loads(await client.get(CRD, "", name))["metadata"]["uid"]
        await client.delete(CRD, "", name, uid=uid)


async def established(client: Client, name: str) -> None:
    """Wait until the API server serves the kind; a schema that is not structural is an error."""
    async with asyncio.timeout(30):
        while True:
            status = orjson.loads(await client.get(CRD, "", name)).get("status", {})
            states = {condition["type"]: condition for condition in status.get("conditions") or ()}
            assert "NonStructuralSchema" not in states, states["NonStructuralSchema"]["message"]
            if states.get("Established", {}).get("status") == "True":
                await asyncio.sleep(1)  # established is told a moment before every handler serves it
                return
            await asyncio.sleep(0.2)


OTHER_WORDS = {"upgrade-type": {'"Recreate", "None", "Rolling"': '"Recreate", "None"'}}
"""By case: our words for KubeRay's, where we allow more (docs/differences.d/upgrades.md)."""


def documents(case: Path) -> list[dict[str, Any]]:
    text = (case / "input.yaml").read_text()
    return [item for item in yaml.load_all(text, Loader=yaml.CSafeLoader) if item and item["kind"] in PLURALS]


def rejection(case: Path) -> dict[str, Any] | None:
    text = (case / "expected.yaml").read_text()
    return yaml.load(text, Loader=yaml.CSafeLoader)["rejected"] if text.startswith("rejected:") else None


def cases(*areas: str) -> list[Path]:
    found = [path.parent for area in areas for path in sorted((GOLDEN / area).glob("*/input.yaml"))]
    assert found, "the recorded cases are missing"
    return found


def lost(sent: Any, stored: Any, path: str) -> Iterator[str]:
    """Paths of what was sent and is not stored as it was."""
    if isinstance(sent, dict):
        for key, value in sent.items():
            if not isinstance(stored, dict) or key not in stored:
                yield f"{path}.{key}"
            else:
                yield from lost(value, stored[key], f"{path}.{key}")
    elif isinstance(sent, list):
        for index, value in enumerate(sent):
            yield from lost(value, stored[index], f"{path}[{index}]")
    elif sent != stored:
        yield path


async def test_recorded_input(installed: Installed) -> None:
    await check_stored_whole(installed)
    await check_refused_with_the_same_words(installed)
    await check_what_a_rayservice_may_say(installed)


async def check_stored_whole(installed: Installed) -> None:
    for case in cases("raycluster", "rayjob", "rayservice", "invalid"):
        if rejection(case) is not None:
            continue
        seen: dict[tuple[str, str], int] = {}
        for number, document in enumerate(documents(case)):
            key = (document["kind"], document["metadata"]["name"])
            # All cases share one namespace here; a name of its own keeps each apart.
            named = copy.deepcopy(document)
            named["metadata"]["name"] = f"{case.parent.name}-{case.name}-{seen.setdefault(key, number)}"
            try:
                stored = await installed.store(named, replaces=seen[key] != number)
            except ApiError as error:
                pytest.fail(f"{case.name}: {error}")
            assert list(lost(document["spec"], stored["spec"], "spec")) == [], case.name


async def check_refused_with_the_same_words(installed: Installed) -> None:
    tried = 0
    for case in cases("invalid"):
        rejected = rejection(case)
        if rejected is None:
            continue
        *before, last = documents(case)
        for document in before:
            await installed.store(document, replaces=False)
        with pytest.raises(InvalidError) as refused:
            await installed.store(last, replaces=bool(before))
        words = rejected["message"]
        for ours, theirs in OTHER_WORDS.get(case.name, {}).items():
            assert theirs in words
            words = words.replace(theirs, ours)
        assert refused.value.message.replace(f".{installed.group} ", ".ray.io ") == words, case.name
        tried += 1
    assert tried == 13


def rayservice(name: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "ray", "image": "ray"}
    config = {"headGroupSpec": {"template": {"spec": {"containers": [container]}}}}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayService",
        "metadata": {"name": name},
        "spec": {"rayClusterConfig": config, **spec},
    }


INCREMENTAL = {"gatewayClassName": "c", "stepSizePercent": 5, "intervalSeconds": 1}
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"rayClusterConfig": None}, "spec.rayClusterConfig: Required value"),
    ({"managedBy": "me"}, "the managedBy field value must be either"),
    ({"rayClusterDeletionDelaySeconds": -1}, "should be greater than or equal to 0"),
    *(
        (
            {"upgradeStrategy": {"clusterUpgradeOptions": {k: v for k, v in INCREMENTAL.items() if k != left_out}}},
            f"spec.upgradeStrategy.clusterUpgradeOptions.{left_out}: Required value",
        )
        for left_out in INCREMENTAL
    ),
]


async def check_what_a_rayservice_may_say(installed: Installed) -> None:
    for number, (spec, told) in enumerate(REFUSED):
        with pytest.raises(InvalidError) as refused:
            await installed.store(rayservice(f"refused-{number}", **spec), replaces=False)
        assert told in refused.value.message
    # Not the schema but the operator knows the types, and plugins bring more; 0 is no missing delay.
    upgrade = {"type": "Anything", "maxSurge": "25%", "maxUnavailable": 0, "clusterUpgradeOptions": INCREMENTAL}
    service = rayservice("service", upgradeStrategy=upgrade, rayClusterDeletionDelaySeconds=0)
    stored = await installed.store(service | {"apiVersion": "ray.io/v1alpha1"}, replaces=False)
    assert list(lost(service["spec"], stored["spec"], "spec")) == []
    assert stored["spec"]["upgradeStrategy"]["clusterUpgradeOptions"]["maxSurgePercent"] == 100
    other = "kueue.x-k8s.io/multikueue"
    await installed.store(rayservice("service", managedBy=other), replaces=True)
    with pytest.raises(InvalidError) as refused:
        await installed.store(rayservice("service", managedBy="ray.io/kuberay-operator"), replaces=True)
    assert "the managedBy field is immutable" in refused.value.message
    await installed.store(rayservice("service"), replaces=True)
