"""RayClusters with Redis fault tolerance are deleted in every state: keys are cleaned up if there are any, the finalizer goes
last, and nothing takes longer than the deadline, wherever the operator is killed."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from boundaries import Kills
from kuberay.api.gates import DEFAULT_GATES
from kuberay.api.kinds import EVENT, JOB, POD, RAYCLUSTER
from kuberay.api.kinds import NAMESPACE as NAMESPACE_KIND
from kuberay.api.names import HEAD, LABEL_NODE_TYPE, REDIS_CLEANUP, REDIS_FINALIZER
from kuberay_testkit.builders import build_raycluster
from kuberay_testkit.sim.clock import run_sim
from kuberay_testkit.sim.faults import Faults
from kuberay_testkit.sim.operator import RayWorld, SimOperator, operator_rules
from kuberay_testkit.sim.podstatus import Wish
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.store import Change
from kuberay_testkit.sim.users import NAMESPACE

DEADLINE = 60.0
LATE = 10.0
"""How long after the deadline the object may be there while requests fail or the operator is restarted."""

JobEnd = Literal["Succeeded", "Failed", "Running"]
State = Literal["running", "starting", "never started", "suspended", "head lost"]


def node_type(body: dict[str, Any]) -> str:
    return str((body["metadata"].get("labels") or {}).get(LABEL_NODE_TYPE))


class FinalizerGuardsKeys:
    """No head that uses Redis exists in a cluster without the finalizer, and the finalizer goes only when the cleanup is
    over, hopeless or needless."""

    def __init__(self) -> None:
        self.jobs = 0
        self.job_ended = False
        self.released_at: float | None = None

    def __call__(self, server: SimServer, change: Change) -> None:
        stored = change.stored
        body = stored.copy()
        if stored.key.kind == POD and change.type == "ADDED" and node_type(body) == HEAD:
            owner = server.store.by_uid(body["metadata"]["ownerReferences"][0]["uid"])
            assert owner is not None
            assert REDIS_FINALIZER in (owner.metadata.get("finalizers") or ()), "a head without the finalizer"
            assert not owner.deleting, "a head of a cluster that is being deleted"
        if stored.key.kind == JOB:
            self.jobs += change.type == "ADDED"
            conditions = (body.get("status") or {}).get("conditions") or ()
            self.job_ended |= any(c["type"] in ("Complete", "Failed") and c["status"] == "True" for c in conditions)
        kept = change.type != "DELETED" and REDIS_FINALIZER in (body["metadata"].get("finalizers") or ())
        going = stored.deleting or change.type == "DELETED"
        if stored.key.kind == RAYCLUSTER and going and not kept and self.released_at is None:
            self.released_at = server.clock.elapsed()


@dataclass(frozen=True, slots=True)
class End:
    """What came of one story."""

    took: float
    jobs: int
    job_ended: bool
    warnings: tuple[str, ...]
    boundaries: int


def behaviour(state: State, job_end: JobEnd) -> Any:
    def behave(pod: dict[str, Any]) -> Wish | None:
        if node_type(pod) == REDIS_CLEANUP:
            return Wish(job_end, delay=4.0)
        if state == "never started":
            return Wish("Pending")
        return Wish(delay=30.0) if state == "starting" else None

    return behave


async def reach(world: RayWorld, state: State, wait: Callable[[], Awaitable[None]]) -> None:
    """The state in which the user deletes the cluster."""
    await wait()
    if state == "suspended":
        world.server.patch(RAYCLUSTER, NAMESPACE, "rc", {"spec": {"suspend": True}})
        await wait()
    elif state == "head lost":
        (head,) = [pod for pod in world.server.objects(POD, NAMESPACE) if node_type(pod) == HEAD]
        world.kubelet.lose(NAMESPACE, head["metadata"]["name"])


def story(
    state: State,
    job_end: JobEnd = "Succeeded",
    *,
    seed: int = 1,
    crash_at: int | None = None,
    faults: Faults | None = None,
    deadline: float = DEADLINE,
    conditions: bool = True,
    namespace_goes: bool = False,
    propagation: str = "",
) -> End:
    """A cluster reaches *state* and is deleted; the operator is killed at *crash_at* and comes back."""

    async def run() -> End:
        guard = FinalizerGuardsKeys()
        async with RayWorld(seed=seed, behave=behaviour(state, job_end), pod_grace=2.0, faults=faults) as world:
            world.always(guard)
            world.server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
            gates = {**DEFAULT_GATES, "RayClusterStatusConditions": conditions}
            operator = SimOperator(world=world, gates=gates)
            world.server.restrict(operator.name, operator_rules())
            process = operator.start(crash_at=crash_at)
            world.server.create(
                build_raycluster(
                    "rc",
                    namespace=NAMESPACE,
                    groups=2,
                    annotations={"ray.io/gcs-ft-deletion-timeout": str(int(deadline))},
                    gcsFaultToleranceOptions={"redisAddress": "redis:6379"},
                )
            )

            async def revive() -> None:
                if process.transport.crashed.is_set() and operator.process is process:
                    await operator.kill()
                    operator.start()

            async def gone() -> bool:
                await revive()
                return world.server.peek(RAYCLUSTER, NAMESPACE, "rc") is None

            async def wait() -> None:
                for _ in range(15 if faults is None else 60):
                    await world.pass_time(1)
                    await revive()

            await reach(world, state, wait)
            deleted = world.server.clock.elapsed()
            if namespace_goes:
                world.server.delete(NAMESPACE_KIND, "", NAMESPACE)
            else:
                world.server.delete(RAYCLUSTER, NAMESPACE, "rc", propagation=propagation)
            await world.until(gone, within=deadline + LATE, every=0.25, what="the end of the cluster")
            assert guard.released_at is not None
            took = guard.released_at - deleted
            await world.pass_time(5)
            assert not world.server.objects(JOB, NAMESPACE)
            told = {event["reason"] for event in world.server.objects(EVENT, NAMESPACE) if event["type"] == "Warning"}
            return End(took, guard.jobs, guard.job_ended, tuple(sorted(told)), process.transport.boundaries)

    return run_sim(run, seed=seed)


def check(end: End, state: State, job_end: JobEnd) -> None:
    """What must hold however the story was disturbed."""
    if state == "never started":
        assert end.jobs == 0
        assert not set(end.warnings) & {"RedisCleanupSkipped", "RedisCleanupFailed", "ForceDeletedStuckCluster"}
        assert end.took < LATE
    elif state == "head lost":
        assert end.jobs == 0
        assert end.took >= DEADLINE
    else:
        assert end.jobs == 1
        assert end.job_ended == (job_end != "Running")
        if job_end == "Running":
            assert end.took >= DEADLINE


@pytest.mark.parametrize(
    ("state", "job_end", "warnings"),
    [
        ("running", "Succeeded", ()),
        ("running", "Failed", ("RedisCleanupFailed",)),
        ("running", "Running", ("ForceDeletedStuckCluster",)),
        ("suspended", "Succeeded", ()),
        ("suspended", "Running", ("ForceDeletedStuckCluster",)),
        ("never started", "Running", ()),
        ("starting", "Running", ()),
        ("head lost", "Succeeded", ("ForceDeletedStuckCluster",)),
    ],
)
def test_it_ends_in_every_state(state: State, job_end: JobEnd, warnings: tuple[str, ...]) -> None:
    """RC-21: a head that never ran leaves nothing to clean; otherwise the end comes with the Job or with the deadline."""
    end = story(state, job_end)
    check(end, "never started" if state == "starting" else state, job_end)
    assert end.warnings == warnings
    if warnings == ("ForceDeletedStuckCluster",):
        assert end.took < DEADLINE + 1
    elif job_end == "Succeeded":
        assert end.took < 20


@pytest.mark.parametrize("state", ["running", "suspended", "never started", "head lost"])
def test_it_ends_without_conditions_in_the_status(state: State) -> None:
    check(story(state, "Succeeded", conditions=False), state, "Succeeded")


@pytest.mark.parametrize("state", ["running", "suspended", "never started"])
def test_deletion_in_the_foreground_is_cleaned_up_as_well(state: State) -> None:
    """The garbage collector deletes whatever the cluster owns; the Job is not among it, and not left behind either."""
    end = story(state, propagation="Foreground")
    check(end, state, "Succeeded")
    assert end.took < 20


def test_pods_that_are_orphaned_keep_their_keys() -> None:
    end = story("running", propagation="Orphan")
    assert (end.jobs, end.warnings) == (0, ())
    assert end.took < 5


def test_a_namespace_that_goes_is_not_held_up() -> None:
    """RC-25: no Job can be made any more; the finalizer goes with a Warning."""
    end = story("suspended", namespace_goes=True)
    assert end.took < 5


@pytest.mark.parametrize(
    ("reason", "code", "warning", "soonest", "latest"),
    [
        ("Invalid", 422, "RedisCleanupSkipped", 0.0, 10.0),
        ("Forbidden", 403, "ForceDeletedStuckCluster", DEADLINE, DEADLINE + 1),
    ],
)
def test_a_job_that_is_never_accepted(reason: str, code: int, warning: str, soonest: float, latest: float) -> None:
    """Back-off of the failing create does not outlast the deadline."""
    faults = Faults().add("refuse", code=code, reason=reason, verb="create", resource="jobs")
    end = story("running", faults=faults)
    assert end.jobs == 0
    assert end.warnings == tuple(sorted(("FailedToCreateRedisCleanupJob", warning)))
    assert soonest <= end.took < latest


def test_faults_delay_but_do_not_change_the_end(seed: int) -> None:
    states: list[State] = ["running", "suspended", "never started"]
    ends: list[JobEnd] = ["Succeeded", "Failed", "Running"]
    state, job_end = states[seed % 3], ends[seed // 3 % 3]
    faults = Faults.mixture(seed, intensity=0.15, client="operator")
    # A watch that went silent is noticed after a minute.
    check(story(state, job_end, seed=seed, faults=faults, deadline=200.0), state, job_end)


def test_a_settled_cluster_costs_no_request() -> None:
    async def run() -> None:
        async with RayWorld(seed=1) as world:
            operator = SimOperator(world=world)
            operator.start()
            options = {"redisAddress": "redis:6379"}
            world.server.create(build_raycluster("rc", namespace=NAMESPACE, gcsFaultToleranceOptions=options))
            await world.rest(quiet=30)
            assert [str(call) for call in await operator.idle_calls()] == []

    run_sim(run, seed=1)


@functools.cache
def boundaries(state: State) -> int:
    return story(state).boundaries


@pytest.mark.parametrize("state", ["running", "never started", "suspended"])
def test_killed_at_any_boundary_it_ends_the_same(state: State, kills: Kills) -> None:
    """By default only a part of all of them."""
    for boundary in kills(boundaries(state)):
        end = story(state, crash_at=boundary)
        try:
            check(end, state, "Succeeded")
        except AssertionError as error:
            error.add_note(f"killed at boundary {boundary}: {end}")
            raise
