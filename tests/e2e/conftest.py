"""Level "e2e": real containers, real Ray, and the operator as a Deployment, installed as the demo installs it.

Run inside a 1-node cluster's network: ``dev/cluster --name test exec .venv/bin/pytest tests/e2e`` (``make test-e2e``).
A missing cluster fails the run; nothing is skipped. What a failed test leaves in the cluster is in its report.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ledger as ledgers
import pytest
from waiting import eventually

from dev.demo import evidence, install
from dev.demo.kubectl import Kubectl


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.e2e)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    if report.failed and isinstance(item, pytest.Function) and "namespace" in item.funcargs:
        lines: list[str] = []
        evidence.show(Kubectl(), item.funcargs["namespace"], lines.append)
        report.sections.append(("the cluster", "\n".join(lines)))
    return report


@pytest.fixture(scope="session")
def kubectl() -> Kubectl:
    if "KUBERAY_DEV_CLUSTER" not in os.environ:
        pytest.fail("not in a development cluster: run through 'make test-e2e' or 'dev/cluster --name test exec …'")
    kubectl = Kubectl()
    nodes = kubectl.list("nodes")
    if not nodes:
        pytest.fail("this cluster has no node: dev/cluster up --nodes 1")
    if kubectl.get("crd", "gatewayclasses.gateway.networking.k8s.io") is None or not kubectl.list("gatewayclasses"):
        pytest.fail("this cluster has no Gateway implementation: dev/cluster up --gateway traefik")
    return kubectl


@pytest.fixture(scope="session")
def operator(kubectl: Kubectl) -> str:
    """The operator runs; gives the namespace it is in."""
    install.install_crds(kubectl)
    install.install_operator(kubectl)
    install.wait_for_operator(kubectl)
    return install.NAMESPACE


@pytest.fixture(scope="module")
def namespace(kubectl: Kubectl, operator: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace for the tests of a module, gone afterwards."""
    name = "e2e-" + re.sub(r"[^a-z0-9]+", "-", request.path.stem.removeprefix("test_"))
    kubectl.run("create", "namespace", name)
    yield name
    kubectl.delete("namespace", name)


@pytest.fixture(scope="module")
def alone(kubectl: Kubectl, operator: str) -> Iterator[None]:
    """The operator, which serves all namespaces, rests: for tests that have one of their own in theirs."""
    kubectl.run("-n", operator, "scale", f"deployment/{install.NAME}", "--replicas=0")
    eventually(lambda: not kubectl.list("pods", operator, install.POD_LABELS), 60, "the operator has gone")
    yield
    kubectl.run("-n", operator, "scale", f"deployment/{install.NAME}", "--replicas=1")
    install.wait_for_operator(kubectl)


@pytest.fixture(scope="session")
def ledger(kubectl: Kubectl) -> Iterator[ledgers.Ledger]:
    """Decides when the jobs of tests end, and knows how often each was run."""
    yield ledgers.start(kubectl)
    kubectl.run("delete", "namespace", ledgers.NAMESPACE, "--wait=false")


@pytest.fixture(scope="module")
def chosen(request: pytest.FixtureRequest) -> Callable[[str], list[Any]]:
    """Gives the values of a parameter in those of the module's tests that are to run: what they need can begin at once, so
    that their waiting overlaps."""

    def values(name: str) -> list[Any]:
        found: list[Any] = []
        for item in request.session.items:
            if isinstance(item, pytest.Function) and item.path == request.path and hasattr(item, "callspec"):
                found += [item.callspec.params[name]] if name in item.callspec.params else []
        return list(dict.fromkeys(found))

    return values
