"""Decides the flags of the control plane: etcd, API server, controller manager and the fake kubelet or the scheduler.

Tuned for tests: no limits on requests in flight, nothing waits for the disk, quiet logs."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Mapping
from pathlib import Path

from devcluster import api, coscheduling, processes
from devcluster.layout import NODE_NAME, SERVICE_ADDRESS, SERVICE_CIDR, Cluster
from devcluster.steps import run, step

Settings = Mapping[str, Mapping[str, str]]

ADMINISTRATORS = "system:masters"
IDENTITIES = {  # user and group of each client of the API server
    "admin": ("admin", ADMINISTRATORS),
    "controller-manager": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ADMINISTRATORS),  # its own role knows nothing of PodGroups
    "proxy": ("system:kube-proxy", ""),
    "kubelet": (f"system:node:{NODE_NAME}", "system:nodes"),
    "coredns": ("coredns", ADMINISTRATORS),
    "fakekubelet": ("fakekubelet", ADMINISTRATORS),
    "traefik": ("traefik", ADMINISTRATORS),
}
QUIET_CLIENT = {"kube-api-qps": "2000", "kube-api-burst": "4000"}


def write_credentials(cluster: Cluster, kubelite: Path) -> None:
    """The certificates of the servers, and a token and a kubeconfig for each client of the API server."""
    argv: list[str | Path] = [
        kubelite,
        "pki",
        f"--dir={cluster.pki}",
        f"--node-name={NODE_NAME}",
        f"--node-ip={cluster.node_address}",
    ]
    run([*argv, f"--service-ip={SERVICE_ADDRESS}"], what="the certificates could not be made")
    # Tokens, not client certificates: the API server verifies a certificate anew in each request, a tenth of its work.
    rows = []
    for identity, (user, group) in IDENTITIES.items():
        token = secrets.token_hex(16)
        rows.append(f'{token},{user},{identity},"{group}"\n')
        target = cluster.kubeconfig if identity == "admin" else cluster.pki / f"{identity}.kubeconfig"
        target.write_text(_kubeconfig(cluster, identity, token))
        target.chmod(0o600)
    (cluster.pki / "tokens.csv").write_text("".join(rows))


def _kubeconfig(cluster: Cluster, identity: str, token: str) -> str:
    authority = base64.b64encode((cluster.pki / "ca.crt").read_bytes()).decode()
    server = {"server": cluster.api_url, "certificate-authority-data": authority}
    context = {"cluster": cluster.name, "user": identity}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster.name, "cluster": server}],
        "users": [{"name": identity, "user": {"token": token}}],
        "contexts": [{"name": cluster.name, "context": context}],
        "current-context": cluster.name,
    }
    return json.dumps(document, indent=2) + "\n"


def _etcd(cluster: Cluster) -> dict[str, str]:
    return {"data-dir": f"{cluster.state}/etcd"}


def _apiserver(cluster: Cluster) -> dict[str, str]:
    pki = cluster.pki
    return {
        "etcd-servers": "http://127.0.0.1:2379",
        "advertise-address": cluster.node_address,
        "bind-address": "0.0.0.0",
        "service-cluster-ip-range": SERVICE_CIDR,
        "client-ca-file": f"{pki}/ca.crt",
        "token-auth-file": f"{pki}/tokens.csv",
        "tls-cert-file": f"{pki}/apiserver.crt",
        "tls-private-key-file": f"{pki}/apiserver.key",
        "kubelet-client-certificate": f"{pki}/kubelet-client.crt",
        "kubelet-client-key": f"{pki}/kubelet-client.key",
        # Without it `kubectl logs` would look the node's name up in DNS.
        "kubelet-preferred-address-types": "InternalIP",
        "service-account-issuer": "https://kubernetes.default.svc.cluster.local",
        "service-account-signing-key-file": f"{pki}/service-account.key",
        "service-account-key-file": f"{pki}/service-account.pub",
        "requestheader-client-ca-file": f"{pki}/ca.crt",
        "proxy-client-cert-file": f"{pki}/front-proxy.crt",
        "proxy-client-key-file": f"{pki}/front-proxy.key",
        "requestheader-allowed-names": "front-proxy-client",
        "requestheader-username-headers": "X-Remote-User",
        "requestheader-group-headers": "X-Remote-Group",
        "requestheader-extra-headers-prefix": "X-Remote-Extra-",
        "authorization-mode": "Node,RBAC",
        "allow-privileged": "true",
        "enable-priority-and-fairness": "false",
        "max-requests-inflight": "0",
        "max-mutating-requests-inflight": "0",
    }


def _controller_manager(cluster: Cluster) -> dict[str, str]:
    kubeconfig = f"{cluster.pki}/controller-manager.kubeconfig"
    return QUIET_CLIENT | {
        "kubeconfig": kubeconfig,
        "authentication-kubeconfig": kubeconfig,
        "authorization-kubeconfig": kubeconfig,
        "service-account-private-key-file": f"{cluster.pki}/service-account.key",
        "root-ca-file": f"{cluster.pki}/ca.crt",
        "use-service-account-credentials": "true",
        "allocate-node-cidrs": "false",
        "leader-elect": "false",
    }


def _scheduler(cluster: Cluster) -> dict[str, str]:
    kubeconfig = f"{cluster.pki}/scheduler.kubeconfig"
    config = coscheduling.scheduler_config(
        cluster, int(QUIET_CLIENT["kube-api-qps"]), int(QUIET_CLIENT["kube-api-burst"])
    )
    return {
        "config": str(config),
        "authentication-kubeconfig": kubeconfig,
        "authorization-kubeconfig": kubeconfig,
        # Coscheduling does not look again when pods of others end; five minutes are long in a test.
        "pod-max-in-unschedulable-pods-duration": "30s",
    }


def _fakekubelet(cluster: Cluster) -> dict[str, str]:
    return {"kubeconfig": f"{cluster.pki}/fakekubelet.kubeconfig", "host-ip": cluster.node_address}


COMPONENTS = {
    "etcd": _etcd,
    "apiserver": _apiserver,
    "controller-manager": _controller_manager,
    "scheduler": _scheduler,
    "fakekubelet": _fakekubelet,
}


def start_component(cluster: Cluster, kubelite: Path, name: str, settings: Settings) -> bool:
    """Start a component unless it runs already; says whether it was started. Settings go over our own flags."""
    if processes.running(cluster, name) is not None:
        return False
    flags = COMPONENTS[name](cluster) | dict(settings.get(name, {}))
    processes.start(cluster, name, [kubelite, name, *(f"--{flag}={value}" for flag, value in flags.items())])
    return True


def start_control_plane(cluster: Cluster, kubelite: Path, settings: Settings) -> None:
    """etcd, the API server until it is ready, then the controller manager. Called inside the network."""
    if all(processes.running(cluster, name) for name in ("etcd", "apiserver", "controller-manager")) and api.ready(
        cluster
    ):
        return
    with step("starting the control plane", log=cluster.logs / "apiserver.log"):
        start_component(cluster, kubelite, "etcd", settings)
        start_component(cluster, kubelite, "apiserver", settings)
        processes.wait_for(cluster, "apiserver", lambda: api.ready(cluster), 90, "the API server was ready")
        start_component(cluster, kubelite, "controller-manager", settings)
        default_account = "/api/v1/namespaces/default/serviceaccounts/default"
        # Pods cannot be created before the controller manager has made the namespace's service account.
        account_made = lambda: api.get(cluster, default_account) is not None  # noqa: E731
        processes.wait_for(cluster, "controller-manager", account_made, 60, "the default service account existed")


def start_fakekubelet(cluster: Cluster, kubelite: Path, settings: Settings) -> None:
    start_component(cluster, kubelite, "fakekubelet", settings)


def start_scheduler(cluster: Cluster, kubelite: Path, settings: Settings) -> None:
    """Take the place of the fake kubelet: from now on pods go to real nodes."""
    fake = processes.running(cluster, "fakekubelet")
    if fake is not None:
        processes.stop(cluster, [fake])
    coscheduling.install_kind(cluster)
    start_component(cluster, kubelite, "scheduler", settings)
