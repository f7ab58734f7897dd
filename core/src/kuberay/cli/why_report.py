"""What ``kuberay why`` has to say about one object, and how it is printed: plain words, or JSON for programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import datetime

import orjson
from rich.console import Console
from rich.text import Text

from kuberay.api.times import format_time


@dataclass(slots=True)
class Finding:
    """One thing that is awaited or wrong."""

    what: str
    reason: str = ""
    """The condition's or trouble's one-word reason."""
    since: datetime | None = None
    lasting: str = ""
    """``transient`` or ``terminal`` (docs/conditions.md); empty when that is not known."""
    advice: str = ""


@dataclass(slots=True)
class PodLine:
    """One pod that is not ready."""

    name: str
    group: str
    state: str
    since: datetime | None = None
    trouble: str = ""


@dataclass(slots=True)
class EventLine:
    """One Warning event."""

    time: str
    about: str
    reason: str
    note: str
    count: int = 1


@dataclass(slots=True)
class Step:
    """One link of the chain from an object to what does its work."""

    what: str
    """For example ``RayCluster demo-x7k2p``."""
    state: str


@dataclass(slots=True)
class Ahead:
    """What comes by itself unless something else happens first."""

    at: datetime
    what: str


@dataclass(slots=True)
class LogLines:
    """The last lines of a container that failed."""

    pod: str
    container: str
    lines: list[str]


@dataclass(slots=True)
class Report:
    """Everything about one object. Empty findings: nothing is wrong."""

    kind: str
    namespace: str
    name: str
    state: str
    """One word or two: ``ready``, ``starting``, ``not ready``, ``refused``, ``suspended``, ``not seen yet``, …"""
    summary: str
    findings: list[Finding] = field(default_factory=list)
    chain: list[Step] = field(default_factory=list)
    ahead: list[Ahead] = field(default_factory=list)
    then: list[str] = field(default_factory=list)
    """What follows besides if all goes well."""
    logs: list[LogLines] = field(default_factory=list)
    pods: list[PodLine] = field(default_factory=list)
    events: list[EventLine] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What could not be read, and what else helps to judge the answer."""


_GOOD = frozenset({"ready", "running", "complete"})


def as_json(report: Report) -> str:
    """The report with times in RFC 3339."""
    return orjson.dumps(
        asdict(report), default=_plain, option=orjson.OPT_INDENT_2 | orjson.OPT_PASSTHROUGH_DATETIME
    ).decode()


def print_report(report: Report, console: Console, now: datetime) -> None:
    """One fact a line; colours only underline what the words say."""

    def say(text: str, style: str = "") -> None:
        console.print(Text(text, style=style), soft_wrap=True)

    colour = "green" if report.state in _GOOD else "yellow" if not report.findings else "red"
    say(f"{report.kind} {report.namespace}/{report.name}: {report.state}", f"bold {colour}")
    say(report.summary)
    if report.findings:
        say("")
        say("What is the matter", "bold")
        for number, finding in enumerate(report.findings, 1):
            _print_finding(number, finding, say, now)
    if report.chain:
        say("")
        say("How far it is", "bold")
        for step in report.chain:
            say(f"  {step.what}: {step.state}")
    if report.ahead:
        say("")
        say("What comes next, if nothing else happens", "bold")
        for coming in report.ahead:
            say(f"  {format_time(coming.at)} ({_in(coming.at, now)}): {coming.what}")
    if report.then:
        say("")
        say("What follows if all goes well", "bold")
        for sentence in report.then:
            say(f"  {sentence}")
    for log in report.logs:
        say("")
        say(f"Last lines of pod {log.pod}, container {log.container}", "bold")
        for line in log.lines:
            say(f"  | {line}")
    if report.pods:
        say("")
        say("Pods that are not ready", "bold")
        for pod in report.pods:
            since = f", since {_ago(pod.since, now)}" if pod.since is not None else ""
            say(f"  {pod.name} ({pod.group}): {pod.state}{since}{': ' + pod.trouble if pod.trouble else ''}")
    if report.events:
        say("")
        say("Latest warnings", "bold")
        for event in report.events:
            times = f" ({event.count} times)" if event.count > 1 else ""
            say(f"  {event.time} {event.about}: {event.reason}: {event.note}{times}")
    if report.notes:
        say("")
        for note in report.notes:
            say(f"Note: {note}", "dim")


def _print_finding(number: int, finding: Finding, say: Callable[..., None], now: datetime) -> None:
    say(f"  {number}. {finding.what}")
    known = []
    if finding.since is not None:
        known.append(f"since {format_time(finding.since)} ({_ago(finding.since, now)} ago)")
    if finding.lasting == "terminal":
        known.append("it stays until somebody acts")
    elif finding.lasting == "transient":
        known.append("it may end by itself")
    if known:
        say(f"     {'; '.join(known)}", "dim")
    if finding.advice:
        say(f"     What to do: {finding.advice}")


def _ago(then: datetime, now: datetime) -> str:
    return _span(int((now - then).total_seconds()))


def _in(then: datetime, now: datetime) -> str:
    seconds = int((then - now).total_seconds())
    return f"in {_span(seconds)}" if seconds > 0 else "now"


def _span(seconds: int) -> str:
    seconds = max(0, seconds)
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _plain(value: object) -> str:
    assert isinstance(value, datetime)
    return format_time(value)
