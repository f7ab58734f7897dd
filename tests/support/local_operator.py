"""An installed operator on the test kit's API server: two processes, of environments of one's choice, on free ports.

Both end with the block; what they printed is in the message when something does not come true.
"""

from __future__ import annotations

import json
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from packages import Environment

SECONDS = 90
"""Until which a thing must have come true; minutes of patience for a busy machine, a second or two otherwise."""


class Local:
    """The processes and what the API server holds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kubeconfig = folder / "sim.kubeconfig"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def start(self, name: str, environment: Environment, *command: str) -> None:
        with self.log(name).open("wb") as out:
            self.processes[name] = subprocess.Popen(
                [environment.folder / "bin" / command[0], *command[1:]],
                cwd=self.folder,
                env=environment.variables(),
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    def start_server(self, environment: Environment, manifests: Sequence[Path]) -> None:
        """With these manifests created; returns when it answers."""
        files = [str(path) for path in manifests]
        module = ("-m", "kuberay_testkit.apiserver")
        self.start("server", environment, "python", *module, *files, "--kubeconfig", str(self.kubeconfig))
        self.until(lambda: "serving" in self.log("server").read_text(), "an API server")

    def start_operator(self, environment: Environment, *flags: str) -> None:
        quiet = ["--metrics-addr=0", "--health-probe-bind-address=0", "--enable-leader-election=false"]
        self.start("operator", environment, "kuberay", "run", "--kubeconfig", str(self.kubeconfig), *quiet, *flags)

    def get(self, path: str) -> dict[str, Any]:
        """What the API server holds at *path*."""
        config = yaml.safe_load(self.kubeconfig.read_text())
        with urllib.request.urlopen(config["clusters"][0]["cluster"]["server"] + path, timeout=30) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def until_ready(self, cluster: str) -> None:
        """Until the state of a RayCluster in ``default`` is ready."""
        path = f"/apis/ray.io/v1/namespaces/default/rayclusters/{cluster}"
        self.until(lambda: (self.get(path).get("status") or {}).get("state") == "ready", f"RayCluster {cluster} ready")

    def until(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + SECONDS
        while not holds():
            ended = {name: process.poll() for name, process in self.processes.items() if process.poll() is not None}
            if ended or time.monotonic() >= deadline:
                logs = [f"--- {name}\n{self.log(name).read_text()[-3000:]}" for name in self.processes]
                pytest.fail("\n".join([f"there was no {what} within {SECONDS} s; ended: {ended}", *logs]))
            time.sleep(0.1)

    def stop(self) -> None:
        """As SIGTERM; raises when a process has to be killed."""
        for process in self.processes.values():
            process.terminate()
        for name, process in self.processes.items():
            try:
                process.wait(30)
            except subprocess.TimeoutExpired as error:
                process.kill()
                raise AssertionError(f"the {name} did not stop\n{self.log(name).read_text()[-3000:]}") from error


@contextmanager
def local_cluster(folder: Path) -> Iterator[Local]:
    """Processes and their logs are in *folder*."""
    local = Local(folder)
    try:
        yield local
    finally:
        local.stop()
