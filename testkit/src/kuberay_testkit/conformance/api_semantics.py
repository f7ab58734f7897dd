"""What an API server does, as cases that hold for a real one and for `kuberay_testkit.sim` alike.

Each ``case_…`` takes a transport and the name of an existing, empty namespace of its own, and asserts. `cases` lists them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kuberay.kube.transport import Transport

from kuberay_testkit.conformance import (
    applying_cases,
    deleting_cases,
    kinds_cases,
    objects_cases,
    reading_cases,
    resizing_cases,
)

Case = Callable[[Transport, str], Awaitable[None]]


def cases() -> list[Case]:
    """All cases, by topic and name."""
    topics = (objects_cases, applying_cases, deleting_cases, reading_cases, kinds_cases, resizing_cases)
    return [found for topic in topics for name, found in sorted(vars(topic).items()) if name.startswith("case_")]
