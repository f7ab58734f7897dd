"""Why the operator would refuse a RayService: what its own pass finds, asked before there is one.

Source: spec rayservice.md 6.1.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from kuberay.api.kinds import RAYSERVICE
from kuberay.api.objects import RayObject, from_dict
from kuberay.api.problems import Problem
from kuberay.api.service import RayServiceSpec
from kuberay.hooks.calls import Hooks
from kuberay.plan.config import PlanConfig
from kuberay.plan.observed import Observed
from kuberay.plan.service import acceptance, upgrade
from kuberay.plan.service.draft import Draft

_ANY_TIME = datetime(2026, 1, 1, tzinfo=UTC)


def service_problems(
    manifest: Mapping[str, Any], gates: Mapping[str, bool], hooks: Hooks, config: PlanConfig
) -> list[Problem]:
    """All of them, KubeRay's first reason first; the strategy that its type names is asked as well."""
    obj = _object(manifest)
    spec = acceptance.read_spec(obj)
    if not isinstance(spec, RayServiceSpec):
        return spec
    observed = Observed(obj=obj, now=_ANY_TIME, config=config, gates=gates, hooks=hooks)
    draft = Draft.start(observed, spec)
    upgrade.choose(draft)
    return acceptance.problems_of(draft)


def _object(manifest: Mapping[str, Any]) -> RayObject:
    metadata = {key: value for key, value in (manifest.get("metadata") or {}).items() if value is not None}
    body = {
        "metadata": {"uid": "unknown", "generation": 1, **metadata},
        "spec": copy.deepcopy(manifest.get("spec") or {}),
        "status": manifest.get("status") or {},
    }
    obj = from_dict(RAYSERVICE, body)
    assert isinstance(obj, RayObject)
    return obj
