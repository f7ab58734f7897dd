"""Admission webhooks as they are installed: two operators behind a Service, certificates of their own, and a roll-out under requests."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from kuberay_testkit.builders import build_group, build_raycluster
from waiting import eventually

from dev.demo import install
from dev.demo.kubectl import Kubectl, KubectlError

pytestmark = pytest.mark.long

FLAGS = ["--enable-webhooks", "--webhook-certificates=self"]
NAME = "kuberay-operator-webhook"


@pytest.fixture(scope="module")
def checking(kubectl: Kubectl, operator: str) -> Iterator[None]:
    """Two operators with webhooks, for this module only."""
    manifests = install.deployment(install.OUR_IMAGE, FLAGS)
    (deployment,) = [each for each in manifests if each["kind"] == "Deployment"]
    deployment["spec"]["replicas"] = 2
    deployment["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    kubectl.apply(install.printed_by_kuberay("rbac", "--namespace", operator, *FLAGS))
    kubectl.apply(install.printed_by_kuberay("webhooks", "--namespace", operator, "--defaulting"))
    kubectl.apply(yaml.safe_dump(deployment))
    kubectl.run("-n", operator, "rollout", "status", f"deployment/{install.NAME}", "--timeout=180s")
    yield
    for kind in ("validatingwebhookconfiguration", "mutatingwebhookconfiguration"):
        kubectl.run("delete", kind, NAME)
    kubectl.run("-n", operator, "delete", "service", NAME)
    kubectl.run("-n", operator, "delete", "deployment", install.NAME)
    install.install_operator(kubectl)
    install.wait_for_operator(kubectl)


def cluster(namespace: str, **spec: Any) -> str:
    return yaml.safe_dump(build_raycluster("checked", namespace=namespace, suspend=True, **spec))


def create(kubectl: Kubectl, text: str) -> str:
    """What a dry run says; empty when the object would be stored."""
    try:
        kubectl.run("create", "--dry-run=server", "-f", "-", stdin=text)
    except KubectlError as error:
        return str(error)
    return ""


def test_what_is_wrong_is_told_before_it_is_stored(kubectl: Kubectl, checking: None, namespace: str) -> None:
    twice = cluster(namespace, workerGroupSpecs=[build_group("group1"), build_group("group1")])
    eventually(lambda: "worker group names must be unique" in create(kubectl, twice), 60, "a bad object is refused")
    assert create(kubectl, cluster(namespace)) == ""


def test_nobody_notices_that_the_operators_are_exchanged(
    kubectl: Kubectl, checking: None, namespace: str, operator: str
) -> None:
    """The failure policy is Fail: each request that no operator answers is an error."""
    twice = cluster(namespace, workerGroupSpecs=[build_group("group1"), build_group("group1")])
    eventually(lambda: "must be unique" in create(kubectl, twice), 60, "a bad object is refused")
    over = threading.Event()
    errors: list[str] = []
    asked = 0

    def keep_asking() -> None:
        nonlocal asked
        good = cluster(namespace)
        while not over.is_set():
            said = create(kubectl, good)
            asked += 1
            if said:
                errors.append(said)

    thread = threading.Thread(target=keep_asking)
    thread.start()
    try:
        kubectl.run("-n", operator, "rollout", "restart", f"deployment/{install.NAME}")
        kubectl.run("-n", operator, "rollout", "status", f"deployment/{install.NAME}", "--timeout=180s")
        eventually(
            lambda: len(kubectl.list("pods", operator, install.POD_LABELS)) == 2, 60, "the former ones have gone"
        )
    finally:
        over.set()
        thread.join()
    assert errors == []
    assert asked > 10
