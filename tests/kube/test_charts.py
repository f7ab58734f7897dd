"""Both charts installed by Helm on a real API server, and an operator that has what the chart gives it and nothing else.

What a release grants is asked of the API server (``kubectl auth can-i``), never read from the manifests.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from helm import OPERATOR, RAY_CLUSTER, Helm, HelmError, build_helm
from installed import Release, found, kubectl, may, ray_cluster, ready
from kube_world import Operator, World
from kuberay.api.kinds import POD, RAYCLUSTER, RAYJOB
from kuberay.kube.client import Client

from dev.demo.install import printed_by_kuberay

VOLCANO = {"plugins": {"volcano": {"enabled": True}}}
PODGROUPS = "podgroups.scheduling.volcano.sh"
RAYJOBS = f"{RAYJOB.plural}.{RAYJOB.group}"
CRDS = ("rayclusters.ray.io", "rayjobs.ray.io", "rayservices.ray.io", "raycronjobs.ray.io")


@pytest.fixture(scope="module")
def helm() -> Helm:
    return build_helm()


@pytest.fixture
def release(helm: Helm, world: World, operators: Operator, tmp_path: Path) -> Iterator[Release]:
    """Not installed yet. No other operator runs."""
    operators.stop()
    release = Release(helm, world.namespace, tmp_path)
    yield release
    operators.stop()
    release.uninstall()


@pytest.fixture
async def places(client: Client, request: pytest.FixtureRequest) -> AsyncIterator[tuple[World, World]]:
    """Two more namespaces."""
    async with AsyncExitStack() as stack:
        names = [f"{request.node.name[:30]}-{letter}" for letter in "ab"]
        first, second = [await stack.enter_async_context(World.create(client, name)) for name in names]
        yield first, second


async def told(world: World, name: str, kind: Any = RAYCLUSTER) -> str:
    """All messages of the conditions of an object."""
    status = (await world.get(kind, name)).get("status") or {}
    return " ".join(condition.get("message", "") for condition in status.get("conditions") or ())


async def test_install_upgrade_rollback_uninstall(release: Release, world: World, operators: Operator) -> None:
    """A plugin comes and goes with its permissions; the release goes, and what users made stays."""
    release.install()
    release.start(operators)
    assert not may(release.account, "create", PODGROUPS, world.namespace)
    await world.put(ray_cluster())
    before = await ready(world)
    assert len(before) == 2

    release.upgrade(VOLCANO)
    assert may(release.account, "create", PODGROUPS, world.namespace)
    release.start(operators)
    gang = ray_cluster("gang")
    gang["metadata"]["labels"] = {"ray.io/gang-scheduling-enabled": "true"}
    await world.put(gang)
    await ready(world, "gang")
    assert found("podgroups.scheduling.volcano.sh", "-n", world.namespace)["items"]

    release.rollback()
    assert not may(release.account, "create", PODGROUPS, world.namespace)
    release.start(operators)
    await world.put(ray_cluster("later"))
    await ready(world, "later")

    # A user's pod is known by its UID: none was made anew by all of that.
    assert await ready(world) == before
    operators.stop()
    release.uninstall()
    assert release.deployment() is None
    assert not may(release.account, "list", "pods", world.namespace)
    assert {crd for crd in CRDS if found("crd", crd)} == set(CRDS)
    assert {pod["metadata"]["uid"] for pod in await world.pods(cluster="ray")} == before
    assert {obj["metadata"]["name"] for obj in await world.list(RAYCLUSTER)} == {"ray", "gang", "later"}


async def test_a_cluster_by_its_own_chart(release: Release, world: World, operators: Operator) -> None:
    release.install({"configuration": {"drainTimeoutSeconds": 0}})
    release.start(operators)
    words = ("ray", RAY_CLUSTER, "-n", world.namespace)
    release.helm.run("install", *words, "-f", "-", stdin=yaml.safe_dump({"worker": {"replicas": 2}}))
    pods = await ready(world, "ray-kuberay")
    assert len(pods) == 3
    release.helm.run("upgrade", *words, "-f", "-", stdin=yaml.safe_dump({"worker": {"replicas": 1}}))

    async def fewer() -> bool:
        return len(await world.pods(cluster="ray-kuberay")) == 2

    await world.eventually(fewer, seconds=60, what="one worker less")
    release.helm.run("rollback", "ray", "-n", world.namespace)

    async def more() -> bool:
        return len(await world.pods(cluster="ray-kuberay")) == 3

    await world.eventually(more, what="the worker is back")
    release.helm.run("uninstall", "ray", "-n", world.namespace)

    async def gone() -> bool:
        return not await world.pods(cluster="ray-kuberay")

    await world.eventually(gone, seconds=40, what="the pods of the RayCluster are gone")


async def _not_served(world: World, other: World) -> None:
    """*world* has a RayCluster that nobody serves; *other* one that was made later and is ready."""
    await ready(other)
    assert await world.list(POD, "ray.io/cluster") == []
    assert "status" not in await world.get(RAYCLUSTER, "ray")


async def test_only_its_own_namespace(
    release: Release, world: World, places: tuple[World, World], operators: Operator
) -> None:
    release.install({"singleNamespaceInstall": True})
    elsewhere, _ = places
    assert may(release.account, "create", "pods", world.namespace)
    for verb, what in (("list", "rayclusters.ray.io"), ("list", "pods"), ("get", "secrets"), ("list", "namespaces")):
        assert not may(release.account, verb, what)
        assert not may(release.account, verb, what, elsewhere.namespace)
    assert found("clusterrole", "kuberay-operator") is None
    release.start(operators)
    await elsewhere.put(ray_cluster())
    await world.put(ray_cluster())
    await _not_served(elsewhere, world)


async def test_two_namespaces(release: Release, world: World, places: tuple[World, World], operators: Operator) -> None:
    first, second = places
    release.install({"watchNamespace": [first.namespace, second.namespace]})
    release.start(operators)
    for served in (first, second):
        assert may(release.account, "create", "pods", served.namespace)
    assert not may(release.account, "list", "pods", world.namespace)
    await world.put(ray_cluster())
    for served in (first, second):
        await served.put(ray_cluster())
        await _not_served(world, served)


def test_values_that_do_not_exist(release: Release) -> None:
    for values, place in (({"imagee": {}}, "imagee"), ({"plugins": {"volcano": {"on": True}}}, "on")):
        with pytest.raises(HelmError, match=place):
            release.install(values)
    assert release.deployment() is None


async def test_secrets_in_one_namespace_only(
    release: Release, world: World, places: tuple[World, World], operators: Operator
) -> None:
    """The operator serves all namespaces, and reads Secrets in one."""
    team, other = places
    release.install({"configuration": {"secretNamespaces": team.namespace}})
    for verb in ("get", "list", "watch", "create"):
        assert may(release.account, verb, "secrets", team.namespace)
        assert not may(release.account, verb, "secrets")
        assert not may(release.account, verb, "secrets", other.namespace)
    release.start(operators)
    token = {"authOptions": {"mode": "token"}}
    await team.put(ray_cluster(**token))
    await ready(team)
    await other.put(ray_cluster("refused", **token))
    await other.put(ray_cluster())
    await ready(other)

    async def refused() -> bool:
        return "may not use Secrets in namespace" in await told(other, "refused")

    await other.eventually(refused, what="a condition that says why")
    assert await other.pods(cluster="refused") == []


async def test_no_secrets_at_all(release: Release, world: World, operators: Operator) -> None:
    release.install({"configuration": {"secretNamespaces": ""}})
    assert not may(release.account, "get", "secrets", world.namespace)
    release.start(operators)
    await world.put(ray_cluster())
    await ready(world)


async def test_roles_for_people(release: Release, world: World, places: tuple[World, World]) -> None:
    """By binding the chart's roles, and by Kubernetes' own, which take them up."""
    elsewhere, _ = places
    release.install({"userRoles": {"aggregate": True}})
    for user, role in (("vera", "rayjob-viewer-role"), ("edda", "rayjob-editor-role"), ("kim", "view"), ("ed", "edit")):
        kubectl("create", "rolebinding", user, f"--user={user}", f"--clusterrole={role}", "-n", world.namespace)

    async def aggregated() -> bool:
        return may("kim", "list", RAYJOBS, world.namespace) and may("ed", "create", RAYJOBS, world.namespace)

    await world.eventually(aggregated, what="view and edit have the roles of the chart in them")
    reads, writes = ("get", "list", "watch"), ("create", "patch", "delete")
    for user, verbs, refused in (("vera", reads, writes), ("edda", reads + writes, ()), ("kim", reads, writes)):
        assert [verb for verb in verbs if not may(user, verb, RAYJOBS, world.namespace)] == []
        assert [verb for verb in refused if may(user, verb, RAYJOBS, world.namespace)] == []
        assert not may(user, "list", RAYJOBS, elsewhere.namespace)
        assert may(user, "get", f"{RAYJOBS}/status", world.namespace)
        assert not may(user, "patch", f"{RAYJOBS}/status", world.namespace)
    assert not may("edda", "list", "rayservices.ray.io", world.namespace)
    assert may("ed", "create", "rayservices.ray.io", world.namespace)


def test_crds_of_a_later_version(release: Release) -> None:
    """Helm leaves CRDs as they are; both ways that the documents name bring them up to date, and objects stay."""
    name = "raycronjobs.ray.io"
    old = found("crd", name)
    version = next(v for v in old["spec"]["versions"] if v["name"] == "v1")
    del version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["suspend"]
    for key in ("managedFields", "resourceVersion", "uid", "creationTimestamp", "generation"):
        old["metadata"].pop(key, None)
    old.pop("status")

    def field() -> Any:
        crd = found("crd", name)
        now = next(v for v in crd["spec"]["versions"] if v["name"] == "v1")
        return now["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"].get("suspend")

    for crds in (printed_by_kuberay("crds"), release.helm.run("show", "crds", OPERATOR)):
        kubectl("replace", "-f", "-", stdin=json.dumps(old))
        assert field() is None
        if not release.installed:
            release.install()
        release.upgrade()
        assert field() is None, "Helm does not upgrade CRDs"
        kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=crds)
        assert field()["type"] == "boolean"
