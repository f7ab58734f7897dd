"""``make audit``, ``make licenses`` and ``make sbom``: that each would tell of what it is there to tell of."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from dev import licenses

ROOT = Path(__file__).resolve().parents[2]


class Vulnerabilities(ThreadingHTTPServer):
    """Speaks as https://api.osv.dev does."""

    known: frozenset[str] = frozenset()
    """Names of packages with a hole in every version."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.asked: set[str] = set()


class Answers(BaseHTTPRequestHandler):
    server: Vulnerabilities

    def do_POST(self) -> None:
        queries = json.loads(self.rfile.read(int(self.headers["content-length"])))["queries"]
        names = [query["package"]["name"] for query in queries]
        self.server.asked.update(names)
        hole = {"vulns": [{"id": "TEST-1", "modified": "2026-01-01T00:00:00Z"}]}
        self._say({"results": [hole if name in self.server.known else {} for name in names]})

    def do_GET(self) -> None:
        self._say({"id": "TEST-1", "modified": "2026-01-01T00:00:00Z", "summary": "a hole"})

    def _say(self, told: Any) -> None:
        body = json.dumps(told).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Not among the tests' output."""


@pytest.fixture
def service() -> Iterator[Vulnerabilities]:
    with Vulnerabilities() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def make(*words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    return subprocess.run(["make", "-s", *words], cwd=ROOT, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("hole", ["", "aiohttp"])
def test_the_audit_fails_where_something_is_known(service: Vulnerabilities, hole: str) -> None:
    service.known = frozenset({hole} - {""})
    done = make("audit", f"AUDIT_URL=http://127.0.0.1:{service.server_port}")
    assert {"aiohttp", "pydantic", "kopf"} <= service.asked
    assert "mypy" not in service.asked, "what only development needs"
    told = done.stdout + done.stderr
    assert (done.returncode == 0) is not bool(hole), told
    assert ("TEST-1" in told) is bool(hole)


@pytest.mark.parametrize(
    ("expression", "good"),
    [
        ("MIT", True),
        ("Apache-2.0 OR GPL-3.0-only", True),
        ("MPL-2.0 AND (Apache-2.0 OR MIT)", True),
        ("GPL-3.0-only", False),
        ("MIT AND GPL-3.0-only", False),
        ("unknown", False),
    ],
)
def test_which_licences_are_permissive(expression: str, good: bool) -> None:
    assert licenses.is_permissive(expression) is good


def test_the_licence_of_every_package_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    done = make("licenses")
    assert done.returncode == 0, done.stdout
    assert len(done.stdout.splitlines()) > 30


def test_every_requirement_of_the_image_has_hashes() -> None:
    done = make("print-requirements")
    entries = re.split(r"\n(?=[A-Za-z0-9])", done.stdout.strip())
    assert len(entries) > 30, done.stderr
    assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == []
