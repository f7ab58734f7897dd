"""The initializing timeout: a RayService that does not serve in time gives its RayClusters up.

Source: spec rayservice.md 2.5. KubeRay's is final; here an edit of the spec starts anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from kuberay.api.conditions import FALSE, ServiceCondition, ServiceReason
from kuberay.api.goduration import format_duration
from kuberay.api.names import ANNOTATION_INITIALIZING_TIMEOUT
from kuberay.api.service import read_initializing_timeout
from kuberay.api.times import parse_time
from kuberay.plan.service.draft import ACTIVE, PENDING, Draft
from kuberay.plan.service.endpoints import count

C, R = ServiceCondition, ServiceReason


def over(draft: Draft) -> bool:
    """Whether the time is up, now or earlier; then nothing else happens in this pass."""
    ready = draft.found(C.READY) or {}
    limit = _limit(draft)
    if ready.get("reason") == R.INITIALIZING_TIMEOUT:
        if limit is not None and not _edited_since(draft, ready):
            draft.wait(f"{ready.get('message')}; an edit of the spec starts it again")
            return True
        _begin_anew(draft)
        return False
    since = _since(ready)
    if limit is None or since is None or (ready.get("status"), ready.get("reason")) != (FALSE, R.INITIALIZING):
        return False
    if draft.now < since + limit:
        draft.wake_at(since + limit)
        return False
    if draft.cluster_name(ACTIVE) and count(draft):
        return False
    _give_up(draft, limit, draft.now - since)
    return True


def start_clock(draft: Draft) -> None:
    """The RayService initializes, and has all its time from now on: what counts is since when Ready says so."""
    draft.drop_condition(C.READY)
    for type_ in (C.READY, C.UPGRADE_IN_PROGRESS):
        draft.condition(type_, FALSE, R.INITIALIZING, "RayService is initializing")


def _limit(draft: Draft) -> timedelta | None:
    text = draft.obj.metadata.annotations.get(ANNOTATION_INITIALIZING_TIMEOUT)
    return read_initializing_timeout(text) if text else None


def _since(ready: Mapping[str, Any]) -> datetime | None:
    try:
        return parse_time(str(ready.get("lastTransitionTime")))
    except ValueError:
        return None


def _edited_since(draft: Draft, ready: Mapping[str, Any]) -> bool:
    generation = draft.obj.metadata.generation
    return bool(generation != ready.get("observedGeneration", draft.status.get("observedGeneration", generation)))


def _give_up(draft: Draft, limit: timedelta, spent: timedelta) -> None:
    """The RayClusters are no longer named, and so deleted after the usual delay."""
    spent = timedelta(seconds=int(spent.total_seconds()))
    status = draft.status
    status["observedGeneration"] = draft.obj.metadata.generation
    for key in (ACTIVE, PENDING):
        status[key] = {}
    told = (
        f"RayService failed to become ready within the configured timeout of {format_duration(limit)}."
        f" Time spent initializing: {format_duration(spent)}"
    )
    draft.condition(C.READY, FALSE, R.INITIALIZING_TIMEOUT, told)
    note = (
        f"RayService initializing timeout exceeded after {format_duration(spent)}"
        f" (configured timeout: {format_duration(limit)})"
    )
    draft.event("RayServiceInitializingTimeout", note, action="Reconcile", warning=True)
    draft.wait(f"{told}; an edit of the spec starts it again")


def _begin_anew(draft: Draft) -> None:
    draft.status["observedGeneration"] = draft.obj.metadata.generation
    start_clock(draft)
