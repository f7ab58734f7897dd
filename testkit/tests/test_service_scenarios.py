"""Recorded scenarios of RayService: how Serve, its proxies, Gateways and endpoints are played, and what counts as a state."""

from __future__ import annotations

import asyncio
import copy
import math
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from kuberay.api.kinds import ENDPOINT_SLICE, GATEWAY, HTTP_ROUTE, POD, RAYCLUSTER, RAYSERVICE, SERVICE, Kind
from kuberay.kube.client import Client
from kuberay.ray.dashboard import DashboardRefusedError, DashboardTarget, DashboardUnreachableError
from kuberay.ray.http import HttpDashboardClient
from kuberay_testkit.builders import build_pod_template, build_raycluster
from kuberay_testkit.scenarios.compare import differences
from kuberay_testkit.scenarios.dashboards import Conduct, Dashboards, PlayedSession
from kuberay_testkit.scenarios.edits import edit_patch
from kuberay_testkit.scenarios.endpoints import endpoint_slice
from kuberay_testkit.scenarios.follow import Follower
from kuberay_testkit.scenarios.gateways import accepted, is_accepted
from kuberay_testkit.scenarios.masks import Masks
from kuberay_testkit.scenarios.pods import HELD, is_ready
from kuberay_testkit.scenarios.record import Played, Record, checkpoint, final, state_of
from kuberay_testkit.scenarios.replay import replay
from kuberay_testkit.scenarios.script import Scenario, load_scenario
from kuberay_testkit.scenarios.world import ScenarioWorld, scenario_kinds
from kuberay_testkit.sim.clock import VirtualClock, run_sim
from kuberay_testkit.sim.world import SimWorld

HEAD = DashboardTarget("c-head-svc.ns.svc.cluster.local:8265")
CONFIG = {"applications": [{"name": "app1", "route_prefix": "/", "deployments": [{"name": "D"}]}, {"name": ""}]}


# -- Serve


def on_heads(check: Callable[[HttpDashboardClient, Dashboards], Any], *, alive: bool = True, ready: bool = True) -> Any:
    async def run() -> Any:
        boards = Dashboards(VirtualClock(), lambda _cluster: alive, lambda _cluster: ready)
        hosts = {"c-head-svc.ns.svc.cluster.local": (boards, "c"), "10.17.0.1": (boards, "c")}
        return await check(HttpDashboardClient(PlayedSession(hosts.get)), boards)  # type: ignore[arg-type]

    return run_sim(run)


async def statuses(client: HttpDashboardClient) -> dict[str, str]:
    return {name: app.status for name, app in (await client.serve_applications(HEAD)).applications.items()}


def test_serve_runs_what_it_was_given_as_the_script_says() -> None:
    async def check(client: HttpDashboardClient, boards: Dashboards) -> None:
        assert await statuses(client) == {}
        await client.put_serve_config(HEAD, orjson.dumps(CONFIG))
        assert await statuses(client) == {"app1": "RUNNING", "default": "RUNNING"}
        serve = boards.of("c").serve
        serve.set_all("none")
        assert await statuses(client) == {}
        await client.put_serve_config(HEAD, orjson.dumps(CONFIG))
        assert await statuses(client) == {"app1": "RUNNING", "default": "RUNNING"}
        serve.set_all("DEPLOYING")
        details = await client.serve_applications(HEAD)
        assert details.applications["app1"].status == "DEPLOYING"
        assert details.applications["app1"].deployments["D"].status == "UPDATING"
        # What is given next is as the script last said, and what it leaves out is gone.
        await client.put_serve_config(HEAD, orjson.dumps({"applications": CONFIG["applications"][:1]}))
        assert await statuses(client) == {"app1": "DEPLOYING"}
        assert [each["call"] for each in boards.of("c").requests[:2]] == [
            "GET /api/serve/applications/",
            "PUT /api/serve/applications/",
        ]
        assert boards.of("c").requests[1]["body"] == CONFIG

    on_heads(check)


def test_heads_differ_in_what_they_do() -> None:
    async def check(client: HttpDashboardClient, boards: Dashboards) -> None:
        boards.conduct = Conduct(fail={"PUT": 400})
        boards.apps = "DEPLOY_FAILED"
        with pytest.raises(DashboardRefusedError, match="400"):
            await client.put_serve_config(HEAD, orjson.dumps(CONFIG))
        assert await statuses(client) == {}
        boards.of("other").conduct.fail = {}
        with pytest.raises(DashboardRefusedError):
            await client.put_serve_config(HEAD, orjson.dumps(CONFIG))
        boards.of("c").conduct.fail = {}
        await client.put_serve_config(HEAD, orjson.dumps(CONFIG))
        assert (await statuses(client))["app1"] == "DEPLOY_FAILED"
        # What is said of heads that are yet to come does not reach those that are there.
        boards.conduct = Conduct(refuse=True)
        assert await statuses(client)

    on_heads(check)


def test_a_proxy_is_healthy_until_the_script_says_otherwise() -> None:
    async def check(client: HttpDashboardClient, boards: Dashboards) -> None:
        assert await client.proxy_healthy("10.17.0.1:8000", "ns", "pod")
        boards.of("c").conduct.refuse = True  # the dashboard is another process
        assert await client.proxy_healthy("10.17.0.1:8000", "ns", "pod")
        boards.of("c").conduct.proxy = False
        assert not await client.proxy_healthy("10.17.0.1:8000", "ns", "pod")
        assert boards.of("c").requests == []
        for nobody in ("10.17.0.1:9000", "10.17.0.2:8000"):
            with pytest.raises(DashboardUnreachableError):
                await client.proxy_healthy(nobody, "ns", "pod")

    on_heads(check)


@pytest.mark.parametrize("alive", [True, False])
def test_a_head_that_is_not_ready_has_no_proxy_and_one_that_does_not_run_no_dashboard(alive: bool) -> None:
    async def check(client: HttpDashboardClient, boards: Dashboards) -> None:
        with pytest.raises(DashboardUnreachableError):
            await client.proxy_healthy("10.17.0.1:8000", "ns", "pod")
        if alive:
            assert await statuses(client) == {}
        else:
            with pytest.raises(DashboardUnreachableError):
                await client.serve_applications(HEAD)

    on_heads(check, alive=alive, ready=False)


# -- edits


LIVE: dict[str, Any] = {
    "spec": {"a": 1, "groups": [{"name": "g", "size": 1}, {"name": "h", "tags": ["x", "y"]}], "kept": {"b": 2}}
}


@pytest.mark.parametrize(
    ("changes", "patch"),
    [
        ({"spec.a": 5}, {"a": 5}),
        ({"spec.kept.c": 3, "spec.kept.b": None}, {"kept": {"c": 3, "b": None}}),
        ({"spec.new.deep": {"x": 1}}, {"new": {"deep": {"x": 1}}}),
        ({"spec.groups.0.size": 2}, {"groups": [{"name": "g", "size": 2}, {"name": "h", "tags": ["x", "y"]}]}),
        (
            {"spec.groups.0.size": 2, "spec.groups.1.tags.1": "z"},
            {"groups": [{"name": "g", "size": 2}, {"name": "h", "tags": ["x", "z"]}]},
        ),
        ({"spec.groups.2": {"name": "i"}}, {"groups": [*LIVE["spec"]["groups"], {"name": "i"}]}),
    ],
)
def test_an_edit_reaches_members_of_lists(changes: dict[str, Any], patch: dict[str, Any]) -> None:
    live = copy.deepcopy(LIVE)
    assert edit_patch(live, changes) == {"spec": patch}
    assert live == LIVE


def test_a_place_a_list_does_not_have_is_an_error() -> None:
    with pytest.raises(IndexError):
        edit_patch(LIVE, {"spec.groups.4": {}})


# -- gateways and endpoints


ROUTE: dict[str, Any] = {
    "metadata": {"name": "r", "generation": 2},
    "spec": {"parentRefs": [{"name": "g", "namespace": "ns"}]},
}
GATE: dict[str, Any] = {"metadata": {"name": "g", "generation": 1}, "spec": {"listeners": []}}


@pytest.mark.parametrize(("kind", "obj"), [(GATEWAY, GATE), (HTTP_ROUTE, ROUTE)])
def test_what_is_accepted_says_so_until_it_changes(kind: Kind, obj: dict[str, Any]) -> None:
    assert not is_accepted(kind, obj)
    obj = {**obj, "status": accepted(kind, obj, "2026-01-01T00:00:00Z")}
    assert is_accepted(kind, obj)
    assert not is_accepted(kind, {**obj, "metadata": {**obj["metadata"], "generation": 3}})


def test_the_status_of_an_accepted_route_names_its_gateway() -> None:
    (parent,) = accepted(HTTP_ROUTE, ROUTE, "2026-01-01T00:00:00Z")["parents"]
    assert parent["parentRef"] == {"name": "g", "namespace": "ns"}
    assert {condition["type"] for condition in parent["conditions"]} == {"Accepted", "ResolvedRefs"}


def pod(name: str, labels: dict[str, str], *, ready: bool = True, ip: str = "10.17.0.1") -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": str(ready)}]
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", "labels": labels},
        "status": {"phase": "Running", "podIP": ip, "conditions": conditions},
    }


def test_endpoints_are_the_pods_behind_the_selector() -> None:
    service: dict[str, Any] = {
        "metadata": {
            "name": "s",
            "namespace": "ns",
            "uid": "u",
            "labels": {"ray.io/originated-from-crd": "RayService"},
        },
        "spec": {"selector": {"ray.io/serve": "true"}, "ports": [{"name": "serve", "port": 8000, "targetPort": 8000}]},
    }
    serving, other = {"ray.io/serve": "true"}, {"ray.io/serve": "false"}
    gone, ended = pod("gone", serving), pod("ended", serving)
    gone["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    ended["status"]["phase"] = "Failed"
    pods = [pod("a", serving), pod("b", serving, ready=False), pod("c", other), pod("d", serving, ip="")]
    found = endpoint_slice(service, [*pods, gone, ended])
    assert found is not None
    assert found["metadata"]["labels"]["kubernetes.io/service-name"] == "s"
    assert found["metadata"]["labels"]["ray.io/originated-from-crd"] == "RayService"
    (owner,) = found["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == ("u", True)
    told = {each["targetRef"]["name"]: each["conditions"]["ready"] for each in found["endpoints"]}
    assert told == {"a": True, "b": False}
    service["spec"]["selector"] = {"ray.io/cluster": "c"}
    assert endpoint_slice(service, pods) is None


# -- what is recorded


STATUS = {
    "serviceStatus": "Running",
    "numServeEndpoints": 3,
    "observedGeneration": 2,
    "conditions": [
        {"type": "UpgradeInProgress", "status": "True", "reason": "BothActivePendingClustersExist"},
        {"type": "Ready", "status": "True", "reason": "NonZeroServeEndpoints"},
        {"type": "RayServiceWaiting", "status": "True", "reason": "Ours"},
    ],
    "activeServiceStatus": {
        "rayClusterName": "s-aaaaa",
        "applicationStatuses": {"app1": {"status": "RUNNING", "message": "x"}},
        "targetCapacity": 0,
    },
    "pendingServiceStatus": {"rayClusterName": "s-bbbbb", "applicationStatuses": {}, "trafficRoutedPercent": 100},
}
STATE = {
    "serviceStatus": "Running",
    "conditions": {
        "Ready": "True/NonZeroServeEndpoints",
        "UpgradeInProgress": "True/BothActivePendingClustersExist",
    },
    "active": {"cluster": "s-aaaaa", "apps": {"app1": "RUNNING"}, "targetCapacity": 0},
    "pending": {"cluster": "s-bbbbb", "trafficRoutedPercent": 100},
    "endpoints": ">0",
}


def service(status: dict[str, Any] | None = None, generation: int = 2) -> dict[str, Any]:
    metadata = {"name": "s", "uid": "u", "generation": generation, "finalizers": ["f"]}
    return {"kind": "RayService", "metadata": metadata, "status": STATUS if status is None else status}


def test_a_state_has_what_counts_of_a_status() -> None:
    assert state_of("RayService", service()) == STATE
    assert state_of("RayService", service({})) is None
    empty = {"rayClusterStatus": {"head": {}}, "applicationStatuses": {"app1": {"status": "RUNNING"}}}
    told = state_of("RayService", service({"activeServiceStatus": empty, "pendingServiceStatus": empty}))
    assert told == {"serviceStatus": "", "conditions": {}, "active": None, "pending": None, "endpoints": "0"}


def test_states_are_kept_with_the_time_they_lasted_and_clusters_by_their_number() -> None:
    times = iter([1.0, 1.5])
    masks = Masks("ns", frozenset({"s"}))
    record = Record("RayService", "s", masks, lambda: next(times))
    record.change(RAYSERVICE, "ADDED", service())
    record.change(RAYSERVICE, "MODIFIED", service({**STATUS, "numServeEndpoints": 1}))
    record.change(RAYSERVICE, "MODIFIED", service({**STATUS, "numServeEndpoints": 0}))
    assert len(record.transitions) == 2
    assert record.lasted() == [0.5, math.inf]
    assert masks.text("s-bbbbb after s-aaaaa") == "<cluster-2> after <cluster-1>"


@pytest.mark.parametrize(
    ("moments", "order"), [([1, 2, 50, 51], ["a", "b"]), ([1, 2, 50, 52], ["b", "a"]), ([1, 2, 3, 50], ["b", "a"])]
)
def test_what_one_pass_removes_has_no_order_of_its_own(moments: list[float], order: list[str]) -> None:
    record = Record("RayService", "s", Masks("ns", frozenset()), iter(moments).__next__)
    for change, name in (("ADDED", "a"), ("ADDED", "b"), ("DELETED", "b"), ("DELETED", "a")):
        record.change(RAYCLUSTER, change, {"metadata": {"name": name}})
    created = ["created a", "created b"]
    assert record.lifecycle == {"RayCluster": [*created, *(f"gone {name}" for name in order)]}


def test_a_checkpoint_shows_where_requests_go() -> None:
    labels = {"ray.io/cluster": "c", "ray.io/node-type": "worker", "ray.io/serve": "true"}
    backends = [{"name": "c-serve-svc", "port": 8000, "weight": 0}, {"name": "d-serve-svc", "port": 8000}]
    objects: list[tuple[Kind, dict[str, Any]]] = [
        (POD, pod("a", dict(labels))),
        (POD, pod("b", dict(labels))),
        (GATEWAY, {"metadata": {"name": "s-gateway"}}),
        (HTTP_ROUTE, {"metadata": {"name": "s-httproute"}, "spec": {"rules": [{"backendRefs": backends}]}}),
    ]
    assert checkpoint("RayService", service(), objects) == {
        "objects": {"Pod": {"c worker": {"count": 2, "ray.io/serve": "true"}}},
        "numServeEndpoints": 3,
        "gateway": ["s-gateway"],
        "route": {"s-httproute": [["c-serve-svc", 8000, 0], ["d-serve-svc", 8000, 1]]},
    }
    objects[1][1]["metadata"]["labels"]["ray.io/serve"] = "false"
    assert checkpoint("RayService", None, objects[:2]) == {
        "objects": {"Pod": {"c worker": {"count": 2, "ray.io/serve": "false,true"}}},
        "numServeEndpoints": 0,
    }


@pytest.mark.parametrize(("generation", "word"), [(2, "current"), (3, "older")])
def test_the_end_says_whether_the_newest_spec_was_seen(generation: int, word: str) -> None:
    found = final("RayService", service(generation=generation), [])
    assert found == {
        "exists": True,
        "finalizers": ["f"],
        "conditions": STATE["conditions"],
        "observedGeneration": word,
        "objects": {},
        "numServeEndpoints": 3,
    }


# -- what may differ


def state(
    ready: str, active: Any = None, pending: Any = None, endpoints: str = "0", **conditions: str
) -> dict[str, Any]:
    status = "Running" if ready.startswith("True") else ""
    told = {"Ready": ready, **conditions}
    return {"serviceStatus": status, "conditions": told, "active": active, "pending": pending, "endpoints": endpoints}


C1, C2 = {"cluster": "<cluster-1>"}, {"cluster": "<cluster-2>"}
FIRST = state("False/Initializing", pending=C1)
SWITCHED = state("False/Initializing", active=C1)
SERVING = state("True/NonZeroServeEndpoints", active=C1, endpoints=">0")
UPGRADING = state("True/NonZeroServeEndpoints", active=C1, pending=C2, endpoints=">0")
UPGRADED = state("True/NonZeroServeEndpoints", active=C2, endpoints=">0")
NO_ENDPOINT = state("False/ZeroServeEndpoints", active=C1)
WAY = [FIRST, SWITCHED, SERVING, UPGRADING, UPGRADED]


def of_states(states: list[dict[str, Any]]) -> Scenario:
    return Scenario(
        name="rayservice/made-up",
        about="",
        manifests=[{"kind": "RayService", "metadata": {"name": "s"}, "spec": {}}],
        world={},
        steps=[],
        start=None,
        expected={**dict.fromkeys(("lifecycle", "requests", "events", "checkpoints", "final")), "transitions": states},
    )


def run_of(states: list[tuple[dict[str, Any], float]]) -> Played:
    return Played(
        transitions=[each for each, _ in states],
        lifecycle={},
        requests={},
        events={},
        checkpoints=[],
        final=None,  # type: ignore[arg-type]
        lasted=[seconds for _, seconds in states],
    )


def capacity(number: int | None = None, routed: int | None = None, cluster: dict[str, Any] = C1) -> dict[str, Any]:
    told = {"targetCapacity": number, "trafficRoutedPercent": routed}
    return {**cluster, **{key: value for key, value in told.items() if value is not None}}


STEADY = [(each, 5.0) for each in WAY]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        pytest.param(WAY, STEADY, id="the same"),
        pytest.param(WAY, [STEADY[0], *STEADY[2:]], id="endpoints counted at once"),
        pytest.param(WAY, [(FIRST, 5), (SWITCHED, 0.1), (NO_ENDPOINT, 1.9), *STEADY[2:]], id="a short one"),
        pytest.param(WAY, [*STEADY[:3], (NO_ENDPOINT, 1), (SERVING, 3), *STEADY[3:]], id="a short one in between"),
        pytest.param(
            [SERVING, state("False/X", Suspending="True/SuspendInProgress"), state("False/Y")],
            [(SERVING, 5), (state("False/Y"), math.inf)],
            id="all deleted at once",
        ),
        pytest.param(
            [FIRST, state("True/X", active=capacity(100)), state("True/X", active=capacity(100, 100))],
            [(FIRST, 3), (state("True/X", active=capacity(100, 100)), math.inf)],
            id="routed at once",
        ),
    ],
)
def test_states_that_are_over_at_once_may_differ(
    wanted: list[dict[str, Any]], found: list[tuple[dict[str, Any], float]]
) -> None:
    assert differences(of_states(wanted), run_of(found)) == {}


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(STEADY[:-1], id="the last one is missing"),
        pytest.param([*STEADY[:2], *STEADY[3:]], id="one is missing"),
        pytest.param(STEADY[1:], id="the first one is missing"),
        pytest.param([*STEADY[:3], (NO_ENDPOINT, 2.0), (SERVING, 3), *STEADY[3:]], id="another one that stays"),
        pytest.param([*STEADY, (NO_ENDPOINT, math.inf)], id="another end"),
        pytest.param([STEADY[0], STEADY[3], STEADY[2], STEADY[4]], id="another order"),
        pytest.param([(FIRST, 5), (SWITCHED, 5), (FIRST, 5), *STEADY[2:]], id="one comes twice"),
    ],
)
def test_states_that_stay_may_not_differ(found: list[tuple[dict[str, Any], float]]) -> None:
    assert list(differences(of_states(WAY), run_of(found))) == ["transitions"]


def test_endpoints_that_go_away_are_no_short_state() -> None:
    wanted = [SERVING, NO_ENDPOINT, SERVING]
    assert differences(of_states(wanted), run_of([(SERVING, math.inf)])) != {}


def test_a_busy_machine_makes_short_states_longer() -> None:
    found = [*STEADY[:3], (NO_ENDPOINT, 4), (SERVING, 3), *STEADY[3:]]
    assert differences(of_states(WAY), run_of(found)) != {}
    assert differences(of_states(WAY), run_of(found), requeue=6.0) == {}


# -- a whole world, whose operator is the test


def test_a_world_of_two_clusters(tmp_path: Path) -> None:
    steps = [
        {"wait": {"status": {"pendingServiceStatus.rayClusterName": "*"}, "pods": {"head": 2}}},
        {"sleep": 1},
        {"pods": {"which": "head", "to": "unready", "cluster": "pending"}},
        {"apps": {"status": "DEPLOYING", "cluster": "pending"}},
        {"dashboard": {"proxy": False}},
        {"wait": {"labels": {"head": {"ray.io/serve": "true"}}}},
        {"world": {"gateway": "accepted"}},
        {"edit": {"set": {"spec.rayClusterConfig.workerGroupSpecs.0.replicas": 3}}},
        {"check": "all"},
    ]
    manifest = {
        "apiVersion": "ray.io/v1",
        "kind": "RayService",
        "metadata": {"name": "s"},
        "spec": {"serveConfigV2": "", "rayClusterConfig": build_raycluster("ignored", groups={"g": 1})["spec"]},
    }
    script = {"manifests": [manifest], "steps": steps, "world": {"gateway": "wait"}}
    (tmp_path / "scenario.yaml").write_text(f"# A world.\n{yaml.safe_dump(script)}")
    (tmp_path / "expected.yaml").write_text(yaml.safe_dump({"transitions": [], "final": {"exists": True}}))

    async def operate(client: Client) -> None:
        for cluster, serves in (("s-aaaaa", "true"), ("s-bbbbb", "false")):
            labels = {"ray.io/cluster": cluster, "ray.io/node-type": "head", "ray.io/serve": serves}
            await client.create(RAYCLUSTER, "ns", build_raycluster(cluster, namespace="ns"))
            template = build_pod_template()
            metadata = {"name": f"{cluster}-head", "namespace": "ns", "labels": labels, "annotations": HELD}
            await client.create(POD, "ns", {**template, "apiVersion": "v1", "kind": "Pod", "metadata": metadata})
        selector = {"ray.io/serve": "true"}
        spec = {"selector": selector, "ports": [{"name": "serve", "port": 8000}]}
        body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s-serve-svc", "namespace": "ns"}}
        await client.create(SERVICE, "ns", {**body, "spec": spec})
        for obj in (GATE, ROUTE):
            kind = GATEWAY if obj is GATE else HTTP_ROUTE
            metadata = {"name": obj["metadata"]["name"], "namespace": "ns"}
            spec = {**obj["spec"], **({} if obj is GATE else {"rules": []})}
            await client.create(
                kind, "ns", {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}
            )
        sides = {"active": "s-aaaaa", "pending": "s-bbbbb"}
        status = {f"{side}ServiceStatus": {"rayClusterName": name} for side, name in sides.items()}
        await client.merge_patch(RAYSERVICE, "ns", "s", {"status": status}, subresource="status")

    async def run() -> tuple[Played, ScenarioWorld, list[dict[str, Any]]]:
        async with SimWorld() as cluster:
            client = Client(cluster.transport("users"), field_manager="users")
            follower = Follower(client, scenario_kinds())
            world = ScenarioWorld(load_scenario(tmp_path), client, cluster.server.clock, "ns", follower)
            await follower.start()
            world.play_endpoints()
            operator = asyncio.create_task(_once_there(world, operate(client)))
            try:
                return await replay(world), world, cluster.server.objects(ENDPOINT_SLICE, "ns")
            finally:
                await operator
                await follower.stop()

    async def _once_there(world: ScenarioWorld, work: Coroutine[Any, Any, None]) -> None:
        while world.main is None:
            await asyncio.sleep(0.1)
        await work

    played, world, slices = run_sim(run)
    (behind,) = slices
    (endpoint,) = behind["endpoints"]
    assert (endpoint["targetRef"]["name"], endpoint["conditions"]["ready"]) == ("s-aaaaa-head", True)
    assert behind["metadata"]["labels"]["kubernetes.io/service-name"] == "s-serve-svc"
    ready = {name: is_ready(obj) for (kind, name), obj in world.objects.items() if kind == POD}
    assert ready == {"s-aaaaa-head": True, "s-bbbbb-head": False}
    boards = world.dashboards.by_cluster
    assert {name: (board.conduct.proxy, board.serve.gives) for name, board in boards.items()} == {
        "s-aaaaa": (False, "RUNNING"),
        "s-bbbbb": (True, "DEPLOYING"),
    }
    assert all(is_accepted(kind, obj) for kind in (GATEWAY, HTTP_ROUTE) for obj in world.all_of(kind))
    assert world.all_of(GATEWAY)
    assert world.main is not None
    groups = world.main["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    assert [(group["groupName"], group["replicas"]) for group in groups] == [("g", 3)]
    assert played.checkpoints[0]["gateway"] == ["g"]
    assert played.checkpoints[0]["objects"]["Pod"]["<cluster-2> head"] == {"count": 1, "ray.io/serve": "false"}
    addresses = [pod["status"]["podIP"] for pod in world.all_of(POD)]
    assert {world.at_address(address) for address in addresses} == {"s-aaaaa", "s-bbbbb"}
    assert world.at_address("10.17.9.9") is None
