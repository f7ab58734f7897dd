"""How workers leave that the operator chose itself: marked, drained through Ray, within a deadline, and never two for one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from kuberay.api.names import ANNOTATION_DRAIN_TIMEOUT, ANNOTATION_DRAINING_SINCE
from kuberay.plan.config import PlanConfig
from kuberay.plan.model import AuthSecret, Delete, DrainProbe, Patch, Plan, ProbeResult


def scale(tiny: Any, replicas: int, **fields: Any) -> None:
    tiny.edit(lambda spec: spec["workerGroupSpecs"][0].update(replicas=replicas, **fields))


def settled(kubernetes: Any, body: Any, **options: Any) -> Any:
    """A cluster that is up, and whose workers are busy from now on."""
    tiny = kubernetes(body, **options)
    tiny.settle()
    tiny.drain = lambda name: "draining"
    tiny.writes.clear()
    return tiny


def marked(tiny: Any) -> list[str]:
    return sorted(n for n, b in tiny.pods.items() if ANNOTATION_DRAINING_SINCE in b["metadata"].get("annotations", {}))


def deleted(tiny: Any) -> list[str]:
    return sorted(write.name for write in tiny.writes if isinstance(write, Delete))


def note(tiny: Any) -> str:
    (told,) = {event.note for event in tiny.events if event.reason == "DeletedWorkerPod"}
    return str(told)


def probe_of(plan: Plan) -> DrainProbe:
    (probe,) = [probe for probe in plan.probes if isinstance(probe, DrainProbe)]
    return probe


def test_a_surplus_worker_is_marked_then_asked_for_then_deleted(kubernetes: Any, cluster: Any) -> None:
    tiny = settled(kubernetes, cluster())
    scale(tiny, 2)
    plan = tiny.reconcile()
    (victim,) = marked(tiny)
    assert [type(write) for write in tiny.writes] == [Patch]
    assert tiny.writes[0].body["metadata"]["uid"] == tiny.pods[victim]["metadata"]["uid"]
    probe = probe_of(plan)
    assert (probe.host, probe.port, probe.auth) == (tiny.head["status"]["podIP"], 6379, None)
    assert [(pod.name, pod.ip) for pod in probe.pods] == [(victim, tiny.pods[victim]["status"]["podIP"])]
    assert plan.requeue_after == timedelta(seconds=30) == probe.pods[0].deadline - tiny.now
    assert "workers being drained: 1" in plan.waiting
    tiny.now += timedelta(seconds=5)
    assert probe_of(tiny.reconcile()) == probe, "the same question goes on"
    tiny.drain = lambda name: "drained"
    plan = tiny.reconcile()
    assert deleted(tiny) == [victim]
    assert note(tiny) == f"Deleted Pod default/{victim}"
    assert plan.probes == []
    assert len(tiny.workers) == 2


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("refused", "it was not drained, because Ray refused to"),
        ("draining", "it was still in use 30 s after draining began"),
    ],
)
def test_a_worker_that_is_not_drained_goes_all_the_same(kubernetes: Any, cluster: Any, answer: str, told: str) -> None:
    tiny = settled(kubernetes, cluster())
    tiny.drain = lambda name: answer
    scale(tiny, 2)
    tiny.reconcile()
    (victim,) = marked(tiny) or deleted(tiny)
    tiny.now += timedelta(seconds=30)
    tiny.reconcile()
    assert deleted(tiny) == [victim]
    assert note(tiny) == f"Deleted Pod default/{victim} ({told})"


@pytest.mark.parametrize("seconds", [29, 30])
def test_the_deadline_is_counted_from_the_annotation(kubernetes: Any, cluster: Any, seconds: int) -> None:
    tiny = settled(kubernetes, cluster())
    scale(tiny, 2)
    tiny.reconcile()
    tiny.now += timedelta(seconds=seconds)
    tiny.reconcile()
    assert len(deleted(tiny)) == (seconds == 30)


def failing(tiny: Any, *, tries: int, **value: Any) -> ProbeResult:
    return ProbeResult("error", tiny.now + timedelta(seconds=tries - 1), value, "no route", failing_since=tiny.now)


def test_an_operators_clock_that_is_behind_marks_once(kubernetes: Any, cluster: Any) -> None:
    """A time before the pod was made would count as none, and be written again and again."""
    tiny = settled(kubernetes, cluster())
    tiny.now -= timedelta(minutes=5)
    scale(tiny, 2)
    for _ in range(3):
        tiny.reconcile()
        tiny.now += timedelta(seconds=2)
    assert [type(write) for write in tiny.writes] == [Patch]


def test_a_head_that_does_not_answer_is_asked_twice(kubernetes: Any, cluster: Any) -> None:
    tiny = settled(kubernetes, cluster())
    tiny.drain = None
    scale(tiny, 2)
    tiny.reconcile()
    tiny.drain_answer = failing(tiny, tries=1)
    tiny.reconcile()
    assert deleted(tiny) == []
    tiny.drain_answer = failing(tiny, tries=2)
    tiny.reconcile()
    assert len(deleted(tiny)) == 1


def test_a_head_that_took_the_request_need_not_answer_any_more(kubernetes: Any, cluster: Any) -> None:
    tiny = settled(kubernetes, cluster())
    scale(tiny, 2)
    tiny.reconcile()
    (victim,) = marked(tiny)
    tiny.drain_answer = failing(tiny, tries=5, **{tiny.pods[victim]["metadata"]["uid"]: "draining"})
    tiny.reconcile()
    assert deleted(tiny) == []


def test_a_draining_worker_no_longer_counts(kubernetes: Any, cluster: Any) -> None:
    tiny = settled(kubernetes, cluster())
    before = set(tiny.workers)
    scale(tiny, 2)
    tiny.reconcile()
    (victim,) = marked(tiny)
    scale(tiny, 3)
    tiny.settle()
    assert len(tiny.workers) == 4
    assert marked(tiny) == [victim]
    (new,) = set(tiny.workers) - before
    labels = [tiny.workers[name]["metadata"]["labels"]["ray.io/worker-group-replica-index"] for name in (victim, new)]
    assert labels == ["2", "3"], "two living workers never share an index"
    tiny.drain = lambda name: "drained"
    tiny.settle()
    assert deleted(tiny) == [victim]
    assert set(tiny.workers) == (before - {victim}) | {new}


@pytest.mark.parametrize("terminating", [False, True])
def test_scaling_down_further_takes_only_one_more(kubernetes: Any, cluster: Any, terminating: bool) -> None:
    tiny = settled(kubernetes, cluster())
    scale(tiny, 2)
    tiny.reconcile()
    (first,) = marked(tiny)
    if terminating:
        tiny.keep_terminating = True
        tiny.now += timedelta(seconds=30)
        tiny.reconcile()
        assert deleted(tiny) == [first]
    # Had it not been marked, another one would be the first to go now.
    other = next(name for name in sorted(tiny.workers) if name != first)
    tiny.set_pod(other, phase="Pending", ready=False)
    tiny.reconcile()
    assert marked(tiny) == [first]
    assert deleted(tiny) == ([first] if terminating else [])
    scale(tiny, 1)
    tiny.reconcile()
    assert deleted(tiny) == sorted([*([first] if terminating else []), other])


def no_timeout(tiny: Any) -> None:
    tiny.cluster["metadata"]["annotations"] = {ANNOTATION_DRAIN_TIMEOUT: "0"}


def no_ready_workers(tiny: Any) -> None:
    for name in tiny.workers:
        tiny.set_pod(name, phase="Running", ready=False)


def no_ready_head(tiny: Any) -> None:
    tiny.set_pod(tiny.head["metadata"]["name"], phase="Running", ready=False)


def no_running_head(tiny: Any) -> None:
    tiny.set_pod(tiny.head["metadata"]["name"], phase="Pending")


@pytest.mark.parametrize("make", [no_timeout, no_ready_workers, no_ready_head, no_running_head])
def test_where_nothing_can_be_drained_workers_go_at_once(
    kubernetes: Any, cluster: Any, make: Callable[[Any], None]
) -> None:
    tiny = settled(kubernetes, cluster())
    make(tiny)
    scale(tiny, 2)
    tiny.reconcile()
    assert len(deleted(tiny)) == 1
    assert not any(isinstance(write, Patch) for write in tiny.writes)


def test_with_tls_workers_go_at_once_and_it_is_told(kubernetes: Any, cluster: Any) -> None:
    body = cluster()
    container = body["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "RAY_USE_TLS", "value": "1"}]
    tiny = settled(kubernetes, body)
    scale(tiny, 2)
    tiny.reconcile()
    assert len(deleted(tiny)) == 1
    assert note(tiny).endswith("(it was not drained, because Ray asks for TLS certificates)")


def test_named_unhealthy_and_suspended_workers_are_not_drained(kubernetes: Any, cluster: Any, group: Any) -> None:
    tiny = settled(kubernetes, cluster(groups=[group(), group("other")]))
    named, failed, *_ = (name for name in sorted(tiny.workers) if "crew" in name)
    tiny.set_pod(failed, phase="Failed")

    def change(spec: Any) -> None:
        spec["workerGroupSpecs"][0]["scaleStrategy"] = {"workersToDelete": [named]}
        spec["workerGroupSpecs"][1]["suspend"] = True

    tiny.edit(change)
    tiny.reconcile()
    assert len(deleted(tiny)) == 5
    assert marked(tiny) == []


@pytest.mark.parametrize("what", ["failed", "named"])
def test_draining_ends_when_the_worker_ends_or_is_named(kubernetes: Any, cluster: Any, what: str) -> None:
    tiny = settled(kubernetes, cluster())
    scale(tiny, 2)
    tiny.reconcile()
    (victim,) = marked(tiny)
    if what == "failed":
        tiny.set_pod(victim, phase="Failed")
    else:
        scale(tiny, 2, scaleStrategy={"workersToDelete": [victim]})
    tiny.reconcile()
    assert deleted(tiny) == [victim]
    assert len(tiny.workers) == 2


def test_a_removed_group_is_drained(kubernetes: Any, cluster: Any, group: Any) -> None:
    """RC-03: pods of a group that left the spec go, after Ray has drained them, and the cluster says so meanwhile."""
    tiny = settled(kubernetes, cluster(groups=[group(), group("gone", 2), group("hosts", 1, numOfHosts=2)]))
    tiny.edit(lambda spec: spec["workerGroupSpecs"].pop(1))
    tiny.edit(lambda spec: spec["workerGroupSpecs"].pop(1))
    tiny.reconcile()
    leaving = marked(tiny)
    assert len(leaving) == 4
    assert all("gone" in name or "hosts" in name for name in leaving)
    condition = tiny.condition("WorkerGroupRemoved")
    assert condition is not None
    assert "gone" in condition["message"]
    one_host = next(name for name in leaving if "hosts" in name)
    tiny.drain = lambda name: "drained" if "gone" in name or name == one_host else "draining"
    tiny.settle()
    assert len(deleted(tiny)) == 2, "the hosts of a replica leave together"
    tiny.now += timedelta(seconds=30)
    tiny.settle()
    assert deleted(tiny) == leaving
    assert tiny.condition("WorkerGroupRemoved") is None
    assert len(tiny.workers) == 3
    assert tiny.status["state"] == "ready"


def test_hosts_of_a_replica_are_drained_together(kubernetes: Any, cluster: Any, group: Any) -> None:
    tiny = settled(kubernetes, cluster(groups=[group(replicas=2, numOfHosts=2)]))
    scale(tiny, 1)
    plan = tiny.reconcile()
    leaving = marked(tiny)
    assert len(leaving) == 2
    assert len({tiny.pods[n]["metadata"]["labels"]["ray.io/worker-group-replica-name"] for n in leaving}) == 1
    assert [pod.name for pod in probe_of(plan).pods] == leaving
    tiny.drain = lambda name: "drained" if name == leaving[0] else "draining"
    tiny.settle()
    assert deleted(tiny) == []
    scale(tiny, 2)
    tiny.settle()
    assert len(tiny.workers) == 6, "a new replica comes, and the old one still goes"
    assert marked(tiny) == leaving
    tiny.drain = lambda name: "drained"
    tiny.settle()
    assert deleted(tiny) == leaving
    indices = [pod["metadata"]["labels"]["ray.io/worker-group-replica-index"] for pod in tiny.workers.values()]
    assert sorted(indices) == ["0", "0", "2", "2"]


def test_how_long_is_the_annotations_before_the_settings(kubernetes: Any, cluster: Any) -> None:
    body = cluster()
    body["metadata"]["annotations"] = {ANNOTATION_DRAIN_TIMEOUT: "600"}
    tiny = settled(kubernetes, body, config=PlanConfig(drain_timeout=timedelta(0)))
    scale(tiny, 2)
    plan = tiny.reconcile()
    assert probe_of(plan).pods[0].deadline - tiny.now == timedelta(minutes=10)


def test_port_and_token_of_the_gcs(kubernetes: Any, cluster: Any) -> None:
    body = cluster(authOptions={"mode": "token"})
    body["spec"]["headGroupSpec"]["rayStartParams"] = {"port": "7000"}
    tiny = settled(kubernetes, body)
    scale(tiny, 2)
    probe = probe_of(tiny.reconcile())
    assert (probe.port, probe.auth) == (7000, AuthSecret("default", "pair", "auth_token"))


@pytest.mark.parametrize("text", ["2020-01-01T00:00:00Z", "soon", ""])
def test_an_annotation_that_came_with_the_template_marks_nothing(kubernetes: Any, cluster: Any, text: str) -> None:
    body = cluster()
    template = body["spec"]["workerGroupSpecs"][0]["template"]
    template["metadata"] = {"annotations": {ANNOTATION_DRAINING_SINCE: text}}
    tiny = settled(kubernetes, body)
    assert len(tiny.workers) == 3
    assert deleted(tiny) == []


def test_somebody_can_have_a_worker_drained_and_replaced(kubernetes: Any, cluster: Any) -> None:
    tiny = settled(kubernetes, cluster())
    name = sorted(tiny.workers)[0]
    annotations = tiny.pods[name]["metadata"].setdefault("annotations", {})
    annotations[ANNOTATION_DRAINING_SINCE] = tiny.now.isoformat()
    tiny.settle()
    assert len(tiny.workers) == 4
    tiny.drain = lambda name: "drained"
    tiny.settle()
    assert deleted(tiny) == [name]
    assert len(tiny.workers) == 3


def test_a_mark_that_cannot_be_written_is_told_like_a_deletion_that_fails(kubernetes: Any, cluster: Any) -> None:
    tiny = settled(kubernetes, cluster())
    tiny.refuse = lambda write: "pods is forbidden" if isinstance(write, Patch) else ""
    scale(tiny, 2)
    tiny.reconcile()
    assert deleted(tiny) == []
    assert tiny.condition("ReplicaFailure")["reason"] == "FailedDeleteWorkerPod"
    (event,) = [event for event in tiny.events if event.reason == "FailedToDeleteWorkerPod"]
    assert event.note.endswith("pods is forbidden")
