"""The Serve demo: a RayService behind a Gateway, upgraded step by step while requests go through (``make demo-serve``).

Ends well only when each request was answered.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import Any

from rich.live import Live

from dev.demo import install, own_cluster, workload
from dev.demo.kubectl import Kubectl
from dev.demo.progress import Progress
from dev.demo.upgrade_view import Sender, Shares, View

OLD, NEW = VERSIONS = ("blue", "green")
RATE = 40
"""Requests per second."""
MOST_SECONDS = 600


def show(kubectl: Kubectl, progress: Progress) -> None:
    """Deploy the app and upgrade it, on a cluster with the operator and Traefik."""
    namespace, name = workload.NAMESPACE, workload.SERVICE
    kubectl.delete("rayservice", name, namespace)
    with progress.step(f"a RayService behind a Gateway: {name}") as step:
        kubectl.apply(_manifests(OLD, install.OUR_RAY_IMAGE), "-n", namespace)
        service = workload.wait_for_service(kubectl, namespace, name, tell=progress.tell)
        url = workload.gateway_url(kubectl, namespace, name, tell=progress.tell)
        step.result = f"Serve answers at {url}"
    old = service["status"]["activeServiceStatus"]["rayClusterName"]
    progress.say(f"RayCluster {old} answers as {OLD}; a new image and a new configuration make another one, {NEW}")
    _Upgrade(kubectl, progress, old).run(url)
    progress.table()
    _what_next(url, progress)


def _manifests(version: str, image: str) -> str:
    """The demo's manifests for a version of the app and an image."""
    return workload.service_manifest(image).replace("{version: blue}", f"{{version: {version}}}")


@dataclass
class _Upgrade:
    """An upgrade from the RayCluster *old*, with requests going through the gateway."""

    kubectl: Kubectl
    progress: Progress
    old: str
    view: View = field(default_factory=lambda: View(VERSIONS))
    began: float = 0.0

    def run(self, url: str) -> None:
        command = [*own_cluster.INSIDE, sys.executable, "-m", "dev.demo.traffic", url, "--rate", str(RATE)]
        title = f"{RATE} requests per second while {NEW} takes over from {OLD}"
        with self.progress.step(title) as step, Sender(command) as sender:
            _wait_for_answers(sender)
            self.kubectl.apply(_manifests(NEW, f"{install.OUR_RAY_IMAGE}-next"), "-n", workload.NAMESPACE)
            self.began = time.monotonic()
            self._follow(sender)
            count = sender.stop()
            self.view.rows[-1].end = count
            self.progress.console.print(self.view.table(), soft_wrap=False)
            step.result = f"{count.sent} requests, {count.failed} failed, slowest {count.slowest:.2f} s"
        if count.failed:
            raise workload.WorkloadError(
                f"{count.failed} of {count.sent} requests failed, the first: {count.first_error}"
            )
        if not count.versions[NEW]:
            raise workload.WorkloadError(f"no request was answered by {NEW}: {count}")

    def _follow(self, sender: Sender) -> None:
        """Show the shares until the upgrade is over."""
        with Live(self.view.table(), console=self.progress.console, auto_refresh=False, transient=True) as live:
            over = False
            while not over:
                service = workload.look_at_service(
                    self.kubectl, workload.NAMESPACE, workload.SERVICE, self.progress.tell
                )
                over = _over(service, self.old)
                self._look(service, sender)
                live.update(self.view.table(), refresh=True)
                if time.monotonic() - self.began > MOST_SECONDS:
                    raise workload.WorkloadError(
                        f"the upgrade was not over within {MOST_SECONDS} s; {workload.why(service)}"
                    )
                time.sleep(1)
            time.sleep(5)

    def _look(self, service: dict[str, Any], sender: Sender) -> None:
        route = self.kubectl.get("httproute", f"{workload.SERVICE}-httproute", workload.NAMESPACE)
        shares = Shares.read(service, route, self.old)
        ended = self.view.see(time.monotonic() - self.began, shares, sender.count())
        if ended is not None and not self.progress.console.is_terminal:
            self.progress.say("    " + ended.in_words(VERSIONS))


def _wait_for_answers(sender: Sender) -> None:
    deadline = time.monotonic() + 60
    while sender.count().ok < RATE:
        if sender.ended or time.monotonic() > deadline:
            raise workload.WorkloadError(f"no answer through the gateway: {sender.count()}")
        time.sleep(0.5)


def _over(service: dict[str, Any], old: str) -> bool:
    status = service.get("status", {})
    active = status.get("activeServiceStatus", {}).get("rayClusterName", "")
    return bool(active and active != old and not status.get("pendingServiceStatus", {}).get("rayClusterName"))


def _what_next(url: str, progress: Progress) -> None:
    words = " ".join((*own_cluster.INSIDE[:1], "--name", own_cluster.NAME, "exec")).replace(f"{install.ROOT}/", "")
    show = f"{words} kubectl -n {workload.NAMESPACE}"
    name = workload.SERVICE
    lines = [
        "",
        "What to try next:",
        "  # ask the app",
        f"  {words} curl -s {url}",
        "  # the service, its RayCluster, and how requests get there",
        f"  {show} get rayservices,rayclusters,gateways,httproutes,services,pods",
        "  # an upgrade that begins, stops on the way, and goes back",
        f"  {show} annotate rayservice {name} ray.io/upgrade-paused=true",
        f"  {show} edit rayservice {name}",
        f"  {show} annotate rayservice {name} ray.io/upgrade-paused- ray.io/upgrade-aborted=true",
        "  # why something is as it is",
        f"  {words} .venv/bin/kuberay why rayservice/{name} -n {workload.NAMESPACE}",
        "  # remove it all",
        "  make demo-down",
    ]
    for line in lines:
        progress.console.print(line, markup=False)
