"""Mutual TLS by an authority of the operator's own, on real Ray: who may talk, how long new workers wait, and a rotation (SE-02)."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import pytest
import yaml
from cryptography import x509
from waiting import eventually

from dev.demo import install, workload
from dev.demo.kubectl import Kubectl, KubectlError

pytestmark = pytest.mark.long

NAME = "secure"
WAIT = "wait-for-tls-ip-san"
MOST_SECONDS = 10.0
"""From the start of the container that waits for a pod's certificate to its end; KubeRay's wait takes up to two minutes."""
PLUGINS = "autoscaler-v2,gateway-upgrade,mtls"
CONFIGURATION = {
    "apiVersion": "config.ray.io/v1alpha1",
    "kind": "Configuration",
    "plugins": {"enabled": PLUGINS.split(","), "mtls": {"issuer": "own"}},
}
WHERE = (
    "import ray; ray.init(address='auto', log_to_driver=False)\n"
    "@ray.remote(num_cpus=1, scheduling_strategy='SPREAD')\n"
    "def where():\n"
    "    import time; time.sleep(2)\n"
    "    return ray.util.get_node_ip_address()\n"
    "print('ran on', *sorted(set(ray.get([where.remote() for _ in range(6)], timeout=120))))\n"
)
WITHOUT_CERTIFICATE = (
    "import socket, ssl, sys\n"
    "context = ssl.create_default_context(cafile='/etc/ray/tls/ca.crt')\n"
    "with socket.create_connection((sys.argv[1], 6379), timeout=10) as plain:\n"
    "    with context.wrap_socket(plain, server_hostname=sys.argv[1]) as secured:\n"
    "        print('trusted', secured.version())\n"
    "        try:\n"
    "            secured.sendall(b'PRI * HTTP/2.0'); print('answer', secured.recv(1) or 'closed')\n"
    "        except (ssl.SSLError, ConnectionError) as error:\n"
    "            print('refused', error)\n"
)


@pytest.fixture(scope="module")
def securing(kubectl: Kubectl, operator: str) -> Iterator[None]:
    """An operator with the gate and the plugin on, which signs itself, for this module only."""
    configuration = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "operator-with-tls", "namespace": operator},
        "data": {"configuration.yaml": yaml.safe_dump(CONFIGURATION)},
    }
    kubectl.apply(yaml.safe_dump(configuration))
    kubectl.apply(install.printed_by_kuberay("rbac", "--namespace", operator, "--plugins", PLUGINS))
    manifests = install.deployment(install.OUR_IMAGE)
    (deployment,) = (manifest for manifest in manifests if manifest["kind"] == "Deployment")
    spec = deployment["spec"]["template"]["spec"]
    spec["volumes"] = [{"name": "configuration", "configMap": {"name": "operator-with-tls"}}]
    container = spec["containers"][0]
    container["volumeMounts"] = [{"name": "configuration", "mountPath": "/etc/kuberay"}]
    container["args"] += ["--config=/etc/kuberay/configuration.yaml", "--feature-gates=RayClusterMTLS=true"]
    kubectl.apply(yaml.safe_dump(deployment))
    install.wait_for_operator(kubectl)
    yield
    install.install_operator(kubectl)
    install.wait_for_operator(kubectl)
    kubectl.delete("configmap", "operator-with-tls", operator)


@pytest.fixture(scope="module")
def head(kubectl: Kubectl, namespace: str, securing: None) -> str:
    """The head of a RayCluster with TLS and no worker yet, ready."""
    cluster = yaml.safe_load(workload.sample("raycluster-autoscaler.yaml"))
    spec = cluster["spec"]
    cluster["metadata"]["name"] = NAME
    del spec["enableInTreeAutoscaling"], spec["autoscalerOptions"]
    spec["tlsOptions"] = {"enabled": True}
    spec["workerGroupSpecs"][0] |= {"replicas": 0, "minReplicas": 0}
    kubectl.apply(yaml.safe_dump(cluster), "-n", namespace)
    workload.wait_for_cluster(kubectl, namespace, NAME, seconds=420, tell=print)
    (pod,) = pods(kubectl, namespace, "head")
    assert waited(pod) <= MOST_SECONDS
    return str(pod["metadata"]["name"])


def test_se02_workers_wait_for_seconds_and_only_certificates_get_in(
    kubectl: Kubectl, namespace: str, head: str, record_property: Callable[[str, object], None]
) -> None:
    """SE-02, with real processes and a real kubelet; then the authority is replaced under what runs."""
    scale(kubectl, namespace, 2)
    told = {pod["metadata"]["name"]: waited(pod) for pod in pods(kubectl, namespace, "worker")}
    record_property("seconds waited", told)
    assert len(told) == 2
    assert max(told.values()) <= MOST_SECONDS, told

    workers = {pod["status"]["podIP"] for pod in pods(kubectl, namespace, "worker")}
    ran = in_head(kubectl, namespace, head, "python", "-c", WHERE)
    assert workers <= set(ran.split("ran on", 1)[1].split()), ran

    address = str((kubectl.get("pod", head, namespace) or {})["status"]["podIP"])
    check = ("ray", "health-check", "--address", f"{address}:6379")
    in_head(kubectl, namespace, head, *check)
    with pytest.raises(KubectlError):
        in_head(kubectl, namespace, head, "env", "RAY_USE_TLS=0", *check)
    answer = in_head(kubectl, namespace, head, "python", "-c", WITHOUT_CERTIFICATE, address)
    assert "trusted TLSv1" in answer, "the head's certificate names its address"
    assert "refused" in answer or "answer closed" in answer, answer

    # A second authority: processes that run know the first one only.
    kubectl.run("-n", namespace, "annotate", "raycluster", NAME, "ray.io/tls-authority=2")
    eventually(
        lambda: issuers(kubectl, namespace) == {f"CN=ray-ca-{NAME}-2"}, 60, "all certificates signed by the new one"
    )
    first, _ = pods(kubectl, namespace, "worker")
    kubectl.delete("pod", first["metadata"]["name"], namespace)
    eventually(lambda: len(pods(kubectl, namespace, "worker")) == 2, 60, "a worker in its place")
    workload.wait_for_cluster(kubectl, namespace, NAME, seconds=420, tell=print)
    eventually(lambda: all(is_ready(pod) for pod in pods(kubectl, namespace, "worker")), 300, "both workers are ready")
    workers = {pod["status"]["podIP"] for pod in pods(kubectl, namespace, "worker")}
    ran = in_head(kubectl, namespace, head, "python", "-c", WHERE)
    assert workers <= set(ran.split("ran on", 1)[1].split()), ran
    assert {pod["metadata"]["name"] for pod in pods(kubectl, namespace, "head")} == {head}, "nothing was restarted"


def scale(kubectl: Kubectl, namespace: str, replicas: int) -> None:
    patch = [{"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": replicas}]
    kubectl.run("-n", namespace, "patch", "raycluster", NAME, "--type=json", "-p", json.dumps(patch))
    eventually(
        lambda: [is_ready(pod) for pod in pods(kubectl, namespace, "worker")] == [True] * replicas,
        300,
        f"{replicas} workers are ready",
    )


def pods(kubectl: Kubectl, namespace: str, node_type: str) -> list[dict[str, Any]]:
    found = kubectl.list("pods", namespace, f"ray.io/cluster={NAME},ray.io/node-type={node_type}")
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


def is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def waited(pod: dict[str, Any]) -> float:
    """Seconds for which the pod waited for its certificate."""
    (status,) = (each for each in pod["status"]["initContainerStatuses"] if each["name"] == WAIT)
    ended = status["state"]["terminated"]
    return (datetime.fromisoformat(ended["finishedAt"]) - datetime.fromisoformat(ended["startedAt"])).total_seconds()


def in_head(kubectl: Kubectl, namespace: str, head: str, *command: str) -> str:
    return kubectl.run("-n", namespace, "exec", head, "-c", "ray-head", "--", *command, seconds=180)


def issuers(kubectl: Kubectl, namespace: str) -> set[str]:
    """Who signed the certificates of the pods, as their Secrets have it."""
    found = set()
    for secret in kubectl.list("secrets", namespace, f"ray.io/cluster={NAME},ray.io/plugin=mtls"):
        if "tls.crt" in secret["data"]:
            certificate = x509.load_pem_x509_certificate(b64decode(secret["data"]["tls.crt"]))
            found.add(certificate.issuer.rfc4514_string())
    return found
