"""The event source with the real kopf, against an API server over HTTP: it delivers, and keeps nothing of what has gone."""

from __future__ import annotations

import asyncio
import gc
import getpass
from pathlib import Path
from typing import Any

import pytest
from kopf._core.reactor.inventory import ResourceMemories, ResourceMemory
from kuberay.api.kinds import RAYCLUSTER, Kind
from kuberay.kube.connection import connect
from kuberay.operator.source import KopfSource
from kuberay_testkit.apiserver import ApiServer, kubeconfig
from kuberay_testkit.builders import build_raycluster

ROUNDS, EACH = 3, 40


def memories() -> int:
    """Objects that kopf remembers: it has one memory for each that it was told of and not told the end of."""
    gc.collect()
    found = [each for each in gc.get_objects() if isinstance(each, ResourceMemories)]
    remembered = sum(len(each._items) for each in found)
    assert remembered == sum(isinstance(each, ResourceMemory) for each in gc.get_objects())
    return remembered


async def test_a_user_without_a_name_may_run_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Images and clusters that give containers a number of their own have no entry for it in /etc/passwd."""

    def no_name() -> str:
        raise KeyError("getpwuid(): uid not found: 1000640000")

    monkeypatch.setattr(getpass, "getuser", no_name)
    heard = asyncio.Event()
    api = ApiServer()
    async with api.running() as url:
        config = tmp_path / "kubeconfig"
        config.write_text(kubeconfig(url))
        api.server.create(build_raycluster("there"))
        source = KopfSource(await connect(str(config)), [RAYCLUSTER], [])
        await source.start(lambda *_: heard.set())
        try:
            async with asyncio.timeout(20):
                await heard.wait()
        finally:
            await source.stop()


async def test_kopf_forgets_what_has_gone(tmp_path: Path) -> None:
    heard: list[tuple[str | None, str]] = []

    def sink(_kind: Kind, event: str | None, body: dict[str, Any]) -> None:
        heard.append((event, body["metadata"]["name"]))

    async def until(event: str | None, count: int) -> None:
        async with asyncio.timeout(20):
            while sum(each == event for each, _ in heard) < count:
                await asyncio.sleep(0.02)

    api = ApiServer()
    async with api.running() as url:
        config = tmp_path / "kubeconfig"
        config.write_text(kubeconfig(url))
        api.server.create(build_raycluster("stays"))
        source = KopfSource(await connect(str(config)), [RAYCLUSTER], [])
        await source.start(sink)
        try:
            await until(None, 1)
            for round_ in range(ROUNDS):
                names = [f"rc-{round_}-{number}" for number in range(EACH)]
                for name in names:
                    api.server.create(build_raycluster(name))
                await until("ADDED", EACH * (round_ + 1))
                assert memories() == EACH + 1
                for name in names:
                    api.server.delete(RAYCLUSTER, "default", name)
                await until("DELETED", EACH * (round_ + 1))
                async with asyncio.timeout(20):
                    while memories() != 1:
                        await asyncio.sleep(0.05)
        finally:
            await source.stop()
    assert heard[0] == (None, "stays")
