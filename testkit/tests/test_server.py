"""What the simulated server offers beyond a real one's semantics: records, history, kinds that come and go."""

import asyncio

import orjson
import pytest
from kuberay.api.kinds import CRD, LEASE, POD, RAYCLUSTER, Kind
from kuberay.kube.transport import TransportError
from kuberay_testkit.builders import build_raycluster
from kuberay_testkit.conformance.api import Api
from kuberay_testkit.conformance.bodies import a_cluster, a_config
from kuberay_testkit.sim.calls import missing_permissions
from kuberay_testkit.sim.clock import run_sim
from kuberay_testkit.sim.registry import CONFIG_MAP, POD_GROUP
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.status import APIError
from kuberay_testkit.sim.transport import SimTransport


def simulate(main, **options):
    server = SimServer(**options)
    return run_sim(lambda: main(server, Api(SimTransport(server), "default")))


def test_requests_are_recorded():
    async def main(server, api):
        await api.create(RAYCLUSTER, a_cluster("a"), fieldManager="kuberay-operator")
        await api.apply(
            RAYCLUSTER, {"metadata": {"name": "a"}, "status": {"state": "x"}}, manager="m", subresource="status"
        )
        await api.get(RAYCLUSTER, "none")
        assert server.count(verb="create", resource="rayclusters") == 1
        assert server.count(verb="apply", subresource="status", manager="m") == 1
        assert server.count(status=404) == 1
        assert server.calls.tally(client="operator") == {
            ("create", "rayclusters"): 1,
            ("apply", "rayclusters/status"): 1,
            ("get", "rayclusters"): 1,
        }
        assert str(server.calls[0]) == "create rayclusters.ray.io default/ 201"

    simulate(main)


def test_permissions_follow_from_calls():
    async def main(server, api):
        await api.apply(RAYCLUSTER, a_cluster("a"), manager="m")
        await api.apply(RAYCLUSTER, a_cluster("a", groups=2), manager="m")
        await api.find(POD)
        rules = [{"apiGroups": ["ray.io"], "resources": ["rayclusters"], "verbs": ["patch"]}]
        assert missing_permissions(server.calls, rules) == {("create", "ray.io", "rayclusters"), ("list", "", "pods")}
        assert missing_permissions(server.calls, [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]) == set()
        named = [{**rules[0], "resourceNames": ["other"]}]
        assert ("patch", "ray.io", "rayclusters") in missing_permissions(server.calls, named)

    simulate(main)


def test_forgotten_history_is_gone():
    async def main(server, api):
        for number in range(3):
            await api.create(CONFIG_MAP, a_config(f"c{number}"))
        page = await api.find(CONFIG_MAP, limit="1")
        start = page.version
        server.compact()
        answer = await api.find(CONFIG_MAP, **{"limit": "1", "continue": page.body["metadata"]["continue"]})
        assert (answer.status, answer.reason) == (410, "Expired")
        ((type_, status),) = await api.watch(CONFIG_MAP, "1000", count=1)
        assert (type_, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
        await api.create(CONFIG_MAP, a_config("later"))
        assert [type_ for type_, _ in await api.watch(CONFIG_MAP, start, count=1)] == ["ADDED"]

    simulate(main)


def test_continue_tokens_live_five_minutes():
    async def main(server, api):
        for number in range(3):
            await api.create(CONFIG_MAP, a_config(f"c{number}"))
        token = (await api.find(CONFIG_MAP, limit="1")).body["metadata"]["continue"]
        await asyncio.sleep(299)
        assert (await api.find(CONFIG_MAP, **{"limit": "1", "continue": token})).status == 200
        await asyncio.sleep(2)
        assert (await api.find(CONFIG_MAP, **{"limit": "1", "continue": token})).status == 410

    simulate(main)


def test_history_is_bounded():
    async def main(server, api):
        for number in range(25):
            await api.create(CONFIG_MAP, a_config(f"c{number}"))
        (event,) = await api.watch(CONFIG_MAP, "1001", count=1)
        assert event[0] == "ERROR"

    simulate(main, history=10)


def test_a_running_watch_survives_compaction_and_dies_when_cut():
    async def main(server, api):
        seen = []

        async def follow(path):
            params = {"watch": "1", "resourceVersion": str(server.store.rv)}
            async with api.transport.stream(path, params=params, idle_timeout=100) as (_, lines):
                async for line in lines:
                    seen.append(orjson.loads(line)["object"]["metadata"]["name"])

        task = asyncio.create_task(follow(CONFIG_MAP.path()))
        await asyncio.sleep(1)
        await api.create(CONFIG_MAP, a_config("a"))
        await asyncio.sleep(1)
        server.compact()
        await api.create(CONFIG_MAP, a_config("b"))
        await asyncio.sleep(1)
        assert server.cut_watches(POD) == 0
        assert server.cut_watches() == 1
        with pytest.raises(TransportError, match="reset"):
            await task
        assert seen == ["a", "b"]
        silent = asyncio.create_task(follow(LEASE.path()))
        with pytest.raises(TransportError, match="silent for 100 s"):
            await silent

    simulate(main)


def test_bookmarks_keep_a_quiet_watch_alive():
    async def main(server, api):
        params = {"watch": "1", "resourceVersion": "1000", "timeoutSeconds": "200", "allowWatchBookmarks": "true"}
        async with api.transport.stream(LEASE.path(), params=params, idle_timeout=70) as (_, lines):
            types = [orjson.loads(line)["type"] async for line in lines]
        assert types == ["BOOKMARK"] * 4
        assert asyncio.get_running_loop().time() == pytest.approx(200, abs=1)

    simulate(main)


def test_kinds_come_and_go():
    async def main(server, api):
        server.unregister(POD_GROUP)
        gone = await api.transport.request("GET", POD_GROUP.path("default"))
        assert (gone.status, gone.body) == (404, b"404 page not found\n")
        thing = Kind("example.com", "v1", "things", "Thing")
        server.register(thing)
        assert (await api.create(thing, {"metadata": {"name": "t"}})).status == 201
        groups = await api.call("GET", "/apis")
        assert "example.com" in [group["name"] for group in groups.body["groups"]]

    simulate(main)


def test_a_crd_that_is_created_is_served():
    async def main(server, api):
        manifest = {
            "metadata": {"name": "queues.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": {"plural": "queues", "kind": "Queue"},
                "versions": [{"name": "v1", "served": True, "storage": True, "subresources": {}}],
            },
        }
        queue = Kind("example.com", "v1", "queues", "Queue")
        assert (await api.find(queue)).status == 404
        assert (await api.create(CRD, manifest)).status == 201
        assert (await api.find(queue)).status == 200
        stored = server.peek(CRD, "", "queues.example.com")
        assert stored["status"]["conditions"][0]["type"] == "Established"
        # Without a status subresource the whole object is written at once.
        made = await api.create(queue, {"metadata": {"name": "q"}, "status": {"x": 1}})
        assert made.body["status"] == {"x": 1}
        await api.delete(CRD, "queues.example.com")
        assert (await api.find(queue)).status == 404

    simulate(main)


def test_admission_can_be_added():
    def refuse(kind, body):
        if body["spec"].get("suspend") == "maybe":
            raise APIError(422, "Invalid", "spec.suspend: must be a boolean")

    async def main(server, api):
        server.admit(RAYCLUSTER, refuse)
        assert (await api.create(RAYCLUSTER, a_cluster("a", suspend="maybe"))).status == 422
        assert (await api.create(RAYCLUSTER, a_cluster("a", suspend=True))).status == 201

    simulate(main)


def test_pods_take_their_grace_period():
    async def main(server, api):
        await api.create(POD, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "image": "b"}]}})
        answer = await api.delete(POD, "p")
        assert answer.body["metadata"]["deletionGracePeriodSeconds"] == 30
        assert (await api.get(POD, "p")).status == 200
        assert (await api.delete(POD, "p", gracePeriodSeconds="0")).status == 200
        assert (await api.get(POD, "p")).status == 404

    simulate(main, pod_grace=30)


def test_a_terminating_namespace_takes_nothing_new():
    async def main(server, api):
        server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}})
        server.create(build_raycluster("a"))
        await api.call("DELETE", "/api/v1/namespaces/default")
        answer = await api.create(CONFIG_MAP, a_config("a"))
        assert (answer.status, answer.reason) == (403, "Forbidden")

    simulate(main)


def test_same_seed_same_uids():
    def uids(seed):
        server = SimServer(seed=seed)
        return [server.create(build_raycluster(name))["metadata"]["uid"] for name in "ab"]

    assert uids(1) == uids(1)
    assert uids(1) != uids(2)


def test_health_and_access_reviews():
    async def main(server, api):
        assert (await api.transport.request("GET", "/readyz")).body == b"ok"
        review = {"spec": {"resourceAttributes": {"verb": "create", "resource": "pods"}}}
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        assert (await api.call("POST", path, body=review)).body["status"]["allowed"] is True
        server.restrict("operator", [])
        assert (await api.call("POST", path, body=review)).body["status"]["allowed"] is False

    simulate(main)
