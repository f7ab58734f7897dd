"""How an outcome differs from a recorded one, as a text for people; what may differ is named here, with the reason."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

import yaml

from kuberay_testkit.golden.case import GoldenCase, Manifest
from kuberay_testkit.golden.outcome import GENERATION, SIDES, canonical

_WITH_FINALIZER = 2
"""The generation of a RayService that was created before KubeRay added its finalizer."""


def differences(case: GoldenCase, actual: Manifest, *, events: bool = True) -> str:
    """A readable diff between what was recorded and *actual* (normalised); empty when they agree.

    Of events, one common message per (about, type, reason) is enough.
    """
    expected = canonical(case.expected)
    actual = dict(actual)
    if "rayClusterStatus" not in (actual.get("status") or {}):
        # KubeRay writes an empty cluster status where there is no cluster; leaving it out says the same.
        expected = {**expected, "status": dict(expected.get("status") or {})}
        expected["status"].pop("rayClusterStatus", None)
    observed = (expected.get("status") or {}).get("observedGeneration")
    if isinstance(observed, int) and (actual.get("status") or {}).get("observedGeneration") == GENERATION:
        # KubeRay's lags behind the spec when nothing else of the status changes.
        expected["status"] = {**expected["status"], "observedGeneration": GENERATION}
    expected["status"] = _comparable_service(expected.get("status") or {}, actual.get("status") or {})
    expected_events = expected.pop("events", []) or []
    actual_events = actual.pop("events", []) or []
    text = _diff(expected, actual)
    if events:
        text += _event_differences(expected_events, actual_events)
    return text


def _comparable_service(expected: Manifest, actual: Manifest) -> Manifest:
    """Of a RayService KubeRay writes both clusters where there are none, too, and its conditions are about the generation
    that it made itself when it added its finalizer."""
    kept = {
        key: value
        for key, value in expected.items()
        if key not in SIDES or set(value) != {"rayClusterStatus"} or key in actual
    }
    told = {c["type"]: c.get("observedGeneration") for c in actual.get("conditions") or ()}
    if "conditions" in kept:
        kept["conditions"] = [
            {**c, "observedGeneration": GENERATION}
            if told.get(c["type"]) == GENERATION and c.get("observedGeneration") == _WITH_FINALIZER
            else c
            for c in kept["conditions"]
        ]
    return kept


def _event_differences(expected: Sequence[Mapping[str, str]], actual: Sequence[Mapping[str, str]]) -> str:
    def grouped(events: Sequence[Mapping[str, str]]) -> dict[tuple[str, str, str], set[str]]:
        groups: dict[tuple[str, str, str], set[str]] = {}
        for event in events:
            groups.setdefault((event["about"], event["type"], event["reason"]), set()).add(event["message"])
        return groups

    wanted, found = grouped(expected), grouped(actual)
    lines = [f"event missing: {key} {sorted(wanted[key])}" for key in sorted(wanted.keys() - found.keys())]
    lines += [f"event not recorded: {key} {sorted(found[key])}" for key in sorted(found.keys() - wanted.keys())]
    lines += [
        f"event differs: {key}\n  recorded {sorted(wanted[key])}\n  actual   {sorted(found[key])}"
        for key in sorted(wanted.keys() & found.keys())
        if not wanted[key] & found[key]
    ]
    return "".join(f"{line}\n" for line in lines)


def _diff(expected: Manifest, actual: Manifest) -> str:
    if expected == actual:
        return ""
    recorded, found = (
        yaml.safe_dump(item, sort_keys=True, width=200).splitlines(keepends=True) for item in (expected, actual)
    )
    return "".join(difflib.unified_diff(recorded, found, "recorded", "actual", n=4))
