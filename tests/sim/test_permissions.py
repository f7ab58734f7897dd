"""No permission that nothing needs: what is granted is held against the requests of operators that use every feature.

The other direction, that nothing is refused, is checked in every story of the simulation (`kuberay_testkit.rbac`), and against a
real API server by `tests/kube/test_charts.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import cache
from typing import Any

import pytest
from kuberay.api.kinds import GATEWAY, HTTP_ROUTE, RAYCLUSTER, RAYCRONJOB, RAYJOB, RAYSERVICE
from kuberay.api.shipped import PACKAGES
from kuberay.hooks.types import PolicyRule
from kuberay.operator.rbac import CORE_RULES, ELECTION_RULES
from kuberay.plan.config import PlanConfig
from kuberay.plugins.loader import load
from kuberay.plugins.manager import PluginManager
from kuberay_autoscaler_v2.access import RULES
from kuberay_mtls.cert_manager import CERTIFICATE, ISSUER
from kuberay_scheduler_plugins.podgroup import POD_GROUP as COSCHEDULING
from kuberay_testkit.builders import (
    build_group,
    build_pod_template,
    build_raycluster,
    build_raycronjob,
    build_rayjob,
    build_rayservice,
)
from kuberay_testkit.lab import NAMESPACE, Lab, Setup, play
from kuberay_testkit.sim.calls import Call
from kuberay_testkit.sim.heads_world import SECONDS
from kuberay_volcano.podgroup import POD_GROUP as VOLCANO

Need = tuple[str, str, str]
"""API group, resource with subresource, verb."""
Story = Callable[[Lab], Awaitable[None]]

GATES = {
    "GCSFaultToleranceEmbeddedStorage": True,
    "RayClusterNetworkPolicy": True,
    "RayClusterMTLS": True,
    "RayCronJob": True,
}
PLUGINS = ("autoscaler-v2", "gateway-upgrade", "mtls", "networkpolicy")
GIVEN_ON: dict[str, set[Need]] = {
    # Whoever makes a Role must have what the Role gives.
    "autoscaler-v2": {
        (g, r, v) for rule in RULES for g in rule["apiGroups"] for r in rule["resources"] for v in rule["verbs"]
    },
}
BESIDE_REQUESTS = {
    # Not asked for by a request: the API server wants it of whoever sets owner references that block the owner's deletion.
    *(("ray.io", f"{kind.plural}/finalizers", "update") for kind in (RAYCLUSTER, RAYJOB, RAYSERVICE, RAYCRONJOB)),
}


def setup(**more: Any) -> Setup:
    given: dict[str, Any] = {"plugins": PLUGINS, "gates": GATES, "settings": {"mtls": {"issuer": "own"}}}
    return Setup(**{**given, "config": PlanConfig(resize_in_place=True), **more})


async def beside_pods(lab: Lab) -> None:
    """Each object beside pods comes, changes where it can, and goes."""
    body = build_raycluster(
        "rc", namespace=NAMESPACE, groups=[build_group("small", 2, disruptionBudget={"maxUnavailable": 1})]
    )
    body["spec"] |= {
        "authOptions": {"mode": "token"},
        "gcsFaultToleranceOptions": {"backend": "rocksdb"},
        "networkPolicy": {},
        "tlsOptions": {"enabled": True},
    }
    head = body["spec"]["headGroupSpec"] = {**body["spec"]["headGroupSpec"], "enableIngress": True}
    lab.create(body)
    await lab.until_ready("rc")
    lab.edit(RAYCLUSTER, "rc", headGroupSpec={**head, "serviceType": "NodePort", "enableIngress": False})
    lab.edit_group("rc", "small", disruptionBudget=None, replicas=1)
    retained = {"backend": "rocksdb", "storage": {"deletionPolicy": "Retain"}}
    lab.edit(RAYCLUSTER, "rc", networkPolicy=None, gcsFaultToleranceOptions=retained)
    await lab.rest()


async def autoscaled(lab: Lab) -> None:
    body = build_raycluster("rc", namespace=NAMESPACE, enableInTreeAutoscaling=True)
    lab.create(body)
    await lab.until_ready("rc")
    lab.edit(RAYCLUSTER, "rc", enableInTreeAutoscaling=False)
    await lab.rest()


async def resized(lab: Lab) -> None:
    """Workers get more CPUs while they run."""

    def groups(cpu: str) -> list[dict[str, Any]]:
        pinned = {"num-cpus": "1", "memory": "1000000000"}
        return [build_group("a", 2, rayStartParams=pinned, template=build_pod_template(cpu=cpu))]

    rolling = {"type": "Rolling"}
    lab.create(build_raycluster("rc", namespace=NAMESPACE, groups=groups("1"), upgradeStrategy=rolling))
    await lab.until_ready("rc")
    lab.edit(RAYCLUSTER, "rc", workerGroupSpecs=groups("2"))
    await lab.rest()


async def redis(lab: Lab) -> None:
    """A cluster goes, and its keys with it."""
    options = {"redisAddress": "redis:6379"}
    lab.create(build_raycluster("rc", namespace=NAMESPACE, gcsFaultToleranceOptions=options))
    await lab.until_ready("rc")
    lab.delete(RAYCLUSTER, "rc")
    await lab.rest()


async def routes(lab: Lab) -> None:
    """OpenShift."""
    body = build_raycluster("rc", namespace=NAMESPACE)
    head = body["spec"]["headGroupSpec"] = {**body["spec"]["headGroupSpec"], "enableIngress": True}
    lab.create(body)
    await lab.until_ready("rc")
    lab.edit(RAYCLUSTER, "rc", headGroupSpec={**head, "enableIngress": False})
    await lab.rest()


async def jobs(lab: Lab) -> None:
    """One ends and is deleted by its own rule, one is suspended and resumed, one dies with its submitter at work."""
    rule = {"deletionRules": [{"policy": "DeleteSelf", "condition": {"jobStatus": "SUCCEEDED", "ttlSeconds": 10}}]}
    lab.create(build_rayjob("ends", deletionStrategy=rule))
    note = {SECONDS: "10000"}
    lab.create(build_rayjob("long", annotations=note, shutdownAfterJobFinishes=True))
    lab.create(build_rayjob("late", annotations=note, activeDeadlineSeconds=60, shutdownAfterJobFinishes=True))
    await lab.until_job("long", "Running")
    lab.edit(RAYJOB, "long", suspend=True)
    await lab.until_job("long", "Suspended")
    lab.edit(RAYJOB, "long", suspend=False)
    await lab.until_job("long", "Running")
    groups = lab.get(RAYJOB, "long")["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    raised = [{**group, "replicas": 2, "maxReplicas": 5} for group in groups]
    lab.edit(RAYJOB, "long", rayClusterSpec={"workerGroupSpecs": raised})
    await lab.until_job("late", "Failed")
    await asyncio.sleep(120)
    await lab.rest()


async def crons(lab: Lab) -> None:
    """RayJobs are made, and the oldest deleted."""
    lab.create(build_raycronjob("tick", "* * * * *", successfulJobsHistoryLimit=1))
    await asyncio.sleep(400)


async def services(lab: Lab) -> None:
    """One is upgraded to another RayCluster, in place, and suspended."""
    lab.create(build_rayservice("svc"))
    serving = lambda: lab.conditions(RAYSERVICE, "svc").get("Ready", {}).get("status") == "True"  # noqa: E731
    await lab.until(serving, "it serves")
    spec = lab.get(RAYSERVICE, "svc")["spec"]["rayClusterConfig"]
    lab.edit(RAYSERVICE, "svc", rayClusterConfig={**spec, "rayVersion": "2.53.0"})
    await asyncio.sleep(300)
    await lab.rest()
    lab.edit(RAYSERVICE, "svc", suspend=True)
    await asyncio.sleep(200)
    await lab.rest()


async def weighed(lab: Lab) -> None:
    """A RayService behind a gateway is upgraded, and suspended."""
    options = {"gatewayClassName": "sim", "stepSizePercent": 50, "intervalSeconds": 1, "maxSurgePercent": 100}
    strategy = {"type": "NewClusterWithIncrementalUpgrade", "clusterUpgradeOptions": options}
    lab.create(build_rayservice("svc", cluster={"enableInTreeAutoscaling": True}, upgradeStrategy=strategy))
    await asyncio.sleep(200)
    spec = lab.get(RAYSERVICE, "svc")["spec"]["rayClusterConfig"]
    lab.edit(RAYSERVICE, "svc", rayClusterConfig={**spec, "rayVersion": "2.53.0"})
    await asyncio.sleep(300)
    lab.edit(RAYSERVICE, "svc", suspend=True)
    await asyncio.sleep(200)


async def certified(lab: Lab) -> None:
    """By cert-manager, which does not answer here: what it is asked for is what counts."""
    lab.create(build_raycluster("rc", namespace=NAMESPACE, tlsOptions={"enabled": True}))
    await asyncio.sleep(60)


async def gang(lab: Lab) -> None:
    """Made, and shrunk when it is suspended."""
    labels = {"ray.io/gang-scheduling-enabled": "true"}
    lab.create(build_raycluster("rc", namespace=NAMESPACE, groups=3, labels=labels))
    await asyncio.sleep(60)
    lab.edit(RAYCLUSTER, "rc", suspend=True)
    await asyncio.sleep(60)


async def elected(lab: Lab) -> None:
    lab.operator.elect = True
    await lab.restart()
    await asyncio.sleep(60)


STORIES: dict[Story, Callable[[], Setup]] = {
    beside_pods: setup,
    autoscaled: setup,
    resized: setup,
    redis: setup,
    routes: lambda: setup(config=PlanConfig(openshift=True)),
    jobs: setup,
    crons: setup,
    services: lambda: setup(serve=True),
    elected: setup,
}
OF_PLUGINS: dict[str, tuple[Story, Callable[[], Setup]]] = {
    "gateway-upgrade": (weighed, lambda: setup(serve=True, kinds=[GATEWAY, HTTP_ROUTE])),
    "mtls": (certified, lambda: setup(settings={}, kinds=[ISSUER, CERTIFICATE])),
    "volcano": (gang, lambda: setup(plugins=["volcano"], kinds=[VOLCANO])),
    "scheduler-plugins": (gang, lambda: setup(plugins=["scheduler-plugins"], kinds=[COSCHEDULING])),
}
"""And what only one of them needs."""


def needs(calls: Iterable[Call]) -> set[Need]:
    """What RBAC must grant for *calls*. Whoever writes an object may have to look at it after a conflict."""
    found: set[Need] = set()
    for call in calls:
        resource = f"{call.resource}/{call.subresource}" if call.subresource else call.resource
        verb = "patch" if call.verb == "apply" else call.verb
        found.add((call.group, resource, verb))
        if call.verb == "apply" and call.created:
            found.add((call.group, resource, "create"))
        if verb in ("create", "patch", "delete"):
            found.add((call.group, call.resource, "get"))
    return found


def played(story: Story, made: Setup) -> set[Need]:
    async def all_calls(lab: Lab) -> set[Need]:
        await story(lab)
        return needs(lab.rbac.calls())

    return play(all_calls, made)


@cache
def asked_for() -> frozenset[Need]:
    return frozenset().union(*(played(story, made()) for story, made in STORIES.items()))


def granted(rules: Iterable[PolicyRule]) -> set[Need]:
    return {(g, r, v) for rule in rules for g in rule.api_groups for r in rule.resources for v in rule.verbs}


def test_of_the_core() -> None:
    assert granted([*CORE_RULES, *ELECTION_RULES]) - asked_for() - BESIDE_REQUESTS == set()


@pytest.mark.parametrize("plugin", sorted(PACKAGES))
def test_of_a_plugin(plugin: str) -> None:
    rules = [rule for found in PluginManager(load([plugin])).rbac_rules().values() for rule in found]
    unused = granted(rules) - asked_for()
    if plugin in OF_PLUGINS:
        story, made = OF_PLUGINS[plugin]
        unused -= played(story, made())
    assert unused - GIVEN_ON.get(plugin, set()) == set()
