"""How what an upgrade strategy has decided is done: capacities, traffic, promotion, and giving up.

Source: spec rayservice.md 3.3-3.5. A capacity counts once Serve has accepted it; traffic counts when its objects are
applied; both sides change places in the status of the very pass whose writes led clients to the other RayCluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

from kuberay.api.conditions import TRUE, ServiceCondition, ServiceReason
from kuberay.api.kinds import GATEWAY, RAYSERVICE, Kind
from kuberay.api.times import format_time, parse_time
from kuberay.hooks.calls import PluginFailure
from kuberay.hooks.service_upgrade import ServiceUpgradeContext, Share, UpgradeStep
from kuberay.plan.build.context import owner_reference
from kuberay.plan.model import Apply, Event, Manifest, Write
from kuberay.plan.service import serving
from kuberay.plan.service.draft import ACTIVE, PENDING, Draft
from kuberay.plan.service.naming import new_name
from kuberay.plan.service.services import unservable
from kuberay.plan.service.sides import Side

STANDSTILL = timedelta(minutes=5)
"""How long an upgrade may stand still before it is told why."""

_FULL = 100
_SHARE_FIELDS = ("targetCapacity", "trafficRoutedPercent", "lastTrafficMigratedTime")


def perform(
    draft: Draft, step: UpgradeStep, context: ServiceUpgradeContext, active: Side | None, pending: Side | None
) -> None:
    """Do all of it."""
    if step.look_after is not None:
        draft.wake_at(draft.now + step.look_after)
    if step.manifests:
        writes = applies(draft, step.manifests, draft.strategy.name, "upgrade_strategy")
        if writes is None:
            return
        # In the order given: a route is refused by some before its gateway is there.
        draft.late += writes
    for side, share in ((pending, step.pending), (active, step.active)):
        if side is not None and share is not None:
            _carry(draft, side, share)
    if draft.strategy.first_capacity(first_cluster=True) is None:
        _give_back(draft, active, pending)
    _tell_rollback(draft, step)
    if pending is None:
        return
    if step.waiting:
        _tell_waiting(draft, step.waiting, paused=context.paused)
    if step.promote:
        _promote(draft, pending)
    elif step.give_up:
        draft.status[PENDING] = {}
    elif step.replace:
        name_pending(draft, first_cluster=active is None or not active.exists)


def name_pending(draft: Draft, *, first_cluster: bool) -> None:
    """Begin another pending side. Its RayCluster is made in the next pass, when the name is stored."""
    name = new_name(draft)
    capacity = draft.strategy.first_capacity(first_cluster=first_cluster)
    draft.status[PENDING] = {"rayClusterName": name} | ({} if capacity is None else {"targetCapacity": capacity})
    draft.wait(f"RayCluster {draft.obj.namespace}/{name} is made next")


def _carry(draft: Draft, side: Side, share: Share) -> None:
    """Let that side carry *share*; what it leaves open stays."""
    status = draft.side(side.key)
    if share.traffic is not None:
        status["trafficRoutedPercent"] = share.traffic
    if share.moved is not None:
        status["lastTrafficMigratedTime"] = format_time(share.moved)
    if share.capacity is None or share.capacity == side.share.capacity:
        return
    if side.share.capacity is None and share.capacity == _FULL:
        # What Serve does unless it is told otherwise.
        status["targetCapacity"] = _FULL
        return
    serving.set_capacity(draft, side, share.capacity)


def _give_back(draft: Draft, *sides: Side | None) -> None:
    """The strategy was exchanged for one that shares nothing out: each RayCluster runs all of its replicas again."""
    for side in sides:
        status = draft.side(side.key) if side is not None else {}
        if side is None or not any(key in status for key in _SHARE_FIELDS):
            continue
        full = side.share.capacity in (None, _FULL) or not side.exists
        if full or serving.set_capacity(draft, side, None):
            for key in _SHARE_FIELDS:
                status.pop(key, None)


def _promote(draft: Draft, pending: Side) -> None:
    """The pending side becomes the active one."""
    where = f"{draft.obj.namespace}/{pending.name}"
    if not draft.strategy.own_services:
        obstacle = unservable(draft, pending)
        if obstacle:
            draft.hold("NoServePort", f"requests cannot be led to RayCluster {where}: {obstacle}")
            return
        if draft.side(PENDING).get("targetCapacity") not in (None, _FULL):
            draft.wait(f"Serve of RayCluster {where} gets its full capacity first")
            return
    draft.status[ACTIVE] = draft.status[PENDING]
    draft.status[PENDING] = {}


def _tell_rollback(draft: Draft, step: UpgradeStep) -> None:
    """``RollbackInProgress`` is removed at the end, not set to False (3.5)."""
    if step.rolling_back and not (step.give_up or step.promote):
        if not draft.is_true(ServiceCondition.ROLLBACK_IN_PROGRESS):
            draft.condition(ServiceCondition.ROLLBACK_IN_PROGRESS, TRUE, ServiceReason.GOAL_CHANGED, step.message)
    elif draft.is_true(ServiceCondition.ROLLBACK_IN_PROGRESS):
        draft.drop_condition(ServiceCondition.ROLLBACK_IN_PROGRESS)


def _tell_waiting(draft: Draft, sentence: str, *, paused: bool) -> None:
    if paused:
        draft.hold("UpgradePaused", sentence)
        return
    moments = [draft.time(key, "lastTrafficMigratedTime") for key in (ACTIVE, PENDING)]
    found = draft.found(ServiceCondition.UPGRADE_IN_PROGRESS)
    if found is not None and found.get("status") == TRUE:
        moments.append(parse_time(str(found["lastTransitionTime"])))
    since = max((moment for moment in moments if moment is not None), default=draft.now)
    draft.hold("UpgradeWaiting", sentence, since=since, patience=STANDSTILL)


def applies(
    draft: Draft, manifests: Sequence[Manifest], plugin: str, hook: str, *, optional: bool = False
) -> list[Write] | None:
    """The writes of objects that *plugin* wants by *hook*; None when one is of no kind that is watched."""
    kinds = {(watch.kind.api_version, watch.kind.kind): watch.kind for watch in draft.observed.hooks.watches()}
    writes: list[Write] = []
    for manifest in manifests:
        key = (manifest["apiVersion"], manifest["kind"])
        if key not in kinds:
            draft.blame([PluginFailure(plugin, hook, f"{key[0]} {key[1]} is of no kind that a watch names")])
            return None
        writes.append(_write(draft, kinds[key], manifest, optional=optional))
    return writes


def _write(draft: Draft, kind: Kind, manifest: Manifest, *, optional: bool) -> Apply:
    metadata = {"namespace": draft.obj.namespace, **manifest["metadata"]}
    metadata.setdefault("ownerReferences", [owner_reference(RAYSERVICE, draft.obj)])
    namespace, name, what = metadata["namespace"], metadata["name"], kind.kind
    exists = draft.observed.view.get(kind, namespace, name) is not None
    # KubeRay's words: it leaves an article out for Gateways.
    creating = "" if kind == GATEWAY else "the "
    sentences = {
        "Create": f"Failed to create {creating}{what} for RayService {namespace}/{name}",
        "Update": f"Failed to update the {what} {namespace}/{name}",
    }
    verb = "Update" if exists else "Create"
    return Apply(
        kind=kind,
        namespace=namespace,
        name=name,
        body={**manifest, "metadata": metadata},
        done=Event(f"Created{what}", f"Created {what} for RayService {namespace}/{name}", action="Create"),
        updated=Event(f"Updated{what}", f"Updated the {what} {namespace}/{name}", action="Update"),
        failed=_failed(f"FailedTo{verb}{what}", sentences[verb], verb),
        optional=optional,
    )


def _failed(reason: str, sentence: str, action: str) -> Callable[[str], Event]:
    return lambda error: Event(reason, f"{sentence}: {error}", "Warning", action)
