"""Operators as processes that serve webhooks on loopback ports, with the permissions that ``kuberay rbac`` prints and no others.

The API server of a 0-node cluster calls them by URL, since nothing there forwards a Service's address.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml
from kuberay.operator.webhooks.configurations import MUTATING, VALIDATING, webhook_manifests

CLI = (sys.executable, "-m", "kuberay.cli.main")


def kubectl(*words: str, given: str = "", check: bool = True) -> subprocess.CompletedProcess[str]:
    """As the cluster's administrator."""
    done = subprocess.run(["kubectl", *words], capture_output=True, text=True, input=given or None, check=False)
    if check and done.returncode:
        raise AssertionError(f"kubectl {' '.join(words)}: {done.stderr}")
    return done


def give_permissions(namespace: str, settings: Path, folder: Path) -> Path:
    """A kubeconfig for an account that may do what these *settings* need."""
    command = [*CLI, "rbac", "--namespace", namespace, "--config", str(settings)]
    manifests = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    kubectl("apply", "-f", "-", given=manifests)
    token = kubectl("create", "token", "kuberay-operator", "-n", namespace, "--duration=1h").stdout.strip()
    file = folder / "operator.kubeconfig"
    file.write_text(kubectl("config", "view", "--raw", "-o", "yaml").stdout)
    for words in (f"set-credentials operator --token={token}", "set-context --current --user=operator"):
        kubectl(f"--kubeconfig={file}", "config", *words.split())
    return file


class Replica:
    """One operator process."""

    def __init__(self, folder: Path, number: int, namespace: str, name: str, **settings: Any) -> None:
        self.port, self.probes = 19443 + number, 19543 + number
        self.namespace, self.name = namespace, name
        self.settings = folder / f"replica-{number}.yaml"
        self.log = folder / f"replica-{number}.log"
        self._process: subprocess.Popen[bytes] | None = None
        content = {
            "apiVersion": "config.ray.io/v1alpha1",
            "kind": "Configuration",
            "watchNamespace": namespace,
            "leaderElectionNamespace": namespace,
            "enableWebhooks": True,
            "webhookPort": self.port,
            "webhookCertificates": "self",
            "webhookName": name,
            "metricsAddr": "0",
            "probeAddr": f"127.0.0.1:{self.probes}",
            "featureGates": {"RayCronJob": True},
            **settings,
        }
        self.settings.write_text(yaml.safe_dump(content))

    def start(self, kubeconfig: Path) -> None:
        """Unless it runs already. Returns when it is ready, its webhooks included."""
        if self._process is not None and self._process.poll() is None:
            return
        env = {**os.environ, "KUBECONFIG": str(kubeconfig), "POD_NAMESPACE": self.namespace}
        with self.log.open("ab") as log:
            command = [*CLI, "run", "--config", str(self.settings)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=env)
        deadline = time.monotonic() + 90
        while not self.ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the operator is not ready: {self.tail()}")
            time.sleep(0.1)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.probes}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(15)

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-3000:]

    def ask(self, path: str, trusted: bytes) -> int:
        """HTTP status of a review over a new connection, by somebody who trusts *trusted* (PEM)."""
        context = ssl.create_default_context(cadata=trusted.decode())
        body = json.dumps({"request": {"uid": "u", "operation": "DELETE"}}).encode()
        asked = urllib.request.Request(f"https://127.0.0.1:{self.port}{path}", data=body)
        with urllib.request.urlopen(asked, timeout=10, context=context) as answer:
            return int(answer.status)


def start_all(replicas: Sequence[Replica], kubeconfig: Path) -> None:
    """At the same time."""
    with ThreadPoolExecutor() as threads:
        for done in [threads.submit(replica.start, kubeconfig) for replica in replicas]:
            done.result()


def stop_all(replicas: Sequence[Replica]) -> None:
    with ThreadPoolExecutor() as threads:
        for done in [threads.submit(replica.stop) for replica in replicas]:
            done.result()


def configure(replicas: Sequence[Replica], *, failure_policy: str = "Fail", defaulting: bool = False) -> None:
    """Webhook configurations for the replicas' namespace; the kinds are spread over the replicas."""
    first = replicas[0]
    manifests = webhook_manifests(
        namespace=first.namespace,
        name=first.name,
        port=first.port,
        failure_policy=failure_policy,
        defaulting=defaulting,
        watch_namespaces=[first.namespace],
    )
    for manifest in manifests[1:]:
        for number, webhook in enumerate(manifest["webhooks"]):
            replica = replicas[number % len(replicas)]
            path = webhook["clientConfig"].pop("service")["path"]
            webhook["clientConfig"]["url"] = f"https://127.0.0.1:{replica.port}{path}"
    kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", given=yaml.safe_dump_all(manifests[1:]))


def unconfigure(name: str) -> None:
    for kind in (VALIDATING, MUTATING):
        kubectl("delete", kind.plural, name, "--ignore-not-found")


def trusted_by_the_api_server(name: str) -> set[bytes]:
    """What each webhook trusts now."""
    told = kubectl("get", VALIDATING.plural, name, "-o", "json").stdout
    return {base64.b64decode(each["clientConfig"].get("caBundle", "")) for each in json.loads(told)["webhooks"]}
