"""What happens while only one of two RayClusters is there: before and after an upgrade, and when one was lost in it.

Source: spec rayservice.md 3.4 (first start, idle). KubeRay stops for good where a RayCluster was deleted by hand.
"""

from __future__ import annotations

from dataclasses import replace

from kuberay.hooks.service_upgrade import ServiceSide, ServiceUpgradeContext, Share, UpgradeStep

from kuberay_gateway_upgrade import resources
from kuberay_gateway_upgrade.loads import FULL
from kuberay_gateway_upgrade.options import Options
from kuberay_gateway_upgrade.rollback import Verdict


def idle(ctx: ServiceUpgradeContext, options: Options) -> UpgradeStep:
    """There is no pending RayCluster: the active one carries everything."""
    gateway = resources.gateway(ctx.owner, options)
    if ctx.active is None or not ctx.active.exists:
        return UpgradeStep(manifests=[gateway])
    route = resources.http_route(ctx.owner, [(ctx.active, FULL)])
    return UpgradeStep(active=_everything(ctx.active, ctx), manifests=[gateway, route])


def pending_lost(
    ctx: ServiceUpgradeContext, active: ServiceSide, pending: ServiceSide, options: Options, verdict: Verdict
) -> UpgradeStep:
    """The pending RayCluster is not there, not yet or no longer: nothing is sent to it."""
    step = replace(idle(ctx, options), rolling_back=verdict.back, message=verdict.message)
    if verdict.back:
        # A capacity that was never decided is a full one.
        arrived = active.share.capacity in (None, FULL) and active.share.traffic in (None, FULL)
        return replace(step, give_up=True, rolling_back=False, message="") if arrived else step
    if pending.share.capacity or pending.share.traffic:
        # What it carried is no start for its successor, which begins with nothing.
        return replace(step, replace=True)
    return step


def take_over(ctx: ServiceUpgradeContext, pending: ServiceSide, options: Options) -> UpgradeStep:
    """Nothing else serves, so the pending RayCluster gets all at once: the first one, or one whose active was deleted.

    Neither a pause nor an abort counts: there is nothing to keep and nothing to go back to.
    """
    manifests = [resources.gateway(ctx.owner, options)]
    share = pending.share
    able = pending.exists and pending.ready
    if pending.relation == "differs" and not (able and share.traffic):
        return UpgradeStep(manifests=manifests, replace=True)
    wanted = share if share.capacity is None else replace(share, capacity=FULL)
    waiting = ""
    if ctx.active is not None:
        waiting = f"RayCluster {ctx.active.cluster} is gone: RayCluster {pending.cluster} takes over when it serves"
        if able and pending.backends:
            # With less than its full capacity, too: there is no other one.
            moved = share.moved if share.traffic == FULL else ctx.owner.now
            wanted = replace(wanted, traffic=FULL, moved=moved)
            manifests.append(resources.http_route(ctx.owner, [(pending, FULL)]))
    promote = able and share.capacity in (None, FULL)
    return UpgradeStep(pending=wanted, promote=promote, manifests=manifests, waiting="" if promote else waiting)


def _everything(side: ServiceSide, ctx: ServiceUpgradeContext) -> Share:
    """All requests, and all of its capacity where that was ever limited."""
    share = side.share
    capacity = None if share.capacity is None else FULL
    return Share(capacity, FULL, share.moved if share.traffic == FULL else ctx.owner.now)
