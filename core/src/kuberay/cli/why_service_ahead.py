"""What comes next for a RayService: the operator's own plan, played into the future on what was read."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec

from kuberay.api.conditions import ServiceCondition, find_condition
from kuberay.api.gates import DEFAULT_GATES, INCREMENTAL_UPGRADE
from kuberay.api.kinds import ENDPOINT_SLICE, POD, RAYCLUSTER, SERVICE
from kuberay.api.objects import Child, EndpointSlice, Object, RayObject
from kuberay.cli.diff_job_world import Other, Rules
from kuberay.cli.service_world import SIDES, ServiceSituation, get_ready
from kuberay.cli.why_reading import conditions_of
from kuberay.cli.why_report import Ahead
from kuberay.cli.why_service_state import SeenService, strategy_type
from kuberay.hooks.calls import NoHooks
from kuberay.plan.config import PlanConfig
from kuberay.plan.service.upgrade import PACKAGES

_PLUMBING = ("Service ", "HTTPRoute ", "Gateway ", "Pod ", "a warning is given")
"""Kept up to date all the time, or events already."""
_NO_ANSWER = ("DashboardAway", "ServeConfigRefused")
_MOMENTS = 100
_SHARES = ("targetCapacity", "trafficRoutedPercent")


def rules_for(obj: RayObject, now: datetime) -> tuple[Rules | None, str]:
    """The rules of an operator with default settings, and with the plugin where the status shows that it is at work; or why
    that cannot be told."""
    plugin, package = PACKAGES.get(strategy_type(obj), ("", ""))
    at_work = any(key in (obj.status.get(side) or {}) for side in SIDES for key in _SHARES)
    if not plugin or not at_work:
        return Rules(config=PlanConfig(), gates=DEFAULT_GATES, hooks=NoHooks(), now=now), ""
    from kuberay.operator.settings import load_settings
    from kuberay.operator.start import assemble_plugins
    from kuberay.plugins.loader import PluginError

    flags = {"plugins": {"enabled": [plugin]}, "feature_gates": f"{INCREMENTAL_UPGRADE}=true"}
    try:
        hooks, gates = assemble_plugins(load_settings("", flags))
    except PluginError:
        return None, f"what comes next cannot be told without the package {package}: pip install it here as well"
    return Rules(config=PlanConfig(), gates=gates, hooks=hooks, now=now), ""


def look_ahead(seen: SeenService, rules: Rules) -> tuple[list[Ahead], list[str], str]:
    """What comes by itself, what more if all goes well, and what the next pass waits for."""
    situation = ServiceSituation(copy.deepcopy(dict(seen.body)), list(_others(seen)))
    foresight = situation.foresight(rules, all_goes_well=False, silent=_silent(seen))
    foresight.settle(rules.now)
    waiting = foresight.waiting
    found = foresight.look_ahead(rules.now, _MOMENTS)
    coming = [Ahead(each.at, each.what) for each in found if not each.what.startswith(_PLUMBING)]
    well = situation.foresight(rules)
    well.around = lambda: get_ready(well, rules)
    known = {each.what for each in coming}
    then = []
    for each in well.look_ahead(rules.now, _MOMENTS):
        if each.what in known or each.what.startswith(_PLUMBING):
            continue
        seconds = int((each.at - rules.now).total_seconds())
        then.append(f"{each.what}{f' {seconds} s later' if seconds > 0 else ''}")
    return coming, then, waiting


def _silent(seen: SeenService) -> list[str]:
    """RayClusters whose dashboard gives no good answer."""
    told = find_condition(conditions_of(seen.obj), ServiceCondition.WAITING) or {}
    if told.get("reason") not in _NO_ANSWER:
        return []
    words = str(told.get("message") or "").replace(":", " ").split()
    return [name for name in (seen.active, seen.pending) if f"{seen.obj.namespace}/{name}" in words]


def _others(seen: SeenService) -> Iterator[Other]:
    for cluster in seen.clusters:
        yield RAYCLUSTER, dict(cluster.body)
        yield from ((POD, _builtins(pod)) for pod in cluster.pods or ())
        yield from ((SERVICE, each.body()) for each in cluster.services or () if isinstance(each, Child))
    yield from ((SERVICE, each.body()) for each in seen.services or () if isinstance(each, Child))
    for each in seen.endpoints or ():
        if isinstance(each, EndpointSlice):
            yield ENDPOINT_SLICE, {"metadata": _builtins(each.metadata), "ready": sorted(each.ready)}
    yield from ((kind, each.body()) for kind, each in seen.others if isinstance(each, Child))


def _builtins(value: Object | Any) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(value)
    return found
