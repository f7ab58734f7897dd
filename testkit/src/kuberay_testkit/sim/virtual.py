"""Runs an async test in virtual time: minutes of back-off, leases and time-outs pass in milliseconds.

For tests that are ordinary coroutines; what a test simulates as a whole is started with `run_sim`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

from kuberay_testkit.sim.clock import run_sim

P = ParamSpec("P")


def in_virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Decorator: the test becomes synchronous and runs on a loop of its own whose time jumps to the next timer."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        run_sim(lambda: test(*args, **kwargs))

    return run
