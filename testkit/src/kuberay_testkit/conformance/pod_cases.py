"""Cases for plugins that touch pods: what the user and the core put there stays, and what runs is never touched.

Source: `mutate_pod` in `kuberay.hooks.spec`.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import orjson
from kuberay.api.kinds import POD, RAYCLUSTER

from kuberay_testkit.builders import build_group, build_pod_template
from kuberay_testkit.conformance.suite import Suite, listed
from kuberay_testkit.lab import Lab, Manifest

_TOMORROW: Manifest = {"ofTomorrow": {"deep": [{"name": "x", "value": 1}]}}
_COMMANDS = (".command", ".args")
"""Texts that a plugin changes by `ray_start_params`."""
_MARK = "example.com/of-the-user"


class PodCases(Suite):
    """Mixed into suites whose subjects change pods."""

    def cluster(self, name: str = "demo", groups: Any = 2, **options: Any) -> Manifest:
        """A RayCluster that asks for the plugin."""
        raise NotImplementedError

    def _pods_of(self, cluster: Manifest, *, with_it: bool = True) -> dict[str, Manifest]:
        """The pods that are made for *cluster*, by group and number, with the plugin or without."""

        async def story(lab: Lab) -> dict[str, Manifest]:
            lab.create(cluster)
            await lab.until(lambda: len(lab.pods("demo")) == 3, "three pods")
            return {_place(pod, number): pod for number, pod in enumerate(_sorted(lab.pods("demo")))}

        return self.play(story, plugins=None if with_it else self.without(), gangs=None)

    def test_nothing_is_taken_away_from_a_pod(self) -> None:
        """All that is in a pod without the plugin is in it with the plugin: fields that this plugin does not know as well.
        Single values may change; items of lists, and fields, may only be added."""
        cluster = self.cluster(groups=[build_group("workers", 2, minReplicas=2, template=_rich_template("ray-worker"))])
        cluster["spec"]["headGroupSpec"]["template"] = _rich_template("ray-head")
        without, with_it = self._pods_of(cluster, with_it=False), self._pods_of(cluster)
        for place, pod in without.items():
            lost = [
                each
                for part in ("metadata", "spec")
                for each in _lost(_stable(pod)[part], _stable(with_it[place])[part], part)
            ]
            assert not lost, f"taken away from the {place} pod: {listed(lost)}"

    def test_rays_container_stays_the_first(self) -> None:
        cluster = self.cluster(groups=[build_group("workers", 2, minReplicas=2)])
        for place, pod in self._pods_of(cluster).items():
            wanted = "ray-head" if place.startswith("head") else "ray-worker"
            found = [each["name"] for each in pod["spec"]["containers"]]
            assert found[0] == wanted, f"the first container of the {place} pod is {found[0]}, and Ray's is {wanted}"

    def test_names_in_a_pod_are_unique(self) -> None:
        """Containers, volumes, variables and mounts; an API server refuses the pod otherwise."""
        for place, pod in self._pods_of(self.cluster(groups=[build_group("workers", 2, minReplicas=2)])).items():
            spec = pod["spec"]
            containers = [*spec["containers"], *(spec.get("initContainers") or ())]
            found = {"containers": [c["name"] for c in containers], "volumes": _named(spec, "volumes")}
            for each in containers:
                found[f"variables of {each['name']}"] = _named(each, "env")
                found[f"mounts of {each['name']}"] = [m["mountPath"] for m in each.get("volumeMounts") or ()]
            double = {what: names for what, names in found.items() if len(set(names)) != len(names)}
            assert not double, f"twice in the {place} pod: {double}"

    def test_pods_of_a_group_are_alike(self) -> None:
        """Whether made now or later: a pod that is replaced comes back as it was."""

        async def story(lab: Lab) -> None:
            lab.create(self.cluster(groups=[build_group("workers", 2, minReplicas=2)]))
            await lab.until_ready("demo")
            first, second = (_stable(pod) for pod in _sorted(lab.pods("demo", node_type="worker")))
            assert first["spec"] == second["spec"], (
                f"two workers differ: {_lost(first['spec'], second['spec'], 'spec')}"
            )
            lab.delete(POD, lab.pods("demo", node_type="worker")[0]["metadata"]["name"])
            await lab.world.pass_time(60)
            await lab.rest()
            third = _stable(_sorted(lab.pods("demo", node_type="worker"))[0])
            assert third["spec"] == first["spec"], (
                f"a replaced worker differs: {_lost(first['spec'], third['spec'], 'spec')}"
            )

        self.play(story)

    def test_a_restarted_operator_finds_no_fault_with_its_pods(self) -> None:
        """The same plugin in a new process wants the same pods: none is made again."""

        async def story(lab: Lab) -> None:
            lab.create(self.cluster())
            await lab.until_ready("demo")
            await self._keeps_pods(lab, [self.plugin(), *self.subject().with_plugins])
            idle = await lab.idle(100)
            assert not idle, f"requests after a restart: {listed(idle)}"

        self.play(story)

    def test_turning_it_off_leaves_what_runs(self) -> None:
        """The next operator does not know the plugin: pods stay, nothing is written again and again, and all can be deleted."""

        async def story(lab: Lab) -> None:
            lab.create(self.cluster(groups=[build_group("workers", 2, minReplicas=1)]))
            await lab.until_ready("demo")
            await self._keeps_pods(lab, list(self.subject().with_plugins))
            idle = await lab.idle(600)
            assert not idle, f"requests with the plugin off: {listed(idle)}"
            lab.delete(RAYCLUSTER, "demo")
            await lab.rest()
            assert not lab.pods("demo"), "pods of a deleted cluster whose plugin was turned off"

        self.play(story)

    def test_turning_it_on_leaves_what_runs(self) -> None:
        """Pods that were made without it are not made again because of it."""

        async def story(lab: Lab) -> None:
            lab.create(self.cluster())
            await lab.world.until(lambda: len(lab.pods("demo")) == 3, within=60, what="three pods without the plugin")
            await lab.rest()
            await self._keeps_pods(lab, [self.plugin(), *self.subject().with_plugins])

        self.play(story, plugins=self.without())

    async def _keeps_pods(self, lab: Lab, plugins: list[Any]) -> None:
        before = {pod["metadata"]["uid"]: pod["metadata"]["name"] for pod in lab.pods("demo")}
        await lab.restart(plugins)
        await lab.world.pass_time(60)
        await lab.rest()
        after = {pod["metadata"]["uid"] for pod in lab.pods("demo")}
        lost = [name for uid, name in before.items() if uid not in after]
        assert not lost, f"pods that ran were deleted: {lost}"
        assert len(after) == len(before), lab.describe()

    def test_a_plain_object_is_enough(self) -> None:
        """No labels, no annotations, no start parameters, no resources, no groups."""

        async def story(lab: Lab) -> None:
            cluster = copy.deepcopy(self.cluster(groups=0))
            del cluster["spec"]["workerGroupSpecs"]
            head = cluster["spec"]["headGroupSpec"]
            head.pop("rayStartParams")
            head["template"]["spec"]["containers"][0].pop("resources")
            lab.create(cluster)
            await lab.until_ready("demo")

        self.play(story)


def _rich_template(container: str) -> Manifest:
    """A pod template with something in every place, and fields that no version of Kubernetes has yet."""
    template = build_pod_template(
        container,
        labels={_MARK: "yes"},
        annotations={_MARK: "yes"},
        nodeSelector={"pool": "big"},
        tolerations=[{"key": "gpu", "operator": "Exists"}],
        volumes=[{"name": "data", "emptyDir": {}}],
        initContainers=[{"name": "fetch", "image": "fetch:1", **_TOMORROW}],
        **_TOMORROW,
    )
    ray = template["spec"]["containers"][0]
    ray.update(env=[{"name": "MINE", "value": "1"}], volumeMounts=[{"name": "data", "mountPath": "/data"}], **_TOMORROW)
    template["spec"]["containers"].append({"name": "logs", "image": "logs:1", **_TOMORROW})
    return template


def _sorted(pods: list[Manifest]) -> list[Manifest]:
    return sorted(
        pods, key=lambda pod: (pod["metadata"]["labels"]["ray.io/group"] != "headgroup", pod["metadata"]["name"])
    )


def _place(pod: Manifest, number: int) -> str:
    return "head" if number == 0 else f"worker {number} of {pod['metadata']['labels']['ray.io/group']}"


def _stable(pod: Manifest) -> dict[str, Any]:
    """A pod without what differs between two of one group by their names and places."""
    metadata = {part: pod["metadata"].get(part) or {} for part in ("labels", "annotations")}
    text = orjson.dumps({"metadata": metadata, "spec": pod["spec"]}).decode()
    stable: dict[str, Any] = orjson.loads(text.replace(pod["metadata"]["name"], "<name>"))
    return stable


def _lost(before: Any, after: Any, place: str) -> list[str]:
    """What *before* has and *after* has not: fields, and items of lists; single values may change."""
    if isinstance(before, Mapping):
        if not isinstance(after, Mapping):
            return [place]
        return [
            each
            for key, value in before.items()
            for each in ([f"{place}.{key}"] if key not in after else _lost(value, after[key], f"{place}.{key}"))
        ]
    if isinstance(before, list):
        if not isinstance(after, list):
            return [place]
        if place.endswith(_COMMANDS):
            return [] if len(after) >= len(before) else [place]
        found = []
        for number, item in enumerate(before):
            name = item.get("name") if isinstance(item, Mapping) else None
            if name is None:
                found += [] if item in after else [f"{place}[{number}]"]
                continue
            same = next((each for each in after if each.get("name") == name), None)
            found += [f"{place}[{name}]"] if same is None else _lost(item, same, f"{place}[{name}]")
        return found
    return []


def _named(body: Mapping[str, Any], part: str) -> list[str]:
    return [each["name"] for each in body.get(part) or ()]
