"""Renders `config/gitops`: how Argo CD and Flux tell from a status whether a Ray object is healthy, and what they must not compare.

Which conditions mean that somebody has to act is read from the reference that ``docs/conditions.md`` is made from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import yaml
from kuberay.api.condition_reference import ANY, ENTRIES, RAYCLUSTER, RAYCRONJOB, RAYJOB, RAYSERVICE

KINDS = (RAYCLUSTER, RAYJOB, RAYSERVICE, RAYCRONJOB)

HARMLESS = frozenset({"PluginSlow", "PluginWarning", "LifecycleEnding", "RayClusterConfigEditIgnored"})
"""Conditions that somebody should look at, although what runs is healthy."""


@dataclass(frozen=True, slots=True)
class Row:
    """A condition with that status, and which of its reasons count: those in *reasons*, or all but those in *but*."""

    type: str
    status: str
    reasons: tuple[str, ...] = ()
    but: tuple[str, ...] = ()


SUSPENDED: dict[str, tuple[Row, ...]] = {
    RAYCLUSTER: (Row("RayClusterSuspended", "True"), Row("LifecycleEnded", "True")),
    RAYJOB: (),
    RAYSERVICE: (
        Row("Ready", "False", ("SuspendComplete",)),
        Row("Suspended", "True"),
        Row("RayServiceWaiting", "True", ("UpgradePaused", "UpgradeAborted")),
    ),
    RAYCRONJOB: (Row("Suspended", "True"),),
}
"""Rests because somebody wants it to; a RayJob says so in ``jobDeploymentStatus``."""

MOVING: dict[str, tuple[Row, ...]] = {
    RAYCLUSTER: (Row("PodsNotReady", "True"), Row("PodsWaiting", "True"), Row("RollingUpgrade", "True")),
    RAYJOB: (),
    RAYSERVICE: (Row("UpgradeInProgress", "True"),),
    RAYCRONJOB: (),
}
"""What runs is about to change, so it is not healthy yet though it may be ready."""

# Of each kind: in Lua and in CEL, when it is healthy, rests, and has failed by fields that KubeRay writes, too.
_HEALTHY = {
    RAYCLUSTER: ('status.state == "ready"', "has(status.state) && status.state == 'ready'"),
    RAYJOB: (
        'status.jobDeploymentStatus == "Complete"',
        "has(status.jobDeploymentStatus) && status.jobDeploymentStatus == 'Complete'",
    ),
    RAYSERVICE: (
        'holds({{"Ready", "True"}})',
        "has(status.conditions) && status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')",
    ),
    RAYCRONJOB: ("true", "true"),
}
_RESTS = {RAYJOB: 'status.jobDeploymentStatus == "Suspended"'}
_FAILED = {
    RAYCLUSTER: ('status.state == "failed"', "has(status.state) && status.state == 'failed'"),
    RAYJOB: (
        'status.jobDeploymentStatus == "Failed" or status.jobDeploymentStatus == "ValidationFailed"',
        "has(status.jobDeploymentStatus) && status.jobDeploymentStatus in ['Failed', 'ValidationFailed']",
    ),
}

IGNORED = {
    RAYCLUSTER: (".spec.workerGroupSpecs[]?.replicas", ".spec.workerGroupSpecs[]?.scaleStrategy"),
}
"""Fields of a RayCluster that Ray's autoscaler writes; nothing else of a spec is written by anybody but its user."""

_NOTE = "Written by `make generate` from core/src/kuberay/api/condition_reference (docs/gitops.md). Do not edit."

_LUA = """\
-- {note}
local status = obj.status
if status == nil then
  return {{ status = "Progressing", message = "the operator has not looked at it yet" }}
end
local seen, wanted = status.observedGeneration, obj.metadata.generation
if seen ~= nil and wanted ~= nil and seen < wanted then
  return {{ status = "Progressing", message = "the operator has not looked at the last change yet" }}
end
-- Whether a condition of one of these rows is there: type, status, reasons that count, reasons that do not.
local function holds(rows)
  for _, c in ipairs(status.conditions or {{}}) do
    for _, row in ipairs(rows) do
      if c.type == row[1] and c.status == row[2] then
        local counts = row[3] == nil
        for _, reason in ipairs(row[3] or {{}}) do counts = counts or reason == c.reason end
        for _, reason in ipairs(row[4] or {{}}) do counts = counts and reason ~= c.reason end
        if counts then return c.message ~= nil and c.message ~= "" and c.message or c.reason end
      end
    end
  end
  return nil
end
local stuck = holds({stuck})
if stuck ~= nil then return {{ status = "Degraded", message = stuck }} end
if {failed} then return {{ status = "Degraded", message = status.message or status.reason or "it has failed" }} end
local rests = holds({suspended})
if rests ~= nil or {rests} then return {{ status = "Suspended", message = rests or "it is suspended" }} end
local moving = holds({moving})
if moving ~= nil then return {{ status = "Progressing", message = moving }} end
if {healthy} then return {{ status = "Healthy", message = status.message or "" }} end
return {{ status = "Progressing", message = holds({waiting}) or "it is starting" }}
"""
_WAITING = (Row("RayServiceWaiting", "True"), Row("PodsWaiting", "True"), Row("Ready", "False"))


def stuck_rows(kind: str) -> list[Row]:
    """Conditions of *kind* that stay until somebody acts, and keep it from being healthy."""
    entries = [entry for entry in ENTRIES if entry.kind == kind and entry.type not in HARMLESS]
    rests = SUSPENDED[kind]
    rows = []
    for type_, status in dict.fromkeys((entry.type, entry.status) for entry in entries):
        those = [entry for entry in entries if (entry.type, entry.status) == (type_, status)]
        wanted = [e.reason for e in those if e.lasting == "terminal" and not _covered(rests, type_, status, e.reason)]
        if ANY in wanted:
            rows.append(Row(type_, status, but=tuple(e.reason for e in those if e.lasting != "terminal")))
        elif wanted:
            rows.append(Row(type_, status, tuple(wanted)))
    return rows


def _covered(rows: Sequence[Row], type_: str, status: str, reason: str) -> bool:
    return any((row.type, row.status) == (type_, status) and (not row.reasons or reason in row.reasons) for row in rows)


def health_lua(kind: str) -> str:
    """The health script of *kind* for Argo CD, in Lua 5.1."""
    return _LUA.format(
        note=_NOTE,
        stuck=_lua_rows(stuck_rows(kind)),
        failed=_FAILED.get(kind, ("false", ""))[0],
        suspended=_lua_rows(SUSPENDED[kind]),
        rests=_RESTS.get(kind, "false"),
        moving=_lua_rows(MOVING[kind]),
        healthy=_HEALTHY[kind][0].replace("{{", "{ {").replace("}}", "} }"),
        waiting=_lua_rows(_WAITING),
    )


def _lua_rows(rows: Sequence[Row]) -> str:
    if not rows:
        return "{}"
    lines = []
    for row in rows:
        parts = [f'"{row.type}"', f'"{row.status}"']
        if row.reasons:
            parts.append(_lua_texts(row.reasons))
        elif row.but:
            parts += ["nil", _lua_texts(row.but)]
        lines.append("  { " + ", ".join(parts) + " },")
    return "{\n" + "\n".join(lines) + "\n}"


def _lua_texts(texts: Sequence[str]) -> str:
    return "{ " + ", ".join(f'"{text}"' for text in texts) + " }"


def argocd() -> str:
    """Keys for Argo CD's ConfigMap ``argocd-cm``."""
    data: dict[str, str] = {}
    for kind in KINDS:
        data[f"resource.customizations.health.ray.io_{kind}"] = health_lua(kind)
        if kind in IGNORED:
            paths = yaml.safe_dump({"jqPathExpressions": list(IGNORED[kind])}, default_flow_style=False)
            data[f"resource.customizations.ignoreDifferences.ray.io_{kind}"] = paths
    lines = [
        f"# {_NOTE}",
        "# kubectl -n argocd patch configmap argocd-cm --type merge --patch-file argocd-cm.yaml",
        "data:",
    ]
    for key, text in data.items():
        lines += [f"  {key}: |", *(f"    {line}".rstrip() for line in text.splitlines())]
    return "\n".join(lines) + "\n"


def health_cel(kind: str) -> dict[str, str]:
    """An item of ``spec.healthCheckExprs`` of a Flux Kustomization. What is neither is in progress."""
    stale = "has(status.observedGeneration) && status.observedGeneration != metadata.generation"
    failed = [_cel_rows(stuck_rows(kind))]
    if kind in _FAILED:
        failed.append(f"({_FAILED[kind][1]})")
    current = [f"({_HEALTHY[kind][1]})"]
    resting = [*SUSPENDED[kind], *MOVING[kind]]
    if resting:
        current.append(f"!({_cel_rows(resting)})")
    return {
        "apiVersion": "ray.io/v1",
        "kind": kind,
        "inProgress": stale,
        "failed": " || ".join(failed),
        "current": " && ".join(current),
    }


def _cel_rows(rows: Sequence[Row]) -> str:
    terms = []
    for row in rows:
        term = f"c.type == '{row.type}' && c.status == '{row.status}'"
        if row.reasons:
            term += f" && c.reason in {list(row.reasons)}"
        elif row.but:
            term += f" && !(c.reason in {list(row.but)})"
        terms.append(f"({term})")
    return f"(has(status.conditions) && status.conditions.exists(c, {' || '.join(terms)}))"


def flux() -> str:
    """A patch for Flux Kustomizations that hold Ray objects."""
    spec = {"wait": True, "healthCheckExprs": [health_cel(kind) for kind in KINDS]}
    text = yaml.safe_dump({"spec": spec}, sort_keys=False, width=100_000)
    return f"# {_NOTE}\n# Fields of a kustomize.toolkit.fluxcd.io/v1 Kustomization.\n{text}"


FILES = {"config/gitops/argocd-cm.yaml": argocd, "config/gitops/flux-kustomization.yaml": flux}
