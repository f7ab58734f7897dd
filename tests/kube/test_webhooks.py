"""Admission webhooks on a real API server: two operators, each called for two of the four kinds.

They run with nothing but the permissions that ``kuberay rbac`` prints, and keep their own certificates.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from kube_world import Operator
from kuberay.api.kinds import RAYCLUSTER, RAYCRONJOB, RAYJOB
from kuberay.kube.client import Client
from kuberay.kube.errors import InvalidError
from kuberay.operator.webhooks.authority import issue, new_authority, read
from kuberay.operator.webhooks.paths import validating_path
from kuberay_testkit.builders import build_group, build_raycluster, build_raycronjob, build_rayjob, build_rayservice
from webhook_replicas import (
    Replica,
    configure,
    give_permissions,
    kubectl,
    start_all,
    stop_all,
    trusted_by_the_api_server,
    unconfigure,
)

NAMESPACE = "webhooks"
NAME = "kuberay-test-webhooks"
TWICE = [build_group("group1"), build_group("group1")]
SENTENCE = "spec.workerGroupSpecs[1].groupName: worker group names must be unique"
BUILD: dict[str, Callable[..., dict[str, Any]]] = {
    "RayCluster": build_raycluster,
    "RayJob": build_rayjob,
    "RayService": build_rayservice,
    "RayCronJob": build_raycronjob,
}


def named(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    body: dict[str, Any] = BUILD[kind](name, **spec)
    body["metadata"]["namespace"] = NAMESPACE
    return body


def eventually(holds: Callable[[], bool], what: str, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def kubeconfig(operators: Operator, cluster_ready: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Of an account with the generated permissions. No other operator runs meanwhile."""
    operators.stop()
    kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found")
    kubectl("create", "namespace", NAMESPACE)
    folder = tmp_path_factory.mktemp("webhooks")
    yield give_permissions(NAMESPACE, Replica(folder, 0, NAMESPACE, NAME).settings, folder)
    unconfigure(NAME)
    kubectl("delete", "namespace", NAMESPACE, "--wait=false")


@pytest.fixture(scope="module")
def replicas(kubeconfig: Path) -> Iterator[list[Replica]]:
    """Two, started together, for configurations that are there already."""
    found = [Replica(kubeconfig.parent, number, NAMESPACE, NAME) for number in (0, 1)]
    configure(found, defaulting=True)
    start_all(found, kubeconfig)
    yield found
    stop_all(found)


@pytest.fixture
def enforced(replicas: list[Replica], kubeconfig: Path) -> list[Replica]:
    """Both run, and webhooks are called."""
    start_all(replicas, kubeconfig)
    configure(replicas, defaulting=True)
    probe = named("RayCluster", "probe", workerGroupSpecs=TWICE)

    def refused() -> bool:
        done = kubectl("create", "--dry-run=server", "-f", "-", given=json.dumps(probe), check=False)
        return "must be unique" in done.stderr

    eventually(refused, "a bad object is refused")
    return replicas


@pytest.mark.parametrize(
    ("kind", "name", "spec", "told"),
    [
        ("RayCluster", "twice", {"workerGroupSpecs": TWICE}, f'The RayCluster "twice" is invalid: {SENTENCE}'),  # O14
        ("RayCluster", "x" * 84, {}, "metadata.name: RayCluster name should be no more than 53 characters"),  # O12
        ("RayJob", "x" * 84, {}, "RayJob name should be no more than 47 characters"),  # O12
        ("RayCluster", "invalid.name", {}, "metadata.name: RayCluster name should be a valid DNS1035 label"),  # O13
        (
            "RayJob",
            "eager",
            {"backoffLimit": -1},
            "spec.backoffLimit: The RayJob spec is invalid: backoffLimit must be",
        ),
        ("RayService", "lost", {"upgradeStrategy": {"type": "Later"}}, "spec.upgradeStrategy.type:"),
        ("RayCronJob", "odd", {"schedule": "every day"}, "spec.schedule: invalid cron schedule"),
    ],
    ids=lambda value: value[:12] if isinstance(value, str) else "",
)
def test_kubectl_prints_the_sentence(
    enforced: list[Replica], kind: str, name: str, spec: dict[str, Any], told: str
) -> None:
    given = yaml.safe_dump(named(kind, name, **spec))
    for words in (["apply"], ["apply", "--server-side"], ["create"]):
        done = kubectl(*words, "-f", "-", given=given, check=False)
        assert done.returncode == 1
        assert told in done.stderr
    assert kubectl("get", kind, name, "-n", NAMESPACE, check=False).returncode == 1


async def test_an_answer_has_each_problem_with_its_field(enforced: list[Replica], client: Client) -> None:
    body = named("RayCluster", "two-problems", workerGroupSpecs=TWICE, upgradeStrategy={"type": "Rolling"})
    body["spec"]["workerGroupSpecs"][0]["minReplicas"] = 99
    with pytest.raises(InvalidError) as refused:
        await client.create(RAYCLUSTER, NAMESPACE, body)
    assert (refused.value.status, refused.value.reason) == (422, "Invalid")
    path = f"/apis/ray.io/v1/namespaces/{NAMESPACE}/rayclusters"
    done = kubectl("create", "--raw", path, "-f", "-", given=json.dumps(body), check=False)
    assert (
        "spec.workerGroupSpecs[0].maxReplicas" in done.stderr or "spec.workerGroupSpecs[0].minReplicas" in done.stderr
    )
    assert SENTENCE in done.stderr
    assert 'admission webhook "vraycluster.kb.io" denied the request' in str(refused.value)


def test_what_is_only_unwise_is_a_warning(enforced: list[Replica]) -> None:
    body = named("RayCluster", "tall")
    body["spec"]["enableInTreeAutoscaling"] = True
    body["spec"]["autoscalerOptions"] = {"version": "v1"}
    body["spec"]["workerGroupSpecs"][0]["template"]["spec"]["restartPolicy"] = "Always"
    done = kubectl("apply", "--dry-run=server", "-f", "-", given=json.dumps(body))
    assert "Warning: restartPolicy for worker groups [workers] should be Never or unset" in done.stderr


class TestWhatWasWrongBefore:
    """Nobody is trapped: metadata, finalizers, repairs and deletion."""

    @pytest.fixture
    def wrong(self, replicas: list[Replica]) -> str:
        unconfigure(NAME)
        body = named("RayCluster", "from-before", workerGroupSpecs=TWICE)
        body["metadata"]["finalizers"] = ["example.com/held"]
        eventually(
            lambda: kubectl("apply", "-f", "-", given=json.dumps(body), check=False).returncode == 0,
            "no webhook is called any more",
        )
        return "from-before"

    def test_it_can_be_edited_repaired_and_deleted(self, wrong: str, enforced: list[Replica]) -> None:
        def edit(patch: dict[str, Any], *words: str) -> Any:
            change = ["patch", "raycluster", wrong, "-n", NAMESPACE, "--type=merge", "-p", json.dumps(patch)]
            return kubectl(*change, *words, check=False)

        assert edit({"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}}).returncode == 0
        assert edit({"metadata": {"finalizers": ["example.com/held", "example.com/more"]}}).returncode == 0
        beside = edit({"spec": {"suspend": True}})
        assert beside.returncode == 0
        assert f"Warning: {SENTENCE} (as before this edit" in beside.stderr
        worse = edit({"spec": {"upgradeStrategy": {"type": "Rolling", "maxSurge": -1}}})
        assert worse.returncode == 1
        assert "must be unique" not in worse.stderr
        assert edit({"spec": {"workerGroupSpecs": [build_group("group1")]}}, "--dry-run=server").returncode == 0
        kubectl("delete", "raycluster", wrong, "-n", NAMESPACE, "--wait=false")
        assert edit({"metadata": {"finalizers": []}}).returncode == 0
        eventually(
            lambda: kubectl("get", "raycluster", wrong, "-n", NAMESPACE, check=False).returncode == 1, "it has gone"
        )


def test_defaults_are_written_once_and_nothing_is_made_anew(enforced: list[Replica]) -> None:
    given = json.dumps(named("RayService", "plain"))
    for words in (["apply"], ["apply"], ["apply", "--server-side", "--force-conflicts"]):
        kubectl(*words, "-f", "-", given=given)
        stored = json.loads(kubectl("get", "rayservice", "plain", "-n", NAMESPACE, "-o", "json").stdout)
        assert stored["metadata"]["generation"] == 1, words
        assert stored["spec"]["upgradeStrategy"] == {"type": "NewCluster"}
        assert stored["spec"]["rayClusterDeletionDelaySeconds"] == 60
    kubectl("delete", "rayservice", "plain", "-n", NAMESPACE, "--wait=false")


def test_one_secret_for_all_and_a_certificate_for_the_names_that_are_called(enforced: list[Replica]) -> None:
    names = [
        line.split("/")[1]
        for line in kubectl("get", "secret", "-n", NAMESPACE, "-o", "name").stdout.splitlines()
    ]  # fmt: skip
    assert names == [f"{NAME}-certificates"]
    data = json.loads(kubectl("get", "secret", names[0], "-n", NAMESPACE, "-o", "json").stdout)["data"]
    (leaf,) = read(base64.b64decode(data["tls.crt"]))
    assert leaf.names == {"127.0.0.1", f"{NAME}.{NAMESPACE}.svc"}
    (bundle,) = trusted_by_the_api_server(NAME)
    assert bundle == base64.b64decode(data["ca.crt"])
    for replica in enforced:
        assert replica.ask(validating_path(RAYCRONJOB), bundle) == 200, "each serves every kind, leading or not"


class TestOperatorAway:
    """What happens to objects while nobody answers is what the failure policy says, and to let go is always possible."""

    @pytest.fixture
    def held(self, enforced: list[Replica]) -> str:
        body = named("RayCluster", "held", suspend=True)
        body["metadata"]["finalizers"] = ["example.com/held"]
        kubectl("apply", "-f", "-", given=json.dumps(body))
        stop_all(enforced)
        return "held"

    def test_fail_and_ignore(self, held: str, enforced: list[Replica]) -> None:
        new = json.dumps(named("RayCluster", "new", workerGroupSpecs=TWICE))
        done = kubectl("create", "-f", "-", given=new, check=False)
        assert done.returncode == 1
        assert 'failed calling webhook "vraycluster.kb.io"' in done.stderr
        patch = ["patch", "raycluster", held, "-n", NAMESPACE, "--type=merge", "-p"]
        assert kubectl(*patch, '{"spec":{"suspend":false}}', check=False).returncode == 1
        kubectl(*patch, '{"metadata":{"finalizers":["example.com/held","example.com/more"]}}')
        kubectl("delete", "raycluster", held, "-n", NAMESPACE, "--wait=false")
        kubectl(*patch, '{"metadata":{"labels":{"a":"b"},"finalizers":[]}}')
        eventually(
            lambda: kubectl("get", "raycluster", held, "-n", NAMESPACE, check=False).returncode == 1, "it has gone"
        )
        configure(enforced, failure_policy="Ignore")
        eventually(
            lambda: kubectl("create", "-f", "-", given=new, check=False).returncode == 0, "it is stored unchecked", 60
        )
        kubectl("delete", "raycluster", "new", "-n", NAMESPACE, "--wait=false")


def test_rotation_under_requests(replicas: list[Replica], kubeconfig: Path) -> None:
    """A new authority, and certificates of it, while objects are created all the time and every request is a call: none
    fails, and whoever trusts what the API server is told can make a new connection at each moment."""
    stop_all(replicas)
    # An authority that is to be followed within seconds; a certificate lives a minute.
    now, lifetime = datetime.now(UTC), timedelta(seconds=60)
    authority, key = _aged(lifetime)
    chain, leaf_key = issue(authority, key, ["127.0.0.1", f"{NAME}.{NAMESPACE}.svc"], now, lifetime)
    data = {"ca.crt": authority, "ca.key": key, "tls.crt": chain, "tls.key": leaf_key}
    encoded = {name: base64.b64encode(value).decode() for name, value in data.items()}
    patch = ["patch", "secret", f"{NAME}-certificates", "-n", NAMESPACE, "--type=merge"]
    kubectl(*patch, "-p", json.dumps({"data": encoded}))
    fast = [
        Replica(kubeconfig.parent, number, NAMESPACE, NAME, webhookCertificateSeconds=60) for number in (0, 1)
    ]  # fmt: skip
    configure(fast)
    try:
        start_all(fast, kubeconfig)
        asyncio.run(_requests_during_rotation(fast, authority))
    finally:
        stop_all(fast)
        # As they were: the settings of both share a file.
        replicas[:] = [Replica(kubeconfig.parent, number, NAMESPACE, NAME) for number in (0, 1)]


def _aged(lifetime: timedelta) -> tuple[bytes, bytes]:
    """An authority with a quarter of a minute to go until another is made: time for two processes to start."""
    return new_authority(datetime.now(UTC) - lifetime * 4 * 2 / 3 + timedelta(seconds=15), 4 * lifetime)


async def _requests_during_rotation(fast: list[Replica], first: bytes) -> None:
    from kuberay.kube.connection import connect
    from kuberay.kube.http import HttpTransport

    transport = HttpTransport(await connect(), user_agent="kuberay-tests")
    client = Client(transport, field_manager="tests")
    over = False
    counts = {"accepted": 0, "refused": 0, "connections": 0}

    async def objects(number: int) -> None:
        kind, build = ((RAYCLUSTER, "RayCluster"), (RAYJOB, "RayJob"))[number % 2]
        while not over:
            good = named(build, f"good-{number}", suspend=True)
            if kind == RAYJOB:
                good["spec"]["shutdownAfterJobFinishes"] = True
            path = f"{kind.path(NAMESPACE)}"
            answer = await transport.request("POST", path, params={"dryRun": "All"}, body=json.dumps(good).encode())
            assert answer.status == 201, answer.body
            counts["accepted"] += 1
            bad = named(build, "x" * 60)
            with pytest.raises(InvalidError):
                await client.create(kind, NAMESPACE, bad)
            counts["refused"] += 1
            # Often enough, and others want to compute as well.
            await asyncio.sleep(0.1)

    async def connections() -> None:
        while not over:
            for bundle in await asyncio.to_thread(trusted_by_the_api_server, NAME):
                for replica in fast:
                    status = await asyncio.to_thread(replica.ask, validating_path(RAYJOB), bundle)
                    assert status == 200
                    counts["connections"] += 1
            await asyncio.sleep(0.3)

    async def called() -> bool:
        answers = [
            await transport.request(
                "POST", kind.path(NAMESPACE), params={"dryRun": "All"}, body=json.dumps(body).encode()
            )
            for kind, body in ((RAYCLUSTER, named("RayCluster", "good")), (RAYJOB, named("RayJob", "good")))
        ]
        return [answer.status for answer in answers] == [201, 201]

    deadline = time.monotonic() + 30
    while not await called():
        assert time.monotonic() < deadline, "the API server does not trust the webhooks"
        await asyncio.sleep(0.1)
    tasks = [asyncio.create_task(objects(number)) for number in range(2)] + [asyncio.create_task(connections())]
    (old,) = read(first)
    seen: set[bytes] = set()
    try:
        deadline = time.monotonic() + 90
        while True:
            told = kubectl("get", "secret", f"{NAME}-certificates", "-n", NAMESPACE, "-o", "json").stdout
            data = json.loads(told)["data"]
            (leaf,) = read(base64.b64decode(data["tls.crt"]))
            seen.add(leaf.signer)
            if leaf.signer != old.key:
                break
            assert time.monotonic() < deadline, "no new authority signs"
            assert not any(task.done() for task in tasks), [task.exception() for task in tasks if task.done()]
            await asyncio.sleep(1)
        # Both have taken it up; the old authority is still trusted.
        await asyncio.sleep(6)
        assert len(read(next(iter(trusted_by_the_api_server(NAME))))) == 2
        assert seen == {old.key, leaf.signer}
    finally:
        over = True
        done = await asyncio.gather(*tasks, return_exceptions=True)
        await transport.close()
    assert [each for each in done if each is not None] == []
    assert min(counts.values()) > 20, counts
