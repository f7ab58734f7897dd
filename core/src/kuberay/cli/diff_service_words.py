"""By which strategy an edit of a RayService is rolled out, and why a changed field does nothing now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kuberay.api.conditions import TRUE, ServiceCondition, find_condition, is_true
from kuberay.api.kinds import RAYSERVICE
from kuberay.api.names import (
    ANNOTATION_DELETE_DRAINED,
    ANNOTATION_INITIALIZING_TIMEOUT,
    ANNOTATION_UPGRADE_ABORTED,
    ANNOTATION_UPGRADE_PAUSED,
)
from kuberay.api.objects import RayObject, from_dict
from kuberay.cli.diff_job_world import Rules
from kuberay.cli.diff_service_play import Played
from kuberay.cli.service_world import ServiceSituation
from kuberay.plan.edit.changes import FieldChange
from kuberay.plan.observed import Observed
from kuberay.plan.service.acceptance import read_spec, stand_in
from kuberay.plan.service.draft import Draft
from kuberay.plan.service.strategies import Missing
from kuberay.plan.service.upgrade import GATE_OFF, choose

Manifest = dict[str, Any]

_NEXT_CLUSTER = "counts for RayClusters that are made from now on; the one that serves stays as it is"
_OF_SPEC = {
    "upgradeStrategy": (True, "counts with the next edit of rayClusterConfig, or for an upgrade that is under way"),
    "rayClusterDeletionDelaySeconds": (
        True,
        "counts when a RayCluster is no longer used; those that wait keep their time",
    ),
    "serviceUnhealthySecondThreshold": (False, "nothing: the field is accepted and means nothing, as in KubeRay"),
    "deploymentUnhealthySecondThreshold": (False, "nothing: the field is accepted and means nothing, as in KubeRay"),
    "excludeHeadPodFromServeSvc": (True, "counts as soon as a head could take requests"),
    "serveService": (True, "counts when there is a serve service"),
    "suspend": (False, "nothing: it says the same as before"),
    "managedBy": (False, "nothing: this operator looks after it either way"),
}
"""Whether it counts later, and the sentence."""
_OF_ANNOTATIONS = {
    ANNOTATION_UPGRADE_PAUSED: (
        True,
        "counts for upgrades: there is none to pause now, and the next one is not carried out",
    ),
    ANNOTATION_UPGRADE_ABORTED: (
        True,
        "counts for upgrades: there is none to abort now, and no other RayCluster is prepared",
    ),
    ANNOTATION_DELETE_DRAINED: (
        True,
        "counts when a RayCluster is no longer used: whether it may go before its time, once no request is in flight",
    ),
    ANNOTATION_INITIALIZING_TIMEOUT: (
        True,
        "counts until the service has served for the first time, or again after a resume",
    ),
}
_SCALING = ("replicas", "scaleStrategy")


@dataclass(frozen=True, slots=True)
class Strategy:
    """What counts of the upgrade strategy here."""

    name: str
    default: bool = False
    """Whether the spec names none."""
    step_by_step: bool = False
    surge: int | None = None

    @property
    def named(self) -> str:
        return f"upgradeStrategy.type {self.name}{', the default' if self.default else ''}"


def strategy_of(service: Manifest, rules: Rules) -> Strategy:
    """The strategy that the operator would go by."""
    obj = from_dict(RAYSERVICE, {**service, "metadata": {"uid": "unknown", **service["metadata"]}})
    assert isinstance(obj, RayObject)
    spec = read_spec(obj)
    observed = Observed(obj=obj, now=rules.now, config=rules.config, gates=rules.gates, hooks=rules.hooks)
    draft = Draft.start(observed, stand_in(obj) if isinstance(spec, list) else spec)
    choose(draft)
    found, type_ = draft.strategy, draft.spec.upgrade_type
    name = (type_ or "") if isinstance(found, Missing) else found.name
    upgrade = draft.spec.upgrade_strategy
    options = upgrade.cluster_upgrade_options if upgrade is not None else None
    shares = not isinstance(found, Missing) and found.first_capacity(first_cluster=False) is not None
    surge = None if options is None or not shares else options.max_surge_percent
    return Strategy(name, default=not type_, step_by_step=shares, surge=surge)


def nothing(change: FieldChange, whole: Played, live: ServiceSituation, strategy: Strategy) -> tuple[bool, str]:
    """Why *change* does nothing now, and whether it counts later. *whole* is what comes of the whole edit."""
    conditions = whole.status.get("conditions") or ()
    missing = find_condition(conditions, ServiceCondition.PLUGIN_MISSING) or {}
    if missing.get("status") == TRUE and missing.get("reason") != GATE_OFF:
        return True, f"nothing until the plugin is there: {_message(whole, ServiceCondition.PLUGIN_MISSING)}"
    if is_true(conditions, ServiceCondition.SUSPENDED) or is_true(conditions, ServiceCondition.SUSPENDING):
        return True, "counts when the RayService is resumed"
    step = str(change.steps[1]) if len(change.steps) > 1 else ""
    if change.steps[0] == "metadata":
        name = str(change.steps[2]) if len(change.steps) > 2 else ""
        told = "reaches RayClusters that are made or changed from now on"
        return _OF_ANNOTATIONS.get(name, (True, told)) if step == "annotations" else (True, told)
    if step == "rayClusterConfig":
        return _of_cluster(change, whole, strategy)
    if step == "serveConfigV2":
        return True, held(whole) or "given to Serve as soon as it can be reached"
    return _OF_SPEC.get(step, (False, "nothing"))


def _of_cluster(change: FieldChange, whole: Played, strategy: Strategy) -> tuple[bool, str]:
    steps = [step for step in change.steps if isinstance(step, str)]
    autoscaled = whole.serving is not None and whole.serving["spec"].get("enableInTreeAutoscaling")
    if autoscaled and steps[-1] in _SCALING and "workerGroupSpecs" in steps:
        return False, "nothing: the autoscaler decides about it"
    if is_true(whole.status.get("conditions") or (), ServiceCondition.EDIT_IGNORED):
        return False, (
            f"nothing: {strategy.named} rolls nothing out; the RayCluster that serves stays as it was made, until another "
            "type is chosen, or the service is suspended and resumed"
        )
    return True, held(whole) or _NEXT_CLUSTER


def held(whole: Played) -> str:
    """What keeps the service or its upgrade from going on."""
    found = find_condition(whole.status.get("conditions") or (), ServiceCondition.WAITING)
    if found is None or found.get("status") != TRUE:
        return ""
    return f"not now: {found.get('message')}"


def _message(whole: Played, type_: ServiceCondition) -> str:
    found = find_condition(whole.status.get("conditions") or (), type_)
    return str((found or {}).get("message") or "")
