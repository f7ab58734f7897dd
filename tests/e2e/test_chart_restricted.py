"""The operator by its chart, and a Ray job, in a namespace that enforces the Pod Security Standard "restricted": real containers,
started by a real kubelet, that are no root and have no capabilities.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from helm import OPERATOR, build_helm
from rayjobs import K8S, apply, rayjob, status
from waiting import eventually

from dev.demo import install
from dev.demo.kubectl import Kubectl

pytestmark = pytest.mark.long

NAME = "restricted"
VALUES: dict[str, Any] = {
    "fullnameOverride": NAME,
    "serviceAccount": {"name": NAME},
    "singleNamespaceInstall": True,
    "image": {"tag": "dev"},
    # As clusters do that give each namespace a range of users: nothing in the image has a name for this one.
    "podSecurityContext": {"runAsUser": 1000640000},
    "configuration": {"podSecurityStandard": "restricted", "secretNamespaces": ""},
}


@pytest.fixture(scope="module")
def restricted(kubectl: Kubectl, namespace: str, alone: None) -> Iterator[str]:
    """The namespace, and in it an operator of its own."""
    helm = build_helm()
    kubectl.run("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    where = ("-n", namespace)
    helm.run("install", NAME, OPERATOR, *where, "-f", "-", "--wait", "--timeout=120s", stdin=yaml.safe_dump(VALUES))
    yield namespace
    for job in kubectl.list("rayjobs", namespace):
        kubectl.delete("rayjob", job["metadata"]["name"], namespace)
    helm.run("uninstall", NAME, *where, "--wait")


def test_a_job_runs(kubectl: Kubectl, restricted: str) -> None:
    code = "import ray; ray.init(); print(ray.get(ray.remote(lambda: 6 * 7).remote()))"
    stays: dict[str, Any] = {"shutdownAfterJobFinishes": None, "ttlSecondsAfterFinished": None}
    apply(kubectl, restricted, rayjob("job", K8S, f'python -c "{code}"', **stays))
    eventually(
        lambda: status(kubectl, restricted, "job").get("jobDeploymentStatus") in ("Complete", "Failed"), 240, "its end"
    )
    assert status(kubectl, restricted, "job")["jobStatus"] == "SUCCEEDED", json.dumps(
        status(kubectl, restricted, "job")
    )
    pods = kubectl.list("pods", restricted)
    assert len(pods) == 3, "the operator, the head and the submitter"
    for pod in pods:
        for container in pod["spec"]["containers"]:
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}, pod["metadata"]["name"]
    (operator,) = kubectl.list("pods", restricted, install.POD_LABELS)
    (container,) = operator["status"]["containerStatuses"]
    assert (container["ready"], container["restartCount"]) == (True, 0)
