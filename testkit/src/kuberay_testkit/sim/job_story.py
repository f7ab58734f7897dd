"""What people, failing nodes and failing dashboards do to one RayJob, as seeded actions.

What the jobs do is part of the story (`fate_of`); what must come of it, `JobRules` says. Only of an undisturbed story the end is
known beforehand (`end`).
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from kuberay.api.kinds import JOB, POD, RAYCLUSTER, RAYJOB, SERVICE
from kuberay.api.names import HEAD, LABEL_CLUSTER, LABEL_NODE_TYPE, WORKER

from kuberay_testkit.builders import build_raycluster, build_rayjob
from kuberay_testkit.sim.heads_world import OUTCOMES, SECONDS, HeadsWorld
from kuberay_testkit.sim.jobs import JOB_NAME
from kuberay_testkit.sim.object_story import ObjectStory, hit_one
from kuberay_testkit.sim.ray_heads import RayHeads
from kuberay_testkit.sim.store import Key
from kuberay_testkit.sim.story import NAMESPACE, pods_of
from kuberay_testkit.sim.world import SimWorld

_ASK_AGAIN, _TRIES = 3.0, 40


class JobStory(ObjectStory):
    """Everything that happens to one RayJob: moves at random times, each of which `MOVES` names."""

    MOVES: Mapping[str, int] = {
        "edit_entrypoint": 2,
        "scale": 2,
        "refuse": 1,
        "suspend": 3,
        "resume": 4,
        "flip_suspend": 1,
        "delete": 1,
        "replace": 1,
        "kill_head": 3,
        "kill_worker": 1,
        "end_pod": 2,
        "crash_head": 1,
        "lose_node": 2,
        "kill_submitter": 3,
        "delete_cluster": 1,
        "delete_service": 1,
        "restart_dashboard": 3,
        "forget": 2,
        "fall_behind": 2,
    }

    ON_NODES = (HEAD, WORKER, "")

    def __init__(self, name: str, random: Random, span: float) -> None:
        super().__init__(name, random)
        self.exists = False
        self.plain = random.random() < 0.35
        """Nothing disturbs it, so that its end is known."""
        self.mode = random.choice(
            ("K8sJobMode", "K8sJobMode", "K8sJobMode", "HTTPMode", "HTTPMode", "SidecarMode", "InteractiveMode")
        )
        self.shared = self.mode != "SidecarMode" and random.random() < 0.15
        """Whether it runs on a RayCluster that is there."""
        self.spec = self._spec()
        count = 0 if self.plain else random.randint(1, 5)
        times = sorted(random.uniform(0, span * 0.6) for _ in range(1 + count))
        if self.shared:
            cluster = build_raycluster(self._shared_name, namespace=NAMESPACE, groups=random.randint(0, 1))
            self._add(
                max(0.0, times[0] - random.uniform(-5, 5)),
                "create the cluster of",
                lambda world: world.server.create(cluster),
            )
        self.create(times[0], times[1] if count else span)
        names, weights = list(self.MOVES), list(self.MOVES.values())
        for number, at in enumerate(times[1:], 1):
            until = times[number + 1] if number + 1 < len(times) else span
            if self.exists:
                getattr(self, random.choices(names, weights)[0])(at, until)
            else:
                self.create(at, until)
        if self.suspended and random.random() < 0.8:
            self.resume(span, span + 1.0)

    @property
    def end(self) -> tuple[str, int] | None:
        """The (deployment status, failed attempts) it must end with; None when that depends on what happens when."""
        if not self.plain or not self.exists:
            return None
        words, retries = self.outcomes, self.spec.get("backoffLimit", 0)
        for failed in range(retries + 1):
            if words[min(failed, len(words) - 1)] == "SUCCEEDED":
                return "Complete", failed
        return "Failed", retries + 1

    @property
    def _shared_name(self) -> str:
        return f"{self.name}-shared"

    def _spec(self) -> dict[str, Any]:
        random, interactive = self.random, self.mode == "InteractiveMode"
        spec: dict[str, Any] = {"submissionMode": self.mode, "entrypoint": "python job.py 0"}
        self.outcomes = random.choices(("SUCCEEDED", "FAILED"), (2, 1), k=3)
        if not self.plain and random.random() < 0.1:
            self.outcomes[-1] = "RUNNING"
        if self.shared:
            return {**spec, "clusterSelector": {"ray.io/cluster": self._shared_name}}
        spec["shutdownAfterJobFinishes"] = random.random() < 0.6
        if spec["shutdownAfterJobFinishes"]:
            spec["ttlSecondsAfterFinished"] = random.choice((0, 0, 10, 40))
        if not interactive:
            spec["backoffLimit"] = random.choice((0, 0, 1, 2))
        if not self.plain:
            self._limit(spec)
        return spec

    def _limit(self, spec: dict[str, Any]) -> None:
        """Deadlines, what is deleted in the end, and other fields that few use."""
        random = self.random
        if random.random() < 0.25:
            spec["activeDeadlineSeconds"] = random.randint(5, 90)
        if random.random() < 0.2:
            spec["preRunningDeadlineSeconds"] = random.randint(3, 40)
        if random.random() < 0.15:
            spec["jobId"] = "" if self.mode == "InteractiveMode" else f"{self.name}-fixed"
        if self.mode == "K8sJobMode" and random.random() < 0.2:
            spec["submitterConfig"] = {"backoffLimit": random.randint(0, 3)}
        if random.random() < 0.25:
            spec["shutdownAfterJobFinishes"], spec["ttlSecondsAfterFinished"] = False, 0
            policies = ("DeleteWorkers", "DeleteCluster", "DeleteSelf", "DeleteNone")
            triggers = [{"jobStatus": "SUCCEEDED"}, {"jobStatus": "FAILED"}, {"jobDeploymentStatus": "Failed"}]
            ends = sorted(random.sample(range(4), random.randint(1, 3)))
            trigger = random.choice(triggers)
            spec["deletionStrategy"] = {
                "deletionRules": [
                    {"policy": policies[number], "condition": {**trigger, "ttlSeconds": 10 * number}} for number in ends
                ]
            }

    # -- people

    def create(self, at: float, until: float) -> None:
        groups = 0 if self.shared else self.random.randint(0, 1)
        notes = {OUTCOMES: ",".join(self.outcomes), SECONDS: f"{self.random.uniform(1, 40):.1f}"}
        spec = copy.deepcopy(self.spec)
        self.exists, self.suspended = True, False
        if self._may_suspend and self.random.random() < 0.15:
            spec["suspend"] = self.suspended = True
        self.groups = groups
        manifest = build_rayjob(self.name, namespace=NAMESPACE, groups=groups, annotations=notes, **spec)
        self._add(at, "create", lambda world: world.server.create(manifest))
        if self.suspended and self.plain:
            self.resume(self._later(at, until, 5, 40), until)
        if self.mode == "InteractiveMode" and (self.plain or self.random.random() < 0.9):
            self._hand_in(self._later(at, until, 0, 20))

    @property
    def _may_suspend(self) -> bool:
        return bool(self.spec.get("shutdownAfterJobFinishes"))

    def _hand_in(self, at: float) -> None:
        """InteractiveMode: a user submits the job when the dashboard is there, and tells its id (or an id nobody knows)."""
        wrong = not self.plain and self.random.random() < 0.1
        number = len(self.actions)

        def hand_in(world: HeadsWorld, tries: int = _TRIES) -> None:
            rayjob = world.server.peek(RAYJOB, NAMESPACE, self.name)
            status = (rayjob or {}).get("status") or {}
            if rayjob is not None and status.get("jobDeploymentStatus") == "Waiting":
                head = world.heads.serving(str(status["dashboardURL"]))
                job_id = f"{self.name}-by-hand-{number}"
                if head is not None and job_id not in head.runs:
                    world.heads.submit(head, "other" if wrong and "other" not in head.runs else job_id, "user")
                    world.server.patch(RAYJOB, NAMESPACE, self.name, {"spec": {"jobId": job_id}})
                    return
            if tries:
                asyncio.get_running_loop().call_later(_ASK_AGAIN, hand_in, world, tries - 1)

        self._add_to_heads(at, "hand in", hand_in)

    def edit_entrypoint(self, at: float, _until: float) -> None:
        self._edit(at, "edit the entrypoint of", entrypoint=f"python job.py {self.random.randint(1, 99)}")

    def scale(self, at: float, _until: float) -> None:
        """More workers for the running job's cluster."""
        if self.shared or not self.groups:
            return
        count = self.random.randint(0, 3)

        def scale(world: SimWorld) -> None:
            rayjob = world.server.peek(RAYJOB, NAMESPACE, self.name)
            if rayjob is not None:
                spec = rayjob["spec"]["rayClusterSpec"]
                spec["workerGroupSpecs"][0]["replicas"] = count
                world.server.patch(RAYJOB, NAMESPACE, self.name, {"spec": {"rayClusterSpec": spec}})

        self._try(at, "scale", scale)

    def refuse(self, at: float, until: float) -> None:
        """An edit that is refused, and corrected a while later."""
        self._edit(at, "break", runtimeEnvYAML="{ not: yaml: at all")
        self._edit(self._later(at, until, 0.2, 15), "correct", runtimeEnvYAML=None)

    def suspend(self, at: float, _until: float) -> None:
        if self._may_suspend:
            self.suspended = True
            self._edit(at, "suspend", suspend=True)

    def resume(self, at: float, _until: float) -> None:
        if self._may_suspend:
            self.suspended = False
            self._edit(at, "resume", suspend=False)

    def delete(self, at: float, _until: float) -> None:
        self.exists = False
        self._try(at, "delete", lambda world: world.server.delete(RAYJOB, NAMESPACE, self.name))

    def delete_cluster(self, at: float, _until: float) -> None:
        def delete(world: SimWorld) -> None:
            world.server.delete(RAYCLUSTER, NAMESPACE, self._cluster(world))

        self._try(at, "delete the cluster of", delete)

    def delete_service(self, at: float, _until: float) -> None:
        def delete(world: SimWorld) -> None:
            for service in world.server.objects(SERVICE, NAMESPACE, f"{LABEL_CLUSTER}={self._cluster(world)}")[:1]:
                world.server.delete(SERVICE, NAMESPACE, service["metadata"]["name"])

        self._try(at, "delete a service of", delete)

    # -- nodes

    def end_pod(self, at: float, _until: float) -> None:
        how, node_type = self.random.choice(("fail", "evict")), self.random.choice((HEAD, HEAD, WORKER))
        self._to_pod(at, f"{how} a pod of", node_type, lambda world, name: getattr(world.kubelet, how)(NAMESPACE, name))

    def kill_submitter(self, at: float, _until: float) -> None:
        how = self.random.choice(("fail", "evict", "delete", "delete the Job"))

        def kill(world: SimWorld, name: str) -> None:
            if how == "delete":
                world.server.delete(POD, NAMESPACE, name)
            elif how == "delete the Job":
                world.server.delete(JOB, NAMESPACE, self.name, propagation="Background")
            else:
                getattr(world.kubelet, how)(NAMESPACE, name)

        self._to_pod(at, f"{how}: the submitter of", "", kill)

    # -- dashboards

    def restart_dashboard(self, at: float, _until: float) -> None:
        seconds = self.random.uniform(2, 60)
        self._to_dashboard(at, "restart", lambda heads, cluster: heads.restart_dashboard(NAMESPACE, cluster, seconds))

    def forget(self, at: float, _until: float) -> None:
        self._to_dashboard(at, "lose the jobs of", lambda heads, cluster: heads.forget(NAMESPACE, cluster))

    def fall_behind(self, at: float, until: float) -> None:
        seconds = self.random.uniform(1, 15)
        self._to_dashboard(at, "slow down", lambda heads, cluster: heads.fall_behind(NAMESPACE, cluster, seconds))
        later = self._later(at, until, 5, 60)
        self._to_dashboard(later, "speed up", lambda heads, cluster: heads.fall_behind(NAMESPACE, cluster, 0.0))

    # -- how

    def _add_to_heads(self, at: float, what: str, do: Callable[[HeadsWorld], object]) -> None:
        def act(world: SimWorld) -> None:
            assert isinstance(world, HeadsWorld)
            do(world)

        self._add(at, what, act)

    def _to_dashboard(self, at: float, what: str, do: Callable[[RayHeads, str], object]) -> None:
        self._add_to_heads(at, f"{what} the dashboard of", lambda world: do(world.heads, self._cluster(world)))

    def _edit(self, at: float, what: str, **spec: Any) -> None:
        self._try(at, what, lambda world: world.server.patch(RAYJOB, NAMESPACE, self.name, {"spec": spec}))

    def _cluster(self, world: SimWorld) -> str:
        """The RayCluster of the present attempt, or a name that nothing has."""
        rayjob = world.server.store.get(Key(RAYJOB, NAMESPACE, self.name))
        status = (rayjob.body.get("status") or {}) if rayjob is not None else {}
        return str(status.get("rayClusterName") or f"{self.name}-none")

    def _to_pod(self, at: float, what: str, node_type: str, do: Callable[[SimWorld, str], object]) -> None:
        """To a pod of the present cluster, or, without a type, to the submitter."""
        pick = self.random.random()

        def hit(world: SimWorld) -> None:
            if node_type:
                pods = pods_of(world, self._cluster(world), LABEL_NODE_TYPE, node_type)
            else:
                pods = world.server.objects(POD, NAMESPACE, f"{JOB_NAME}={self.name}")
            hit_one(world, pods, pick, do)

        self._try(at, what, hit)
