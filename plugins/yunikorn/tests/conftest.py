"""What the tests of the plugin share: contexts as the operator makes them, and what becomes of whole objects."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import Any

import pytest
from kuberay.api.cluster import RayClusterSpec
from kuberay.api.gates import DEFAULT_GATES
from kuberay.api.kinds import RAYCLUSTER, RAYJOB
from kuberay.api.objects import RayObject, from_dict
from kuberay.hooks import OwnerContext
from kuberay.operator.offline import Rendered, render
from kuberay.operator.start import PLANS
from kuberay.plan.build.context import owner_context
from kuberay.plan.config import PlanConfig
from kuberay.plan.observed import Observed
from kuberay.plugins.loader import load
from kuberay.plugins.manager import PluginManager

Manifest = dict[str, Any]


@pytest.fixture
def hooks() -> PluginManager:
    return PluginManager(load(["yunikorn"]))


@pytest.fixture
def context() -> Any:
    """The context the operator would make for a RayCluster or RayJob."""

    def make(body: Manifest, config: PlanConfig | None = None, submitter: bool = False) -> OwnerContext:
        kind = RAYJOB if body["kind"] == "RayJob" else RAYCLUSTER
        body = copy.deepcopy(body)
        body["metadata"] = {"namespace": "lab", "uid": "u-1", **body["metadata"]}
        obj = from_dict(kind, body)
        assert isinstance(obj, RayObject)
        raw = obj.spec if kind == RAYCLUSTER else obj.spec.get("rayClusterSpec")
        return owner_context(
            Observed(obj=obj, now=datetime(2026, 1, 1, tzinfo=UTC), config=config or PlanConfig()),
            kind=kind,
            cluster_spec=None if raw is None else RayClusterSpec.parse(raw),
            lookups=[],
            submitter_requests={"cpu": "500m", "memory": "200Mi"} if submitter else None,
        )

    return make


@pytest.fixture
def rendered(hooks: PluginManager) -> Any:
    """Everything that becomes of an object when all goes well."""

    def make(body: Manifest, config: PlanConfig | None = None, manager: PluginManager | None = None) -> Rendered:
        return render(body, plans=PLANS, hooks=manager or hooks, gates=DEFAULT_GATES, config=config or PlanConfig())

    return make
