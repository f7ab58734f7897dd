"""A release of the operator's chart on a real API server, and the operator as a process with exactly what the release gives it.

At a cluster without nodes the pods of the Deployment run by status only; so the process here is started with the account's own
token, and with the flags and the configuration file of the Deployment.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from helm import CONFIG_FILE, OPERATOR, Helm, HelmError
from kube_world import Operator, World
from kuberay.api.kinds import RAYCLUSTER

Values = dict[str, Any]

ADDRESSES = {"metricsAddr": "127.0.0.1:18090", "probeAddr": "127.0.0.1:18092"}
"""Of the process, whose ports are the machine's and not a pod's."""


def kubectl(*words: str, stdin: str = "") -> str:
    """Standard output. Raises AssertionError with kubectl's words."""
    done = subprocess.run(["kubectl", *words], capture_output=True, text=True, check=False, input=stdin)
    assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr}"
    return done.stdout


def found(*words: str) -> Any:
    """What ``kubectl get`` finds, as JSON; None when there is nothing of that name."""
    text = kubectl("get", *words, "-o", "json", "--ignore-not-found")
    return json.loads(text) if text.strip() else None


def may(who: str, verb: str, what: str, namespace: str = "") -> bool:
    """``kubectl auth can-i`` for a resource, ``resource.group`` or ``resource.group/subresource``; no *namespace*: everywhere."""
    where = ["-n", namespace] if namespace else ["-A"]
    resource, _, part = what.partition("/")
    words = ["kubectl", "auth", "can-i", verb, resource, f"--subresource={part}", f"--as={who}", *where]
    answer = subprocess.run(words, capture_output=True, text=True, check=False)
    assert answer.stdout.strip() in ("yes", "no"), answer.stderr
    return answer.stdout.strip() == "yes"


def kubeconfig_of(account: str, namespace: str, folder: Path) -> Path:
    """A file in *folder* that has the token of a ServiceAccount and nothing else."""
    config = json.loads(kubectl("config", "view", "--raw", "--flatten", "-o", "json"))
    token = kubectl("create", "token", account, "-n", namespace).strip()
    context = {"cluster": config["clusters"][0]["name"], "user": account}
    config |= {
        "users": [{"name": account, "user": {"token": token}}],
        "contexts": [{"name": account, "context": context}],
        "current-context": account,
    }
    path = folder / f"kubeconfig-{account}"
    path.write_text(json.dumps(config))
    path.chmod(0o600)
    return path


def ray_cluster(name: str = "ray", **spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "ray", "image": "rayproject/ray:2.55.0"}]}}
    group = {"groupName": "small", "replicas": 1, "minReplicas": 1, "maxReplicas": 3, "template": template}
    head = {"rayStartParams": {}, "template": template}
    given = {"rayVersion": "2.55.0", "headGroupSpec": head, "workerGroupSpecs": [group], **spec}
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": name}, "spec": given}


async def ready(world: World, name: str = "ray") -> set[str]:
    """UIDs of the pods of a RayCluster that is ready."""

    async def check() -> bool:
        return bool((await world.get(RAYCLUSTER, name)).get("status", {}).get("state") == "ready")

    await world.eventually(check, seconds=40, what=f"{name} is ready")
    return {pod["metadata"]["uid"] for pod in await world.pods(cluster=name)}


@dataclass
class Release:
    """``helm install``, ``upgrade``, ``rollback`` and ``uninstall`` of one name in one namespace."""

    helm: Helm
    namespace: str
    folder: Path
    name: str = "kuberay"
    installed: bool = field(default=False, init=False)

    @property
    def account(self) -> str:
        """The operator, as RBAC calls it."""
        return f"system:serviceaccount:{self.namespace}:kuberay-operator"

    def install(self, values: Values | None = None) -> None:
        self._run("install", self.name, OPERATOR, *self._wait, stdin=yaml.safe_dump(values or {}))
        self.installed = True

    def upgrade(self, values: Values | None = None) -> None:
        self._run("upgrade", self.name, OPERATOR, *self._wait, stdin=yaml.safe_dump(values or {}))

    @property
    def _wait(self) -> tuple[str, ...]:
        return ("-f", "-", "--wait", "--timeout=60s")

    def rollback(self) -> None:
        self._run("rollback", self.name, "--wait", "--timeout=60s")

    def uninstall(self) -> None:
        if self.installed:
            self._run("uninstall", self.name, "--wait", "--timeout=60s")
            self.installed = False

    def _run(self, *words: str | Path, stdin: str = "") -> str:
        return self.helm.run(*words, "-n", self.namespace, stdin=stdin)

    def deployment(self) -> Any:
        return found("deployment", "kuberay-operator", "-n", self.namespace)

    def start(self, operator: Operator) -> None:
        """Have *operator* running as the Deployment says, with the account's permissions and no others."""
        (container,) = self.deployment()["spec"]["template"]["spec"]["containers"]
        flags = [str(self._configuration()) if word == CONFIG_FILE else word for word in container["args"]]
        lease = f"--leader-election-namespace={self.namespace}"
        operator.ensure([*flags, lease], {"KUBECONFIG": str(self._kubeconfig()), "POD_NAMESPACE": self.namespace})

    def _configuration(self) -> Path:
        """The file of the ConfigMap, with other ports; a new name for each content, since the operator may read it again."""
        text = found("configmap", "kuberay-operator-config", "-n", self.namespace)["data"]["config.yaml"]
        path = self.folder / f"config-{abs(hash(text))}.yaml"
        path.write_text(yaml.safe_dump({**yaml.safe_load(text), **ADDRESSES}))
        return path

    def _kubeconfig(self) -> Path:
        return kubeconfig_of("kuberay-operator", self.namespace, self.folder)


__all__ = ["HelmError", "Release", "Values", "found", "kubeconfig_of", "kubectl", "may", "ray_cluster", "ready"]
