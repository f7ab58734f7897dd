"""The demo's own cluster: built, started and taken down by ``dev/cluster``, whose lines are shown as they come."""

from __future__ import annotations

import re
import subprocess

from dev.demo.install import ROOT
from dev.demo.kubectl import Kubectl
from dev.demo.progress import Progress

COMMAND = str(ROOT / "dev" / "cluster")
NAME = "demo"
INSIDE = (COMMAND, "--name", NAME, "exec")
"""Words before a command that is to run in the cluster's network."""


class DemoError(Exception):
    """Why the demo cannot go on, in one sentence."""


def start(kubectl: Kubectl, progress: Progress, *, gateway: bool = False) -> None:
    """Have it running with one node; with *gateway* also Traefik beside it."""
    with progress.step("building Kubernetes, Ray's and the operator's image") as step:
        built = run(progress, "build")
        step.result = "built" if built > 1 else "nothing had changed"
    title = "starting a Kubernetes cluster with one node"
    with progress.step(f"{title}, and Traefik" if gateway else title) as step:
        run(progress, "up", "--nodes", "1", *(["--gateway", "traefik"] if gateway else []))
        nodes = kubectl.list("nodes")
        step.result = f"Kubernetes {nodes[0]['status']['nodeInfo']['kubeletVersion']}, {len(nodes)} node"


def run(progress: Progress, *words: str) -> int:
    """Run dev/cluster and show what it tells, with our own clock; returns how many lines that were."""
    lines = 0
    command = [COMMAND, "--name", NAME, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            progress.say("  " + re.sub(r"^\[ *[\d.]+s\] ", "", line.rstrip()), "dim")
            lines += 1
    if child.returncode:
        raise DemoError(f"dev/cluster {' '.join(words)} failed; the lines above say why and what to do")
    return lines
