"""Which replicas of a group a rolling upgrade replaces next, and how many it makes: the arithmetic of a Deployment.

Source: docs/upgrades.md. A replica is one pod, or all hosts of a multi-host replica.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from kuberay.api.cluster import UpgradeStrategy, WorkerGroupSpec
from kuberay.api.kinds import RAYSERVICE
from kuberay.api.names import LABEL_ORIGIN_CRD
from kuberay.api.objects import Pod
from kuberay.plan.cluster.drain import draining_since
from kuberay.plan.cluster.pod_decision import ClusterPass
from kuberay.plan.cluster.pod_health import is_ready
from kuberay.plan.cluster.replica_labels import victim_rank

DEFAULT_UNAVAILABLE = 1
DEFAULT_SURGE = 0
"""Accelerators are rarely to spare, so a replica goes before its successor comes."""

IDLE_AFTER = timedelta(seconds=60)
"""How long a new worker of a RayService runs until it counts as one that works, ready or not."""


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica that exists. *going* says that its end has begun, so that it fills no place any more."""

    name: str
    pods: Sequence[Pod]
    outdated: bool
    ready: bool
    going: bool = False

    @property
    def started(self) -> bool:
        """Whether anything of it may run."""
        return any(pod.status.phase not in ("", "Pending") for pod in self.pods)


@dataclass(slots=True)
class Step:
    """What a group's upgrade does now."""

    leave: list[Replica] = field(default_factory=list)
    create: int = 0


def is_rolled(cluster: ClusterPass, pods: Iterable[Pod]) -> bool:
    """Whether any of a group's *pods* is outdated; quick when no pod of the cluster is."""
    return bool(cluster.outdated) and any(pod.name in cluster.outdated for pod in pods)


def roll(
    cluster: ClusterPass, group: WorkerGroupSpec, replicas: Sequence[Replica], *, existing: int, per_replica: int = 1
) -> Step:
    """The next step of *group*. *per_replica* is how many of *replicas* one replica of the spec counts for."""
    desired = cluster.desired_replicas(group) * per_replica
    strategy = cluster.form.spec.upgrade_strategy
    assert strategy is not None
    unavailable, surge = bounds(strategy, desired)
    step = next_step(
        replicas,
        existing=existing,
        desired=desired,
        unavailable=unavailable,
        surge=surge,
        picks_victims=cluster.picks_victims,
    )
    return step if cluster.may_replace else Step(create=step.create)


def is_going(pod: Pod, ending: Collection[str] = ()) -> bool:
    """Whether the end of *pod* has begun: it terminates, drains, or is among those deleted now."""
    return pod.deleting or pod.name in ending or draining_since(pod) is not None


def replica(cluster: ClusterPass, name: str, pods: Sequence[Pod], *, going: bool, complete: bool = True) -> Replica:
    """A replica as it stands. One host that is outdated makes all of it outdated."""
    outdated = any(pod.name in cluster.outdated for pod in pods)
    ready = complete and all(is_ready(pod) if outdated else works(cluster, pod) for pod in pods)
    return Replica(name, pods, outdated=outdated, ready=ready, going=going)


def works(cluster: ClusterPass, pod: Pod) -> bool:
    """Whether the upgrade may go on beside this new pod: it is ready, or a worker of a RayService that has run for so long that
    nothing but a replica of Serve can be missing.

    Without one no proxy runs beside it, and it is not ready; but Serve gives it one only when an older worker goes."""
    if is_ready(pod):
        return True
    if not is_of_rayservice(cluster) or pod.status.phase != "Running":
        return False
    statuses = pod.status.container_statuses
    started = [status.state.running.started_at for status in statuses if status.state.running is not None]
    if not started or len(started) < len(statuses) or any(status.restart_count for status in statuses):
        return False
    runs = min((cluster.observed.now - begun for begun in started if begun is not None), default=timedelta(0))
    if runs < IDLE_AFTER:
        cluster.due.append(IDLE_AFTER - runs)
        return False
    return True


def is_of_rayservice(cluster: ClusterPass) -> bool:
    """Whether a RayService made the cluster."""
    return cluster.observed.obj.metadata.labels.get(LABEL_ORIGIN_CRD) == RAYSERVICE.kind


def bounds(strategy: UpgradeStrategy, desired: int) -> tuple[int, int]:
    """How many of *desired* replicas may be missing, and how many may be there beyond them; never both 0."""
    unavailable = _amount(strategy.max_unavailable, DEFAULT_UNAVAILABLE, desired, up=False)
    surge = _amount(strategy.max_surge, DEFAULT_SURGE, desired, up=True)
    return (1 if unavailable == surge == 0 else unavailable), surge


def next_step(
    replicas: Sequence[Replica], *, existing: int, desired: int, unavailable: int, surge: int, picks_victims: bool
) -> Step:
    """*existing* counts every replica of the group that is still there, also those that are not among *replicas*.

    Without *picks_victims* the autoscaler chooses which surplus replicas go; until it has, none goes beyond the steps
    of the upgrade.
    """
    step = Step()
    staying = [found for found in replicas if not found.going]
    old = sorted((found for found in staying if found.outdated), key=_first_to_leave)
    new = [found for found in staying if not found.outdated]
    wanted = desired if picks_victims else max(desired, existing - surge)
    minimum = max(wanted - unavailable, 0)
    if not any(found.ready for found in staying):
        # Nothing runs that could be taken down: what has not even started need not come up first.
        step.leave += [found for found in old if not found.started]
        old = [found for found in old if found.started]
    # As a Deployment: what is new and not ready yet has been paid for out of the same budget.
    budget = len(old) + len(new) - minimum - sum(not found.ready for found in new)
    spare = sum(found.ready for found in staying) - minimum
    for found in old:
        if budget <= 0:
            break
        if found.ready:
            if spare <= 0:
                continue
            spare -= 1
        budget -= 1
        step.leave.append(found)
    if picks_victims and len(new) > desired:
        step.leave += sorted(new, key=_first_to_leave)[: len(new) - desired]
    step.create = max(min(desired + surge - existing, desired - len(new)), 0)
    return step


def _first_to_leave(found: Replica) -> tuple[bool, tuple[int, int, str]]:
    return found.ready, victim_rank(found.pods, going=False)


def _amount(value: int | str | None, default: int, total: int, *, up: bool) -> int:
    if value is None:
        return default
    if isinstance(value, int):
        return value
    product = int(value.rstrip("%")) * total
    return -(-product // 100) if up else product // 100
