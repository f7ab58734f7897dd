"""Replicas that keep certificates together: one Secret, everybody trusted at each moment, and nobody fights."""

from __future__ import annotations

import asyncio
import base64
from datetime import timedelta
from typing import Any

import pytest
from kuberay.api.kinds import SECRET
from kuberay.kube.errors import ForbiddenError
from kuberay.operator.webhooks.authority import read
from kuberay.operator.webhooks.configurations import MUTATING, VALIDATING, trusting, webhook_manifests
from kuberay_testkit.sim.faults import Faults
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.virtual import in_virtual_time

from .played import NAME, NAMESPACE, SECRET_NAME, Replica, bundles, cluster, configure, secret

MINUTE = timedelta(minutes=1)


def trusted(server: SimServer, chain: bytes) -> bool:
    """Whether every webhook trusts whoever signed *chain*."""
    (leaf,) = read(chain)
    return all(leaf.signer in {each.key for each in read(bundle)} for bundle in bundles(server))


def writes(server: SimServer) -> int:
    return sum(server.count(verb=verb) for verb in ("create", "update", "patch", "apply"))


@in_virtual_time
async def test_the_first_replica_makes_them() -> None:
    server = cluster()
    one = Replica(server)
    assert "not looked at yet" in one.keeper.problem
    await one.keeper.look()
    assert one.keeper.problem == ""
    made = secret(server)
    assert made is not None
    assert made["type"] == "kubernetes.io/tls"
    assert sorted(made["data"]) == ["ca.crt", "ca.key", "tls.crt", "tls.key"]
    (chain, key) = one.served[-1]
    assert (chain, key) == tuple(base64.b64decode(made["data"][name]) for name in ("tls.crt", "tls.key"))
    (leaf,) = read(chain)
    assert leaf.names == {f"{NAME}.{NAMESPACE}.svc"}
    assert len(bundles(server)) == 8
    assert set(bundles(server)) == {base64.b64decode(made["data"]["ca.crt"])}
    before = writes(server)
    await one.keeper.look()
    assert writes(server) == before, "what is right is not written again"


@in_virtual_time
async def test_two_that_start_at_once_agree() -> None:
    server = cluster()
    replicas = [Replica(server, name) for name in ("a", "b", "c")]
    await asyncio.gather(*(replica.keeper.look() for replica in replicas))
    await asyncio.gather(*(replica.keeper.look() for replica in replicas))
    assert len({replica.served[-1] for replica in replicas}) == 1
    assert trusted(server, replicas[0].served[-1][0])
    before = writes(server)
    for _ in range(5):
        await asyncio.gather(*(replica.keeper.look() for replica in replicas))
    assert writes(server) == before


@pytest.mark.parametrize(("skew", "seed"), [(0.0, 0), (-40.0, 0), (40.0, 0), (0.0, 1), (20.0, 2), (-20.0, 3)])
def test_rotation_by_replicas_that_come_and_go(skew: float, seed: int) -> None:
    """Ten lifetimes of a certificate; whatever anybody serves is trusted by every webhook at each moment, also where requests
    fail, answers get lost and clocks differ."""

    @in_virtual_time
    async def scenario() -> None:
        server = cluster(faults=Faults.mixture(seed, intensity=0.1) if seed else None)
        serving = 30 * MINUTE
        replicas = [Replica(server, "a", serving=serving), Replica(server, "b", serving=serving, skew=skew)]

        def check(*_: Any) -> None:
            for replica in replicas:
                for chain, _key in replica.served[-1:]:
                    assert trusted(server, chain)
                    (leaf,) = read(chain)
                    assert leaf.ends > replica.clock.now()

        for replica in replicas:
            replica.watch = check
        server.store.listen(check)
        tasks = [replica.run() for replica in replicas]
        for turn in range(10):
            await asyncio.sleep(serving.total_seconds())
            # One goes and another comes, as in a roll-out.
            tasks[turn % 2].cancel()
            replicas[turn % 2] = Replica(server, f"r{turn}", serving=serving, skew=skew if turn % 2 else 0)
            replicas[turn % 2].watch = check
            tasks[turn % 2] = replicas[turn % 2].run()
            assert not any(task.done() for task in tasks)
        authorities = {each.key for bundle in bundles(server) for each in read(bundle)}
        assert len(authorities) <= 2
        assert len({chain for replica in replicas for chain, _ in replica.served}) >= 2
        for task in tasks:
            task.cancel()

    scenario()


@in_virtual_time
async def test_a_new_authority_signs_when_every_webhook_was_told() -> None:
    server = cluster()
    one = Replica(server, serving=30 * MINUTE)
    task = one.run()
    # Somebody puts an old bundle back, again and again, as a broken deployment tool would.
    await asyncio.sleep(60)
    (first,) = set(bundles(server))
    while one.clock.now() < one.clock._start + 88 * MINUTE:
        await asyncio.sleep(2)
        configuration = server.peek(MUTATING, "", NAME)
        assert configuration is not None
        server.apply(trusting(MUTATING, configuration, first))
    (old,) = read(first)
    assert {read(chain)[0].signer for chain, _ in one.served} == {old.key}
    assert len(read(bundles(server)[0])) == 2
    await asyncio.sleep(6 * 60)
    (leaf,) = read(one.served[-1][0])
    assert leaf.signer == read(bundles(server)[0])[0].key != old.key
    task.cancel()


@in_virtual_time
async def test_a_secret_that_somebody_deletes_is_made_again_as_it_was() -> None:
    server = cluster()
    one = Replica(server)
    await one.keeper.look()
    before = secret(server)
    server.delete(SECRET, NAMESPACE, SECRET_NAME)
    await one.keeper.look()
    now = secret(server)
    assert before is not None
    assert now is not None
    assert now["data"] == before["data"]
    assert len(one.served) == 1


@in_virtual_time
async def test_when_nobody_remembers_what_others_serve_stays_trusted() -> None:
    server = cluster()
    old = Replica(server, "old")
    await old.keeper.look()
    server.delete(SECRET, NAMESPACE, SECRET_NAME)
    new = Replica(server, "new")
    await new.keeper.look()
    assert new.served[-1] != old.served[-1]
    assert trusted(server, old.served[-1][0])
    assert trusted(server, new.served[-1][0])
    await old.keeper.look()
    assert old.served[-1] == new.served[-1]


@pytest.mark.parametrize("data", [None, {}, {"tls.crt": "bm9uc2Vuc2U="}, {"ca.crt": "%%%"}])
def test_a_secret_that_does_not_fit_is_written_anew_and_keeps_what_else_it_has(data: dict[str, str] | None) -> None:
    @in_virtual_time
    async def scenario() -> None:
        server = cluster()
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "Secret", "type": "Opaque"}
        body["metadata"] = {"name": SECRET_NAME, "namespace": NAMESPACE, "labels": {"kept": "yes"}}
        if data is not None:
            body["data"] = {**data, "note": "a2VwdA=="}
        server.create(body)
        one = Replica(server)
        await one.keeper.look()
        now = secret(server)
        assert now is not None
        assert now["metadata"]["labels"] == {"kept": "yes"}
        assert now["data"].get("note") == ("a2VwdA==" if data is not None else None)
        assert trusted(server, one.served[-1][0])

    scenario()


@in_virtual_time
async def test_it_serves_though_no_configuration_is_there_and_tells_one_that_comes(caplog: Any) -> None:
    server = cluster(configured=False)
    one = Replica(server)
    await one.keeper.look()
    await one.keeper.look()
    assert caplog.text.count("nothing is checked before it is stored") == 1
    assert one.keeper.problem == ""
    configure(server)
    await one.keeper.look()
    assert trusted(server, one.served[-1][0])
    assert len(bundles(server)) == 8


@in_virtual_time
async def test_the_certificate_is_for_every_name_by_which_it_is_called() -> None:
    server = cluster(configured=False)
    (_, validating) = webhook_manifests(namespace="elsewhere", name=NAME, port=1)
    validating["webhooks"][0]["clientConfig"] = {"url": "https://127.0.0.1:9443/validate"}
    server.create(validating)
    one = Replica(server)
    await one.keeper.look()
    (leaf,) = read(one.served[-1][0])
    assert leaf.names == {"127.0.0.1", f"{NAME}.elsewhere.svc", f"{NAME}.{NAMESPACE}.svc"}


@in_virtual_time
async def test_only_the_bundle_is_written() -> None:
    """Server-side apply of nothing else: a deployment tool keeps the rest."""
    server = cluster(defaulting=False)
    before = server.peek(VALIDATING, "", NAME)
    one = Replica(server)
    await one.keeper.look()
    after = server.peek(VALIDATING, "", NAME)
    assert before is not None
    assert after is not None
    for webhook in after["webhooks"]:
        del webhook["clientConfig"]["caBundle"]
    assert after["webhooks"] == before["webhooks"]
    (entry,) = [each for each in after["metadata"]["managedFields"] if each["manager"] == "kuberay-operator"]
    assert entry["operation"] == "Apply"
    assert set(str(entry["fieldsV1"]).split("'f:")) & {"rules", "failurePolicy"} == set()


@in_virtual_time
async def test_an_api_server_that_does_not_answer_is_asked_again() -> None:
    server = cluster()
    server.faults.add("error_before", times=3, resource="secrets")
    one = Replica(server)
    task = one.run()
    await asyncio.sleep(20)
    assert one.keeper.problem == ""
    assert trusted(server, one.served[-1][0])
    task.cancel()


@in_virtual_time
async def test_a_refusal_is_told_to_whoever_starts_it() -> None:
    server = cluster()
    server.restrict("a", [])
    with pytest.raises(ForbiddenError):
        await Replica(server).keeper.look()
