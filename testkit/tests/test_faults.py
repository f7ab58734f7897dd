"""Each fault does what its name says, to the requests it names, as often as it is told."""

import asyncio

import orjson
import pytest
from kuberay.api.kinds import POD, RAYCLUSTER
from kuberay.kube.transport import TransportError
from kuberay_testkit.builders import build_raycluster
from kuberay_testkit.conformance.api import Api
from kuberay_testkit.conformance.bodies import a_cluster, a_config
from kuberay_testkit.sim.clock import run_sim
from kuberay_testkit.sim.faults import Faults
from kuberay_testkit.sim.paths import Subject
from kuberay_testkit.sim.registry import CONFIG_MAP
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.transport import SimTransport


def with_faults(faults, main):
    server = SimServer(faults=faults)
    return run_sim(lambda: main(server, Api(SimTransport(server, client="me"), "default")))


@pytest.mark.parametrize(
    ("action", "status", "reason", "stored"),
    [
        ("conflict", 409, "Conflict", False),
        ("throttle", 429, "TooManyRequests", False),
        ("refuse", 403, "Forbidden", False),
        ("error_before", 500, "InternalError", False),
        ("error_after", 500, "InternalError", True),
    ],
)
def test_answered_faults(action, status, reason, stored):
    async def main(server, api):
        answer = await api.apply(CONFIG_MAP, a_config("a"), manager="m")
        assert (answer.status, answer.reason) == (status, reason)
        assert (server.peek(CONFIG_MAP, "default", "a") is not None) == stored
        (call,) = server.calls
        assert (call.fault, call.verb, call.status) == (
            action,
            "apply",
            500 if action == "error_before" else call.status,
        )
        assert (await api.apply(CONFIG_MAP, a_config("a"), manager="m")).status in (200, 201)

    with_faults(Faults().add(action, times=1), main)


@pytest.mark.parametrize(("action", "stored"), [("timeout_before", False), ("timeout_after", True)])
def test_unanswered_faults(action, stored):
    async def main(server, api):
        with pytest.raises(TransportError):
            await api.create(CONFIG_MAP, a_config("a"))
        assert (server.peek(CONFIG_MAP, "default", "a") is not None) == stored
        assert [(call.status, call.fault) for call in server.calls] == [(0, action)]

    with_faults(Faults().add(action, times=1), main)


def test_throttling_says_when_to_come_back():
    async def main(server, api):
        response = await api.transport.request("GET", CONFIG_MAP.path("default"))
        assert response.headers["retry-after"] == "7"
        assert orjson.loads(response.body)["details"]["retryAfterSeconds"] == 7

    with_faults(Faults().add("throttle", seconds=7), main)


def test_a_slow_answer_meets_the_callers_timeout():
    async def main(server, api):
        with pytest.raises(TransportError, match=r"no answer within 0\.5 s"):
            await api.transport.request("GET", CONFIG_MAP.path("default"), timeout=0.5)
        assert (await api.transport.request("GET", CONFIG_MAP.path("default"))).status == 200

    with_faults(Faults(3).add("slow", seconds=100), main)


def test_rules_match_count_and_skip():
    plan = Faults().add("error_before", verb="create", resource="pods", skip=1, times=2)

    def hit(verb, resource):
        rule = plan.for_request(Subject(verb, "", resource, "", "default", "", "me"), 0.0)
        return rule is not None

    assert not hit("get", "pods")
    assert not hit("create", "services")
    assert [hit("create", "pods") for _ in range(4)] == [False, True, True, False]


def test_writes_only_faults_spare_reads():
    plan = Faults().add("conflict").add("timeout_after").add("error_after")
    for verb in ("get", "list", "watch"):
        assert plan.for_request(Subject(verb, "", "pods", "", "", "", "me"), 0.0) is None


def test_trouble_ends():
    subject = Subject("get", "", "pods", "", "", "", "me")
    plan = Faults(until=10.0).add("error_before")
    assert plan.for_request(subject, 9.9) is not None
    assert plan.for_request(subject, 10.0) is None
    endless = Faults().add("error_before")
    endless.stop()
    assert endless.for_request(subject, 0.0) is None


def test_a_misspelt_match_is_refused():
    with pytest.raises(TypeError, match="resourc"):
        Faults().add("conflict", resourc="pods")


def test_a_mixture_is_the_same_for_the_same_seed():
    def draw(seed):
        plan = Faults.mixture(seed, intensity=0.5)
        found = [plan.for_request(Subject("create", "", "pods", "", "", str(n), "me"), 0.0) for n in range(200)]
        return [rule.action if rule else "" for rule in found]

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)
    assert len(set(draw(1))) > 3


@pytest.mark.parametrize("action", ["drop_watch", "expire_watch", "close_watch", "silence_watch", "delay_event"])
def test_watch_faults(action):
    async def main(server, api):
        start = str(server.store.rv)
        server.create(build_raycluster("a"))
        got, error = [], ""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            params = {"watch": "1", "resourceVersion": start, "timeoutSeconds": "15"}
            async with api.transport.stream(RAYCLUSTER.path(), params=params, idle_timeout=20) as (status, lines):
                assert status == 200
                got = [orjson.loads(line)["type"] async for line in lines]
        except TransportError as failure:
            error = str(failure)
        took = loop.time() - begun
        again = await api.watch(RAYCLUSTER, start, count=1)
        if action == "delay_event":
            assert (got, error) == (["ADDED"], "")
        else:
            assert got == []
            assert bool(error) == (action != "close_watch")
        assert took >= {"silence_watch": 20, "delay_event": 5}.get(action, 0)
        assert again[0][0] == ("ERROR" if action == "expire_watch" else "ADDED")

    with_faults(Faults().add(action, times=1, seconds=5), main)


def test_requests_before_a_restriction_is_lifted_are_forbidden():
    async def main(server, api):
        server.restrict("me", [{"apiGroups": ["ray.io"], "resources": ["rayclusters"], "verbs": ["create"]}])
        assert (await api.create(RAYCLUSTER, a_cluster("a"))).status == 201
        refused = await api.create(POD, {"metadata": {"name": "p"}})
        assert (refused.status, refused.reason) == (403, "Forbidden")
        # An apply that makes a new object is a create and a patch.
        assert (await api.apply(RAYCLUSTER, a_cluster("b"), manager="m")).status == 403

    with_faults(Faults(), main)
