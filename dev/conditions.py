"""Renders ``docs/conditions.md`` from the table of conditions and reasons that ``kuberay why`` uses too."""

from __future__ import annotations

from kuberay.api.condition_reference import ANY, ENTRIES, RAYCLUSTER, RAYCRONJOB, RAYJOB, RAYSERVICE, Entry

_INTRODUCTION = """\
# Conditions

<!-- Written by `make generate` from core/src/kuberay/api/condition_reference. Change those files, not this page. -->

Every condition and reason in the status of the Ray kinds. **Normal** means that nothing is wrong. What is **transient**
ends by itself, although it may take long: do not give a cluster up for it. What is **terminal** stays until somebody
acts. A reason `*` stands for any other word: the name of a plugin, or a reason of Kubernetes' own.

`PodsNotReady`, `PodsWaiting`, `RayServiceWaiting`, `PluginFailed`, `PluginSlow`, `PluginMissing`, `PluginWarning`,
`IngressConflict` and `GcsStorageProblem` are there only while they are True. Messages about pods name them (at most three per group) and quote the scheduler, the kubelet
or the API server.

`kuberay why KIND/NAME` ([asking.md](asking.md)) reads the object, its pods and events, and tells the same in plain words.
"""


def render() -> str:
    """The whole page."""
    sections = [_INTRODUCTION]
    for kind in (RAYCLUSTER, RAYJOB, RAYSERVICE, RAYCRONJOB):
        sections.append(f"## {kind}\n")
        types = list(dict.fromkeys(entry.type for entry in ENTRIES if entry.kind == kind))
        for type_ in types:
            rows = [_row(entry) for entry in ENTRIES if (entry.kind, entry.type) == (kind, type_)]
            heading = f"### {type_}\n\n| Status | Reason | | Meaning | What to do |\n|---|---|---|---|---|\n"
            sections.append(heading + "\n".join(rows) + "\n")
    return "\n".join(sections)


def _row(entry: Entry) -> str:
    reason = "\\*" if entry.reason == ANY else f"`{entry.reason}`"
    meaning, advice = (text.replace("|", "\\|") for text in (entry.meaning, entry.advice))
    return f"| {entry.status} | {reason} | {entry.lasting} | {meaning} | {advice or '–'} |"
