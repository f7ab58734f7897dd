"""Decides how the one real node runs: containerd, kubelet, kube-proxy, CoreDNS, and the images it starts with.

Every folder and control group is the cluster's own, so several nodes live on one machine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from devcluster import api, containerd, namespaces, processes
from devcluster.images import PAUSE_IMAGE, Image
from devcluster.layout import NODE_NAME, POD_CIDR, Cluster
from devcluster.steps import step

BRIDGE_FILTER = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")


def start_containerd(cluster: Cluster, image_store: Path) -> None:
    """containerd, with the images of the store unpacked."""
    if processes.running(cluster, "containerd") is not None:
        return
    (cluster.state / "cni").mkdir(exist_ok=True)
    (cluster.state / "cni" / "10-bridge.conflist").write_text(json.dumps(_cni()))
    folder, socket = cluster.state / "containerd", cluster.containerd_socket
    with step("starting containerd with the images", log=cluster.logs / "containerd.log"):
        containerd.plant_store(image_store, folder)
        config = cluster.state / "containerd.toml"
        config.write_text(containerd.config(folder, socket, _containerd_for_kubernetes(cluster)))
        _start(cluster, "containerd", ["containerd", "-c", config])
        processes.wait_for(cluster, "containerd", lambda: containerd.answers(socket), 20, "containerd answered")


def start_node(cluster: Cluster, kubelite: Path, coredns: Path) -> None:
    """The kubelet until its node is ready, kube-proxy and CoreDNS. Called inside the cluster's network."""
    with step("starting the node", log=cluster.logs / "kubelet.log"):
        if processes.running(cluster, "kubelet") is None:
            (cluster.state / "node-resolv.conf").write_text(f"nameserver {cluster.node_address}\n")
            config = _write(cluster, "kubelet.json", _kubelet_config(cluster))
            flags = {
                "config": config,
                "kubeconfig": cluster.pki / "kubelet.kubeconfig",
                "hostname-override": NODE_NAME,
                "node-ip": cluster.node_address,
                "root-dir": cluster.state / "kubelet",
                "cert-dir": cluster.state / "kubelet" / "pki",
            }
            _start(cluster, "kubelet", [kubelite, "kubelet", *(f"--{flag}={value}" for flag, value in flags.items())])
        if processes.running(cluster, "proxy") is None:
            config = _write(cluster, "proxy.json", _proxy_config(cluster))
            _start(cluster, "proxy", [kubelite, "proxy", f"--config={config}"])
        if processes.running(cluster, "coredns") is None:
            (cluster.state / "Corefile").write_text(_corefile(cluster))
            _start(cluster, "coredns", [coredns, "-conf", cluster.state / "Corefile", "-dns.port", "53"])
        processes.wait_for(cluster, "kubelet", lambda: _node_ready(cluster), 60, "the node was ready")
        search = "default.svc.cluster.local svc.cluster.local cluster.local"
        cluster.resolv_conf.write_text(f"nameserver {cluster.node_address}\nsearch {search}\noptions ndots:5\n")


def import_images(cluster: Cluster, images: Sequence[Image]) -> None:
    """Give the node the images that it does not have as they are now."""
    for image in images:
        if not containerd.image_present(cluster.containerd_socket, image):
            with step(f"importing {image.name.removeprefix('docker.io/')}"):
                containerd.import_image(cluster.containerd_socket, image, cluster.logs / "images.log")


def load_image(cluster: Cluster, tar: Path) -> None:
    with step(f"importing {tar}"):
        containerd.import_file(cluster.containerd_socket, tar, cluster.logs / "images.log")


def _start(cluster: Cluster, name: str, argv: Sequence[str | Path]) -> None:
    processes.start(cluster, name, argv, enter=namespaces.entering_mounts(cluster), env=containerd.environment())


def _write(cluster: Cluster, name: str, document: object) -> Path:
    path = cluster.state / name
    path.write_text(json.dumps(document, indent=2))
    return path


def _node_ready(cluster: Cluster) -> bool:
    found = api.get(cluster, f"/api/v1/nodes/{NODE_NAME}")
    if found is None or found["spec"].get("taints"):
        return False
    return any(one["type"] == "Ready" and one["status"] == "True" for one in found["status"].get("conditions", []))


def _cni() -> dict[str, object]:
    ipam = {"type": "host-local", "ranges": [[{"subnet": POD_CIDR}]], "routes": [{"dst": "0.0.0.0/0"}]}
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": False, "hairpinMode": True, "ipam": ipam}
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge, ports]}


def _containerd_for_kubernetes(cluster: Cluster) -> str:
    # restrict_oom_score_adj: where CAP_SYS_RESOURCE is missing every sandbox would die at its start without it.
    return f"""[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE_IMAGE}"
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "{cluster.state}/cni"
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
Root = "{cluster.state}/runc"
"""


def _kubelet_config(cluster: Cluster) -> dict[str, object]:
    authentication = {
        "x509": {"clientCAFile": f"{cluster.pki}/ca.crt"},
        "webhook": {"enabled": True},
        "anonymous": {"enabled": False},
    }
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": cluster.node_address,
        "authentication": authentication,
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{cluster.pki}/kubelet.crt",
        "tlsPrivateKeyFile": f"{cluster.pki}/kubelet.key",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cluster.cgroup}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "containerRuntimeEndpoint": f"unix://{cluster.containerd_socket}",
        "resolvConf": f"{cluster.state}/node-resolv.conf",
        "clusterDNS": [cluster.node_address],
        "clusterDomain": "cluster.local",
        "maxPods": 250,
        "enforceNodeAllocatable": [],
        "registryPullQPS": 0,
        "serializeImagePulls": False,
        # Images come from here, not from a registry: never remove one.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "syncFrequency": "10s",
    }


def _proxy_config(cluster: Cluster) -> dict[str, object]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": f"{cluster.pki}/proxy.kubeconfig"},
        "mode": "iptables",
        "clusterCIDR": POD_CIDR,
        "hostnameOverride": NODE_NAME,
        "bindAddress": cluster.node_address,
        "conntrack": {"maxPerCore": 0, "min": 0},
        # Where bridged packets pass iptables unseen, answers must be made to come back through the node.
        "iptables": {"masqueradeAll": not BRIDGE_FILTER.exists()},
    }


def _corefile(cluster: Cluster) -> str:
    # No cache: a test sees a new service at once.
    return f""".:53 {{
    bind {cluster.node_address}
    errors
    kubernetes cluster.local in-addr.arpa ip6.arpa {{
        kubeconfig {cluster.pki}/coredns.kubeconfig {cluster.name}
        pods insecure
        ttl 1
    }}
}}
"""
