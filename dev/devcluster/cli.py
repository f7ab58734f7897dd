"""Decides what each sub-command of `dev/cluster` does with its arguments, and the exit code.

Everything else is in the modules it calls."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from devcluster import (
    binaries,
    building,
    gateway,
    helm,
    layout,
    namespaces,
    node,
    prerequisites,
    prometheus,
    startup,
    status,
    teardown,
)
from devcluster.gateway import Gateway
from devcluster.layout import Cluster
from devcluster.steps import StepFailed, say


def main(arguments: Sequence[str]) -> int:
    parsed = _parser().parse_args(arguments)
    try:
        return int(parsed.run(parsed) or 0)
    except StepFailed as failure:
        print(failure.describe(), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="dev/cluster", description="A real Kubernetes for development and tests.")
    parser.add_argument(
        "--name", default=layout.DEFAULT_NAME, help="which cluster; several run side by side (default: dev)"
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    build = commands.add_parser("build", help="fetch and compile what is needed; what has not changed is kept")
    build.add_argument("--no-node", action="store_true", help="only what `up --nodes 0` needs")
    build.set_defaults(run=_build)

    up = commands.add_parser("up", help="start the cluster, or what is missing of it")
    up.add_argument("--nodes", type=int, choices=[0, 1], help="0: pods run by status only; 1: real containers")
    up.add_argument(
        "--gateway",
        choices=[each.name.lower() for each in Gateway],
        default="none",
        help="kinds: the Gateway API's kinds; traefik: also an implementation of them",
    )
    up.add_argument("--set", action="append", default=[], metavar="COMPONENT.FLAG=VALUE", help="a flag over our own")
    up.set_defaults(run=_up)

    down = commands.add_parser("down", help="end the cluster and leave nothing behind")
    down.set_defaults(run=_down)

    show = commands.add_parser("status", help="a short table of what runs")
    show.set_defaults(run=_status)

    execute = commands.add_parser("exec", help="run a command inside the cluster's network")
    execute.add_argument("command", nargs=argparse.REMAINDER, metavar="CMD")
    execute.set_defaults(run=_exec)

    kubeconfig = commands.add_parser("kubeconfig", help="print the path of the administrator's kubeconfig")
    kubeconfig.set_defaults(run=_kubeconfig)

    load = commands.add_parser("load-image", help="give the node an image from an OCI or docker archive")
    load.add_argument("tar", type=Path, metavar="TAR")
    load.set_defaults(run=_load_image)

    charts = commands.add_parser(
        "helm", help="print the path of Helm, for tests of charts; compiled when it is not there yet"
    )
    charts.set_defaults(run=_helm)

    monitoring = commands.add_parser(
        "prometheus", help="print the folder of Prometheus and promtool, for tests of rules; fetched when not there yet"
    )
    monitoring.set_defaults(run=_prometheus)

    for command in (build, up, down, show, execute, kubeconfig, load, charts, monitoring):
        command.add_argument("--name", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    return parser


def _build(parsed: argparse.Namespace) -> None:
    prerequisites.require_root()
    if parsed.no_node:
        building.build_control_plane()
    else:
        building.build_everything()
        gateway.build(Gateway.TRAEFIK)
    helm.build_helm()
    prometheus.build_prometheus()
    say(f"built; kept in {layout.cache_dir()}")


def _up(parsed: argparse.Namespace) -> None:
    prerequisites.require_root()
    wants = Gateway[parsed.gateway.upper()]
    startup.bring_up(Cluster(parsed.name), parsed.nodes, _settings(parsed.set), wants)


def _settings(texts: Sequence[str]) -> dict[str, dict[str, str]]:
    settings: dict[str, dict[str, str]] = {}
    for text in texts:
        target, equals, value = text.partition("=")
        component, dot, flag = target.partition(".")
        if not (equals and dot and flag):
            raise StepFailed(f"--set {text}: not COMPONENT.FLAG=VALUE", advice="for example --set apiserver.v=2")
        settings.setdefault(component, {})[flag] = value
    return settings


def _down(parsed: argparse.Namespace) -> None:
    prerequisites.require_root()
    cluster = Cluster(parsed.name)
    with startup.only_one(cluster):
        if not teardown.take_down(cluster):
            say(f"'{cluster.name}' was not up")


def _status(parsed: argparse.Namespace) -> int:
    prerequisites.require_root()
    return status.show(Cluster(parsed.name))


def _load_image(parsed: argparse.Namespace) -> None:
    prerequisites.require_root()
    cluster = Cluster(parsed.name)
    facts = cluster.facts()
    if facts is None or facts.nodes == 0:
        raise StepFailed(f"'{cluster.name}' has no real node", advice=f"dev/cluster --name {cluster.name} up --nodes 1")
    if not parsed.tar.is_file():
        raise StepFailed(f"there is no file {parsed.tar}")
    node.load_image(cluster, parsed.tar)


def _exec(parsed: argparse.Namespace) -> int:
    prerequisites.require_root()
    cluster = Cluster(parsed.name)
    command = parsed.command[1:] if parsed.command[:1] == ["--"] else parsed.command
    if not command:
        raise StepFailed("exec needs a command", advice="for example: dev/cluster exec kubectl get pods -A")
    # A proxy cannot be reached from inside, and nothing inside needs one.
    outside = {name for name in os.environ if name.lower() in ("http_proxy", "https_proxy", "all_proxy")}
    env = {key: text for key, text in os.environ.items() if key not in outside}
    env |= {"KUBECONFIG": str(cluster.kubeconfig), namespaces.MARK: cluster.name}
    kubectl = binaries.find_kubectl()
    if kubectl is not None:
        env["PATH"] = f"{env.get('PATH', '')}:{kubectl.parent}"
    namespaces.execute(cluster, command, env)
    return 1


def _kubeconfig(parsed: argparse.Namespace) -> None:
    cluster = Cluster(parsed.name)
    namespaces.require_holder(cluster)
    print(cluster.kubeconfig)


def _helm(parsed: argparse.Namespace) -> None:
    print(helm.build_helm())


def _prometheus(parsed: argparse.Namespace) -> None:
    print(prometheus.build_prometheus())
