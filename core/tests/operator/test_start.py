"""What the process asks of its system before anything else, and what its end waits for."""

from __future__ import annotations

import resource
import threading
from typing import Any

import pytest
from kuberay.operator import start
from kuberay.operator.start import open_as_many_files_as_allowed
from kuberay.operator.tracing import NO_TRACING, Traced


def test_the_soft_limit_of_open_files_is_lifted() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 512), hard))
        open_as_many_files_as_allowed()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Hanging:
    """A tracer whose collector never answers."""

    def __init__(self) -> None:
        self.asked, self.answered = threading.Event(), threading.Event()

    def begin(self, *_: Any) -> None: ...

    def end(self, *_: Any) -> None: ...

    def close(self) -> None:
        self.asked.set()
        self.answered.wait()


async def test_the_end_does_not_wait_for_a_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "TRACES_SECONDS", 0.05)
    tracer = Hanging()
    await start._close(Traced(tracer))
    assert tracer.asked.is_set()
    assert not tracer.answered.is_set()
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "last spans"]
    assert thread.daemon, "nor does the interpreter"
    tracer.answered.set()
    thread.join(10)
    await start._close(NO_TRACING)
    assert not [thread for thread in threading.enumerate() if thread.name == "last spans"]
