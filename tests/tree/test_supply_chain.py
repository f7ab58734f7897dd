"""``make audit``, ``make licenses`` and ``make sbom``: that each would tell of what it is there to tell of."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from dev import licenses
from image import sbom

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


def required() -> dict[str, str]:
    """What the image needs beside our own, each with the rest of its entry: version, marker, hashes."""
    done = make("print-requirements")
    entries = re.split(r"\n(?=[A-Za-z0-9])", done.stdout.strip())
    assert len(entries) > 30, done.stderr
    return dict(entry.split("==", 1) for entry in entries)


@pytest.mark.parametrize("hole", ["", "aiohttp"])
def test_the_audit_fails_where_something_is_known(service: Vulnerabilities, hole: str) -> None:
    service.known = frozenset({hole} - {""})
    done = make("audit", f"AUDIT_URL=http://127.0.0.1:{service.server_port}")
    development = {"pytest", "iniconfig", "packaging"}  # of the test kit, which is a package like the others
    assert service.asked - development == required().keys()
    told = done.stdout + done.stderr
    assert (done.returncode == 0) is not bool(hole), told
    assert ("TEST-1" in told) is bool(hole)


def test_an_audit_without_an_answer_is_no_good_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    done = make("audit", "AUDIT_URL=http://127.0.0.1:9")
    assert done.returncode != 0
    assert "nothing is known of vulnerabilities: no answer (AUDIT_URL names another service)" in done.stderr


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


def test_the_licence_of_every_package_is_known() -> None:
    done = make("licenses")
    assert done.returncode == 0, done.stdout
    assert len(done.stdout.splitlines()) > 30
    assert "colorama" not in done.stdout, "what Linux never has"


def test_a_licence_that_is_not_seen_is_no_good_one(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(licenses, "packages", lambda: [("pyyaml", "6", False), ("not-there", "1", False)])
    assert licenses.main() == 1
    assert capsys.readouterr().err == "not known to be permissive: not-there\n"


def test_the_list_of_parts_is_about_the_operator() -> None:
    """Of what is installed: our packages, each with what it stands on, all with licence, version, origin and hashes."""
    assert make("sbom").returncode == 0
    told = json.loads((ROOT / "dist" / "sbom.cdx.json").read_text())
    product = told["metadata"]["component"]
    ours = {path.parent.name.replace("_", "-") for path in ROOT.glob("plugins/*/pyproject.toml")} | {"core"}
    parts = {part["bom-ref"]: part for part in told["components"]}
    stands_on = {edge["ref"]: edge["dependsOn"] for edge in told["dependencies"]}
    assert (product["name"], product["version"]) == ("kuberay-operator", version("kuberay-core"))
    assert {parts[ref]["name"] for ref in stands_on[product["bom-ref"]]} == {f"kuberay-{name}" for name in ours}
    reached: set[str] = set()
    todo = [product["bom-ref"]]
    while todo:
        more = [ref for ref in stands_on[todo.pop()] if ref not in reached]
        reached.update(more)
        todo += more
    assert reached == set(parts), "everything in it is there for something"
    for part in parts.values():
        assert part["purl"] == f"pkg:pypi/{part['name']}@{part['version']}"
        assert part["licenses"]
        files = part.get("externalReferences", [])
        assert bool(files) is not part["name"].startswith("kuberay-")
        assert [file for file in files if not file["hashes"]] == []
    listed = {part["name"] for part in parts.values()}
    assert required().keys() - listed == {"colorama"}, "Windows only"


def test_a_list_of_parts_tells_the_truth_or_is_not_made() -> None:
    """Never the lock file's word about something that is not there, or is there in another version."""

    def listed(*parts: dict[str, Any]) -> dict[str, Any]:
        core = {"name": "kuberay-core", "version": version("kuberay-core"), "bom-ref": "core"}
        return {"metadata": {}, "components": [core, *parts], "dependencies": []}

    marker = {"name": "uv:package:marker", "value": "sys_platform == 'win32'"}
    absent: dict[str, Any] = {"name": "not-there", "version": "1", "bom-ref": "a"}
    assert len(sbom.complete(listed(absent | {"properties": [marker]}))["components"]) == 1
    with pytest.raises(SystemExit, match=r"not-there 1 is in uv.lock and not installed here"):
        sbom.complete(listed(absent))
    with pytest.raises(SystemExit, match=r"pyyaml 0 is in uv.lock, and \S+ is installed here"):
        sbom.complete(listed({"name": "pyyaml", "version": "0", "bom-ref": "b"}))


@pytest.mark.parametrize(
    ("told", "field"),
    [
        ("MPL-2.0 AND (Apache-2.0 OR MIT)", [{"expression": "MPL-2.0 AND (Apache-2.0 OR MIT)"}]),
        ("Acme licence", [{"license": {"name": "Acme licence"}}]),
        ("unknown", []),
    ],
)
def test_licences_in_the_list_of_parts(told: str, field: list[dict[str, Any]]) -> None:
    assert sbom.as_licences(told) == field


def test_every_requirement_of_the_image_has_hashes() -> None:
    assert [name for name, rest in required().items() if "--hash=sha256:" not in rest] == []
