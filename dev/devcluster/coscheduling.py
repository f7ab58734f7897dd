"""Decides how pods are scheduled together: the kind of PodGroups, and a scheduler with a profile that heeds them.

Pods whose `schedulerName` is `scheduler-plugins-scheduler` get Coscheduling; all others are scheduled as anywhere."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from devcluster import api, binaries, layout, parts, processes
from devcluster.layout import Cluster
from devcluster.prerequisites import go_command
from devcluster.steps import StepFailed, run, step

MODULE = "sigs.k8s.io/scheduler-plugins"
CRD_FILE = "manifests/coscheduling/crd.yaml"
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/podgroups.scheduling.x-k8s.io"
SCHEDULER_NAME = "scheduler-plugins-scheduler"
"""As the Helm chart of scheduler-plugins names its second scheduler."""
PERMIT_SECONDS = 10
"""How long a pod waits for the rest of its group at most, before its place is given up; the chart has the same."""


def build_kind() -> Path:
    """Fetch the CRD from the module that is compiled into the scheduler; gives its file."""
    kubelite = layout.DEV / "go" / "kubelite"

    def make(folder: Path, log: Path) -> None:
        env = os.environ | {"GOTOOLCHAIN": "local", "GOFLAGS": "", "GOWORK": "off"}
        argv: list[str | Path] = [go_command(), "mod", "download", "-json", MODULE]
        what = "the kind of PodGroups could not be fetched"
        fetched = json.loads(run(argv, what=what, advice=binaries.NETWORK_ADVICE, cwd=kubelite, env=env))
        shutil.copyfile(Path(fetched["Dir"]) / CRD_FILE, folder / "crd.yaml")

    part = parts.Part("coscheduling-kind", parts.content_hash([CRD_FILE, kubelite / "go.mod", kubelite / "go.sum"]))
    return parts.build_part(part, "fetching the kind of PodGroups", make) / "crd.yaml"


def install_kind(cluster: Cluster) -> None:
    """Have PodGroups served. Before the scheduler starts: it asks only then which kinds there are."""
    if _established(cluster):
        return
    with step("installing the kind of PodGroups"):
        status, text = api.apply(cluster, CRD, build_kind().read_text())
        if status not in (200, 201):
            raise StepFailed(f"the API server did not take the kind of PodGroups: {status} {text[:500]}")
        processes.wait_for(cluster, "apiserver", lambda: _established(cluster), 30, "PodGroups were served")


def _established(cluster: Cluster) -> bool:
    conditions = (api.get(cluster, CRD) or {}).get("status", {}).get("conditions") or []
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


def scheduler_config(cluster: Cluster, qps: int, burst: int) -> Path:
    """Write the scheduler's configuration; gives its file. One queue serves both profiles, so both sort it alike: pods of no
    group by age, as ever."""
    arguments = [{"name": "Coscheduling", "args": {"permitWaitingTimeSeconds": PERMIT_SECONDS}}]
    sort = {"queueSort": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]}}
    together = sort | {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}}
    kubeconfig = str(cluster.pki / "scheduler.kubeconfig")
    document: dict[str, Any] = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": kubeconfig, "qps": qps, "burst": burst},
        "leaderElection": {"leaderElect": False},
        "profiles": [
            {"schedulerName": "default-scheduler", "plugins": sort, "pluginConfig": arguments},
            {"schedulerName": SCHEDULER_NAME, "plugins": together, "pluginConfig": arguments},
        ],
    }
    path = cluster.state / "scheduler.json"
    path.write_text(json.dumps(document, indent=2) + "\n")
    return path
