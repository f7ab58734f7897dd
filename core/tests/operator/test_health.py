"""What probes and scrapers are told, over real sockets."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest
from kuberay.operator.health import LAG_LIMIT, Health, Servers
from kuberay.operator.listen import parse_address
from kuberay.operator.metrics import Metrics
from kuberay_testkit.sim.virtual import in_virtual_time
from ports import free_port


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (":8080", (None, 8080)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:8080", ("::1", 8080)),
        ("localhost:65535", ("localhost", 65535)),
        ("0", None),
        ("", None),
    ],
)
def test_listen_addresses(text: str, expected: Any) -> None:
    assert parse_address(text) == expected


@pytest.mark.parametrize("text", ["8080", ":", ":http", "localhost", ":65536", ":-1", "a:b:c"])
def test_what_is_no_listen_address_is_told_in_one_sentence(text: str) -> None:
    with pytest.raises(ValueError, match="is not a listen address; write host:port, :port, or 0 for none") as caught:
        parse_address(text)
    assert repr(text) in str(caught.value)


async def fetch(port: int, path: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as answer:
        return answer.status, await answer.text()


@pytest.mark.parametrize(
    ("live", "ready", "expected"),
    [
        ("", "", {"/livez": (200, "ok"), "/healthz": (200, "ok"), "/readyz": (200, "ok")}),
        ("", "no lists", {"/livez": (200, "ok"), "/healthz": (200, "ok"), "/readyz": (503, "no lists")}),
        ("stale", "", {"/livez": (503, "stale"), "/healthz": (503, "stale"), "/readyz": (200, "ok")}),
    ],
)
async def test_pages_say_what_is_wrong(live: str, ready: str, expected: dict[str, tuple[int, str]]) -> None:
    servers, probes, metrics = Servers(), free_port(), free_port()
    health = Health(lambda: live, lambda: ready)
    await servers.start(f"127.0.0.1:{metrics}", f"127.0.0.1:{probes}", Metrics(), health)
    try:
        for path, answer in expected.items():
            assert await fetch(probes, path) == answer
        status, text = await fetch(metrics, "/metrics")
        assert status == 200
        assert 'controller_runtime_reconcile_total{controller="raycluster",result="success"} 0.0' in text
        assert (await fetch(metrics, "/livez"))[0] == 404
    finally:
        await servers.stop()


READY = {
    "": (503, "no lists; no certificate"),
    "?verbose": (
        503,
        "[+]ping ok\n[-]first-lists failed: no lists\n[-]webhooks failed: no certificate\nreadyz check failed\n",
    ),
    "?verbose&exclude=first-lists&exclude=other": (
        503,
        "[+]ping ok\n[+]first-lists excluded: ok\n[-]webhooks failed: no certificate\n"
        "warn: no check 'other' to exclude\nreadyz check failed\n",
    ),
    "?exclude=first-lists&exclude=webhooks": (200, "ok"),
    "/ping": (200, "ok"),
    "/first-lists": (503, "no lists"),
    "/first-lists?verbose": (503, "[-]first-lists failed: no lists\nreadyz check failed\n"),
    "/other": (404, "readyz has no check 'other'; it has ping, first-lists, webhooks\n"),
}
"""As with Kubernetes' own components, but that the reason is told."""


async def test_checks_are_listed_left_out_and_asked_one_by_one() -> None:
    servers, probes = Servers(), free_port()
    health = Health(str, lambda: "no lists")
    health.add_ready("webhooks", lambda: "no certificate")
    await servers.start("0", f"127.0.0.1:{probes}", Metrics(), health, {"/configz": lambda: {"a": 1}})
    try:
        for query, answer in READY.items():
            assert await fetch(probes, f"/readyz{query}") == answer, query
        listed = "[+]ping ok\n[+]event-loop ok\n[+]full-lists ok\nlivez check passed\n"
        assert await fetch(probes, "/livez?verbose") == await fetch(probes, "/healthz?verbose") == (200, listed)
        status, text = await fetch(probes, "/configz")
        assert (status, text.split()) == (200, ["{", '"a":', "1", "}"])
    finally:
        await servers.stop()


async def test_a_listener_that_is_off_is_not_started() -> None:
    servers, probes = Servers(), free_port()
    await servers.start("0", f"127.0.0.1:{probes}", Metrics(), Health(str, str))
    try:
        assert (await fetch(probes, "/metrics"))[0] == 404
        assert (await fetch(probes, "/livez"))[0] == 200
    finally:
        await servers.stop()
    with pytest.raises(aiohttp.ClientConnectorError):
        await fetch(probes, "/livez")


async def test_one_address_may_serve_both() -> None:
    servers, port = Servers(), free_port()
    await servers.start(f"127.0.0.1:{port}", f"127.0.0.1:{port}", Metrics(), Health(str, str))
    try:
        assert (await fetch(port, "/metrics"))[0] == 200
        assert (await fetch(port, "/livez"))[0] == 200
    finally:
        await servers.stop()


async def test_a_taken_port_is_an_error() -> None:
    servers, probes = Servers(), free_port()
    await servers.start("0", f"127.0.0.1:{probes}", Metrics(), Health(str, str))
    second = Servers()
    try:
        with pytest.raises(OSError, match=str(probes)):
            await second.start("0", f"127.0.0.1:{probes}", Metrics(), Health(str, str))
    finally:
        await second.stop()
        await servers.stop()


@in_virtual_time
async def test_a_loop_that_was_stuck_counts_as_hung_until_it_turns_again(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[float] = []
    health = Health(str, str, measured.append)
    beat = asyncio.create_task(health.run())
    await asyncio.sleep(3)
    assert health.livez().status == 200
    assert measured == [0.0, 0.0]
    loop = asyncio.get_running_loop()
    real, late = loop.time, [0.0]
    monkeypatch.setattr(loop, "time", lambda: real() + late[0])
    late[0] = LAG_LIMIT + 5
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    answer = health.livez()
    assert answer.status == 503
    assert "the event loop is" in (answer.text or "")
    assert measured[-1] > LAG_LIMIT
    late[0] = 0.0
    await asyncio.sleep(LAG_LIMIT + 10)
    assert health.livez().status == 200
    beat.cancel()
