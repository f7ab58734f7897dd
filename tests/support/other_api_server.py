"""Another API server beside the cluster's own, on the same etcd, as clusters with several have: a test may kill it or slow it down.

The cluster's own one, through which tests look and pods are run, goes on undisturbed.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import yaml

PORT = 16443
ETCD = ("127.0.0.1", 2379)
SECONDS = 90
"""Until which it must be ready; it takes 3 to 10."""


def cluster_folder() -> Path:
    """Where the cluster in whose network this process runs keeps its files (dev/README.md)."""
    return Path(os.environ["KUBECONFIG"]).parent


def own_address() -> str:
    """Address of the node, for which the API server's certificate is."""
    config = yaml.safe_load(Path(os.environ["KUBECONFIG"]).read_text())
    return str(urlsplit(config["clusters"][0]["cluster"]["server"]).hostname)


def _command_of_the_own_one() -> list[str]:
    pid = json.loads((cluster_folder() / "pids" / "apiserver.json").read_text())["pid"]
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode().rstrip("\0").split("\0")


class OtherApiServer:
    """A process with the flags of the cluster's own API server and a port of its own."""

    def __init__(self, folder: Path, etcd: tuple[str, int]) -> None:
        self.address = (own_address(), PORT)
        self.log = folder / "apiserver.log"
        changed = {
            "--etcd-servers": f"http://{etcd[0]}:{etcd[1]}",
            "--secure-port": str(PORT),
            # The service `kubernetes` stays the own one's.
            "--endpoint-reconciler-type": "none",
        }
        kept = [word for word in _command_of_the_own_one() if word.partition("=")[0] not in changed]
        self._command = [*kept, *(f"{flag}={value}" for flag, value in changed.items())]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"https://{self.address[0]}:{self.address[1]}"

    def start(self) -> None:
        """Start it; `wait` says when it answers."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def wait(self) -> None:
        """Until it is ready."""
        deadline = time.monotonic() + SECONDS
        words: Sequence[str] = ("kubectl", f"--server={self.url}", "get", "--raw=/readyz")
        while subprocess.run(words, capture_output=True, check=False, timeout=60).returncode:
            assert self._process is not None
            assert self._process.poll() is None, f"the API server ended: {self.log.read_text()[-2000:]}"
            assert time.monotonic() < deadline, f"the API server is not ready: {self.log.read_text()[-2000:]}"
            time.sleep(0.2)

    def kill(self) -> None:
        """As a crash of its node: no connection is closed in an orderly way."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@contextmanager
def other_api_server(folder: Path, etcd: tuple[str, int] = ETCD) -> Iterator[OtherApiServer]:
    """One that is ready, and ends with the block."""
    server = OtherApiServer(folder, etcd)
    server.start()
    try:
        server.wait()
        yield server
    finally:
        server.kill()
