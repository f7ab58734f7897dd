"""The pods a RayCluster should have, and the writes that make those that are missing.

Source: spec raycluster.md 4.4-4.6 and 7; hooks/spec.py for what a failing plugin means for the pod it failed on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from kuberay.api.conditions import ClusterReason
from kuberay.api.kinds import POD
from kuberay.api.names import HEAD
from kuberay.hooks.calls import PluginFailure
from kuberay.hooks.types import GroupSize
from kuberay.plan.build.pods import PodFactory, PodPlace
from kuberay.plan.cluster.deletions import failure, tell_once
from kuberay.plan.cluster.head import fresh_head_name, head_place
from kuberay.plan.cluster.pod_decision import ClusterPass, PodDecision
from kuberay.plan.cluster.replica_labels import worker_place, worker_prefix
from kuberay.plan.model import Create, Event, ExpectedPod, Stage


def expected_pods(decision: PodDecision, factory: PodFactory, groups: Sequence[GroupSize]) -> list[ExpectedPod]:
    """Head first, then groups in spec order. Manifests are only built when asked for."""
    order: dict[str, int] = {}
    requests: dict[str, Mapping[str, str]] = {}
    for number, group in enumerate(groups):
        order.setdefault(group.name, number)
        requests.setdefault(group.name, group.requests)
    places = [(place, True) for place, _ in decision.keep] + [(place, False) for place in decision.create]
    places.sort(key=lambda item: (order[item[0].group_name], item[0].replica_index or 0, item[0].host_index or 0))
    return [
        ExpectedPod(
            group=place.group_name,
            node_type=place.node_type,
            replica_index=place.replica_index or 0,
            host_index=place.host_index or 0,
            name=place.name,
            exists=exists,
            resources=dict(requests[place.group_name]),
            build=partial(_manifest, factory, place),
        )
        for place, exists in places
    ]


def _manifest(factory: PodFactory, place: PodPlace) -> dict[str, Any]:
    return factory.build(place).pod


def try_out(cluster: ClusterPass, factory: PodFactory) -> list[PluginFailure]:
    """Failures of plugins on one pod of each group, for when all that run are to be given up for new ones."""
    failures: list[PluginFailure] = []
    groups = [group for group in cluster.form.spec.worker_group_specs if cluster.desired_replicas(group)]
    places = [head_place(cluster, fresh_head_name(cluster))]
    for group in groups:
        name = cluster.namer.pod(worker_prefix(cluster.name, group), group.group_name, 0, 0)
        if group.num_of_hosts > 1 and cluster.indexed:
            replica = cluster.namer.replica(group.group_name, 0, ())
            places.append(worker_place(cluster.name, group, name, 0, host=0, replica=replica))
        else:
            places.append(worker_place(cluster.name, group, name, 0 if cluster.indexed else None))
    for place in places:
        failures += factory.build(place).failures
    return failures


class PodCreation:
    """Builds the pods that are made in this pass and remembers what plugins did to them."""

    def __init__(self, cluster: ClusterPass, factory: PodFactory) -> None:
        self._cluster = cluster
        self._factory = factory
        self.failures: list[PluginFailure] = []
        self.changes: dict[str, list[str]] = {}

    def stages(self, places: Sequence[PodPlace]) -> list[Stage]:
        """The head, then all workers. A pod on which a plugin failed is left out."""
        heads: Stage = []
        workers: Stage = []
        for place in places:
            create = self._create(place)
            if create is not None:
                (heads if place.node_type == HEAD else workers).append(create)
        return [heads, tell_once(workers)]

    def _create(self, place: PodPlace) -> Create | None:
        built = self._factory.build(place)
        for plugin, paths in built.changes.items():
            known = self.changes.setdefault(plugin, [])
            known += [path for path in paths if path not in known]
        if built.failures:
            self.failures += built.failures
            return None
        namespace = self._cluster.namespace
        if place.node_type == HEAD:
            done = Event("CreatedHeadPod", f"Created head Pod {namespace}/{place.name}", action="Create")
            # A name that was only just thought up is of no use to anybody; KubeRay's API server had not given one yet.
            name = "" if place.generate_name and place.name.startswith(place.generate_name) else place.name
            failed = failure("FailedToCreateHeadPod", f"Failed to create head Pod {namespace}/{name}", "Create")
            marker = ClusterReason.FAILED_CREATE_HEAD_POD
        else:
            done = Event("CreatedWorkerPod", f"Created worker Pod {namespace}/{place.name}", action="Create")
            note = f"Failed to create worker Pod for the cluster {self._cluster.place}"
            failed = failure("FailedToCreateWorkerPod", note, "Create")
            marker = ClusterReason.FAILED_CREATE_WORKER_POD
        return Create(
            kind=POD, namespace=namespace, name=place.name, body=built.pod, done=done, failed=failed, marker=marker
        )
