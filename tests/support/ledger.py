"""Says when each Ray job of an end-to-end test ends, and counts how often each was run: a small server in a pod of its own.

A job's entrypoint asks it once, which is one line in the ledger, and gets no answer until the test says how the job ends. The
ledger outlives heads, so a job that was run twice, on whichever heads, shows as two lines.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from urllib.request import urlopen

import yaml
from waiting import eventually

from dev.demo.install import OUR_RAY_IMAGE
from dev.demo.kubectl import Kubectl

NAMESPACE = "e2e-ledger"
ADDRESS = f"http://ledger.{NAMESPACE}.svc.cluster.local:8000"
SERVER = """
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Condition

runs, ends, changed = {}, {}, Condition()

class Ledger(BaseHTTPRequestHandler):
    def do_GET(self):
        verb, name, *rest = self.path.strip("/").split("/")
        with changed:
            if verb == "run":
                runs.setdefault(name, []).append(self.client_address[0])
                changed.wait_for(lambda: name in ends)
                answer = ends[name]
            elif verb == "end":
                ends[name] = answer = rest[0]
                changed.notify_all()
            else:
                answer = json.dumps(runs.get(name, []))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(answer.encode())

ThreadingHTTPServer(("", 8000), Ledger).serve_forever()
"""


@dataclass(frozen=True)
class Ledger:
    """The test's side. Names are unique in a session: ``<namespace>.<job>``."""

    address: str = ADDRESS

    def entrypoint(self, name: str) -> str:
        """A command for Ray that is one line in the ledger, prints its name, and ends as the test says."""
        code = (
            f"import sys, urllib.request as u; print('{name} runs', flush=True); "
            f"code = u.urlopen('{self.address}/run/{name}').read().decode(); "
            f"print('{name} ends with', code, flush=True); sys.exit(int(code))"
        )
        return f'python -c "{code}"'

    def end(self, name: str, code: int = 0) -> None:
        """Have all runs of *name*, present and later ones, end with this exit code."""
        self._get(f"end/{name}/{code}")

    def runs(self, name: str) -> list[str]:
        """The address of the head of each run that has begun."""
        found: list[str] = self._get(f"runs/{name}")
        return found

    def wait_for_run(self, name: str, seconds: float = 300, count: int = 1) -> None:
        eventually(lambda: len(self.runs(name)) >= count, seconds, f"run {count} of {name} has begun")

    def _get(self, path: str) -> Any:
        with urlopen(f"{self.address}/{path}", timeout=10) as answer:
            return json.loads(answer.read())


def start(kubectl: Kubectl) -> Ledger:
    """Make the server's pod, and return once it answers."""
    labels = {"app": "ledger"}
    container = {
        "name": "ledger",
        "image": OUR_RAY_IMAGE,
        "command": ["python", "-c", SERVER],
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}},
        "readinessProbe": {"tcpSocket": {"port": 8000}, "periodSeconds": 1},
    }
    manifests = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "ledger", "namespace": NAMESPACE, "labels": labels},
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "ledger", "namespace": NAMESPACE},
            "spec": {"selector": labels, "ports": [{"port": 8000}]},
        },
    ]
    kubectl.apply(yaml.safe_dump_all(manifests))
    ledger = Ledger()

    def answers() -> bool:
        try:
            return ledger.runs("nobody") == []
        except OSError:
            return False

    eventually(answers, 120, "the ledger answers")
    return ledger
