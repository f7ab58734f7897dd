"""The health rules for Argo CD and Flux: run as those tools run them, over every condition there is and over recorded statuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cel
import pytest
import yaml
from golden_scope import CASES, folder
from kuberay.api.condition_reference import ANY, ENTRIES, RAYCLUSTER, RAYCRONJOB, RAYJOB, RAYSERVICE, Entry
from kuberay_testkit.golden import load_case, main_key
from lupa import lua51

from dev import gitops

ROOT = Path(__file__).resolve().parents[2]

READY: dict[str, dict[str, Any]] = {
    RAYCLUSTER: {"state": "ready"},
    RAYJOB: {"jobDeploymentStatus": "Complete"},
    RAYSERVICE: {"conditions": [{"type": "Ready", "status": "True", "reason": "NonZeroServeEndpoints"}]},
    RAYCRONJOB: {},
}
"""Statuses of objects that are healthy but for what a test adds."""

IN_FLUX = {"Healthy": "Current", "Degraded": "Failed", "Suspended": "InProgress", "Progressing": "InProgress"}


def _argocd() -> dict[str, str]:
    return dict(yaml.safe_load((ROOT / "config/gitops/argocd-cm.yaml").read_text())["data"])


def _flux() -> dict[str, dict[str, str]]:
    spec = yaml.safe_load((ROOT / "config/gitops/flux-kustomization.yaml").read_text())["spec"]
    return {each["kind"]: each for each in spec["healthCheckExprs"]}


ARGOCD, FLUX = _argocd(), _flux()


def in_argocd(kind: str, obj: dict[str, Any]) -> tuple[str, str]:
    """Status and message, as Argo CD's Lua 5.1 says."""
    lua = lua51.LuaRuntime(unpack_returned_tuples=True)
    lua.globals()["obj"] = lua.table_from(obj, recursive=True)
    found = lua.execute(ARGOCD[f"resource.customizations.health.ray.io_{kind}"])
    return found["status"], found["message"]


def in_flux(kind: str, obj: dict[str, Any]) -> str:
    """What kustomize-controller makes of the expressions, in its order."""
    context = {"metadata": obj["metadata"], "status": obj.get("status") or {}}
    for word in ("inProgress", "failed", "current"):
        if cel.evaluate(FLUX[kind][word], context):
            return word[0].upper() + word[1:]
    return "InProgress"


def health(kind: str, status: dict[str, Any], *, generation: int = 1) -> tuple[str, str]:
    """Health and message in Argo CD; Flux must agree."""
    obj = {"metadata": {"generation": generation}, "status": {"observedGeneration": 1, **status}}
    found, message = in_argocd(kind, obj)
    assert in_flux(kind, obj) == IN_FLUX[found]
    return found, message


def test_the_files_are_what_the_conditions_say() -> None:
    assert {name: (ROOT / name).read_text() for name in gitops.FILES} == {
        name: render() for name, render in gitops.FILES.items()
    }


@pytest.mark.parametrize("kind", gitops.KINDS)
def test_what_is_ready_is_healthy_once_the_last_change_was_seen(kind: str) -> None:
    assert health(kind, READY[kind])[0] == "Healthy"
    assert health(kind, READY[kind], generation=2)[0] == "Progressing"
    assert in_argocd(kind, {"metadata": {"generation": 1}})[0] == "Progressing"


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: f"{e.kind}-{e.type}-{e.status}-{e.reason}")
def test_every_condition_there_is(entry: Entry) -> None:
    """Terminal is Degraded, save what rests because somebody wants it to; nothing else ever is."""
    reason = "SomeOther" if entry.reason == ANY else entry.reason
    told = {"type": entry.type, "status": entry.status, "reason": reason, "message": "the very words"}
    ready = READY[entry.kind]
    others = [each for each in ready.get("conditions", ()) if each["type"] != entry.type]
    found, message = health(entry.kind, {**ready, "conditions": [*others, told]})
    rests = any(
        (row.type, row.status) == (entry.type, entry.status) and (not row.reasons or reason in row.reasons)
        for row in gitops.SUSPENDED[entry.kind]
    )
    if rests:
        assert (found, message) == ("Suspended", "the very words")
    elif entry.lasting == "terminal" and entry.type not in gitops.HARMLESS:
        assert (found, message) == ("Degraded", "the very words")
    else:
        assert found in ("Healthy", "Progressing")


@pytest.mark.parametrize(
    ("kind", "status", "found"),
    [
        (RAYJOB, {"jobDeploymentStatus": "Initializing"}, "Progressing"),
        (RAYJOB, {"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"}, "Progressing"),
        (RAYJOB, {"jobDeploymentStatus": "Suspended"}, "Suspended"),
        (RAYJOB, {"jobDeploymentStatus": "Failed", "message": "it broke"}, "Degraded"),
        (RAYJOB, {"jobDeploymentStatus": "ValidationFailed"}, "Degraded"),
        (RAYCLUSTER, {"state": "failed", "reason": "why"}, "Degraded"),
        (RAYCLUSTER, {"state": "suspended"}, "Progressing"),
        (RAYCLUSTER, {}, "Progressing"),
    ],
)
def test_what_other_fields_say(kind: str, status: dict[str, Any], found: str) -> None:
    assert health(kind, status)[0] == found


RECORDED = {
    "raycluster/one-group": "Healthy",
    "raycluster/suspend-at-birth": "Suspended",
    "raycluster/quota-full": "Progressing",
    "rayjob/job-minimal": "Progressing",
    "rayjob/job-deadline": "Degraded",
    "rayjob/job-suspended": "Suspended",
    "rayservice/svc-minimal": "Progressing",
    "invalid/job-both-selector": "Degraded",
}


@pytest.mark.parametrize("name", RECORDED)
def test_what_kuberay_wrote_is_understood_too(name: str) -> None:
    """So the rules can be installed before this operator is."""
    assert name in CASES
    case = load_case(folder(name))
    kind, _ = main_key([document for step in case.steps for document in step])
    status = {**case.expected["status"], "observedGeneration": 1}
    assert in_argocd(kind, {"metadata": {"generation": 1}, "status": status})[0] == RECORDED[name]


def test_only_what_the_autoscaler_writes_is_not_compared() -> None:
    ignored = {key: text for key, text in ARGOCD.items() if ".ignoreDifferences." in key}
    assert set(ignored) == {"resource.customizations.ignoreDifferences.ray.io_RayCluster"}
    (text,) = ignored.values()
    assert yaml.safe_load(text) == {
        "jqPathExpressions": [".spec.workerGroupSpecs[]?.replicas", ".spec.workerGroupSpecs[]?.scaleStrategy"]
    }
