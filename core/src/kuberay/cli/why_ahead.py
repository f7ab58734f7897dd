"""What comes next for a RayJob if nothing else happens: the operator's own plan, played into the future on what was read."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from kuberay.api.gates import DEFAULT_GATES
from kuberay.api.kinds import JOB, POD, RAYCLUSTER, RAYJOB, SERVICE
from kuberay.api.names import HEAD, LABEL_NODE_TYPE
from kuberay.cli.why_job_state import SeenJob
from kuberay.cli.why_report import Ahead
from kuberay.operator.foresight import Foresight
from kuberay.operator.world import World
from kuberay.plan.config import PlanConfig
from kuberay.plan.job import plan_job


def look_ahead(seen: SeenJob, now: datetime) -> list[Ahead]:
    """By an operator with default settings."""
    world = World()
    for kind, body in _bodies(seen):
        world.put(kind, seen.obj.namespace, body)
    foresight = Foresight(plan_job, RAYJOB, seen.obj.namespace, seen.obj.name, world, PlanConfig(), DEFAULT_GATES)
    found = foresight.look_ahead(now)
    return [Ahead(happening.at, happening.what) for happening in found if _worth_telling(happening.what)]


def _worth_telling(what: str) -> bool:
    """Services are kept up to date all the time, and warnings are events already."""
    return not what.startswith(("Service ", "a warning is given"))


def _bodies(seen: SeenJob) -> list[tuple[Any, dict[str, Any]]]:
    bodies: list[tuple[Any, Mapping[str, Any]]] = [(RAYJOB, seen.body)]
    if seen.cluster is not None:
        bodies.append((RAYCLUSTER, seen.cluster.body))
        services = seen.cluster.services or ()
        bodies += [(SERVICE, service.body()) for service in services if hasattr(service, "body")]
        heads = [pod for pod in seen.cluster.pods or () if pod.metadata.labels.get(LABEL_NODE_TYPE) == HEAD]
        bodies += [(POD, msgspec.to_builtins(pod)) for pod in heads]
    if seen.job_body is not None:
        bodies.append((JOB, seen.job_body))
    return [(kind, copy.deepcopy(dict(body))) for kind, body in bodies]
