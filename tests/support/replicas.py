"""Replicas of the operator as processes: with the rights of its own service account, a token file that a test may replace, and a
lease that they share. What each of them did is told by its metrics, its log and its exit code.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from other_api_server import own_address

NAMESPACE = "kuberay-ha"
"""Of the service account, its roles and the Lease."""
ACCOUNT = "kuberay-operator"
WRITES = ("create", "update", "patch", "apply", "delete", "post", "put")
_PORTS = 18100
_REQUESTS = re.compile(r"kuberay_api_requests_total\{(?P<labels>[^}]*)\} (?P<value>\S+)")


def kubectl(*words: str, stdin: str = "") -> str:
    done = subprocess.run(["kubectl", *words], input=stdin, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr}"
    return done.stdout


class Account:
    """The operator's service account: its roles as ``kuberay rbac`` prints them, and its tokens."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "kuberay.cli.main", "rbac", "--namespace", NAMESPACE]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        self.manifests: list[dict[str, Any]] = list(yaml.safe_load_all(printed))

    def install(self) -> None:
        """The namespace and all permissions, as they should be."""
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        self._apply([namespace, *self.manifests])

    def take_away(self, resource: str, *verbs: str) -> None:
        """As when somebody edits the role: *verbs* on *resource* are no longer granted."""
        self._apply([_without(each, resource, verbs) for each in self.manifests if each["kind"].endswith("Role")])

    def give_back(self) -> None:
        self._apply(self.manifests)

    def _apply(self, manifests: Sequence[dict[str, Any]]) -> None:
        kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=yaml.safe_dump_all(manifests))

    def token(self, bound_to: str = "") -> str:
        """One for an hour; *bound_to* a Secret of that name, with which it becomes worthless."""
        words = ["create", "token", ACCOUNT, "-n", NAMESPACE]
        if bound_to:
            kubectl("create", "secret", "generic", bound_to, "-n", NAMESPACE)
            words += ["--bound-object-kind=Secret", f"--bound-object-name={bound_to}"]
        return kubectl(*words).strip()

    def revoke(self, bound_to: str) -> None:
        kubectl("delete", "secret", bound_to, "-n", NAMESPACE)


def _without(role: dict[str, Any], resource: str, verbs: Sequence[str]) -> dict[str, Any]:
    rules = []
    for rule in role["rules"]:
        others = [each for each in rule["resources"] if each != resource]
        if others:
            rules.append({**rule, "resources": others})
        left = [verb for verb in rule["verbs"] if verb not in verbs]
        if resource in rule["resources"] and left:
            rules.append({**rule, "resources": [resource], "verbs": left})
    return {**role, "rules": rules}


class Replica:
    """One of them. Each start is a new process under the same name."""

    def __init__(self, folder: Path, number: int) -> None:
        self.name = f"replica-{number}"
        self.log = folder / f"{self.name}.log"
        self.token_file = folder / f"{self.name}.token"
        self._kubeconfig = folder / f"{self.name}.kubeconfig"
        self._metrics = _PORTS + 2 * number
        self._process: subprocess.Popen[bytes] | None = None

    def connect(self, token: str, server: tuple[str, int] | None = None) -> None:
        """Whom it asks from its next start on, by default the cluster's own API server; and with which token, from now on."""
        config = yaml.safe_load(Path(os.environ["KUBECONFIG"]).read_text())
        if server is not None:
            config["clusters"][0]["cluster"]["server"] = f"https://{server[0]}:{server[1]}"
        config["users"][0]["user"] = {"tokenFile": str(self.token_file)}
        self._kubeconfig.write_text(yaml.safe_dump(config))
        self.write_token(token)

    def write_token(self, token: str) -> None:
        """As the kubelet does: in one step."""
        fresh = self.token_file.with_suffix(".new")
        fresh.write_text(token)
        fresh.replace(self.token_file)

    def start(self, *flags: str, program: Sequence[str] = ("-m", "kuberay.cli.main")) -> None:
        """Start it; *program* is what Python runs."""
        assert not self.running
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    *program,
                    "run",
                    f"--leader-election-namespace={NAMESPACE}",
                    f"--metrics-addr=127.0.0.1:{self._metrics}",
                    f"--health-probe-bind-address=127.0.0.1:{self._metrics + 1}",
                    *flags,
                ],
                stdout=log,
                stderr=log,
                env={**os.environ, "KUBECONFIG": str(self._kubeconfig)},
            )

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        return self._process.poll() if self._process is not None else None

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def wait(self, seconds: float) -> int:
        """Until it has ended; its exit code."""
        assert self._process is not None
        return self._process.wait(seconds)

    def end(self) -> None:
        """However it is."""
        if self.running:
            with suppress(ProcessLookupError):
                self.signal(signal.SIGKILL)
            self.wait(10)

    def page(self) -> str:
        """Its metrics; empty while it cannot be asked."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._metrics}/metrics", timeout=2) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    def probe(self, which: str) -> tuple[int, str]:
        """What ``/livez`` or ``/readyz`` answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._metrics + 1}/{which}", timeout=2) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    @property
    def leads(self) -> bool:
        return 'leader_election_master_status{name="ray-operator-leader"} 1.0' in self.page()

    def writes(self) -> dict[str, float]:
        """Requests of this process so far that changed something, by verb and resource; without Leases and events."""
        found: dict[str, float] = {}
        for match in _REQUESTS.finditer(self.page()):
            labels = dict(re.findall(r'(\w+)="([^"]*)"', match["labels"]))
            verb, resource = labels["verb"].lower(), labels["resource"]
            if verb in WRITES and resource not in ("leases", "events", "selfsubjectaccessreviews"):
                found[f"{verb} {resource}"] = found.get(f"{verb} {resource}", 0.0) + float(match["value"])
        return {key: value for key, value in sorted(found.items()) if value}

    def said(self) -> str:
        """All that it has logged."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def records(self) -> list[dict[str, Any]]:
        """The same, line by line."""
        found = []
        for line in self.said().splitlines():
            with suppress(json.JSONDecodeError):
                found.append(json.loads(line))
        return found


def until(holds: Callable[[], Any], seconds: float, what: str, replicas: Sequence[Replica] = ()) -> float:
    """Poll until *holds*; how many seconds it took. The ends of the logs are in the message when it does not come true."""
    started = time.monotonic()
    while not holds():
        if time.monotonic() - started > seconds:
            logs = "\n".join(f"--- {each.name} ({each.exit_code}): {each.said()[-2500:]}" for each in replicas)
            raise AssertionError(f"{what}: not within {seconds:.0f} s\n{logs}")
        time.sleep(0.1)
    return time.monotonic() - started


def start_both(replicas: Sequence[Replica]) -> tuple[Replica, Replica]:
    """The first leads, and the second is ready to."""
    first, second = replicas
    first.start()
    until(lambda: first.leads, 60, "the first replica leads", replicas)
    second.start()
    until(lambda: second.page() and second.probe("readyz")[0] == 200, 60, "the second replica is ready", replicas)
    assert not second.leads
    return first, second


def holder() -> str:
    """Who holds the lease; empty when nobody does."""
    found = subprocess.run(
        ["kubectl", "get", "lease", "ray-operator-leader", "-n", NAMESPACE, "-o", "jsonpath={.spec.holderIdentity}"],
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip()


def api_address() -> tuple[str, int]:
    """Of the cluster's own API server."""
    return own_address(), 6443
