"""The next move between two RayClusters that are there: of capacity or of requests, never of both, or why there is none.

Source: spec rayservice.md 3.4 and 3.5. A capacity that is decided here counts from the pass on that sees it accepted.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from kuberay.api.names import ANNOTATION_UPGRADE_PAUSED
from kuberay.hooks.service_upgrade import ServiceSide, ServiceUpgradeContext, UpgradeStep

from kuberay_gateway_upgrade import capacity, resources, rollback, traffic
from kuberay_gateway_upgrade.loads import FULL, Course
from kuberay_gateway_upgrade.options import Options
from kuberay_gateway_upgrade.serving import not_serving

PAUSED = f"the upgrade is paused by annotation {ANNOTATION_UPGRADE_PAUSED}"


@dataclass(frozen=True, slots=True)
class Move:
    """What both sides shall carry, and what comes after."""

    course: Course
    waiting: str = ""
    look_after: timedelta | None = None
    arrived: bool = False


def move(
    ctx: ServiceUpgradeContext, active: ServiceSide, pending: ServiceSide, options: Options, settle: timedelta
) -> UpgradeStep:
    verdict = rollback.decide(active, pending, aborted=ctx.aborted)
    course = Course.of(active, pending, back=verdict.back)
    found = _next(ctx, course, options, settle)
    now = ctx.owner.now
    of_active, of_pending = found.course.shares(now)
    weights = [(active, of_active.traffic or 0), (pending, of_pending.traffic or 0)]
    back = verdict.back and not found.arrived
    return UpgradeStep(
        active=of_active,
        pending=of_pending,
        promote=found.arrived and not verdict.back,
        give_up=found.arrived and verdict.back,
        rolling_back=back,
        message=verdict.message if back else "",
        manifests=[resources.gateway(ctx.owner, options), resources.http_route(ctx.owner, weights)],
        waiting=found.waiting,
        look_after=found.look_after,
    )


def _next(ctx: ServiceUpgradeContext, course: Course, options: Options, settle: timedelta) -> Move:
    now = ctx.owner.now
    # Who aborts wants the old state back, also out of a pause.
    if ctx.paused and not ctx.aborted:
        return Move(course, waiting=PAUSED)
    if rollback.arrived(course.gives, course.receives, giver_head=course.giver.head_ready):
        left = _unsettled(course, settle, now)
        return Move(course, look_after=left) if left else Move(course, arrived=True)
    if capacity.shortage(course.gives) or capacity.shortage(course.receives):
        needed = (max(load.capacity, load.traffic) for load in (course.gives, course.receives))
        return Move(course.with_capacity(*needed))
    if course.receives.traffic != course.receives.capacity:
        return _traffic(ctx, course, options)
    return _capacity(ctx, course, options, settle)


def _traffic(ctx: ServiceUpgradeContext, course: Course, options: Options) -> Move:
    # Each request to a side without pods fails: from there all go at once, as far as capacity reaches.
    at_once = not course.giver.backends
    weight = course.receives.capacity if at_once else traffic.next_weight(course.receives, options.step)
    moved = Move(course.with_traffic(weight), look_after=options.interval)
    if resources.routed(ctx.owner, course.receiver) == weight:
        # Applied already: earlier in this pass, or in one that ended before it could store what it did.
        return moved
    obstacle = _keeps_traffic(ctx, course)
    if obstacle:
        return Move(course, waiting=obstacle)
    left = traffic.NOW if at_once else traffic.due_in(course.receives.moved, options.interval, ctx.owner.now)
    return Move(course, look_after=left) if left else moved


def _keeps_traffic(ctx: ServiceUpgradeContext, course: Course) -> str:
    """Why requests may not move now. Back they may also go from a side that fails to one that is not quite well, and past a
    gateway that says nothing: the weights it finds later are the better ones."""
    receiver, giver = course.receiver, course.giver
    if not receiver.backends:
        return not_serving(ctx, receiver) or f"no pod of RayCluster {receiver.cluster} is ready to serve"
    if course.back:
        return not_serving(ctx, receiver) if giver.ready and giver.backends else ""
    return resources.not_ready(ctx.owner) or not_serving(ctx, receiver)


def _capacity(ctx: ServiceUpgradeContext, course: Course, options: Options, settle: timedelta) -> Move:
    gives, receives = course.gives, course.receives
    given, received = capacity.next_step(
        gives, receives, options.surge, giver_counts=not course.back or course.giver.head_ready
    )
    lowered = given < gives.capacity
    # The weights of a rollback that are 100 and 0 do no harm wherever the gateway stands.
    if not (course.back and receives.traffic == FULL) and (missing := resources.not_ready(ctx.owner)):
        return Move(course, waiting=missing)
    if not course.back and (failing := not_serving(ctx, course.receiver)):
        # Neither more for what does not run, nor less for what still does.
        return Move(course, waiting=failing)
    told = course.giver if lowered else course.receiver
    if not told.head_ready:
        return Move(course, waiting=f"the head of RayCluster {told.cluster} is not ready")
    if lowered and (left := _unsettled(course, settle, ctx.owner.now)):
        return Move(course, look_after=left)
    return Move(course.with_capacity(given, received))


def _unsettled(course: Course, settle: timedelta, now: datetime) -> timedelta:
    """How long requests may still come by the weights before the last ones."""
    return max(traffic.due_in(load.moved, settle, now) for load in (course.gives, course.receives))
