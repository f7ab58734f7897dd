"""Decides in which order a cluster is taken down, so that no process, mount, interface or namespace is left.

Also right for what an interrupted `up`, a killed command or a restarted machine left behind."""

from __future__ import annotations

import shutil

from devcluster import cgroups, namespaces, processes
from devcluster.layout import Cluster
from devcluster.steps import StepFailed, say, step

# Pods first lose the kubelet that would restart them; the store goes last.
ORDER = [
    "traefik",
    "kubelet",
    "proxy",
    "coredns",
    "fakekubelet",
    "scheduler",
    "controller-manager",
    "apiserver",
    "containerd",
    "etcd",
]


def take_down(cluster: Cluster) -> bool:
    """Take the cluster down; says whether there was anything."""
    if not cluster.state.exists() and not cgroups.members(cluster):
        cgroups.remove(cluster)
        return False
    with step(f"taking down '{cluster.name}'"):
        _end_strangers(cluster)
        recorded = {process.name: process for process in processes.all_recorded(cluster)}
        held = recorded.pop(namespaces.HOLDER, None)
        # Nothing is worth keeping, so nobody is given long to say goodbye.
        processes.stop(cluster, [recorded[name] for name in ORDER if name in recorded], seconds=0.5)
        _end_strangers(cluster)  # those that were on their way in
        if held is not None:
            processes.stop(cluster, [held], seconds=0.5)
        cgroups.kill_all(cluster)
        left = cgroups.members(cluster)
        if left:
            raise StepFailed(
                f"processes {sorted(left)} cannot be ended", advice="look at them with ps; then run down again"
            )
        processes.wait_until_reaped([*recorded.values(), *([held] if held else [])])
        cgroups.remove(cluster)
        shutil.rmtree(cluster.state, ignore_errors=True)
        if cluster.state.exists():
            raise StepFailed(f"{cluster.state} cannot be removed", advice="see whether something is mounted below it")
    return True


def _end_strangers(cluster: Cluster) -> None:
    for stranger in namespaces.end_strangers(cluster):
        say(f"  ended what `exec` had started: {stranger.name}")
