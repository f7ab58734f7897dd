"""Decides how a cluster's network and mounts are kept apart from the machine's: one holder process owns both.

Nothing is pinned in the file system, so when the last process of a cluster is gone, so are its interfaces and mounts."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from devcluster import cgroups, processes
from devcluster.layout import Cluster
from devcluster.steps import StepFailed, run

HOLDER = "namespaces"
MARK = "KUBERAY_DEV_CLUSTER"  # in the environment of what `exec` starts
CLONE_NEWNET = 0x40000000

# Folders that the node's components insist on; each cluster's node sees its own under them.
OWN_FOLDERS = [
    "/run/netns",
    "/run/containerd",
    "/var/lib/cni",
    "/var/lib/kubelet",
    "/var/log/containers",
    "/var/log/pods",
]


def holder(cluster: Cluster) -> processes.Process | None:
    return processes.running(cluster, HOLDER)


def require_holder(cluster: Cluster) -> processes.Process:
    found = holder(cluster)
    if found is None:
        raise StepFailed(f"the cluster '{cluster.name}' is not up", advice=f"dev/cluster --name {cluster.name} up")
    return found


def create(cluster: Cluster) -> None:
    """Start the holder and lay out the network: a bridge carries the node's address, for want of dummy devices."""
    private = cluster.state / "private"
    script = ["set -e", "mount --make-rshared /"]
    for number, folder in enumerate(OWN_FOLDERS):
        own = private / str(number)
        script += [f"mkdir -p '{own}' '{folder}'", f"mount --bind '{own}' '{folder}'"]
    script += [f"touch '{private}/ready'", "exec sleep infinity"]
    private.mkdir(parents=True, exist_ok=True)
    unshare = ["unshare", "--net", "--mount", "--propagation", "private", "sh", "-c", "\n".join(script)]
    processes.start(cluster, HOLDER, unshare)
    processes.wait_for(cluster, HOLDER, (private / "ready").exists, 10, "the cluster's namespaces were ready")


def enter_network(cluster: Cluster) -> None:
    """Move this process (and what it starts from now on) into the cluster's network."""
    libc = ctypes.CDLL(None, use_errno=True)
    with Path(f"/proc/{require_holder(cluster).pid}/ns/net").open() as network:
        if libc.setns(network.fileno(), CLONE_NEWNET):
            error = ctypes.get_errno()
            raise StepFailed(f"the network of '{cluster.name}' cannot be entered: {os.strerror(error)}")


def lay_out_network(cluster: Cluster) -> None:
    """Give the node its address. Called inside the network."""
    address = cluster.node_address
    commands = [
        "link set lo up",
        "link add node0 type bridge",
        f"addr add {address}/24 dev node0",
        "link set node0 up",
        "route add default dev node0",
    ]
    run(["ip", "-batch", "-"], what="the network could not be laid out", stdin="\n".join(commands) + "\n")
    for setting, value in (("ip_forward", 1), ("conf/all/rp_filter", 0), ("conf/all/route_localnet", 1)):
        Path(f"/proc/sys/net/ipv4/{setting}").write_text(str(value))
    bridge_filter = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
    if bridge_filter.exists():
        bridge_filter.write_text("1")


def entering_mounts(cluster: Cluster) -> list[str]:
    """Words to put before a command so that it sees the node's mounts."""
    return ["nsenter", f"--mount=/proc/{require_holder(cluster).pid}/ns/mnt", f"--wd={cluster.state}"]


def execute(cluster: Cluster, command: list[str], env: dict[str, str]) -> None:
    """Become the command, inside the cluster's network; with the cluster's DNS where it has one. Does not return."""
    argv = ["nsenter", f"--net=/proc/{require_holder(cluster).pid}/ns/net"]
    if cluster.resolv_conf.exists():
        bind = 'mount --bind "$0" /etc/resolv.conf && exec "$@"'
        argv += ["unshare", "--mount", "--propagation", "slave", "sh", "-c", bind, str(cluster.resolv_conf)]
    else:
        argv.append("--")
    try:
        os.execvpe(argv[0], [*argv, *command], env)
    except FileNotFoundError as error:
        raise StepFailed("nsenter is not installed", advice="apt-get install util-linux") from error


def end_strangers(cluster: Cluster) -> list[processes.Process]:
    """End what was started inside the cluster's network by `exec` and is still there."""
    facts = cluster.facts()
    if facts is None:
        return []
    marked = None if holder(cluster) is not None else f"{MARK}={cluster.name}"
    own = cgroups.members(cluster)
    found = processes.in_network(facts.network, marked=marked)
    strangers = [process for process in found if process.pid not in own]
    processes.stop(cluster, strangers, seconds=3)
    return strangers
