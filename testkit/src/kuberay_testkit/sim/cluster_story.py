"""What people, autoscalers and failing nodes do to one RayCluster, as seeded actions, and what must be there in the end.

A story does not depend on what the operator does: which pods an action hits does, how many there are in the end does not.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from kuberay.api.kinds import POD, RAYCLUSTER, SERVICE, Kind
from kuberay.api.names import HEAD, HEAD_GROUP, LABEL_CLUSTER, LABEL_GROUP, LABEL_NODE_TYPE, WORKER

from kuberay_testkit.builders import IMAGE, build_group, build_pod_template, build_raycluster
from kuberay_testkit.sim.status import APIError
from kuberay_testkit.sim.store import Key
from kuberay_testkit.sim.story import NAMESPACE, Action, Do, Hit, image_of, patch_spec, pods_of, wanted_pods
from kuberay_testkit.sim.world import SimWorld


class ClusterStory:
    """Everything that happens to one cluster: moves at random times, each of which `MOVES` names."""

    MOVES: Mapping[str, int] = {
        "scale": 6,
        "set_bounds": 2,
        "add_group": 2,
        "remove_group": 1,
        "suspend_group": 2,
        "suspend": 1,
        "resume": 2,
        "flip_suspend": 1,
        "change_image": 2,
        "choose_strategy": 1,
        "tolerate": 1,
        "name_workers": 2,
        "refuse": 1,
        "limit_quota": 1,
        "kill_worker": 2,
        "kill_head": 1,
        "end_pod": 3,
        "crash": 1,
        "lose_node": 1,
        "find_no_node": 1,
        "delete_service": 1,
        "delete": 1,
        "delete_refused": 1,
        "replace": 1,
    }

    def __init__(self, name: str, random: Random, span: float) -> None:
        self.name = name
        self.random = random
        self.actions: list[Action] = []
        self.exists = False
        self.suspended = False
        self._made = 0
        self._tag = 0
        self.groups = [self._new_group() for _ in range(random.randint(0, 2))]
        self.spec: dict[str, Any] = {}
        if random.random() < 0.4:
            self.spec["upgradeStrategy"] = self._strategy()
        if random.random() < 0.2:
            self.spec["gcsFaultToleranceOptions"] = {"redisAddress": "redis:6379"}
        if random.random() < 0.2:
            self.spec["authOptions"] = {"mode": "token"}
        self.head = build_pod_template("ray-head", image=IMAGE, restartPolicy=random.choice(("Always", "Never")))
        self.head_group: dict[str, Any] = {}
        if random.random() < 0.2:
            self.head_group = {"enableIngress": True, "disruptionBudget": {"maxUnavailable": 0}}
        times = sorted(random.uniform(0, span) for _ in range(random.randint(1, 8)))
        self._add(max(0.0, times[0] - 0.5), "a bystander of", self._bystander())
        self.create(times[0], times[1] if len(times) > 1 else span)
        names, weights = list(self.MOVES), list(self.MOVES.values())
        for number, at in enumerate(times[1:], 1):
            until = times[number + 1] if number + 1 < len(times) else span + 10.0
            if self.exists:
                getattr(self, random.choices(names, weights)[0])(at, until)
            else:
                self.create(at, until)

    # -- what must be there in the end

    def pods(self) -> Counter[tuple[str, str]]:
        """By cluster and group; the head's group is ``headgroup``."""
        found: Counter[tuple[str, str]] = Counter()
        if self.exists and not self.suspended:
            found[self.name, HEAD_GROUP] = 1
            for group in self.groups:
                found[self.name, group["groupName"]] = wanted_pods(group)
        return +found

    def state(self) -> str:
        """``status.state``; empty when the cluster is deleted."""
        return ("suspended" if self.suspended else "ready") if self.exists else ""

    def images(self) -> dict[str, str]:
        """The image of each group's pods where pods of another one must have been replaced."""
        strategy = self.spec.get("upgradeStrategy") or {}
        images = {group["groupName"]: image_of(group["template"]) for group in self.groups}
        if strategy.get("type") not in ("Recreate", "Rolling"):
            return {}
        if strategy["type"] == "Rolling" and not (
            strategy["allowHeadRestart"] or "gcsFaultToleranceOptions" in self.spec
        ):
            return images
        return {HEAD_GROUP: image_of(self.head), **images}

    # -- edits of the spec

    def create(self, at: float, until: float) -> None:
        manifest = build_raycluster(self.name, namespace=NAMESPACE, groups=self._groups(), **self.spec)
        manifest["spec"]["headGroupSpec"].update(self.head_group, template=copy.deepcopy(self.head))
        self.exists, self.suspended = True, False
        if self.random.random() < 0.1:
            broken = copy.deepcopy(manifest)
            broken["spec"]["workerGroupSpecs"] = self._broken()
            self._add(at, "create a refused", lambda world: world.server.create(broken))
            self._edit_groups(self._later(at, until, 0.2, 10), "correct")
        else:
            self._add(at, "create", lambda world: world.server.create(manifest))

    def scale(self, at: float, _until: float) -> None:
        if self.groups:
            self.random.choice(self.groups)["replicas"] = self.random.randint(0, 4)
        self._edit_groups(at, "scale")

    def set_bounds(self, at: float, _until: float) -> None:
        """Replicas out of range count as the nearest bound."""
        if self.groups:
            low = self.random.randint(0, 2)
            self.random.choice(self.groups).update(minReplicas=low, maxReplicas=low + self.random.randint(0, 2))
        self._edit_groups(at, "set bounds of")

    def add_group(self, at: float, _until: float) -> None:
        if len(self.groups) < 4:
            self.groups.insert(self.random.randint(0, len(self.groups)), self._new_group())
        self._edit_groups(at, "add a group to")

    def remove_group(self, at: float, _until: float) -> None:
        if self.groups:
            del self.groups[self.random.randrange(len(self.groups))]
        self._edit_groups(at, "remove a group of")

    def suspend_group(self, at: float, _until: float) -> None:
        if self.groups:
            group = self.random.choice(self.groups)
            group["suspend"] = not group.get("suspend")
        self._edit_groups(at, "suspend or resume a group of")

    def suspend(self, at: float, _until: float) -> None:
        self._suspend(at, True)

    def resume(self, at: float, _until: float) -> None:
        self._suspend(at, False)

    def flip_suspend(self, at: float, until: float) -> None:
        """On, off and on again before the pods are ready (RC-14)."""
        for _ in range(self.random.randint(2, 4)):
            self._suspend(at, not self.suspended)
            at = self._later(at, until, 0.05, 3)

    def change_image(self, at: float, _until: float) -> None:
        self._tag += 1
        template = self.random.choice([self.head, *(group["template"] for group in self.groups)])
        template["spec"]["containers"][0]["image"] = f"example.com/ray:{self._tag}"
        self._edit_all(at, "change an image of")

    def choose_strategy(self, at: float, _until: float) -> None:
        self.spec["upgradeStrategy"] = self._strategy()
        self._edit_all(at, "choose another strategy for")

    def tolerate(self, at: float, _until: float) -> None:
        """What a queue controller adds recreates nothing (RC-17)."""
        for template in [self.head, *(group["template"] for group in self.groups)]:
            template["spec"]["tolerations"] = [{"key": f"queue-{self.random.randint(0, 9)}", "operator": "Exists"}]
        self._edit_all(at, "add tolerations to")

    def name_workers(self, at: float, _until: float) -> None:
        """Workers named to go while the group shrinks (AS-01), names of others and of nobody among them (AS-02)."""
        if not self.groups:
            return
        group, most = self.random.choice(self.groups), self.random.randint(1, 2)
        group["replicas"] = max(0, group["replicas"] - most)
        name, pick, groups = group["groupName"], self.random.random(), self._groups()

        def name_them(world: SimWorld) -> None:
            mine = pods_of(world, self.name, LABEL_GROUP, name)
            others = [pod for pod in world.server.objects(POD, NAMESPACE) if pod not in mine]
            start = int(pick * len(mine))
            named = [pod["metadata"]["name"] for pod in (mine[start:] + mine[:start])[:most]]
            named += [pod["metadata"]["name"] for pod in others[: int(pick * 3)]] + ["nobody"]
            edited = [dict(each) for each in groups]
            next(each for each in edited if each["groupName"] == name)["scaleStrategy"] = {"workersToDelete": named}
            patch_spec(world, self.name, workerGroupSpecs=edited)

        self._add(at, "name workers of", name_them)

    def refuse(self, at: float, until: float) -> None:
        """An edit that is refused, and corrected a while later (RC-35)."""
        broken = self._broken()
        self._add(at, "break", lambda world: patch_spec(world, self.name, workerGroupSpecs=broken))
        self._edit_groups(self._later(at, until, 0.2, 15), "correct")

    def limit_quota(self, at: float, until: float) -> None:
        """No new pods for a while (RC-09)."""

        def refuse(kind: Kind, pod: Mapping[str, Any]) -> None:
            metadata = pod["metadata"]
            labels = metadata.get("labels") or {}
            mine = labels.get(LABEL_CLUSTER) == self.name and labels.get(LABEL_NODE_TYPE) in (HEAD, WORKER)
            if mine and world_of[0].server.store.get(Key(kind, NAMESPACE, metadata["name"])) is None:
                raise APIError(403, "Forbidden", f'pods "{metadata["name"]}" is forbidden: exceeded quota: small')

        world_of: list[SimWorld] = []

        def begin(world: SimWorld) -> None:
            world_of.append(world)
            world.server.admit(POD, refuse)

        self._add(at, "limit the quota for", begin)
        self._add(
            self._later(at, until, 1, 20),
            "raise the quota for",
            lambda world: world.server.admissions.remove((POD, refuse)),
        )

    # -- the end of it

    def delete(self, at: float, _until: float) -> None:
        self.exists = False
        self._add(at, "delete", lambda world: world.server.delete(RAYCLUSTER, NAMESPACE, self.name))

    def delete_refused(self, at: float, until: float) -> None:
        """However broken an object is, it can be deleted (RC-25)."""
        broken = self._broken()
        self._add(at, "break", lambda world: patch_spec(world, self.name, workerGroupSpecs=broken))
        self.delete(self._later(at, until, 0.0, 3), until)

    def replace(self, at: float, until: float) -> None:
        """Deleted and made anew under the same name."""
        self.delete(at, until)
        self.create(self._later(at, until, 0.0, 1), until)

    # -- what happens to pods and services

    def kill_worker(self, at: float, _until: float) -> None:
        self._add(at, "kill a worker of", self._to_pod(lambda world, name: world.server.delete(POD, NAMESPACE, name)))

    def kill_head(self, at: float, _until: float) -> None:
        def kill(world: SimWorld, name: str) -> None:
            world.server.delete(POD, NAMESPACE, name)

        self._add(at, "kill the head of", self._to_pod(kill, HEAD))

    def end_pod(self, at: float, _until: float) -> None:
        """It fails, is evicted (RC-07), or ends well although it should not."""
        how = self.random.choice(("fail", "evict", "finish"))

        def end(world: SimWorld, name: str) -> None:
            getattr(world.kubelet, how)(NAMESPACE, name)

        self._add(at, f"{how} a pod of", self._to_pod(end, self.random.choice((HEAD, WORKER, WORKER))))

    def crash(self, at: float, until: float) -> None:
        """Its Ray container ends; the kubelet starts it again a while later, where it may and nobody has replaced the pod."""

        def crash(world: SimWorld, name: str) -> None:
            pod = world.server.peek(POD, NAMESPACE, name)
            if pod is not None and (pod.get("status") or {}).get("containerStatuses"):
                state = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
                container = pod["spec"]["containers"][0]["name"]
                world.kubelet.set_container(NAMESPACE, name, container, state, restarts=1)

        hit = self._to_pod(crash, self.random.choice((HEAD, WORKER)))
        self._add(at, "crash a container of", hit)

        def restart(world: SimWorld) -> None:
            stored = world.server.store.by_uid(hit.uid)
            if stored is not None and stored.body["spec"].get("restartPolicy") == "Always":
                hit.start(world)

        self._add(self._later(at, until, 1, 30), "restart a container of", restart)

    def lose_node(self, at: float, until: float) -> None:
        """A pod is Unknown, is told to go and does not, until its node is removed."""
        hit = self._to_pod(lambda world, name: world.kubelet.lose(NAMESPACE, name), self.random.choice((HEAD, WORKER)))
        self._add(at, "lose a node of", hit)
        self._add(self._later(at, until, 1, 40), "remove a node of", hit.give_up)

    def find_no_node(self, at: float, until: float) -> None:
        """A pod that waits for a node gets one a while later."""

        def stick(world: SimWorld, name: str) -> None:
            pod = world.server.peek(POD, NAMESPACE, name)
            if pod is not None and "startTime" not in (pod.get("status") or {}):
                world.kubelet.set_unschedulable(NAMESPACE, name)

        hit = self._to_pod(stick, waiting=True)
        self._add(at, "no node for a pod of", hit)
        self._add(self._later(at, until, 1, 30), "a node for a pod of", hit.start)

    def delete_service(self, at: float, _until: float) -> None:
        def delete(world: SimWorld) -> None:
            found = world.server.objects(SERVICE, NAMESPACE, f"{LABEL_CLUSTER}={self.name}")
            for service in found[:1]:
                world.server.delete(SERVICE, NAMESPACE, service["metadata"]["name"])

        self._add(at, "delete a service of", delete)

    # -- how

    def _add(self, at: float, what: str, do: Do) -> None:
        self.actions.append(Action(at, f"{what} {self.name}", do, self.name))

    def _later(self, at: float, until: float, least: float, most: float) -> float:
        """Some time after *at*, but before the next move."""
        return min(at + self.random.uniform(least, most), max(at, until - 0.001))

    def _strategy(self) -> dict[str, Any]:
        """Nulls take out, by a merge patch, what another strategy said."""
        kind = self.random.choice(("Recreate", "Rolling", "None"))
        surge = self.random.randint(0, 2)
        bounds = {"maxSurge": surge, "maxUnavailable": self.random.randint(0 if surge else 1, 2)}
        consent = {"allowHeadRestart": self.random.random() < 0.5}
        return {"type": kind, **(bounds | consent if kind == "Rolling" else dict.fromkeys(bounds | consent))}

    def _new_group(self) -> dict[str, Any]:
        self._made += 1
        hosts = 2 if self.random.random() < 0.25 else 1
        template = build_pod_template(image=IMAGE, restartPolicy=self.random.choice(("Always", "Never")))
        group = build_group(f"g{self._made}", self.random.randint(0, 3), template=template)
        if hosts > 1:
            group["numOfHosts"] = hosts
        if self.random.random() < 0.2:
            group["disruptionBudget"] = {"maxUnavailable": 1}
        return group

    def _groups(self) -> list[dict[str, Any]]:
        return copy.deepcopy(self.groups)

    def _broken(self) -> list[dict[str, Any]]:
        """Groups that are refused: a name twice, or bounds the wrong way round."""
        groups = self._groups() or [build_group("g0", 1)]
        if self.random.random() < 0.5:
            return [*groups, copy.deepcopy(groups[0])]
        groups[0].update(minReplicas=5, maxReplicas=1)
        return groups

    def _edit_groups(self, at: float, what: str) -> None:
        groups = self._groups()
        self._add(at, what, lambda world: patch_spec(world, self.name, workerGroupSpecs=groups))

    def _edit_all(self, at: float, what: str) -> None:
        spec = {**self.spec, "workerGroupSpecs": self._groups()}
        head = {"template": copy.deepcopy(self.head)}
        self._add(at, what, lambda world: patch_spec(world, self.name, headGroupSpec=head, **spec))

    def _suspend(self, at: float, wanted: bool) -> None:
        self.suspended = wanted
        what = "suspend" if wanted else "resume"
        self._add(at, what, lambda world: patch_spec(world, self.name, suspend=wanted))

    def _to_pod(self, do: Callable[[SimWorld, str], object], node_type: str = WORKER, *, waiting: bool = False) -> Hit:
        return Hit(self.name, node_type, self.random.random(), do, waiting)

    def _bystander(self) -> Do:
        """A pod that looks like a worker of the cluster and belongs to nobody."""
        labels = {LABEL_CLUSTER: self.name, LABEL_NODE_TYPE: WORKER, LABEL_GROUP: "g1"}
        metadata = {"name": f"{self.name}-bystander", "namespace": NAMESPACE, "labels": labels}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, **build_pod_template()}
        return lambda world: world.server.create(pod)
