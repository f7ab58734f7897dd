"""Something wrong with one object beside the pods that is for the user to put right: a condition and one event."""

from __future__ import annotations

from dataclasses import dataclass

from kuberay.plan.model import Event


@dataclass(frozen=True, slots=True)
class Trouble:
    """``reason`` is the condition's; its message is the note of the event."""

    reason: str
    event: Event


def warning(reason: str, event_reason: str, note: str, action: str) -> Trouble:
    """A trouble told by a Warning event."""
    return Trouble(reason, Event(event_reason, note, type="Warning", action=action))
