"""The cases the simulated API server passes hold on a real one too; otherwise the simulation would teach us wrong."""

from __future__ import annotations

import uuid

import pytest
from kube_world import World
from kuberay.api.kinds import SERVICE_ACCOUNT
from kuberay.kube.client import Client
from kuberay_testkit.conformance.api_semantics import cases
from kuberay_testkit.sim.registry import CONFIG_MAP

CASES = {case.__name__: case for case in cases()}


@pytest.mark.parametrize("name", sorted(CASES))
async def test_holds_on_a_real_api_server(client: Client, name: str) -> None:
    async with World.create(client, f"api-{uuid.uuid4().hex[:10]}") as world:
        # What the controller manager puts into every namespace must not come while a case watches.
        await world.eventually(lambda: world.get(CONFIG_MAP, "kube-root-ca.crt"))
        await world.eventually(lambda: world.get(SERVICE_ACCOUNT, "default"))
        await CASES[name](client.transport, world.namespace)
