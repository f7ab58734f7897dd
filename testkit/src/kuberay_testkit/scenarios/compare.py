"""Says in which sections, and how, a run of a scenario differs from what is expected of it.

What may differ by the rules of the recorded scenarios does not count: GET requests, missing events, the order of events
of one pass, states that are over at once.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import yaml
from kuberay.api.kinds import RAYSERVICE

from kuberay_testkit.scenarios.record import ONE_PASS, Played
from kuberay_testkit.scenarios.script import Scenario
from kuberay_testkit.scenarios.transitions import REQUEUE, goes_as_recorded, states

Body = dict[str, Any]


def differences(
    scenario: Scenario, played: Played, replaced: Mapping[str, str] | None = None, *, requeue: float = REQUEUE
) -> dict[str, str]:
    """By section, a readable difference; empty when the run is as expected. *replaced* has texts that stand for others
    in messages (a shorter time limit); *requeue* is how many seconds a state lasts at least that counts by itself."""
    expected = scenario.expected
    found = {
        "transitions": _transitions(scenario, played, requeue),
        "lifecycle": _same(expected["lifecycle"] or {}, played.lifecycle),
        "requests": _same(_writes(expected["requests"] or {}), _writes(played.requests)),
        "events": _events(expected["events"] or {}, played.events),
        "checkpoints": _same(_ordered(expected["checkpoints"] or []), _ordered(played.checkpoints)),
        "final": _same(_ordered(_reworded(expected["final"], replaced or {})), _ordered(played.final)),
    }
    return {section: text for section, text in found.items() if text}


def as_expected(played: Played) -> Body:
    """The run in the form of an expected file, to look at or to keep."""
    return {
        "transitions": states(played.transitions, failing_counts=False),
        "lifecycle": played.lifecycle,
        "requests": {name: _fold(requests) for name, requests in played.requests.items()},
        "events": {name: _fold([text for _, text in events]) for name, events in sorted(played.events.items())},
        "checkpoints": played.checkpoints,
        "final": played.final,
    }


def _reworded(value: Any, texts: Mapping[str, str]) -> Any:
    match value:
        case str():
            for old, new in texts.items():
                value = value.replace(old, new)
            return value
        case dict():
            return {key: _reworded(item, texts) for key, item in value.items()}
        case list():
            return [_reworded(item, texts) for item in value]
    return value


def _same(wanted: Any, found: Any) -> str:
    if wanted == found:
        return ""
    before, after = (yaml.safe_dump(value, width=200, sort_keys=True).splitlines() for value in (wanted, found))
    return "\n".join(difflib.unified_diff(before, after, "expected", "found", lineterm=""))


def _ordered(value: Any) -> Any:
    """Lists of names sorted: what lives has no order."""
    match value:
        case dict():
            return {key: sorted(item) if _names(item) else _ordered(item) for key, item in value.items()}
        case list():
            return [_ordered(item) for item in value]
    return value


def _names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _transitions(scenario: Scenario, played: Played, requeue: float) -> str:
    wanted = scenario.expected["transitions"]
    if goes_as_recorded(scenario.main_kind, wanted, played, requeue):
        return ""
    found = states(played.transitions, failing_counts=any("statusCheckFailing" in state for state in wanted))
    if scenario.main_kind == RAYSERVICE.kind and played.lasted:
        kept = zip(found, played.lasted, strict=True)
        found = [state for state, seconds in kept if seconds >= requeue or state in wanted]
    return _same(list(wanted), found)


def _fold(items: Sequence[Any], longest: int = 3) -> list[Any]:
    """Immediate repeats of one to *longest* items are one."""
    folded: list[Any] = []
    for item in items:
        folded.append(item)
        shorter = True
        while shorter:
            shorter = False
            for length in range(1, longest + 1):
                if len(folded) >= 2 * length and folded[-length:] == folded[-2 * length : -length]:
                    del folded[-length:]
                    shorter = True
    return folded


def _writes(requests: Mapping[str, Sequence[Body]]) -> dict[str, list[Body]]:
    """What was asked to be done, without the questions."""
    found = {
        name: _fold([request for request in sent if not request["call"].startswith("GET ")])
        for name, sent in requests.items()
    }
    return {name: sent for name, sent in found.items() if sent}


def _events(wanted: Mapping[str, Sequence[str]], found: Mapping[str, Sequence[tuple[str, str]]]) -> str:
    told = {
        name: _same(list(wanted.get(name, ())), _fold([text for _, text in events]))
        for name, events in sorted(found.items())
        if not _in_place(events, wanted.get(name, ()))
    }
    return "\n".join(f"{name}:\n{text}" for name, text in told.items())


def _in_place(events: Sequence[tuple[str, str]], expected: Sequence[str]) -> bool:
    """Whether all events are among the expected ones, in that order but for those of one pass."""
    passes: list[tuple[float, list[str]]] = []
    for stamp, text in events:
        second = datetime.fromisoformat(stamp).timestamp()
        if not passes or second - passes[-1][0] > ONE_PASS:
            passes.append((second, []))
        passes[-1][1].append(text)
    reached = 0
    for _, texts in passes:
        left = expected[reached:]
        if not set(texts) <= set(left):
            return False
        # The last one may come again: repeats are folded in what is expected.
        reached += max(left.index(text) for text in texts)
    return True


def as_yaml(played: Played, sections: Sequence[str]) -> str:
    """Those sections of a run as an expected file has them, a line for each entry."""
    lines: list[str] = []
    for section, value in as_expected(played).items():
        if section not in sections:
            continue
        match value:
            case list():
                lines += [f"{section}:"] if value else [f"{section}: []"]
                lines += [f"- {_flow(item)}" for item in value]
            case dict() if value:
                lines.append(f"{section}:")
                for key, item in value.items():
                    if section in ("requests", "events"):
                        lines += [f"  {_flow(key)}:", *(f"  - {_flow(entry)}" for entry in item)]
                    else:
                        lines.append(f"  {_flow(key)}: {_flow(item)}")
            case _:
                lines.append(f"{section}: {_flow(value)}")
    return "\n".join([*lines, ""])


def _flow(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=10_000, sort_keys=False)
    return text.removesuffix("\n...\n").rstrip("\n")
