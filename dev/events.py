"""Renders docs/events.md from the table of events, kind by kind."""

from __future__ import annotations

from kuberay.api.event_reference import EVENTS

_HEAD = """\
# Events

<!-- Written by `make generate` from core/src/kuberay/api/event_reference.py. Change that file, not this page. -->

Every reason that an event of the operator can have, by the object it is about: `kubectl describe raycluster NAME`, or
`kubectl get events --field-selector involvedObject.name=NAME`. Events are hints and go after an hour; what lasts is a
condition ([conditions.md](conditions.md)). Equal ones within six minutes are one event with a count, several like
things of one pass too (`3 worker pods`). They come from `raycluster-controller`, `rayjob-controller` and so on.

`FailedToCreate` and a kind that is not listed (`FailedToCreatePodGroup`) is an object that a plugin wants and that could not be written. Plugins of
others may refuse or warn with reasons of their own. What the operator tells of itself, on its pod, is in [operating](operating.md#reload).
"""

_KINDS = ("RayCluster", "RayJob", "RayService", "RayCronJob")


def render() -> str:
    """The whole page."""
    parts = [_HEAD]
    for kind in _KINDS:
        rows = sorted((entry for entry in EVENTS if kind in entry.kinds), key=lambda entry: entry.reason)
        lines = [f"| `{entry.reason}` | {entry.type or 'either'} | {entry.meaning} |" for entry in rows]
        parts.append(f"## {kind}\n\n| Reason | Type | Meaning |\n|---|---|---|\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)
