"""Both ways of signing keep what every plugin that changes pods promises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kuberay.api.kinds import SECRET
from kuberay_mtls.cert_manager import CERTIFICATE, ISSUER
from kuberay_testkit.conformance import MutatorUnderTest, PodMutatorConformance
from kuberay_testkit.sim.controller import Controller
from kuberay_testkit.sim.store import Change, Key
from kuberay_testkit.sim.world import SimWorld

GATES = {"RayClusterMTLS": True}
ASKS = {"tlsOptions": {"enabled": True}}


def secured(pod: dict[str, Any]) -> bool:
    spec = pod["spec"]
    names = {variable["name"] for variable in spec["containers"][0]["env"]}
    return "RAY_USE_TLS" in names and spec["initContainers"][0]["name"] == "wait-for-tls-ip-san"


class TestOwnAuthority(PodMutatorConformance):
    def mutator(self) -> MutatorUnderTest:
        return MutatorUnderTest(
            plugin="mtls",
            settings={"issuer": "own"},
            gates=GATES,
            kinds=[ISSUER, CERTIFICATE],
            asks=ASKS,
            changed=secured,
            before_pods=[SECRET],
        )


class CertManager(Controller):
    """A stand-in that signs whatever it is asked for."""

    def observe(self, change: Change) -> None:
        if change.stored.key.kind == CERTIFICATE and change.type != "DELETED":
            self.enqueue(change.stored.key)

    def sync(self, key: Key) -> None:
        certificate = self.server.store.get(key)
        if certificate is None:
            return
        generation = certificate.body["metadata"]["generation"]
        status = {"conditions": [{"type": "Ready", "status": "True", "observedGeneration": generation}]}
        if certificate.body.get("status") != status:
            self.server.set_status(CERTIFICATE, key.namespace, key.name, status)


def cert_manager(world: SimWorld) -> Sequence[Controller]:
    return [CertManager(world.server)]


class TestCertManager(PodMutatorConformance):
    def mutator(self) -> MutatorUnderTest:
        return MutatorUnderTest(
            plugin="mtls",
            gates=GATES,
            kinds=[ISSUER, CERTIFICATE],
            controllers=cert_manager,
            asks=ASKS,
            changed=secured,
            before_pods=[ISSUER, CERTIFICATE],
        )
