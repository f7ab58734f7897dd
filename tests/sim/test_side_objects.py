"""Token Secret, Ingress, Route and storage claim in the running operator, with its own permissions and no more."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from kuberay.api.gates import DEFAULT_GATES
from kuberay.api.kinds import EVENT, INGRESS, POD, RAYCLUSTER, ROUTE, SECRET, Kind
from kuberay.api.kinds import PERSISTENT_VOLUME_CLAIM as PVC
from kuberay.plan.config import PlanConfig
from kuberay_testkit.builders import build_raycluster
from kuberay_testkit.sim.calls import missing_permissions
from kuberay_testkit.sim.clock import run_sim
from kuberay_testkit.sim.operator import RayWorld, SimOperator, operator_rules
from kuberay_testkit.sim.podstatus import Wish
from kuberay_testkit.sim.users import NAMESPACE

GATES = {**DEFAULT_GATES, "GCSFaultToleranceEmbeddedStorage": True}
OPENSHIFT = PlanConfig(openshift=True)
CHILDREN = {SECRET: "rc", INGRESS: "rc-head-ingress", PVC: "rc-gcs-pvc"}


def cluster(**spec: Any) -> dict[str, Any]:
    """A cluster with everything that stands beside pods."""
    options = {"authOptions": {"mode": "token"}, "gcsFaultToleranceOptions": {"backend": "rocksdb"}}
    body = build_raycluster("rc", namespace=NAMESPACE, groups=2, **{**options, **spec})
    body["spec"]["headGroupSpec"]["enableIngress"] = True
    return body


def start(world: RayWorld, config: PlanConfig | None = None) -> SimOperator:
    operator = SimOperator(world=world, gates=GATES, config=config or PlanConfig())
    world.server.restrict(operator.name, operator_rules())
    operator.start()
    return operator


def peek(world: RayWorld, kind: Kind, name: str) -> dict[str, Any]:
    found = world.server.peek(kind, NAMESPACE, name)
    assert found is not None, f"{kind} {name} is not there"
    return found


def told(world: RayWorld, reason: str) -> list[str]:
    return [event["note"] for event in world.server.objects(EVENT, NAMESPACE) if event["reason"] == reason]


def foreign(kind: Kind, name: str, **parts: Any) -> dict[str, Any]:
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        **parts,
    }


@pytest.mark.parametrize("config", [PlanConfig(), OPENSHIFT], ids=["ingress", "route"])
def test_a_settled_cluster_with_all_of_them_asks_for_nothing(config: PlanConfig) -> None:
    async def run() -> None:
        async with RayWorld(seed=1) as world:
            operator = start(world, config)
            world.server.create(cluster())
            await world.rest(quiet=30)
            assert peek(world, RAYCLUSTER, "rc")["status"]["state"] == "ready"
            route = (ROUTE, "rc-head-route") if config.openshift else (INGRESS, "rc-head-ingress")
            for kind, name in (route, (SECRET, "rc"), (PVC, "rc-gcs-pvc")):
                assert peek(world, kind, name)["metadata"]["ownerReferences"][0]["name"] == "rc"
            assert missing_permissions(operator.calls(), operator_rules()) == set()
            assert [str(call) for call in await operator.idle_calls()] == []
            await operator.kill()
            second = start(world, config)
            assert [str(call) for call in await second.idle_calls()] == [], "nor after a restart"

    run_sim(run)


def test_the_token_is_the_text_of_32_random_bytes_and_no_memory_holds_it() -> None:
    async def run() -> None:
        async with RayWorld(seed=1) as world:
            operator = start(world)
            for name in ("rc", "other"):
                world.server.create({**cluster(), "metadata": {"name": name, "namespace": NAMESPACE}})
            await world.rest(quiet=30)
            tokens = [base64.b64decode(peek(world, SECRET, name)["data"]["auth_token"]) for name in ("rc", "other")]
            assert tokens[0] != tokens[1]
            assert [len(token) for token in tokens] == [44, 44]
            assert [len(base64.b64decode(token, validate=True)) for token in tokens] == [32, 32]
            assert operator.app is not None
            held = operator.app.store.get(SECRET, NAMESPACE, "rc")
            assert held is not None
            assert tokens[0].decode() not in repr(held)
            assert peek(world, SECRET, "rc")["data"]["auth_token"] not in repr(held)

    run_sim(run)


@pytest.mark.parametrize("kind", CHILDREN, ids=str)
def test_a_deleted_one_comes_back(kind: Kind) -> None:
    async def run() -> None:
        async with RayWorld(seed=1) as world:
            operator = start(world)
            world.server.create(cluster())
            await world.rest(quiet=30)
            before = peek(world, kind, CHILDREN[kind])
            world.server.delete(kind, NAMESPACE, CHILDREN[kind])
            await world.rest(quiet=5)
            after = peek(world, kind, CHILDREN[kind])
            assert after["metadata"]["uid"] != before["metadata"]["uid"]
            if kind == SECRET:
                assert after["data"] != before["data"]
            assert await operator.idle_calls() == []

    run_sim(run)


@pytest.mark.parametrize("labels", [None, {"ray.io/cluster": "rc"}, {"ray.io/cluster": "rc", "more": "x"}], ids=str)
def test_a_secret_of_somebody_else_counts_and_is_left_alone(labels: Any) -> None:
    async def run() -> None:
        async with RayWorld(seed=1) as world:
            theirs = foreign(SECRET, "rc", data={"auth_token": "bWluZQ=="})
            if labels:
                theirs["metadata"]["labels"] = labels
            world.server.create(theirs)
            operator = start(world)
            world.server.create(cluster())
            await world.rest(quiet=30)
            assert peek(world, RAYCLUSTER, "rc")["status"]["state"] == "ready"
            found = peek(world, SECRET, "rc")
            assert found["data"] == {"auth_token": "bWluZQ=="}
            assert "ownerReferences" not in found["metadata"]
            tried = [call for call in operator.calls() if (call.verb, call.resource) == ("create", "secrets")]
            assert len(tried) == (0 if labels else 1)
            assert [str(call) for call in await operator.idle_calls()] == []

    run_sim(run)


def test_a_secret_of_somebody_else_that_went_while_a_worker_was_missing_is_made_anew() -> None:
    async def run() -> None:
        async with RayWorld(seed=1) as world:
            world.server.create(foreign(SECRET, "rc"))
            start(world)
            world.server.create(cluster())
            await world.rest(quiet=30)
            world.server.delete(SECRET, NAMESPACE, "rc")
            await world.rest(quiet=30)
            assert world.server.peek(SECRET, NAMESPACE, "rc") is None, "all pods run; nobody needs it"
            world.kubelet.behave = lambda _pod: Wish(phase="Pending")
            (worker, *_) = [p for p in world.server.objects(POD, NAMESPACE) if "worker" in p["metadata"]["name"]]
            world.server.delete(POD, NAMESPACE, worker["metadata"]["name"])
            await world.rest(quiet=60)
            assert peek(world, SECRET, "rc")["metadata"]["ownerReferences"][0]["name"] == "rc"

    run_sim(run)


def test_an_ingress_of_somebody_else_is_left_alone_until_it_goes() -> None:
    async def run() -> None:
        async with RayWorld(seed=1) as world:
            world.server.create(foreign(INGRESS, "rc-head-ingress", spec={"ingressClassName": "theirs"}))
            operator = start(world)
            world.server.create(cluster())
            await world.rest(quiet=120)
            note = f"Ingress {NAMESPACE}/rc-head-ingress already exists and is not owned by this RayCluster; "
            assert told(world, "FailedToCreateIngress") == [f"{note}not modifying it"]
            assert peek(world, RAYCLUSTER, "rc")["status"]["state"] == "ready"
            assert peek(world, INGRESS, "rc-head-ingress")["spec"] == {"ingressClassName": "theirs"}
            assert {f"{call.verb} {call.resource}" for call in await operator.idle_calls()} == {"get ingresses"}
            world.server.delete(INGRESS, NAMESPACE, "rc-head-ingress")
            await world.rest(quiet=120)
            assert peek(world, INGRESS, "rc-head-ingress")["metadata"]["ownerReferences"][0]["name"] == "rc"
            conditions = {c["type"] for c in peek(world, RAYCLUSTER, "rc")["status"]["conditions"]}
            assert "IngressConflict" not in conditions
            assert await operator.idle_calls() == []

    run_sim(run)


def test_an_ingress_whose_label_was_taken_away_is_repaired() -> None:
    """It leaves the operator's watch with that."""

    async def run() -> None:
        async with RayWorld(seed=1) as world:
            operator = start(world)
            world.server.create(cluster())
            await world.rest(quiet=30)
            labels = {"ray.io/cluster": None, "app.kubernetes.io/created-by": None}
            patch = {"metadata": {"labels": labels}, "spec": {"rules": [{"host": "stale"}]}}
            world.server.patch(INGRESS, NAMESPACE, "rc-head-ingress", patch)
            await world.rest(quiet=10)
            (found,) = world.server.objects(INGRESS, NAMESPACE)
            assert found["metadata"]["labels"]["ray.io/cluster"] == "rc"
            assert "host" not in found["spec"]["rules"][0]
            assert await operator.idle_calls() == []

    run_sim(run)


def test_nobody_adds_a_rule_to_an_ingress_of_ours() -> None:
    async def run() -> None:
        async with RayWorld(seed=1) as world:
            operator = start(world)
            world.server.create(cluster())
            await world.rest(quiet=30)
            before = peek(world, INGRESS, "rc-head-ingress")["spec"]
            more = {"spec": {"rules": [*before["rules"], {"host": "open.example"}], "ingressClassName": "nginx"}}
            world.server.patch(INGRESS, NAMESPACE, "rc-head-ingress", more)
            await world.rest(quiet=10)
            after = peek(world, INGRESS, "rc-head-ingress")["spec"]
            assert after == {**before, "ingressClassName": "nginx"}, "a class that admission filled in is kept"
            assert told(world, "UpdatedIngress") == [f"Updated ingress {NAMESPACE}/rc-head-ingress"]
            assert await operator.idle_calls() == []

    run_sim(run)


def test_turned_off_the_ingress_goes() -> None:
    async def run() -> None:
        async with RayWorld(seed=1) as world:
            start(world)
            world.server.create(cluster())
            await world.rest(quiet=30)
            world.server.patch(RAYCLUSTER, NAMESPACE, "rc", {"spec": {"headGroupSpec": {"enableIngress": False}}})
            await world.rest(quiet=10)
            assert world.server.objects(INGRESS, NAMESPACE) == []
            assert told(world, "DeletedIngress") == [f"Deleted ingress {NAMESPACE}/rc-head-ingress"]

    run_sim(run)


def test_a_retained_claim_outlives_its_cluster_and_serves_the_next() -> None:
    async def run() -> None:
        async with RayWorld(seed=1) as world:
            operator = start(world)
            body = cluster(
                gcsFaultToleranceOptions={"backend": "rocksdb", "storage": {"deletionPolicy": "Retain"}},
            )
            world.server.create(body)
            await world.rest(quiet=30)
            claim = peek(world, PVC, "rc-gcs-pvc")
            assert "ownerReferences" not in claim["metadata"]
            world.server.delete(RAYCLUSTER, NAMESPACE, "rc")
            await world.rest(quiet=30)
            assert [o["metadata"]["name"] for o in world.server.objects(PVC, NAMESPACE)] == ["rc-gcs-pvc"]
            assert world.server.objects(SECRET, NAMESPACE) == world.server.objects(INGRESS, NAMESPACE) == []
            world.server.create(body)
            await world.rest(quiet=30)
            assert peek(world, PVC, "rc-gcs-pvc")["metadata"]["uid"] == claim["metadata"]["uid"]
            assert peek(world, RAYCLUSTER, "rc")["status"]["state"] == "ready"
            assert await operator.idle_calls() == []

    run_sim(run)
