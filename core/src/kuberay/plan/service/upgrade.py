"""Which upgrade strategy there is, what it decides in a pass, and when another RayCluster is prepared.

Source: spec rayservice.md 2.6 (the table of step 15) and 3. The strategy decides what moves when; `upgrade_step` performs it.
"""

from __future__ import annotations

from kuberay.api import names
from kuberay.api.conditions import TRUE, ServiceCondition
from kuberay.api.gates import INCREMENTAL_UPGRADE, how_to_switch_on
from kuberay.api.serve_config import serve_config_problems
from kuberay.api.service import UpgradeType
from kuberay.hooks.calls import PluginFailure
from kuberay.hooks.service_upgrade import ServiceSide, ServiceUpgradeContext
from kuberay.hooks.types import UpgradeContext
from kuberay.plan.build.serve_services import serve_port
from kuberay.plan.service import endpoints, goal, heads, serving
from kuberay.plan.service.draft import PENDING, Draft
from kuberay.plan.service.owner import service_context
from kuberay.plan.service.services import keep_own, served_by
from kuberay.plan.service.sides import Side, both_sides
from kuberay.plan.service.strategies import Missing, core_strategy
from kuberay.plan.service.upgrade_step import name_pending, perform

PACKAGES = {UpgradeType.INCREMENTAL.value: ("gateway-upgrade", "kuberay-gateway-upgrade")}
"""Types that a package of this project brings: its plugin, and its distribution."""

GATE_OFF = "GateOff"
"""Reason of ``PluginMissing`` for a type that counts as None, since its feature gate is off."""


def choose(draft: Draft) -> None:
    """Find the strategy that ``spec.upgradeStrategy.type`` names. One that nobody offers becomes `Missing`."""
    type_ = draft.spec.upgrade_type
    core = core_strategy(
        type_,
        zero_downtime=draft.observed.config.enable_zero_downtime,
        incremental=draft.observed.gate(INCREMENTAL_UPGRADE),
    )
    if core is not None:
        draft.strategy = core
        return
    context = UpgradeContext(owner=service_context(draft), type=type_ or "")
    failures: list[PluginFailure] = []
    draft.strategy = draft.observed.hooks.service_strategy(context, failures) or Missing()
    draft.blame(failures)


def advance(draft: Draft) -> None:
    """Have the strategy decide, perform what it decides, and name another RayCluster where one is needed."""
    if isinstance(draft.strategy, Missing):
        _tell_missing(draft)
        return
    if draft.strategy.own_services:
        # Before anything that leads requests to them.
        keep_own(draft)
    if draft.spec.upgrade_type == UpgradeType.INCREMENTAL and not draft.observed.gate(INCREMENTAL_UPGRADE):
        words = (
            f"spec.upgradeStrategy.type {UpgradeType.INCREMENTAL} counts as None while the feature gate "
            f"{INCREMENTAL_UPGRADE} is off; {how_to_switch_on(INCREMENTAL_UPGRADE)}"
        )
        draft.condition(ServiceCondition.PLUGIN_MISSING, TRUE, GATE_OFF, words)
    else:
        draft.drop_condition(ServiceCondition.PLUGIN_MISSING)
    active, pending = both_sides(draft)
    aborted = active is not None and active.exists and _says(draft, names.ANNOTATION_UPGRADE_ABORTED)
    if active is not None or pending is not None:
        context = ServiceUpgradeContext(
            owner=service_context(draft),
            active=_seen(draft, active),
            pending=_seen(draft, pending),
            rolling_back=draft.is_true(ServiceCondition.ROLLBACK_IN_PROGRESS),
            paused=_says(draft, names.ANNOTATION_UPGRADE_PAUSED),
            aborted=aborted,
            served_by=served_by(draft),
        )
        step, failures = draft.observed.hooks.service_step(draft.strategy, context)
        draft.blame(list(failures))
        if step is None:
            return
        perform(draft, step, context, active, pending)
    if not draft.cluster_name(PENDING):
        _prepare(draft, aborted=aborted)


def _prepare(draft: Draft, *, aborted: bool) -> None:
    """Name another RayCluster when the present one will not do; it is made in the next pass, when the name is stored."""
    active, _ = both_sides(draft)
    if active is None or not active.exists:
        # Nothing serves, whatever the strategy; a RayCluster deleted by hand is replaced.
        name_pending(draft, first_cluster=True)
        return
    if draft.strategy.on_change != "new-cluster" or goal.relation(draft, active) != "differs":
        return
    if aborted:
        where = f"RayCluster {draft.obj.namespace}/{active.name} is not what rayClusterConfig asks for"
        draft.hold("UpgradeAborted", f"{where}, and stays while annotation {names.ANNOTATION_UPGRADE_ABORTED} is set")
        return
    if not serve_config_problems(draft.spec.serve_config_v2):
        # Another one that nothing could be deployed on would be for nothing; `serving` tells why.
        name_pending(draft, first_cluster=False)


def _seen(draft: Draft, side: Side | None) -> ServiceSide | None:
    """The side as strategies see it."""
    if side is None:
        return None
    served = serving.look(draft, side)
    return ServiceSide(
        cluster=side.name,
        exists=side.exists,
        head_ready=side.head_ready,
        ready=served is not None and served.ready and heads.settled(draft, side),
        backends=endpoints.backends(draft, side),
        relation=goal.relation(draft, side),
        share=side.share,
        serve_service=names.serve_service_name(side.name),
        serve_port=serve_port(side.spec),
    )


def _says(draft: Draft, annotation: str) -> bool:
    return draft.obj.metadata.annotations.get(annotation, "").strip().lower() == "true"


def _tell_missing(draft: Draft) -> None:
    """Nothing is made and nothing moves without the strategy."""
    type_ = draft.spec.upgrade_type or ""
    if draft.blamed:
        draft.drop_condition(ServiceCondition.PLUGIN_MISSING)
        draft.hold("PluginFailed", f"spec.upgradeStrategy.type {type_} is of a plugin that failed: see PluginFailed")
        return
    plugin, package = PACKAGES.get(type_, ("", ""))
    if plugin:
        how = f"needs the plugin {plugin}, which is not enabled: pip install {package} and add {plugin} to plugins.enabled"
    else:
        how = "is offered by no plugin that is enabled"
    words = f"spec.upgradeStrategy.type {type_} {how}"
    draft.condition(ServiceCondition.PLUGIN_MISSING, TRUE, "PluginNotEnabled", words)
    draft.hold("PluginMissing", words)
