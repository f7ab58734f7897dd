"""Fixtures for several files about RayServices."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from kuberay.kube.client import Client

from core.tests.cli.service_edits import Manifest, answer
from core.tests.cli.service_reports import Told, why
from core.tests.cli.service_server import ServiceServer
from core.tests.plan.service.worlds import World


@pytest.fixture
def diff_service(tmp_path: Path) -> Any:
    def _diff(old: Manifest, new: Manifest, *more: str) -> Manifest:
        """What an edit of a file does, as JSON; ``text`` and ``code`` besides."""
        for name, body in (("old", old), ("new", new)):
            (tmp_path / name).write_text(yaml.safe_dump(body))
        return answer(["diff", "-f", str(tmp_path / "new"), "--against", str(tmp_path / "old"), *more])

    return _diff


@pytest.fixture
def service_server(monkeypatch: pytest.MonkeyPatch) -> ServiceServer:
    server = ServiceServer()

    @asynccontextmanager
    async def reach(kubeconfig: str, context: str) -> AsyncIterator[tuple[Client, str]]:
        yield Client(server), "default"  # type: ignore[arg-type]

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
            return server.now

    monkeypatch.setattr("kuberay.cli.why.reach", reach)
    monkeypatch.setattr("kuberay.cli.why.datetime", Clock)
    return server


@pytest.fixture
def told(service_server: ServiceServer) -> Told:
    def _told(world: World) -> Manifest:
        """What is said about it, names of RayClusters as ``A`` (active) and ``P`` (pending)."""
        service_server.show(world)
        text = why("-o", "json")
        names = {world.active: "A", world.pending: "P"} | {
            name: "OLD" for name in world.clusters() if name not in (world.active, world.pending)
        }
        for name, letter in names.items():
            text = text.replace(name, letter) if name else text
        report: Manifest = json.loads(text)
        return report

    return _told
