"""The objects that live through a simulated day: the same from morning to night, so that what the operator holds for them is, too.

Between the measurements things happen to them, and are put right again before the next one.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from kuberay.api.kinds import POD, RAYCLUSTER
from kuberay.api.names import HEAD, LABEL_CLUSTER, LABEL_NODE_TYPE, WORKER

from kuberay_testkit.builders import build_group, build_raycluster, build_raycronjob, build_rayjob, build_rayservice
from kuberay_testkit.sim.heads_world import SECONDS
from kuberay_testkit.sim.status import APIError
from kuberay_testkit.sim.story import NAMESPACE, Action, pods_of
from kuberay_testkit.sim.world import SimWorld

PREFIX = "resident"
CLUSTERS, JOBS, SERVICES = 8, 2, 1
_WORKERS = 3
_FOR_EVER = {SECONDS: "1000000"}
_CRON = "5,15,25 * * * *"
"""Its RayJobs end, and go, before the quiet part of an hour."""


def residents(*, autoscaler: bool) -> Iterator[dict[str, Any]]:
    """Manifests. *autoscaler*: whether one of the RayClusters has one."""
    for number in range(CLUSTERS):
        spec: dict[str, Any] = {"enableInTreeAutoscaling": True} if autoscaler and number == 0 else {}
        groups = [build_group("workers", _WORKERS)]
        yield build_raycluster(f"{PREFIX}-c{number}", namespace=NAMESPACE, groups=groups, **spec)
    for number, mode in zip(range(JOBS), ("HTTPMode", "K8sJobMode"), strict=True):
        yield build_rayjob(
            f"{PREFIX}-j{number}", namespace=NAMESPACE, annotations=_FOR_EVER, submissionMode=mode, entrypoint="serve"
        )
    for number in range(SERVICES):
        yield build_rayservice(f"{PREFIX}-s{number}", namespace=NAMESPACE, groups=1)
    template = {"groups": 0, "submissionMode": "HTTPMode", "shutdownAfterJobFinishes": True}
    limits: dict[str, Any] = {"successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 0}
    yield build_raycronjob(
        f"{PREFIX}-n", _CRON, namespace=NAMESPACE, annotations={SECONDS: "20"}, template=template, **limits
    )


def troubles(random: Random, *, events: int, span: float) -> list[Action]:
    """What happens to them within *span* seconds: pods die, clusters are scaled and scaled back."""
    actions = []
    for _ in range(events):
        number, at = random.randrange(CLUSTERS), random.uniform(0, span)
        name = f"{PREFIX}-c{number}"
        # Of the first one only an autoscaler chooses workers to go, and this one has none to do so.
        if number == 0 or random.random() < 0.5:
            node_type = random.choice((HEAD, WORKER, WORKER))
            actions.append(Action(at, f"kill a pod of {name}", _Kill(name, node_type, random.random())))
        else:
            actions.append(Action(at, f"scale {name}", _Scale(name, random.randint(0, 6)), name))
    for number in range(CLUSTERS):
        name = f"{PREFIX}-c{number}"
        actions.append(Action(span, f"scale {name} back", _Scale(name, _WORKERS), name))
    return actions


class _Kill:
    def __init__(self, cluster: str, node_type: str, pick: float) -> None:
        self.cluster, self.node_type, self.pick = cluster, node_type, pick

    def __call__(self, world: SimWorld) -> None:
        pods = pods_of(world, self.cluster, LABEL_NODE_TYPE, self.node_type)
        if pods:
            world.server.delete(POD, NAMESPACE, pods[int(self.pick * len(pods))]["metadata"]["name"])


class _Scale:
    def __init__(self, cluster: str, replicas: int) -> None:
        self.cluster, self.replicas = cluster, replicas

    def __call__(self, world: SimWorld) -> None:
        found = world.server.peek(RAYCLUSTER, NAMESPACE, self.cluster)
        if found is None:
            raise APIError(404, "NotFound", f"{self.cluster} is gone")
        (group,) = found["spec"]["workerGroupSpecs"]
        change = {"spec": {"workerGroupSpecs": [{**group, "replicas": self.replicas}]}}
        world.server.patch(RAYCLUSTER, NAMESPACE, self.cluster, change)


def settled(world: SimWorld) -> bool:
    """Whether each of the RayClusters has the pods it is to have, and no others."""
    return all(
        len(world.server.objects(POD, NAMESPACE, f"{LABEL_CLUSTER}={PREFIX}-c{number}")) == 1 + _WORKERS
        for number in range(CLUSTERS)
    )
