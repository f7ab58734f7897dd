"""Settings that change while the operator runs: the chart's ConfigMap is edited, a real kubelet brings it, and no pod is restarted.

How long the kubelet takes is its own matter (`syncFrequency`, a minute unless somebody sets it), so everything is waited for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import yaml
from helm import CONFIG_FILE, OPERATOR, Helm, build_helm
from rayjobs import apply, head_only
from waiting import eventually

from dev.demo import install
from dev.demo.kubectl import Kubectl

pytestmark = pytest.mark.long

NAME = "reloading"
BROUGHT = 180
"""Seconds within which any kubelet has brought an edit and the operator has read it: a minute, half of that as jitter, and ten."""
DEBUG = "import os; os.kill(1, 10)"
"""What docs/operating.md has for an operator whose file cannot be edited."""

Said = set[tuple[str, str, str]]


def values(stage: str, **configuration: Any) -> dict[str, Any]:
    """Of the chart. Containers of pods that are made with these have the variable STAGE."""
    variable = {"name": "STAGE", "value": stage}
    return {
        "fullnameOverride": NAME,
        "serviceAccount": {"name": NAME},
        "singleNamespaceInstall": True,
        "image": {"tag": "dev"},
        "configuration": {"defaultContainerEnvs": [variable], **configuration},
    }


@dataclass(frozen=True)
class Operator:
    """A release of the chart, and what its only pod says of itself."""

    kubectl: Kubectl
    helm: Helm
    namespace: str

    def helms(self, word: str, values: dict[str, Any]) -> None:
        where = ("-n", self.namespace)
        self.helm.run(word, NAME, OPERATOR, *where, "-f", "-", "--wait", "--timeout=120s", stdin=yaml.safe_dump(values))

    def edit(self, **keys: Any) -> None:
        """Put keys into the file in the ConfigMap, as somebody would with ``kubectl edit``."""
        name = f"{NAME}-config"
        held = self.kubectl.get("configmap", name, self.namespace)
        assert held is not None
        text = yaml.safe_dump(yaml.safe_load(held["data"]["config.yaml"]) | keys)
        patch = json.dumps({"data": {"config.yaml": text}})
        self.kubectl.run("-n", self.namespace, "patch", "configmap", name, "--type=merge", "-p", patch)

    def pod(self) -> dict[str, Any]:
        (found,) = self.kubectl.list("pods", self.namespace, install.POD_LABELS)
        return found

    def asked(self, port: int, path: str) -> str:
        """An answer of the pod, through the API server."""
        where = f"/api/v1/namespaces/{self.namespace}/pods/{self.pod()['metadata']['name']}:{port}/proxy{path}"
        return self.kubectl.run("get", "--raw", where)

    def configz(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.asked(8082, "/configz"))
        return found

    def metric(self, name: str) -> float:
        (value,) = [
            line.split()[1] for line in self.asked(8080, "/metrics").splitlines() if line.startswith(f"{name} ")
        ]
        return float(value)

    def log(self) -> list[dict[str, Any]]:
        text = self.kubectl.run("-n", self.namespace, "logs", self.pod()["metadata"]["name"])
        return [json.loads(line) for line in text.splitlines()]

    def said(self) -> Said:
        """Events about the pod that is there now: type, reason and note."""
        uid = self.pod()["metadata"]["uid"]
        return {
            (each["type"], each["reason"], each["note"])
            for each in self.kubectl.list("events.events.k8s.io", self.namespace)
            if each["reportingController"] == "kuberay-operator" and each["regarding"].get("uid") == uid
        }

    def refusals(self) -> list[str]:
        return [note for type_, reason, note in self.said() if (type_, reason) == ("Warning", "ConfigurationRefused")]

    def heads(self, cluster: str) -> dict[str, str]:
        """Of a RayCluster: the value of STAGE by the UID of each head pod."""
        pods = self.kubectl.list("pods", self.namespace, f"ray.io/cluster={cluster},ray.io/node-type=head")
        return {
            pod["metadata"]["uid"]: each["value"]
            for pod in pods
            for each in pod["spec"]["containers"][0]["env"]
            if each["name"] == "STAGE"
        }

    def head_of_a_new(self, cluster: str) -> dict[str, str]:
        apply(self.kubectl, self.namespace, head_only(cluster))
        eventually(lambda: len(self.heads(cluster)) == 1, 30, f"a head of {cluster}")
        return self.heads(cluster)


@pytest.fixture(scope="module")
def reloading(kubectl: Kubectl, namespace: str, alone: None) -> Iterator[Operator]:
    operator = Operator(kubectl, build_helm(), namespace)
    operator.helms("install", values("first", logLevel="info"))
    yield operator
    for cluster in kubectl.list("rayclusters", namespace):
        kubectl.delete("raycluster", cluster["metadata"]["name"], namespace)
    operator.helm.run("uninstall", NAME, "-n", namespace, "--wait")


def test_an_edited_configmap_counts_without_a_restart(reloading: Operator, kubectl: Kubectl, namespace: str) -> None:
    started = reloading.pod()
    first = reloading.head_of_a_new("first")
    assert list(first.values()) == ["first"]
    assert {line["level"] for line in reloading.log()} <= {"info", "warning"}

    # What may change, by the chart: Helm makes no new pod for it.
    changed = values("second", logLevel="debug")
    changed["plugins"] = {"gateway-upgrade": {"settle_seconds": 77}}
    reloading.helms("upgrade", changed)
    taken = (
        f"taken from {CONFIG_FILE}: logLevel, defaultContainerEnvs (for pods made from now on), "
        "plugins.gateway-upgrade.settle_seconds"
    )
    eventually(lambda: ("Normal", "ConfigurationReloaded", taken) in reloading.said(), BROUGHT, "the first edit")
    page = reloading.configz()
    assert page["inForce"]["logLevel"] == "debug"
    assert page["inForce"]["plugins"]["gateway-upgrade"] == {"settle_seconds": 77}
    assert page["lastReload"]["successful"] is True
    assert page["needsRestart"] == []
    second = reloading.head_of_a_new("second")
    assert list(second.values()) == ["second"]
    written = f"Create pods {namespace}/second-head"

    def levels() -> list[str]:
        return [line["level"] for line in reloading.log() if line["msg"].startswith(written)]

    eventually(levels, 10, "the log says what was written")
    assert levels() == ["debug"]
    assert ("info", taken) in [(line["level"], line["msg"]) for line in reloading.log()]

    # A file that is wrong: nothing of it counts, what is right in it no more than what is wrong.
    reloading.edit(logLevel="loud", defaultContainerEnvs=[{"name": "STAGE", "value": "never"}])
    eventually(lambda: len(reloading.refusals()) == 1, BROUGHT, "the wrong edit")
    (sentence,) = reloading.refusals()
    assert "logLevel" in sentence
    assert "\n" not in sentence
    assert sentence in [line["msg"] for line in reloading.log() if line["level"] == "error"]
    assert reloading.metric("kuberay_config_last_reload_successful") == 0
    page = reloading.configz()
    assert page["inForce"]["logLevel"] == "debug"
    assert sentence.endswith(page["lastReload"]["error"])
    assert list(reloading.head_of_a_new("third").values()) == ["second"]

    # A file that is right, with a key that counts after a restart only.
    reloading.edit(logLevel="info", reconcileConcurrency=3, defaultContainerEnvs=[{"name": "STAGE", "value": "fourth"}])
    restart = "reconcileConcurrency changed: restart the operator"
    eventually(lambda: ("Warning", "RestartNeeded", restart) in reloading.said(), BROUGHT, "the last edit")
    page = reloading.configz()
    assert page["needsRestart"] == [restart]
    assert "reconcileConcurrency" not in page["inForce"]
    assert reloading.metric("kuberay_config_last_reload_successful") == 1
    assert reloading.metric("kuberay_config_restart_needed") == 1
    assert list(reloading.head_of_a_new("fourth").values()) == ["fourth"]

    # All of that by one process, which left alone what was there.
    now = reloading.pod()
    assert now["metadata"]["uid"] == started["metadata"]["uid"]
    (container,) = now["status"]["containerStatuses"]
    assert container["restartCount"] == 0
    assert reloading.heads("first") == first
    assert reloading.heads("second") == second

    # Without a file to edit: a signal, sent as the documents say.
    deployment = f"deployment/{NAME}"
    kubectl.run("-n", namespace, "exec", deployment, "--", "python3", "-c", DEBUG)
    eventually(
        lambda: any("logging from level debug on" in line["msg"] for line in reloading.log()), 10, "debug by signal"
    )

    kubectl.run("-n", namespace, "rollout", "restart", deployment)
    kubectl.run("-n", namespace, "rollout", "status", deployment, "--timeout=120s", seconds=130)
    eventually(lambda: len(kubectl.list("pods", namespace, install.POD_LABELS)) == 1, 30, "the former pod has gone")
    page = reloading.configz()
    assert (page["inForce"]["reconcileConcurrency"], page["needsRestart"]) == (3, [])
    assert reloading.heads("first") == first
