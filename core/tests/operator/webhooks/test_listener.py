"""The HTTPS listener: paths, bodies, certificates exchanged under requests, and metrics."""

from __future__ import annotations

import asyncio
import io
import ssl
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from kuberay.api.gates import DEFAULT_GATES
from kuberay.kube.client import Client
from kuberay.kube.clock import SystemClock
from kuberay.operator.metrics import Metrics
from kuberay.operator.preflight import StartError
from kuberay.operator.settings import Settings
from kuberay.operator.webhooks import certificate_files, serving
from kuberay.operator.webhooks.authority import issue, new_authority, read
from kuberay.operator.webhooks.certificate_files import CertificateFiles
from kuberay.operator.webhooks.listener import Certificate, Listener
from kuberay.operator.webhooks.paths import KINDS, mutating_path, validating_path
from kuberay.operator.webhooks.review import Reviewer
from kuberay.operator.webhooks.serving import webhooks
from kuberay_testkit.builders import build_group, build_raycluster
from kuberay_testkit.sim.transport import SimTransport
from ports import free_port

from .played import NAMESPACE, cluster

DAY = timedelta(days=1)


class Pair:
    """An authority and what it signed for 127.0.0.1."""

    def __init__(self) -> None:
        now = datetime.now(UTC)
        self.authority, key = new_authority(now, DAY)
        self.chain, self.key = issue(self.authority, key, ["127.0.0.1"], now, DAY)


class Served:
    def __init__(self) -> None:
        self.metrics, self.certificate, self.pair = Metrics(), Certificate(), Pair()
        self.certificate.use(self.pair.chain, self.pair.key)
        self.reviewer = Reviewer(now=SystemClock().now, gates=DEFAULT_GATES)
        self.listener = Listener(self.reviewer, self.certificate, self.metrics.webhooks)

    async def ask(self, path: str, body: Any, *authorities: bytes, text: bytes | None = None) -> tuple[int, Any]:
        """Over a connection of its own."""
        trusted = b"".join(authorities or (self.pair.authority,)).decode()
        context = ssl.create_default_context(cadata=trusted)
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session,
            session.post(
                f"https://127.0.0.1:{self.listener.port}{path}",
                data=io.BytesIO(orjson.dumps(body) if text is None else text),
            ) as answer,
        ):
            kind = answer.content_type
            return answer.status, await (answer.json() if kind == "application/json" else answer.text())


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    found = Served()
    await found.listener.start(0, "127.0.0.1")
    yield found
    await found.listener.stop()


def review(**cluster_spec: Any) -> dict[str, Any]:
    body = build_raycluster("c", **cluster_spec)
    return {"request": {"uid": "u", "operation": "CREATE", "namespace": "default", "object": body}}


TWICE = review(workerGroupSpecs=[build_group("g"), build_group("g")])


async def test_every_kind_has_both_paths_of_kuberay(served: Served) -> None:
    """Source: spec operator.md 10; those of RayCronJobs and for defaults are made alike."""
    assert validating_path(KINDS[0]) == "/validate-ray-io-v1-raycluster"
    for kind in KINDS:
        for path in (validating_path(kind), mutating_path(kind)):
            status, told = await served.ask(path, review())
            assert status == 200
            assert told["response"]["uid"] == "u"
    status, told = await served.ask("/validate-ray-io-v1-raycluster?timeout=10s", TWICE)
    assert (status, told["response"]["allowed"]) == (200, False)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"request": {}}'])
async def test_what_is_no_review_is_a_400(served: Served, text: bytes) -> None:
    status, told = await served.ask("/validate-ray-io-v1-raycluster", None, text=text)
    assert status == 400
    assert told.startswith("no AdmissionReview")


async def test_other_paths_and_methods_are_not_served(served: Served) -> None:
    assert (await served.ask("/validate-ray-io-v1-pod", review()))[0] == 404
    assert (await served.ask("/metrics", review()))[0] == 404


async def test_objects_as_large_as_etcd_takes(served: Served) -> None:
    asked = review()
    asked["request"]["object"]["metadata"]["annotations"] = {"large": "x" * 3_000_000}
    asked["request"]["oldObject"] = asked["request"]["object"]
    status, _ = await served.ask("/validate-ray-io-v1-raycluster", asked)
    assert status == 200


async def test_a_certificate_is_exchanged_under_requests(served: Served) -> None:
    """Each request has a connection of its own, so a handshake; none fails, and in the end the new one is served."""
    other = Pair()
    both = (served.pair.authority, other.authority)
    stop = False
    answers: list[int] = []

    async def keep_asking() -> None:
        while not stop:
            answers.append((await served.ask("/validate-ray-io-v1-raycluster", review(), *both))[0])

    asking = [asyncio.create_task(keep_asking()) for _ in range(3)]
    for turn in range(6):
        count = len(answers)
        while len(answers) < count + 3:
            await asyncio.sleep(0.001)
        pair = other if turn % 2 == 0 else served.pair
        assert served.certificate.use(pair.chain, pair.key)
        assert not served.certificate.use(pair.chain, pair.key)
    stop = True
    await asyncio.gather(*asking)
    assert set(answers) == {200}
    served.certificate.use(other.chain, other.key)
    assert (await served.ask("/validate-ray-io-v1-raycluster", review(), other.authority))[0] == 200
    with pytest.raises(aiohttp.ClientConnectorCertificateError):
        await served.ask("/validate-ray-io-v1-raycluster", review(), served.pair.authority)


async def test_a_pair_that_does_not_fit_changes_nothing(served: Served) -> None:
    for chain, key in ((Pair().chain, Pair().key), (b"nonsense", b"nonsense"), (served.pair.chain, b"")):
        with pytest.raises(ValueError, match="cannot be used"):
            served.certificate.use(chain, key)
        assert (await served.ask("/validate-ray-io-v1-raycluster", review()))[0] == 200


async def test_requests_are_counted_under_controller_runtimes_names(served: Served) -> None:
    await served.ask("/validate-ray-io-v1-raycluster", review())
    await served.ask("/validate-ray-io-v1-raycluster", None, text=b"")
    page = served.metrics.exposition().decode()
    path = 'webhook="/validate-ray-io-v1-raycluster"'
    assert f'controller_runtime_webhook_requests_total{{code="200",{path}}} 1.0' in page.replace(
        f'{{{path},code="200"}}', f'{{code="200",{path}}}'
    )
    assert f"controller_runtime_webhook_latency_seconds_count{{{path}}} 2.0" in page
    assert f"controller_runtime_webhook_requests_in_flight{{{path}}} 0.0" in page


async def test_a_process_that_ends_keeps_no_connection(served: Served) -> None:
    context = ssl.create_default_context(cadata=served.pair.authority.decode())
    url = f"https://127.0.0.1:{served.listener.port}/validate-ray-io-v1-raycluster"
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
        async with session.post(url, json=review()) as answer:
            assert answer.headers.get("Connection", "").lower() != "close"
        served.listener.close_connections()
        async with session.post(url, json=review()) as answer:
            assert answer.status == 200
            assert answer.headers["Connection"].lower() == "close"


class TestFiles:
    """Certificates of somebody else, as cert-manager's are mounted."""

    @staticmethod
    def write(folder: Path, pair: Pair) -> None:
        """As the kubelet does: a new folder behind a link that is swapped."""
        version = folder / f"..{id(pair)}"
        version.mkdir()
        (version / "tls.crt").write_bytes(pair.chain)
        (version / "tls.key").write_bytes(pair.key)
        link = folder / "..data_tmp"
        link.symlink_to(version)
        link.rename(folder / "..data")
        for name in ("tls.crt", "tls.key"):
            if not (folder / name).is_symlink():
                (folder / name).symlink_to(f"..data/{name}")

    async def test_they_are_waited_for_and_read_again(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        certificate = Certificate()
        files = CertificateFiles(str(tmp_path), certificate.use)
        for _ in range(2):
            await files.look()
            assert files.problem == f"cannot read {tmp_path}/tls.crt: No such file or directory"
        assert caplog.text.count("cannot read") == 1, "said once"
        first, second = Pair(), Pair()
        self.write(tmp_path, first)
        await files.look()
        assert (files.problem, certificate.pair) == ("", (first.chain, first.key))
        self.write(tmp_path, second)
        await files.look()
        assert certificate.pair == (second.chain, second.key)

    async def test_a_pair_that_does_not_fit_leaves_the_former_one(self, tmp_path: Path) -> None:
        certificate, pair = Certificate(), Pair()
        files = CertificateFiles(str(tmp_path), certificate.use)
        self.write(tmp_path, pair)
        await files.look()
        mixed = Pair()
        mixed.key = pair.key
        self.write(tmp_path, mixed)
        await files.look()
        assert (files.problem, certificate.pair) == ("", (pair.chain, pair.key))

    async def test_a_first_pair_that_does_not_fit_is_told(self, tmp_path: Path) -> None:
        files = CertificateFiles(str(tmp_path), Certificate().use)
        mixed = Pair()
        mixed.key = Pair().key
        self.write(tmp_path, mixed)
        await files.look()
        assert "cannot be used" in files.problem


class TestServing:
    """A replica's webhooks as a whole."""

    def settings(self, **values: Any) -> Settings:
        return Settings(webhook_port=free_port(), **values)

    async def test_ready_once_there_is_a_certificate(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(certificate_files, "WAIT", 0.01)
        settings = self.settings(webhook_cert_dir=str(tmp_path))
        served = Served()
        client = Client(SimTransport(cluster()))
        admission = webhooks(settings, served.reviewer, client, SystemClock(), "", served.metrics.webhooks)
        await admission.start()
        assert admission.why_not_ready() == f"webhooks: cannot read {tmp_path}/tls.crt: No such file or directory"
        TestFiles.write(tmp_path, served.pair)
        async with asyncio.timeout(10):
            while admission.why_not_ready():
                await asyncio.sleep(0.01)
        served.listener = admission.listener
        assert (await served.ask("/validate-ray-io-v1-raycluster", review()))[0] == 200
        await admission.stop()

    async def test_its_own_certificates(self) -> None:
        server = cluster()
        client = Client(SimTransport(server, latency=(0, 0)))
        settings = self.settings(webhook_certificates="self")
        served = Served()
        admission = webhooks(settings, served.reviewer, client, SystemClock(), NAMESPACE, served.metrics.webhooks)
        await admission.start()
        assert admission.why_not_ready() == ""
        await admission.stop()

    async def test_who_is_asked_to_end_answers_until_everybody_knows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(serving, "LINGER_SECONDS", 0.5)
        served = Served()
        client = Client(SimTransport(cluster(), latency=(0, 0)))
        settings = self.settings(webhook_certificates="self")
        admission = webhooks(settings, served.reviewer, client, SystemClock(), NAMESPACE, served.metrics.webhooks)
        await admission.start()
        admission.leave()
        stopping = asyncio.create_task(admission.stop())
        await asyncio.sleep(0.1)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session:
            url = f"https://127.0.0.1:{settings.webhook_port}/validate-ray-io-v1-raycluster"
            async with session.post(url, json=review()) as answer:
                assert answer.status == 200
            await stopping
            with pytest.raises(aiohttp.ClientConnectorError):
                await session.post(url, json=review())

    async def test_without_cryptography_one_sentence_says_what_to_install(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "kuberay.operator.webhooks.keeper", None)
        served, client = Served(), Client(SimTransport(cluster()))
        settings = self.settings(webhook_certificates="self")
        with pytest.raises(StartError, match=r"pip install 'kuberay-core\[webhooks\]'"):
            webhooks(settings, served.reviewer, client, SystemClock(), NAMESPACE, served.metrics.webhooks)
        files = self.settings(webhook_certificates="files")
        webhooks(files, served.reviewer, client, SystemClock(), NAMESPACE, served.metrics.webhooks)

    async def test_what_only_a_human_can_change_ends_the_start(self) -> None:
        server = cluster()
        server.restrict("operator", [])
        client = Client(SimTransport(server, latency=(0, 0)))
        served = Served()
        settings = self.settings(webhook_certificates="self")
        reviewer, metrics = served.reviewer, served.metrics.webhooks
        with pytest.raises(StartError, match="POD_NAMESPACE"):
            webhooks(settings, reviewer, client, SystemClock(), "", metrics)
        forbidden = webhooks(settings, reviewer, client, SystemClock(), NAMESPACE, metrics)
        with pytest.raises(StartError, match="kuberay rbac --enable-webhooks"):
            await forbidden.start()
        again = webhooks(settings, reviewer, client, SystemClock(), NAMESPACE, metrics)
        with pytest.raises(StartError, match=f"cannot listen on port {settings.webhook_port}"):
            await again.start()
        await forbidden.stop()
        await again.stop()

    async def test_an_api_server_that_is_away_is_waited_for(self) -> None:
        server = cluster()
        server.faults.add("error_before", times=1)
        client = Client(SimTransport(server, latency=(0, 0)))
        settings = self.settings(webhook_certificates="self")
        served = Served()
        admission = webhooks(settings, served.reviewer, client, SystemClock(), NAMESPACE, served.metrics.webhooks)
        await admission.start()
        async with asyncio.timeout(10):
            while admission.why_not_ready():
                await asyncio.sleep(0.01)
        await admission.stop()


def test_a_served_pair_is_what_a_certificate_says() -> None:
    (leaf,) = read(Pair().chain)
    assert leaf.names == {"127.0.0.1"}
