"""Decides where everything of a cluster lives: folders, files and addresses, all derived from its name.

Two clusters with different names share nothing but the build cache."""

from __future__ import annotations

import json
import os
import re
import zlib
from dataclasses import dataclass
from pathlib import Path

from devcluster.steps import StepFailed

DEV = Path(__file__).resolve().parent.parent
PROJECT = DEV.parent

NODE_NAME = "node0"
SERVICE_CIDR = "10.96.0.0/16"
SERVICE_ADDRESS = "10.96.0.1"
POD_CIDR = "10.244.0.0/24"
API_PORT = 6443
DEFAULT_NAME = "dev"


def cache_dir() -> Path:
    """Where built parts are kept; ``KUBERAY_DEV_CACHE`` moves it."""
    return Path(os.environ.get("KUBERAY_DEV_CACHE") or Path.home() / ".cache" / "kuberay-dev")


def state_root() -> Path:
    """Where the clusters keep what they need while they run; ``KUBERAY_DEV_STATE`` moves it."""
    return Path(os.environ.get("KUBERAY_DEV_STATE") or "/var/lib/kuberay-dev")


@dataclass(frozen=True)
class Cluster:
    """The paths and addresses of the cluster called ``name``."""

    name: str

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?", self.name):
            raise StepFailed(
                f"'{self.name}' cannot name a cluster", advice="use up to 20 lower-case letters, digits and dashes"
            )

    @property
    def state(self) -> Path:
        return state_root() / self.name

    @property
    def pki(self) -> Path:
        return self.state / "pki"

    @property
    def logs(self) -> Path:
        return self.state / "log"

    @property
    def pids(self) -> Path:
        return self.state / "pids"

    @property
    def kubeconfig(self) -> Path:
        return self.state / "admin.kubeconfig"

    @property
    def resolv_conf(self) -> Path:
        return self.state / "resolv.conf"

    @property
    def containerd_socket(self) -> Path:
        return self.state / "containerd.sock"

    @property
    def cgroup(self) -> str:
        """Name of the control group that holds every process of the cluster, below each hierarchy's root."""
        return f"kuberay-dev-{self.name}"

    @property
    def node_address(self) -> str:
        """Address of the node and of the API server, inside the cluster's network."""
        return f"10.77.{zlib.crc32(self.name.encode()) % 250 + 1}.1"

    @property
    def api_url(self) -> str:
        return f"https://{self.node_address}:{API_PORT}"

    @property
    def facts_file(self) -> Path:
        return self.state / "cluster.json"

    def facts(self) -> Facts | None:
        """What `up` wrote down, or None when the cluster was never started."""
        try:
            return Facts(**json.loads(self.facts_file.read_text()))
        except FileNotFoundError:
            return None

    def write_facts(self, facts: Facts) -> None:
        self.facts_file.write_text(json.dumps(facts.__dict__, indent=2) + "\n")


@dataclass(frozen=True)
class Facts:
    """What has to be known about a running cluster and cannot be derived from its name."""

    nodes: int
    kubelite: str
    network: str = ""


def known_clusters() -> list[Cluster]:
    """Every cluster that has a state folder."""
    root = state_root()
    return [Cluster(path.name) for path in sorted(root.iterdir()) if path.is_dir()] if root.is_dir() else []
