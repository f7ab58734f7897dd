"""Decides what `up` has to do: nothing, start what is missing, or start anew because the cluster's holder is gone.

Goes from no node to one on a running cluster, never back."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devcluster import building, cgroups, control_plane, gateway, layout, namespaces, node, processes, teardown
from devcluster.building import Built
from devcluster.control_plane import Settings
from devcluster.gateway import Gateway
from devcluster.layout import Cluster, Facts
from devcluster.steps import StepFailed, say


@contextmanager
def only_one(cluster: Cluster) -> Iterator[None]:
    """Let one command at a time change a cluster; another waits. The lock's file goes when the cluster is gone."""
    folder = layout.state_root()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f".{cluster.name}.lock"
    while True:
        with path.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not _is_still(path, lock.fileno()):
                continue  # whoever had it before us removed the file
            try:
                yield
            finally:
                if not cluster.state.exists():
                    path.unlink(missing_ok=True)
            return


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def bring_up(cluster: Cluster, nodes: int | None, settings: Settings, wants: Gateway = Gateway.NONE) -> None:
    """Bring the cluster to the wanted number of nodes (None: as many as it has, none at first) and to what of the Gateway API
    is wanted."""
    with only_one(cluster):
        facts = cluster.facts()
        if facts is None or namespaces.holder(cluster) is None:
            teardown.take_down(cluster)
            facts = None
        has = facts.nodes if facts else 0
        wanted = has if nodes is None else nodes
        if wanted < has:
            raise StepFailed(
                f"the cluster '{cluster.name}' has a real node already",
                advice=f"dev/cluster --name {cluster.name} down first, or choose another --name",
            )
        # Before the cluster's network is entered: building needs the machine's.
        built = building.build_everything() if wanted else None
        kubelite = built.kubelite if built else building.build_control_plane()
        gateway.build(wants)
        if facts is None:
            _lay_out(cluster, kubelite)
            _record(cluster, 0, kubelite)
        elif facts.kubelite != str(kubelite):
            say(f"  '{cluster.name}' runs an older build; `down` and `up` to use the new one")
        namespaces.enter_network(cluster)
        if facts is None:
            namespaces.lay_out_network(cluster)
        if built is not None:
            node.start_containerd(cluster, built.image_store)
        control_plane.start_control_plane(cluster, kubelite, settings)
        if built is None:
            control_plane.start_fakekubelet(cluster, kubelite, settings)
            gateway.start(cluster, wants)
            _require_alive(cluster)
            say(f"'{cluster.name}' is up: {cluster.api_url}, no node: pods run by status only")
            return
        _add_node(cluster, built, settings)
        _record(cluster, 1, kubelite)
        gateway.start(cluster, wants)
        _require_alive(cluster)
        say(f"'{cluster.name}' is up: {cluster.api_url}, one node")


def _lay_out(cluster: Cluster, kubelite: Path) -> None:
    for folder in (cluster.state, cluster.logs, cluster.pids):
        folder.mkdir(parents=True, exist_ok=True)
    cgroups.create(cluster)
    namespaces.create(cluster)
    control_plane.write_credentials(cluster, kubelite)


def _record(cluster: Cluster, nodes: int, kubelite: Path) -> None:
    network = processes.network_of(namespaces.require_holder(cluster).pid) or ""
    cluster.write_facts(Facts(nodes=nodes, kubelite=str(kubelite), network=network))


def _add_node(cluster: Cluster, built: Built, settings: Settings) -> None:
    node.import_images(cluster, built.images)
    control_plane.start_scheduler(cluster, built.kubelite, settings)
    node.start_node(cluster, built.kubelite, built.coredns)


def _require_alive(cluster: Cluster) -> None:
    """A component that ended right after its start (a wrong flag, most often) is a failure of `up`."""
    for process in processes.all_recorded(cluster):
        if not process.alive:
            log = cluster.logs / f"{process.name}.log"
            raise StepFailed(f"{process.name} has ended", log=log, advice="mend what the log says, then run up again")
