"""A configuration file that changes under an operator with the rights of its own service account, on a real API server."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest
from crowd import all_ready, make, names
from kube_world import World
from replicas import NAMESPACE, Account, Replica, kubectl, until

pytestmark = pytest.mark.xdist_group("replicas")


def told() -> set[tuple[str, str, str]]:
    """Events about the operator's Lease: there is no pod of it here."""
    listed: dict[str, Any] = json.loads(kubectl("get", "events.events.k8s.io", "-n", NAMESPACE, "-o", "json"))
    return {
        (each["type"], each["reason"], each["note"])
        for each in listed["items"]
        if each["reportingController"] == "kuberay-operator" and each["regarding"]["kind"] == "Lease"
    }


async def test_what_may_be_taken_is_taken_and_the_rest_told(
    replicas: list[Replica], account: Account, world: World, tmp_path: Path
) -> None:
    first = replicas[0]
    config = tmp_path / "config.yaml"
    head = (
        "apiVersion: config.ray.io/v1alpha1\nkind: Configuration\n"
        f"leaderElectionNamespace: {NAMESPACE}\nmetricsAddr: 127.0.0.1:{first._metrics}\n"
        f"probeAddr: 127.0.0.1:{first._metrics + 1}\n"
    )
    config.write_text(head)
    first.connect(account.token())
    await asyncio.to_thread(first.start, f"--config={config}")
    await asyncio.to_thread(until, lambda: first.leads, 60, "it leads", replicas)
    await make(world, names(3))
    await all_ready(world, names(3), 60)

    before = first.writes()
    config.write_text(
        head + "drainTimeoutSeconds: 7\ndefaultPodLabels: {example.com/newer: 'yes'}\nreconcileConcurrency: 2\n"
    )
    # No signal: it is read again by itself.
    taken = (
        "Normal",
        "ConfigurationReloaded",
        f"taken from {config}: defaultPodLabels (for pods made from now on), drainTimeoutSeconds",
    )
    restart = ("Warning", "RestartNeeded", "reconcileConcurrency changed: restart the operator")
    await asyncio.to_thread(until, lambda: {taken, restart} <= told(), 30, "both are told", replicas)
    assert first.writes() == before, "nothing was written because of it"
    config.write_text(head + "drainTimeoutSeconds: soon\n")
    first.signal(signal.SIGHUP)
    await asyncio.to_thread(
        until, lambda: "ConfigurationRefused" in {reason for _, reason, _ in told()}, 30, "it is refused", replicas
    )
    assert "kuberay_config_last_reload_successful 0.0" in first.page()
    await make(world, names(1, "later"))
    await all_ready(world, names(1, "later"), 60)
    first.signal(signal.SIGTERM)
    assert await asyncio.to_thread(first.wait, 15) == 0
