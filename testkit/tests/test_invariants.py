"""Each invariant can fail: a deliberately wrong operator breaks it, and a right one does not."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kuberay.api.kinds import JOB, POD, RAYCLUSTER, RAYJOB, SERVICE
from kuberay.api.names import HEAD, HEAD_GROUP, LABEL_GROUP, LABEL_NODE_TYPE, LABEL_REPLICA_NAME, WORKER
from kuberay_testkit.builders import build_group, build_pod_template, build_raycluster, build_rayjob
from kuberay_testkit.sim import invariants
from kuberay_testkit.sim.cluster_facts import SpecHistory
from kuberay_testkit.sim.deletion_rules import JustifiedDeletions, OnlyItsOwn, finalizer_last
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.status_rules import SteadyStatus
from kuberay_testkit.sim.world import Invariant

OPERATORS = ("operator",)
FINALIZER = "ray.io/some-finalizer"


class Lab:
    """A server watched by rules. What is done inside `operator` an operator does."""

    def __init__(self) -> None:
        self.server = SimServer()
        self.history = SpecHistory(5.0)
        self.watch(self.history)

    def watch(self, *rules: Invariant) -> None:
        for rule in rules:
            self.server.store.listen(lambda change, rule=rule: rule(self.server, change))  # type: ignore[misc]

    @contextlib.contextmanager
    def operator(self) -> Iterator[SimServer]:
        self.server.acting = "operator"
        try:
            yield self.server
        finally:
            self.server.acting = ""

    def cluster(self, *groups: dict[str, Any], **spec: Any) -> dict[str, Any]:
        return self.server.create(build_raycluster("rc", groups=list(groups) or 1, **spec))

    def edit(self, **spec: Any) -> None:
        """After which what was wanted before is long forgotten."""
        self.server.patch(RAYCLUSTER, "default", "rc", {"spec": spec})
        self.server.clock.elapsed = lambda: 1000.0  # type: ignore[method-assign]
        self.server.patch(RAYCLUSTER, "default", "rc", {"spec": {"rayVersion": "9.9.9"}})
        self.server.clock.elapsed = lambda: 2000.0  # type: ignore[method-assign]

    def pod(
        self, name: str, owner: dict[str, Any] | None, group: str = "workers", replica: str = "", **spec: Any
    ) -> dict[str, Any]:
        labels = {LABEL_GROUP: group, LABEL_NODE_TYPE: HEAD if group == HEAD_GROUP else WORKER}
        if replica:
            labels[LABEL_REPLICA_NAME] = replica
        metadata: dict[str, Any] = {"name": name, "labels": labels}
        if owner is not None:
            metadata["ownerReferences"] = [reference(owner)]
        with self.operator() as server:
            return server.create(
                {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, **build_pod_template(**spec)}
            )

    def delete(self, name: str) -> None:
        with self.operator() as server:
            server.delete(POD, "default", name)

    def status(self, **status: Any) -> None:
        with self.operator() as server:
            server.set_status(RAYCLUSTER, "default", "rc", status)


def reference(owner: dict[str, Any]) -> dict[str, Any]:
    metadata = owner["metadata"]
    named = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"], "uid": metadata["uid"]}
    return {**named, "controller": True}


def condition(kind: str, value: str, time: str) -> dict[str, str]:
    return {"type": kind, "status": value, "lastTransitionTime": time, "reason": "", "message": ""}


@pytest.fixture
def lab() -> Lab:
    return Lab()


def test_two_heads(lab: Lab) -> None:
    lab.watch(invariants.one_head)
    owner = lab.cluster()
    lab.pod("one", owner, HEAD_GROUP)
    lab.server.set_status(POD, "default", "one", {"phase": "Failed"})
    lab.pod("two", owner, HEAD_GROUP)
    with pytest.raises(AssertionError, match=r"two live head pods: .*three"):
        lab.pod("three", owner, HEAD_GROUP)


def test_a_new_head_while_the_old_one_is_still_terminating(lab: Lab) -> None:
    lab.server.pod_grace = 30
    lab.watch(invariants.one_head)
    owner = lab.cluster()
    lab.pod("one", owner, HEAD_GROUP)
    lab.delete("one")
    with pytest.raises(AssertionError, match="two live head pods"):
        lab.pod("two", owner, HEAD_GROUP)


def test_more_pods_than_wanted(lab: Lab) -> None:
    lab.watch(invariants.PodBudget(lab.history))
    owner = lab.cluster(build_group("workers", 2))
    lab.pod("one", owner)
    lab.pod("two", owner)
    with pytest.raises(AssertionError, match="3 live pods in group workers, where at most 2"):
        lab.pod("three", owner)


def test_pods_of_a_former_spec_are_wanted_for_a_while_only(lab: Lab) -> None:
    lab.watch(invariants.PodBudget(lab.history))
    owner = lab.cluster(build_group("workers", 1))
    lab.server.patch(RAYCLUSTER, "default", "rc", {"spec": {"workerGroupSpecs": [build_group("workers", 0)]}})
    lab.pod("one", owner)
    lab.delete("one")
    lab.edit(workerGroupSpecs=[build_group("workers", 0)])
    with pytest.raises(AssertionError, match="at most 0"):
        lab.pod("two", owner)


def test_two_clusters_of_one_job(lab: Lab) -> None:
    lab.watch(invariants.one_cluster_per_job)
    job = lab.server.create(build_rayjob("job"))
    for name in "ab":
        manifest = build_raycluster(name)
        manifest["metadata"]["ownerReferences"] = [reference(job)]
        if name == "a":
            lab.server.create(manifest)
    with pytest.raises(AssertionError, match="two live clusters of RayJob job"):
        lab.server.create(manifest)


def _submitter_job(lab: Lab) -> dict[str, Any]:
    job = lab.server.create(build_rayjob("job"))
    lab.server.set_status(RAYJOB, "default", "job", {"jobId": "1"})
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "job", "ownerReferences": [reference(job)]},
        "spec": {"template": {"spec": {**build_pod_template()["spec"], "restartPolicy": "Never"}}},
    }


def test_a_second_submitter(lab: Lab) -> None:
    lab.watch(invariants.OneSubmitter(OPERATORS))
    manifest = _submitter_job(lab)
    with lab.operator() as server:
        server.create(manifest)
        server.delete(JOB, "default", "job", propagation="Background")
        with pytest.raises(AssertionError, match="a second submitter of RayJob job for job 1"):
            server.create(manifest)


def test_a_submitter_in_place_of_one_that_somebody_else_deleted(lab: Lab) -> None:
    lab.watch(invariants.OneSubmitter(OPERATORS))
    manifest = _submitter_job(lab)
    with lab.operator() as server:
        server.create(manifest)
    lab.server.delete(JOB, "default", "job", propagation="Background")
    with lab.operator() as server:
        server.create(manifest)


def test_touching_what_belongs_to_others(lab: Lab) -> None:
    lab.watch(OnlyItsOwn(OPERATORS))
    owner = lab.cluster()
    lab.pod("ours", owner)
    lab.delete("ours")
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "theirs"}, "spec": {"ports": [{"port": 1}]}}
    lab.server.create(service)
    with lab.operator() as server, pytest.raises(AssertionError, match=r"touched .*theirs.* nobody"):
        server.patch(SERVICE, "default", "theirs", {"metadata": {"labels": {"a": "b"}}})
    stranger = {**owner, "metadata": {**owner["metadata"], "uid": "another-cluster-of-that-name"}}
    with pytest.raises(AssertionError, match="belongs to another-cluster-of-that-name"):
        lab.pod("foreign", stranger)


REASONS: dict[str, Callable[[Lab], object]] = {
    "fewer wanted": lambda lab: lab.edit(workerGroupSpecs=[build_group("workers", 1)]),
    "group removed": lambda lab: lab.edit(workerGroupSpecs=[]),
    "group suspended": lambda lab: lab.edit(workerGroupSpecs=[build_group("workers", 2, suspend=True)]),
    "suspended": lambda lab: lab.edit(suspend=True),
    "named": lambda lab: lab.edit(
        workerGroupSpecs=[build_group("workers", 2, scaleStrategy={"workersToDelete": ["two", "nobody"]})]
    ),
    "failed": lambda lab: lab.server.set_status(POD, "default", "two", {"phase": "Failed"}),
    "cluster deleted": lambda lab: lab.server.delete(RAYCLUSTER, "default", "rc"),
    "recreate": lambda lab: lab.edit(
        upgradeStrategy={"type": "Recreate"}, headGroupSpec={"rayStartParams": {"a": "b"}}
    ),
}
NO_REASONS: dict[str, Callable[[Lab], object]] = {
    "nothing": lambda lab: None,
    "more wanted": lambda lab: lab.edit(workerGroupSpecs=[build_group("workers", 3)]),
    "another is named": lambda lab: lab.edit(
        workerGroupSpecs=[build_group("workers", 2, scaleStrategy={"workersToDelete": ["one"]})]
    ),
    "fewer wanted, and an autoscaler chooses": lambda lab: lab.edit(
        enableInTreeAutoscaling=True, workerGroupSpecs=[build_group("workers", 1)]
    ),
    "a spec that is refused": lambda lab: lab.edit(
        workerGroupSpecs=[build_group("workers", 0, minReplicas=5, maxReplicas=1)]
    ),
    "a spec with a group twice": lambda lab: lab.edit(workerGroupSpecs=[build_group("other", 0)] * 2),
    "another spec without a strategy": lambda lab: lab.edit(headGroupSpec={"rayStartParams": {"a": "b"}}),
    "not ready": lambda lab: lab.server.set_status(POD, "default", "two", {"phase": "Running"}),
    "another of its group failed": lambda lab: lab.server.set_status(POD, "default", "one", {"phase": "Failed"}),
}


@pytest.mark.parametrize("reason", REASONS)
def test_a_deletion_with_a_reason(lab: Lab, reason: str) -> None:
    two_workers(lab)
    REASONS[reason](lab)
    lab.delete("two")


@pytest.mark.parametrize("reason", NO_REASONS)
def test_a_deletion_without_a_reason(lab: Lab, reason: str) -> None:
    """Among others: an edit that is refused leaves the pods alone, and lower replicas name nobody (AS-01)."""
    two_workers(lab)
    NO_REASONS[reason](lab)
    with pytest.raises(AssertionError, match="deleted the healthy pod two"):
        lab.delete("two")


def two_workers(lab: Lab) -> None:
    lab.watch(JustifiedDeletions(OPERATORS, lab.history))
    owner = lab.cluster(build_group("workers", 2))
    lab.pod("one", owner)
    lab.pod("two", owner)


def test_users_may_delete_what_they_like(lab: Lab) -> None:
    two_workers(lab)
    lab.server.delete(POD, "default", "two")


def test_one_more_deletion_than_was_wanted(lab: Lab) -> None:
    """What others deleted a moment ago may not have been seen yet; what was deleted long ago must have been."""
    two_workers(lab)
    lab.edit(workerGroupSpecs=[build_group("workers", 1)])
    lab.delete("two")
    lab.server.clock.elapsed = lambda: 3000.0  # type: ignore[method-assign]
    with pytest.raises(AssertionError, match="deleted the healthy pod one"):
        lab.delete("one")


def test_the_hosts_of_a_replica_go_together_and_alone_they_stay(lab: Lab) -> None:
    lab.watch(JustifiedDeletions(OPERATORS, lab.history))
    owner = lab.cluster(build_group("workers", 2, numOfHosts=2))
    for name, replica in (("a0", "a"), ("a1", "a"), ("b0", "b"), ("b1", "b")):
        lab.pod(name, owner, replica=replica)
    lab.server.set_status(POD, "default", "a0", {"phase": "Failed"})
    lab.delete("a1")
    with pytest.raises(AssertionError, match="deleted the healthy pod b0"):
        lab.delete("b0")


def test_a_container_that_ended_is_a_reason_only_where_nothing_restarts_it(lab: Lab) -> None:
    lab.watch(JustifiedDeletions(OPERATORS, lab.history))
    owner = lab.cluster(build_group("workers", 2))
    for name, policy in (("never", "Never"), ("always", "Always")):
        lab.pod(name, owner, restartPolicy=policy)
        ended = {"name": "ray-worker", "state": {"terminated": {"exitCode": 1}}}
        lab.server.set_status(POD, "default", name, {"phase": "Running", "containerStatuses": [ended]})
    lab.delete("never")
    lab.server.clock.elapsed = lambda: 3000.0  # type: ignore[method-assign]
    with pytest.raises(AssertionError, match="deleted the healthy pod always"):
        lab.delete("always")


STATUSES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "observedGeneration went back": ({"observedGeneration": 1}, {"observedGeneration": 0}),
    "is ahead of generation": ({}, {"observedGeneration": 7}),
    "lastTransitionTime moved": (
        {"conditions": [condition("Ready", "True", "2026-01-01T00:00:01Z")]},
        {"conditions": [condition("Ready", "True", "2026-01-01T00:00:02Z")]},
    ),
    "lastTransitionTime of Ready went back": (
        {"conditions": [condition("Ready", "True", "2026-01-01T00:00:02Z")]},
        {"conditions": [condition("Ready", "False", "2026-01-01T00:00:01Z")]},
    ),
    "suspending and suspended at once": (
        {},
        {
            "conditions": [
                condition(f"RayCluster{kind}", "True", "2026-01-01T00:00:02Z") for kind in ("Suspending", "Suspended")
            ]
        },
    ),
    "a condition is there twice": ({}, {"conditions": [condition("Ready", "True", "2026-01-01T00:00:02Z")] * 2}),
}


@pytest.mark.parametrize("wrong", STATUSES)
def test_a_status_that_is_wrong(lab: Lab, wrong: str) -> None:
    """Among others RC-14: never suspending and suspended at once."""
    lab.watch(SteadyStatus())
    lab.cluster()
    before, after = STATUSES[wrong]
    lab.status(**before)
    with pytest.raises(AssertionError, match=wrong):
        lab.status(**after)


def test_a_finalizer_that_goes_while_pods_still_run(lab: Lab) -> None:
    lab.watch(finalizer_last)
    manifest = build_raycluster("rc")
    manifest["metadata"]["finalizers"] = [FINALIZER, "example.com/other"]
    owner = lab.server.create(manifest)
    lab.pod("head", owner, HEAD_GROUP)
    lab.server.set_status(POD, "default", "head", {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"})
    lab.server.delete(RAYCLUSTER, "default", "rc")
    drop = {"metadata": {"finalizers": ["example.com/other"]}}
    with lab.operator() as server, pytest.raises(AssertionError, match=r"the finalizer .* went while head still ran"):
        server.patch(RAYCLUSTER, "default", "rc", drop)


def test_a_finalizer_that_goes_last(lab: Lab) -> None:
    lab.watch(finalizer_last)
    manifest = build_raycluster("rc")
    manifest["metadata"]["finalizers"] = [FINALIZER]
    owner = lab.server.create(manifest)
    lab.pod("head", owner, HEAD_GROUP)
    lab.server.delete(RAYCLUSTER, "default", "rc")
    lab.delete("head")
    with lab.operator() as server:
        server.patch(RAYCLUSTER, "default", "rc", {"metadata": {"finalizers": None}})
    assert lab.server.peek(RAYCLUSTER, "default", "rc") is None
