"""Conditions of a RayJob; all are this operator's own."""

from __future__ import annotations

from collections.abc import Sequence

from kuberay.api.condition_reference.entry import ANY, Entry, job
from kuberay.api.conditions import JobCondition as J

JOBS: Sequence[Entry] = (
    job(J.SPEC_VALID, "False", "Invalid", "terminal", "The RayJob is refused.", "Correct the fields it names."),
    job(
        J.PODS_WAITING,
        "True",
        ANY,
        "transient",
        "Something must come first: a plugin, a shared cluster, an object of the same name that must go.",
        "Make or remove what the message names.",
    ),
    job(
        J.PLUGIN_FAILED,
        "True",
        ANY,
        "terminal",
        "A plugin raises an error for this object; the reason is the hook.",
        "Report it to the plugin's author; the operator's log has the stack trace.",
    ),
    job(
        J.PLUGIN_MISSING,
        "True",
        "PluginNotEnabled",
        "terminal",
        "The spec asks for something that only a plugin can do.",
        "Install and enable the plugin, as the message says.",
    ),
)
