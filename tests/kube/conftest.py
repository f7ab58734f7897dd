"""Level "kube": the operator as a process against a real API server whose pods are run by a fake kubelet.

``make test-kube``; with ``WORKERS=3`` modules run side by side, each worker in a 0-node cluster of its own. By hand, after
``dev/cluster --name mine up --gateway kinds``: ``dev/cluster --name mine exec .venv/bin/pytest tests/kube``.
A missing cluster fails the run; nothing is skipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import yaml
from kube_world import COSCHEDULING_CRD, CRDS, PODGROUP_CRD, Operator, World
from kuberay.api.kinds import GATEWAY, HTTP_ROUTE
from kuberay.kube.client import Client
from kuberay.kube.connection import connect
from kuberay.kube.http import HttpTransport
from replicas import NAMESPACE as replica_namespace
from replicas import Account, Replica

GATEWAY_KINDS = ",".join(f"{kind.plural}.{kind.version}.{kind.group}" for kind in (GATEWAY, HTTP_ROUTE))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.kube)


@pytest.fixture(scope="session")
def cluster_ready() -> None:
    """The API server answers, the CRDs are installed, and those of the Gateway API were there before."""
    if "KUBECONFIG" not in os.environ:
        pytest.fail("KUBECONFIG is not set: run through 'make test-kube' or 'dev/cluster --name test exec …'")
    asked = subprocess.run(["kubectl", "get", GATEWAY_KINDS, "-A"], capture_output=True, text=True, check=False)
    if asked.returncode:
        pytest.fail(f"no kinds of the Gateway API (dev/cluster up --gateway kinds brings them): {asked.stderr}")
    manifests = "---\n".join([yaml.safe_dump_all(CRDS()), PODGROUP_CRD, COSCHEDULING_CRD])
    subprocess.run(
        ["kubectl", "apply", "--server-side", "--force-conflicts", "-f", "-"],
        input=manifests,
        text=True,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 30
    served = [
        "kubectl",
        "get",
        "rayclusters.ray.io,rayjobs.ray.io,rayservices.ray.io,podgroups.scheduling.volcano.sh,podgroups.scheduling.x-k8s.io",
        "-A",
    ]
    while subprocess.run(served, capture_output=True, check=False).returncode:
        if time.monotonic() > deadline:
            pytest.fail("the CRDs are not served 30 s after they were installed")
        time.sleep(0.2)


@pytest.fixture(scope="session")
def operators(cluster_ready: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """Starts operators on demand, one at a time: another set of flags replaces the one before."""
    operator = Operator(tmp_path_factory.mktemp("operator"), sys.executable)
    yield operator
    operator.stop()


@pytest.fixture(scope="session")
def account(cluster_ready: None) -> Account:
    """The operator's service account with all its permissions."""
    found = Account()
    found.install()
    return found


@pytest.fixture
def replicas(account: Account, operators: Operator, tmp_path: Path) -> Iterator[list[Replica]]:
    """Two replicas that share a Lease, not started; no other operator runs, and nobody holds the Lease."""
    operators.stop()
    account.give_back()
    subprocess.run(["kubectl", "delete", "lease", "--all", "-n", replica_namespace], check=True, capture_output=True)
    both = [Replica(tmp_path, number) for number in (1, 2)]
    for each in both:
        each.connect(account.token())
    yield both
    for each in both:
        each.end()


@pytest.fixture
async def client(cluster_ready: None) -> AsyncIterator[Client]:
    transport = HttpTransport(await connect(), user_agent="kuberay-tests")
    yield Client(transport, field_manager="tests")
    await transport.close()


@pytest.fixture
async def world(client: Client, request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """A fresh namespace of the test's own, deleted afterwards."""
    async with World.create(client, request.node.name) as world:
        yield world
