"""Decides what `status` shows: one line per component that was started, and the nodes.

Exit code 0 when all that was started is alive, 1 when the cluster is down or something has ended."""

from __future__ import annotations

import json
import subprocess

from devcluster import binaries, gateway, namespaces, processes
from devcluster.layout import API_PORT, Cluster

ADDRESSES = {
    "etcd": "127.0.0.1:2379",
    "containerd": "containerd.sock",
    "kubelet": "{node}:10250",
    "coredns": "{node}:53",
    "apiserver": "{node}:" + str(API_PORT),
    gateway.NAME: "{node}:" + str(gateway.PORT),
}


def show(cluster: Cluster) -> int:
    recorded = processes.all_recorded(cluster)
    if not recorded:
        print(f"cluster '{cluster.name}': down")
        return 1
    print(f"cluster '{cluster.name}', state in {cluster.state}")
    print(f"{'component':<20}{'pid':>8}  {'state':<7}address")
    for process in recorded:
        address = ADDRESSES.get(process.name, "").format(node=cluster.node_address)
        print(f"{process.name:<20}{process.pid:>8}  {'up' if process.alive else 'DOWN':<7}{address}")
    if namespaces.holder(cluster) is not None:
        print(_nodes(cluster))
    return 0 if all(process.alive for process in recorded) else 1


def _nodes(cluster: Cluster) -> str:
    facts = cluster.facts()
    if facts is None or facts.nodes == 0:
        return "nodes: none (pods run by status only)"
    kubectl = binaries.find_kubectl()
    network = f"--net=/proc/{namespaces.require_holder(cluster).pid}/ns/net"
    argv = ["nsenter", network, str(kubectl), "--kubeconfig", str(cluster.kubeconfig), "get", "nodes", "-o", "json"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=20)
    if done.returncode:
        return f"nodes: the API server does not answer ({done.stderr.strip()[-200:]})"
    lines = []
    for item in json.loads(done.stdout)["items"]:
        ready = next((one["status"] for one in item["status"]["conditions"] if one["type"] == "Ready"), "Unknown")
        capacity = item["status"]["allocatable"]
        lines.append(
            f"node {item['metadata']['name']}: ready={ready} cpu={capacity['cpu']} memory={capacity['memory']}"
        )
    return "\n".join(lines)
