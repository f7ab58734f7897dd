"""A reload of the configuration touches nothing that runs: no request follows from it, and what is made later has what is new."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import pytest
from kuberay.api.kinds import POD, RAYCLUSTER, RAYCRONJOB, RAYJOB, RAYSERVICE
from kuberay.operator.environment import read_environment
from kuberay.operator.keys import Key
from kuberay.operator.reload_rules import RELOADED, compare
from kuberay.operator.settings import Settings
from kuberay.plan.config import PlanConfig
from kuberay_scheduler_plugins.podgroup import LABEL_POD_GROUP, POD_GROUP
from kuberay_testkit.builders import build_group, build_raycluster, build_raycronjob, build_rayjob, build_rayservice
from kuberay_testkit.lab import Lab, Manifest, Setup, play
from kuberay_testkit.sim.gangs import GangRules
from kuberay_testkit.sim.heads_world import SECONDS

NEW: Mapping[str, Any] = {
    "qps": 50,
    "burst": 60,
    "logLevel": "debug",
    "logLevels": {"kuberay.kube": "debug"},
    "profilingAddr": "127.0.0.1:6060",
    "drainTimeoutSeconds": 300,
    "rayClusterRequeueSeconds": 7,
    "rayJobStatusCheckTimeoutSeconds": 700,
    "rayJobTransitionGraceSeconds": 700,
    "propagateJobMetadata": False,
    "defaultContainerEnvs": [{"name": "NEWER", "value": "1"}],
    "defaultPodAnnotations": {"example.com/newer": "1"},
    "defaultPodLabels": {"example.com/newer": "1"},
    "waitGcsReadyResources": {"cpu": "333m", "memory": "333Mi"},
    "podSecurityStandard": "restricted",
}
"""Another value for each key that reloads."""


def setup(*, gangs: bool) -> Setup:
    rules = GangRules(
        scheduler_name="scheduler-plugins-scheduler",
        group=POD_GROUP,
        gang_of=lambda pod: pod["metadata"].get("labels", {}).get(LABEL_POD_GROUP, ""),
        gang_size=lambda group: group["spec"].get("minMember", 0),
    )
    if not gangs:
        return Setup(serve=True)
    return Setup(plugins=["scheduler-plugins", "autoscaler-v2"], kinds=[POD_GROUP], gangs=rules)


def of(settings: Settings) -> PlanConfig:
    return read_environment({}).plan_config(settings, PlanConfig().operator_version)


def reload(lab: Lab) -> None:
    """What `kuberay.operator.reload_apply` does to plans, with a file that says something else of all that reloads."""
    found = compare(Settings(), Settings.model_validate(NEW), {})
    assert found.needs_restart == []
    assert {change.key for change in found.applied} == NEW.keys()
    assert lab.operator.app is not None
    lab.operator.app.use(of(found.in_force))


async def look_at_everything(lab: Lab) -> list[str]:
    """Have a pass made over each object, and give back what it asked of the API server."""
    app = lab.operator.app
    assert app is not None
    before, passes = len(lab.server.calls), passes_so_far(lab)
    keys = [
        Key(kind, each.namespace, each.name)
        for kind in (RAYCLUSTER, RAYJOB, RAYSERVICE, RAYCRONJOB)
        for each in app.store.all(kind)
    ]
    assert len(keys) >= 6
    for key in keys:
        # As when the operator's own timer is due: nothing else changed.
        app.controller.queue.add(key)
    await lab.world.pass_time(60)
    assert passes_so_far(lab) >= passes + len(keys)
    return [
        str(call)
        for call in lab.server.calls[before:]
        if call.client == lab.operator.name and call.verb not in ("list", "watch") and call.resource != "leases"
    ]


def passes_so_far(lab: Lab) -> int:
    assert lab.operator.metrics is not None
    name = "controller_runtime_reconcile"
    (family,) = [each for each in lab.operator.metrics.registry.collect() if each.name == name]
    return int(sum(sample.value for sample in family.samples if sample.name == f"{name}_total"))


def containers(pod: Manifest) -> list[Manifest]:
    found: list[Manifest] = pod["spec"]["containers"]
    return found


def test_every_key_that_reloads_is_in_the_test() -> None:
    assert {str(Settings.model_fields[name].alias) for name in RELOADED} == NEW.keys()
    config, before = of(Settings.model_validate(NEW)), of(Settings())
    changed = {each.name for each in fields(PlanConfig) if getattr(config, each.name) != getattr(before, each.name)}
    assert len(changed) == 11, "what plans are told of it"


@pytest.mark.parametrize("gangs", [True, False], ids=["gangs", "services"])
def test_nothing_is_asked_or_written_because_of_a_reload(gangs: bool) -> None:
    async def story(lab: Lab) -> None:
        labels = {"ray.io/gang-scheduling-enabled": "true"} if gangs else {}
        lab.create(build_raycluster("plain", groups=[build_group("g", 2)], labels=labels))
        lab.create(build_raycluster("rolling", groups=1, upgradeStrategy={"type": "Rolling"}))
        lab.create(build_rayjob("over", labels={"team": "a"}))
        lab.create(build_rayjob("running", labels={"team": "a"}, annotations={SECONDS: "100000"}))
        lab.create(build_raycronjob("cron", schedule="0 0 1 1 *"))
        if gangs:
            lab.create(build_raycluster("scaled", enableInTreeAutoscaling=True))
        else:
            lab.create(build_rayservice("service"))
            await lab.until(lambda: "Ready" in lab.conditions(RAYSERVICE, "service"), "service", within=600)
        for name in ("plain", "rolling", *(("scaled",) if gangs else ())):
            await lab.until_ready(name)
        await lab.until_job("over")
        await lab.until_job("running", "Running")
        await lab.world.pass_time(120)
        assert await look_at_everything(lab) == [], "settled"
        pods = {pod["metadata"]["uid"]: pod["metadata"]["resourceVersion"] for pod in lab.all(POD)}

        reload(lab)
        assert await look_at_everything(lab) == []
        assert await lab.idle(900) == []
        assert {pod["metadata"]["uid"]: pod["metadata"]["resourceVersion"] for pod in lab.all(POD)} == pods

        lab.edit_group("plain", "g", replicas=3)
        await lab.until(lambda: len(lab.pods("plain", group="g")) == 3, "one more pod")
        (new,) = [pod for pod in lab.pods("plain") if pod["metadata"]["uid"] not in pods]
        assert new["metadata"]["labels"]["example.com/newer"] == "1"
        assert new["metadata"]["annotations"]["example.com/newer"] == "1"
        assert {"name": "NEWER", "value": "1"} in containers(new)[0]["env"]
        assert new["spec"]["initContainers"][0]["resources"]["limits"] == {"cpu": "333m", "memory": "333Mi"}
        old = [pod for pod in lab.pods("plain") if pod["metadata"]["uid"] in pods]
        assert not any("example.com/newer" in pod["metadata"]["labels"] for pod in old)

    play(story, setup(gangs=gangs))


def test_a_setting_that_would_act_on_what_is_there_does_not_reload() -> None:
    """What a reload of it would do, and that the test above would see it: RayJobs that are over would be deleted."""

    async def story(lab: Lab) -> None:
        for number in range(6):
            lab.create(build_rayjob(f"job{number}", shutdownAfterJobFinishes=True, ttlSecondsAfterFinished=1))
            await lab.until_job(f"job{number}")
        await lab.rest()
        new = Settings(delete_ray_job_after_job_finishes=True)
        assert compare(Settings(), new, {}).in_force == Settings()
        assert await look_at_everything(lab) == []
        assert lab.operator.app is not None
        lab.operator.app.use(of(new))
        assert len([call for call in await look_at_everything(lab) if "delete rayjobs" in call]) == 6

    play(story, Setup())
