"""How the demo tells what it does: a line per step with the time since the beginning, and a table at the end."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass
class Step:
    """One row of the table at the end."""

    title: str
    result: str = ""
    seconds: float = 0.0


@dataclass
class Progress:
    """Collects steps; prints to standard output."""

    console: Console = field(default_factory=lambda: _console())
    started: float = field(default_factory=time.monotonic)
    steps: list[Step] = field(default_factory=list)
    _last: str = ""

    def say(self, text: str, style: str = "") -> None:
        elapsed = f"[{time.monotonic() - self.started:6.1f}s]"
        self.console.print(elapsed, style="dim", markup=False, end=" ")
        self.console.print(text, style=style or None, markup=False)

    def tell(self, text: str) -> None:
        """Say it, unless it was the last thing told."""
        if text and text != self._last:
            self._last = text
            self.say(f"    {text}", "dim")

    def quote(self, line: str) -> None:
        """A line that a program of the cluster wrote."""
        self.console.print(f"           | {_COLOURS.sub('', line)}", markup=False)

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:
        """Announce a step and say how long it took; the caller may fill in its result."""
        step, began = Step(title), time.monotonic()
        self._last = ""
        self.say(f"→ {title}", "bold")
        try:
            yield step
        except BaseException:
            self.say(f"✗ {title} ({time.monotonic() - began:.1f} s)", "bold red")
            raise
        step.seconds = time.monotonic() - began
        self.steps.append(step)
        self.say(f"✓ {title} ({step.seconds:.1f} s)", "green")

    def table(self) -> None:
        """What ran, what came of it and how long it took."""
        table = Table(title="What ran", title_justify="left", title_style="bold")
        table.add_column("step")
        table.add_column("result", overflow="fold")
        table.add_column("seconds", justify="right")
        for step in self.steps:
            table.add_row(step.title, step.result, f"{step.seconds:.1f}")
        table.add_section()
        table.add_row("all", "", f"{time.monotonic() - self.started:.1f}")
        self.console.print()
        self.console.print(table, soft_wrap=False)


def _console() -> Console:
    console = Console(highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = 140
    return console
