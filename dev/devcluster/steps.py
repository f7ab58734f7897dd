"""Decides how progress and failure are shown: a line per step with its time, the end of the log when one fails.

Everything that can go wrong for a reason the reader can act on is a StepFailed with an advice."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

STARTED = time.monotonic()
HEARTBEAT_SECONDS = 20.0
LOG_TAIL_LINES = 25
_print_lock = threading.Lock()


class StepFailed(Exception):
    """A step that cannot go on: what failed, the log that says why, and what the reader can do."""

    def __init__(self, what: str, *, log: Path | None = None, advice: str = "") -> None:
        super().__init__(what)
        self.what, self.log, self.advice = what, log, advice

    def describe(self) -> str:
        lines = [f"failed: {self.what}"]
        if self.log is not None:
            lines += [f"  | {line}" for line in log_tail(self.log)] + [f"  the whole log: {self.log}"]
        if self.advice:
            lines.append(f"  what to do: {self.advice}")
        return "\n".join(lines)


def say(text: str) -> None:
    """One line of progress on standard error, with the seconds since the command began."""
    with _print_lock:
        print(f"[{time.monotonic() - STARTED:6.1f}s] {text}", file=sys.stderr, flush=True)


def log_tail(log: Path, lines: int = LOG_TAIL_LINES) -> list[str]:
    try:
        return log.read_text(errors="replace").splitlines()[-lines:]
    except FileNotFoundError:
        return []


@contextmanager
def step(title: str, *, log: Path | None = None) -> Iterator[None]:
    """Announce a step, show that a long one is still alive (with the last line of its log), and say how long it took."""
    began = time.monotonic()
    finished = threading.Event()

    def heartbeat() -> None:
        while not finished.wait(HEARTBEAT_SECONDS):
            last = log_tail(log, 1) if log else []
            say(f"  … {title}, {time.monotonic() - began:.0f} s so far{': ' + last[0][:100] if last else ''}")

    say(f"→ {title}")
    watcher = threading.Thread(target=heartbeat, daemon=True)
    watcher.start()
    try:
        yield
    except BaseException:
        say(f"✗ {title} ({time.monotonic() - began:.1f} s)")
        raise
    finally:
        finished.set()
    say(f"✓ {title} ({time.monotonic() - began:.1f} s)")


def run(
    argv: Sequence[str | Path],
    *,
    what: str,
    log: Path | None = None,
    advice: str = "",
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
) -> str:
    """Run a command to its end and give back its standard output; with ``log`` all output goes there instead."""
    command = [str(part) for part in argv]
    try:
        if log is None:
            done = subprocess.run(command, cwd=cwd, env=env, input=stdin, capture_output=True, text=True, check=False)
            if done.returncode:
                detail = (done.stderr or done.stdout).strip().splitlines()[-5:]
                raise StepFailed(
                    f"{what} ({command[0]} ended with {done.returncode}): " + " / ".join(detail), advice=advice
                )
            return done.stdout
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            output.write(f"$ {' '.join(command)}\n".encode())
            output.flush()
            code = subprocess.run(
                command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False
            ).returncode
        if code:
            raise StepFailed(f"{what} ({command[0]} ended with {code})", log=log, advice=advice)
        return ""
    except FileNotFoundError as error:
        raise StepFailed(f"{what}: {command[0]} is not installed", advice=advice or "run: dev/cluster build") from error
