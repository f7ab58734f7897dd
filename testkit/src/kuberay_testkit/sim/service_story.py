"""What people, failing nodes, dashboards and gateways do to one RayService, as seeded actions.

What must be there in the end follows from its last spec (`service_rest`): a story always ends with one that can be served.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from random import Random
from typing import Any

import yaml
from kuberay.api.kinds import RAYSERVICE
from kuberay.api.names import ANNOTATION_DELETE_DRAINED, ANNOTATION_UPGRADE_ABORTED, ANNOTATION_UPGRADE_PAUSED

from kuberay_testkit.builders import IMAGE, build_cluster_spec, build_group, build_rayservice
from kuberay_testkit.sim.serve import FAILS, SECONDS
from kuberay_testkit.sim.service_facts import INCREMENTAL
from kuberay_testkit.sim.service_troubles import ServiceTroubles
from kuberay_testkit.sim.story import NAMESPACE

OTHER_STRATEGIES = (None, "NewCluster", "NewCluster", "None", "Rolling", "Recreate")


class ServiceStory(ServiceTroubles):
    """Everything that happens to one RayService: moves at random times, each of which `MOVES` names."""

    MOVES: Mapping[str, int] = {
        "edit_image": 6,
        "edit_config": 5,
        "edit_both": 3,
        "revert": 4,
        "scale": 3,
        "add_group": 2,
        "remove_group": 1,
        "choose_strategy": 2,
        "change_delay": 1,
        "exclude_head": 1,
        "delete_when_drained": 1,
        "name_front": 1,
        "refuse": 1,
        "break_config": 1,
        "fail_config": 1,
        "suspend": 2,
        "resume": 3,
        "flip_suspend": 1,
        "delete": 1,
        "replace": 1,
        "pause": 2,
        "abort": 2,
        "kill_head": 2,
        "kill_worker": 2,
        "crash_head": 1,
        "lose_node": 1,
        "delete_cluster": 2,
        "delete_service": 1,
        "delete_gateway": 1,
        "restart_dashboard": 1,
        "hang": 1,
        "fall_behind": 1,
        "break_proxy": 1,
        "fail_applications": 1,
        "trouble_gateway": 2,
    }

    def __init__(self, name: str, random: Random, span: float, *, incremental: bool = False) -> None:
        """*incremental*: whether there are plugins for upgrades by a gateway and for the autoscaler they need."""
        super().__init__(name, random)
        self.exists = False
        self.plain = random.random() < 0.35
        """Only its user touches it, so that it must be served all the time."""
        self.incremental = incremental and random.random() < 0.5
        self._version = self._tag = 0
        self._before: list[tuple[dict[str, Any], str]] = []
        self._made = 1
        self.cluster = build_cluster_spec([self._group("g0")])
        if self.incremental:
            self.cluster["enableInTreeAutoscaling"] = True
        if random.random() < 0.3:
            self.cluster["gcsFaultToleranceOptions"] = {"redisAddress": "redis:6379"}
        self.spec: dict[str, Any] = {"serveConfigV2": self._config()}
        self._choose()
        if random.random() < 0.8:
            self.spec["rayClusterDeletionDelaySeconds"] = random.choice((0, 5, 10, 30))
        times = sorted(random.uniform(0, span) for _ in range(random.randint(2, 7)))
        self.create(times[0], times[1])
        moves = {move: weight for move, weight in self.MOVES.items() if not self.plain or move in _PLAIN}
        for number, at in enumerate(times[1:], 1):
            until = times[number + 1] if number + 1 < len(times) else span
            if self.exists:
                getattr(self, random.choices(list(moves), list(moves.values()))[0])(at, until)
            else:
                self.create(at, until)
        if self.suspended and random.random() < 0.8:
            self.resume(span, span + 1.0)

    # -- specs

    def _group(self, name: str) -> dict[str, Any]:
        return build_group(name, self.random.randint(1, 3))

    def _config(self, *, fails: bool = False) -> str:
        """Another version of the application, and now and then a second application."""
        random = self.random
        self._version += 1
        applications = []
        for name in ("app", "other") if random.random() < 0.2 else ("app",):
            args = {SECONDS: round(random.uniform(0.5, 8), 1), **({FAILS: True} if fails else {})}
            applications.append(
                {
                    "name": name,
                    "import_path": f"{name}:v{self._version}",
                    "route_prefix": f"/{name}",
                    "args": args,
                    "deployments": [{"name": "Model", "num_replicas": random.randint(2, 4)}],
                }
            )
        return yaml.safe_dump({"applications": applications}, sort_keys=False)

    def _choose(self) -> None:
        random = self.random
        strategy = INCREMENTAL if self.incremental and random.random() < 0.8 else random.choice(OTHER_STRATEGIES)
        self.spec.pop("upgradeStrategy", None)
        if strategy is None:
            return
        chosen: dict[str, Any] = {"type": strategy}
        if strategy == INCREMENTAL:
            surge = random.choice((20, 30, 50, 100))
            chosen["clusterUpgradeOptions"] = {
                "maxSurgePercent": surge,
                "stepSizePercent": random.choice([step for step in (15, 20, 40, 100) if step <= surge]),
                "intervalSeconds": random.choice((1, 2, 5)),
                "gatewayClassName": "sim",
            }
        elif strategy == "Rolling":
            chosen.update(maxSurge=random.choice((0, 1)), maxUnavailable=1)
            if random.random() < 0.3:
                chosen["allowHeadRestart"] = True
        self.spec["upgradeStrategy"] = chosen

    def _remember(self) -> None:
        self._before.append((copy.deepcopy(self.cluster), self.spec["serveConfigV2"]))

    def _next_image(self) -> None:
        self._tag += 1
        templates = [self.cluster["headGroupSpec"]["template"]]
        templates += [group["template"] for group in self.cluster["workerGroupSpecs"]]
        for template in templates:
            template["spec"]["containers"][0]["image"] = f"{IMAGE}-{self._tag}"

    # -- people

    def create(self, at: float, until: float) -> None:
        self.exists, self.suspended = True, not self.plain and self.random.random() < 0.1
        spec = {**copy.deepcopy(self.spec), **({"suspend": True} if self.suspended else {})}
        manifest = build_rayservice(self.name, namespace=NAMESPACE, **spec)
        manifest["spec"]["rayClusterConfig"] = copy.deepcopy(self.cluster)
        self._add(at, "create", lambda world: world.server.create(manifest))

    def edit_image(self, at: float, _until: float) -> None:
        self._remember()
        self._next_image()
        self._edit_cluster(at, "edit the image of")

    def edit_config(self, at: float, _until: float) -> None:
        self._remember()
        self._set(at, "edit the Serve config of", serveConfigV2=self._config())

    def edit_both(self, at: float, _until: float) -> None:
        self._remember()
        self._next_image()
        self.spec["serveConfigV2"] = self._config()
        self._edit_cluster(at, "edit image and Serve config of", serveConfigV2=self.spec["serveConfigV2"])

    def revert(self, at: float, until: float) -> None:
        """Back to what was before, soon after an edit."""
        self.edit_both(at, until) if self.random.random() < 0.5 else self.edit_image(at, until)
        at = self._later(at, until, 1, 30)
        cluster, config = self._before[-1]
        self.cluster = copy.deepcopy(cluster)
        self.spec["serveConfigV2"] = config
        self._edit_cluster(at, "revert", serveConfigV2=config)

    def scale(self, at: float, _until: float) -> None:
        group = self.random.choice(self.cluster["workerGroupSpecs"])
        group["replicas"] = self.random.randint(1, 4)
        group["maxReplicas"] = self.random.randint(4, 8)
        self._edit_cluster(at, "scale")

    def add_group(self, at: float, _until: float) -> None:
        if len(self.cluster["workerGroupSpecs"]) < 3:
            added = self._group(f"g{self._made}")
            image = self.cluster["headGroupSpec"]["template"]["spec"]["containers"][0]["image"]
            added["template"]["spec"]["containers"][0]["image"] = image
            self._made += 1
            self.cluster["workerGroupSpecs"].append(added)
            self._edit_cluster(at, "add a group to")

    def remove_group(self, at: float, _until: float) -> None:
        if len(self.cluster["workerGroupSpecs"]) > 1:
            del self.cluster["workerGroupSpecs"][self.random.randrange(len(self.cluster["workerGroupSpecs"]))]
            self._edit_cluster(at, "remove a group from")

    def choose_strategy(self, at: float, _until: float) -> None:
        self._choose()
        self._set(at, "choose a strategy for", upgradeStrategy=self.spec.get("upgradeStrategy"))

    def change_delay(self, at: float, _until: float) -> None:
        self._set(at, "change the deletion delay of", rayClusterDeletionDelaySeconds=self.random.choice((0, 5, 20, 40)))

    def exclude_head(self, at: float, _until: float) -> None:
        """With one worker at least, which stays: nothing else would serve."""
        if self.spec.get("upgradeStrategy", {}).get("type") not in ("Rolling", INCREMENTAL):
            self._set(at, "exclude the head of", excludeHeadPodFromServeSvc=self.random.random() < 0.5)

    def delete_when_drained(self, at: float, until: float) -> None:
        """An old cluster need not be kept for all of its delay; for a while, or from now on."""
        self._annotate(at, "let go early the old clusters of", ANNOTATION_DELETE_DRAINED, "true")
        if self.random.random() < 0.5:
            later = self._later(at, until, 5, 60)
            self._annotate(later, "no longer let go early the old clusters of", ANNOTATION_DELETE_DRAINED, None)

    def name_front(self, at: float, _until: float) -> None:
        """Another name for the Service that its users ask, or the usual one again."""
        name = self.random.choice((f"{self.name}-front", None))
        front = {"metadata": {"name": name}} if name else None
        self._try(at, "name the serve service of", lambda world: self._patch(world, {"spec": {"serveService": front}}))

    def refuse(self, at: float, until: float) -> None:
        """An edit that is refused, and corrected a while later."""
        self._try(
            at, "break", lambda world: self._patch(world, {"spec": {"upgradeStrategy": {"type": "NoSuchStrategy"}}})
        )
        at = self._later(at, until, 0.2, 15)
        chosen = self.spec.get("upgradeStrategy")
        self._try(at, "correct", lambda world: self._patch(world, {"spec": {"upgradeStrategy": chosen}}))

    def break_config(self, at: float, until: float) -> None:
        self._try(
            at, "break the config of", lambda world: self._patch(world, {"spec": {"serveConfigV2": "{ not: yaml: x"}})
        )
        self.edit_config(self._later(at, until, 0.2, 15), until)

    def fail_config(self, at: float, until: float) -> None:
        """An application that cannot be deployed, with or without another image, and one that can."""
        both, config = self.random.random() < 0.5, self._config(fails=True)
        if both:
            self._next_image()
        self._edit_cluster(at, "let fail", serveConfigV2=config)
        self.edit_config(self._later(at, until, 3, 30), until)

    def suspend(self, at: float, _until: float) -> None:
        self.suspended = True
        self._try(at, "suspend", lambda world: self._patch(world, {"spec": {"suspend": True}}))

    def resume(self, at: float, _until: float) -> None:
        self.suspended = False
        self._try(at, "resume", lambda world: self._patch(world, {"spec": {"suspend": None}}))

    def delete(self, at: float, _until: float) -> None:
        self.exists = False
        self._try(at, "delete", lambda world: world.server.delete(RAYSERVICE, NAMESPACE, self.name))

    def pause(self, at: float, until: float) -> None:
        self._note_for_a_while(ANNOTATION_UPGRADE_PAUSED, "pause", at, until)

    def abort(self, at: float, until: float) -> None:
        self._note_for_a_while(ANNOTATION_UPGRADE_ABORTED, "abort", at, until)

    def _note_for_a_while(self, annotation: str, what: str, at: float, until: float) -> None:
        """In the middle of an upgrade, mostly."""
        if self.random.random() < 0.7:
            self.edit_image(at, until)
            at = self._later(at, until, 0, 15)
        self._annotate(at, what, annotation, "true")
        self._annotate(self._later(at, until, 1, 30), f"no longer {what}", annotation, None)

    # -- how

    def _set(self, at: float, what: str, **spec: Any) -> None:
        self.spec.update({name: value for name, value in spec.items() if value is not None})
        self._try(at, what, lambda world: self._patch(world, {"spec": spec}))

    def _edit_cluster(self, at: float, what: str, **spec: Any) -> None:
        """The whole RayCluster, as ``kubectl apply`` of a file does it."""
        change = {"spec": {"rayClusterConfig": copy.deepcopy(self.cluster), **spec}}
        self._try(at, what, lambda world: self._patch(world, change))


_PLAIN = (
    "edit_image",
    "edit_config",
    "edit_both",
    "revert",
    "scale",
    "add_group",
    "remove_group",
    "choose_strategy",
    "refuse",
    "break_config",
    "fail_config",
    "delete_when_drained",
    "pause",
    "abort",
)
"""The moves that take nothing from a service."""
