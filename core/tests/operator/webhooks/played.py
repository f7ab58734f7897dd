"""What the tests of webhooks share: an API server in memory with webhook configurations, and replicas that keep certificates."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from kuberay.api.kinds import SECRET
from kuberay.kube.client import Client
from kuberay.operator.webhooks.configurations import MUTATING, VALIDATING, webhook_manifests
from kuberay.operator.webhooks.keeper import Keeper
from kuberay.operator.webhooks.rotation import Lifetimes
from kuberay_testkit.sim.clock import VirtualClock
from kuberay_testkit.sim.faults import Faults
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.transport import SimTransport

NAME, NAMESPACE = "kuberay-operator-webhook", "ns"
SECRET_NAME = f"{NAME}-certificates"


def cluster(*, defaulting: bool = True, configured: bool = True, faults: Faults | None = None) -> SimServer:
    server = SimServer(faults=faults)
    for kind in (VALIDATING, MUTATING):
        server.register(kind)
    if configured:
        configure(server, defaulting=defaulting)
    return server


def configure(server: SimServer, *, defaulting: bool = True) -> None:
    for manifest in webhook_manifests(namespace=NAMESPACE, name=NAME, port=9443, defaulting=defaulting):
        server.create(manifest)


class Replica:
    """A process that serves, as far as its certificates go."""

    def __init__(
        self, server: SimServer, name: str = "a", *, serving: timedelta = timedelta(days=90), skew: float = 0
    ) -> None:
        self.clock = VirtualClock()
        self.clock.advance(skew)
        self.transport = SimTransport(server, client=name)
        self.served: list[tuple[bytes, bytes]] = []
        self.keeper = Keeper(
            Client(self.transport),
            self.clock,
            namespace=NAMESPACE,
            name=NAME,
            use=self.use,
            lifetimes=Lifetimes(serving),
        )
        self.watch: Callable[[], None] = lambda: None

    def use(self, chain: bytes, key: bytes) -> bool:
        if self.served and self.served[-1] == (chain, key):
            return False
        self.served.append((chain, key))
        self.watch()
        return True

    def run(self) -> asyncio.Task[None]:
        return asyncio.create_task(self.keeper.run(), name=self.transport.client)


def bundles(server: SimServer) -> list[bytes]:
    """What each webhook trusts."""
    found = []
    for kind in (VALIDATING, MUTATING):
        for webhook in (server.peek(kind, "", NAME) or {}).get("webhooks", ()):
            found.append(base64.b64decode(webhook["clientConfig"].get("caBundle", "")))
    return found


def secret(server: SimServer) -> dict[str, Any] | None:
    return server.peek(SECRET, NAMESPACE, SECRET_NAME)
