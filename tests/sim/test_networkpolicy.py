"""NetworkPolicies in the running operator: before the pods, kept right, removed when they are no longer wanted."""

from __future__ import annotations

from typing import Any

import pytest
from kuberay.api.gates import DEFAULT_GATES
from kuberay.api.gates import NETWORK_POLICY as GATE
from kuberay.api.kinds import EVENT, NETWORK_POLICY, POD, RAYCLUSTER
from kuberay.plan.config import PlanConfig
from kuberay.plugins.loader import load
from kuberay.plugins.manager import PluginManager
from kuberay_testkit.builders import build_group, build_raycluster
from kuberay_testkit.sim.calls import missing_permissions
from kuberay_testkit.sim.clock import run_sim
from kuberay_testkit.sim.faults import Faults
from kuberay_testkit.sim.invariants import watch_over
from kuberay_testkit.sim.operator import RayWorld, SimOperator, operator_rules
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.store import Change
from kuberay_testkit.sim.users import NAMESPACE

GATES = {**DEFAULT_GATES, GATE: True}
ALL = ["rc-head", "rc-workers-a", "rc-workers-b"]


def operator(world: RayWorld, gates: Any = GATES, plugins: Any = ("networkpolicy",)) -> SimOperator:
    return SimOperator(
        world=world,
        hooks=PluginManager(load(plugins)),
        gates=gates,
        config=PlanConfig(operator_namespace="kuberay-system"),
    )


def cluster(policy: Any = None, groups: Any = ("a", "b"), **options: Any) -> dict[str, Any]:
    spec = {} if policy is None else {"networkPolicy": policy}
    return build_raycluster("rc", namespace=NAMESPACE, groups=[build_group(name) for name in groups], **spec, **options)


def policies(world: RayWorld) -> dict[str, dict[str, Any]]:
    return {policy["metadata"]["name"]: policy for policy in world.server.objects(NETWORK_POLICY, NAMESPACE)}


def edit(world: RayWorld, **spec: Any) -> None:
    world.server.patch(RAYCLUSTER, NAMESPACE, "rc", {"spec": spec})


def status(world: RayWorld) -> dict[str, Any]:
    found = world.server.peek(RAYCLUSTER, NAMESPACE, "rc")
    assert found is not None
    return dict(found.get("status") or {})


def conditions(world: RayWorld) -> dict[str, dict[str, Any]]:
    return {condition["type"]: condition for condition in status(world).get("conditions") or ()}


def told(world: RayWorld, reason: str) -> list[str]:
    return [event["note"] for event in world.server.objects(EVENT, NAMESPACE) if event["reason"] == reason]


def pods(world: RayWorld) -> list[dict[str, Any]]:
    return world.server.objects(POD, NAMESPACE)


def never_unprotected(server: SimServer, change: Change) -> None:
    """No pod is made before the policy that selects it."""
    stored = change.stored
    if stored.key.kind != POD or change.type != "ADDED":
        return
    labels = stored.metadata["labels"]
    group = labels["ray.io/group"]
    name = f"{labels['ray.io/cluster']}-{'head' if group == 'headgroup' else f'workers-{group}'}"
    policy = server.peek(NETWORK_POLICY, stored.key.namespace, name)
    assert policy is not None, f"pod {stored.key.name} was made before NetworkPolicy {name}"
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()


def test_policies_exist_before_the_pods_whatever_fails(seed: int) -> None:
    async def run() -> None:
        async with RayWorld(seed=seed, faults=Faults.mixture(seed, intensity=0.2, client="operator")) as world:
            watch_over(world)
            world.always(never_unprotected)
            replica = operator(world)
            replica.start()
            world.server.create(cluster({"mode": "DenyAll"}))
            await world.pass_time(60)
            world.server.faults.stop()
            await world.rest(quiet=30)
            assert status(world)["state"] == "ready"
            assert sorted(policies(world)) == ALL
            edit(world, workerGroupSpecs=[build_group(name) for name in "abc"])
            await world.rest(quiet=30)
            assert sorted(policies(world)) == [*ALL, "rc-workers-c"]
            assert len(pods(world)) == 4
            assert [str(call) for call in await replica.idle_calls()] == []

    run_sim(run)


def test_no_pod_is_made_while_a_policy_cannot_be() -> None:
    async def run() -> None:
        async with RayWorld(seed=1) as world:
            world.always(never_unprotected)
            operator(world).start()
            world.server.faults.add(
                "refuse", resource="networkpolicies", message="no policies today", name="rc-workers-b"
            )
            world.server.create(cluster({}))
            await world.pass_time(120)
            assert pods(world) == []
            assert "no policies today" in conditions(world)["PodsWaiting"]["message"]
            notes = told(world, "FailedToCreateNetworkPolicy")
            assert notes
            assert notes[0].startswith(f"Failed to create NetworkPolicy {NAMESPACE}/rc-workers-b: ")
            world.server.faults.stop()
            await world.pass_time(300)
            assert status(world)["state"] == "ready"

    run_sim(run)


def test_removing_a_group_or_the_field_removes_policies_and_never_those_of_others() -> None:
    """NP-05 and P50: stale owned ones go, and are told; desired and foreign ones stay."""

    async def run() -> None:
        async with RayWorld(seed=1) as world:
            operator(world).start()
            world.server.create(cluster({}))
            labels = {"ray.io/cluster": "rc", "app.kubernetes.io/created-by": "kuberay-operator"}
            foreign = {
                "apiVersion": "networking.k8s.io/v1",
                "kind": "NetworkPolicy",
                "metadata": {"name": "rc-workers-z", "namespace": NAMESPACE, "labels": labels},
                "spec": {"podSelector": {}},
            }
            world.server.create(foreign)
            await world.rest(quiet=30)
            assert sorted(policies(world)) == [*ALL, "rc-workers-z"]
            edit(world, workerGroupSpecs=[build_group("a")])
            await world.rest(quiet=60)
            assert sorted(policies(world)) == ["rc-head", "rc-workers-a", "rc-workers-z"]
            assert len(pods(world)) == 2
            edit(world, networkPolicy=None)
            await world.rest(quiet=30)
            assert sorted(policies(world)) == ["rc-workers-z"]
            assert sorted(told(world, "DeletedNetworkPolicy")) == [
                f"Deleted NetworkPolicy {NAMESPACE}/{n}" for n in ALL
            ]
            assert status(world)["state"] == "ready"

    run_sim(run)


def test_the_policy_of_a_removed_group_outlives_its_pods() -> None:
    """A group's workers may take their time to go; they are not open to everybody meanwhile."""

    def protected(server: SimServer, change: Change) -> None:
        left = [
            pod
            for pod in server.objects(POD, NAMESPACE, "ray.io/group=b")
            if "deletionTimestamp" not in pod["metadata"]
        ]
        if change.type == "DELETED" and change.stored.key.name == "rc-workers-b":
            assert left == []

    async def run() -> None:
        async with RayWorld(seed=1) as world:
            world.always(protected)
            operator(world).start()
            world.server.create(cluster({}))
            await world.rest(quiet=30)
            # Its workers cannot be deleted for a while.
            world.server.faults.add("refuse", verb="delete", resource="pods", times=5)
            edit(world, workerGroupSpecs=[build_group("a")])
            await world.rest(quiet=90)
            assert sorted(policies(world)) == ["rc-head", "rc-workers-a"]
            assert len(pods(world)) == 2

    run_sim(run)


def test_edits_of_a_policy_are_reverted_but_annotations_stay() -> None:
    """Trap 6: labels and rules are the operator's, annotations anybody's."""

    async def run() -> None:
        async with RayWorld(seed=1) as world:
            replica = operator(world)
            replica.start()
            world.server.create(cluster({"mode": "DenyAllIngress"}))
            await world.rest(quiet=30)
            before = policies(world)["rc-head"]
            change = {
                "metadata": {"labels": {"ray.io/group": "mine"}, "annotations": {"note": "mine"}},
                "spec": {"ingress": [{}]},
            }
            world.server.patch(NETWORK_POLICY, NAMESPACE, "rc-head", change)
            await world.rest(quiet=30)
            after = policies(world)["rc-head"]
            assert (after["spec"], after["metadata"]["labels"]) == (before["spec"], before["metadata"]["labels"])
            assert after["metadata"]["annotations"] == {"note": "mine"}
            assert told(world, "UpdatedNetworkPolicy") == [f"Updated NetworkPolicy {NAMESPACE}/rc-head"]
            edit(world, networkPolicy={"mode": "DenyAllEgress"})
            await world.rest(quiet=30)
            assert policies(world)["rc-head"]["spec"]["policyTypes"] == ["Egress"]
            assert "ingress" not in policies(world)["rc-head"]["spec"]
            assert [str(call) for call in await replica.idle_calls()] == []

    run_sim(run)


def test_a_deleted_policy_comes_back() -> None:
    async def run() -> None:
        async with RayWorld(seed=1) as world:
            operator(world).start()
            world.server.create(cluster({}))
            await world.rest(quiet=30)
            world.server.delete(NETWORK_POLICY, NAMESPACE, "rc-workers-a")
            await world.rest(quiet=30)
            assert sorted(policies(world)) == ALL

    run_sim(run)


def test_a_name_that_others_hold_is_told_and_their_policy_left_alone() -> None:
    async def run() -> None:
        async with RayWorld(seed=1) as world:
            operator(world).start()
            foreign = {
                "apiVersion": "networking.k8s.io/v1",
                "kind": "NetworkPolicy",
                "metadata": {"name": "rc-head", "namespace": NAMESPACE},
                "spec": {"podSelector": {}, "policyTypes": ["Egress"]},
            }
            world.server.create(foreign)
            world.server.create(cluster({}))
            await world.pass_time(60)
            assert pods(world) == []
            (note,) = set(told(world, "NetworkPolicyNameCollision"))
            assert note.startswith(
                f"NetworkPolicy {NAMESPACE}/rc-head already exists and is not owned by this RayCluster"
            )
            assert "rc-head already exists" in conditions(world)["PodsWaiting"]["message"]
            assert policies(world)["rc-head"]["spec"] == foreign["spec"]
            world.server.delete(NETWORK_POLICY, NAMESPACE, "rc-head")
            await world.pass_time(400)
            assert status(world)["state"] == "ready"
            assert sorted(policies(world)) == ALL

    run_sim(run)


def test_a_suspended_cluster_keeps_its_policies() -> None:
    async def run() -> None:
        async with RayWorld(seed=1, pod_grace=5.0) as world:
            replica = operator(world)
            replica.start()
            world.server.create(cluster({}))
            await world.rest(quiet=30)
            edit(world, suspend=True)
            await world.rest(quiet=30)
            assert pods(world) == []
            assert sorted(policies(world)) == ALL
            assert [str(call) for call in await replica.idle_calls()] == []
            edit(world, suspend=False)
            await world.rest(quiet=30)
            assert status(world)["state"] == "ready"

    run_sim(run)


@pytest.mark.parametrize("plugins", [("networkpolicy",), ()])
def test_a_gate_that_is_turned_off_touches_nothing_that_runs_and_says_so(plugins: Any) -> None:
    """The spec is refused in one sentence, and policies and pods stay until the field is removed."""

    async def run() -> None:
        async with RayWorld(seed=1) as world:
            first = operator(world)
            first.start()
            world.server.create(cluster({}))
            await world.rest(quiet=30)
            await first.stop()
            before = (policies(world), sorted(pod["metadata"]["uid"] for pod in pods(world)))
            second = operator(world, gates=DEFAULT_GATES, plugins=plugins)
            second.start()
            await world.rest(quiet=30)
            assert (policies(world), sorted(pod["metadata"]["uid"] for pod in pods(world))) == before
            refused = conditions(world)["RayClusterSpecValid"]
            assert refused["status"] == "False"
            assert "spec.networkPolicy requires the RayClusterNetworkPolicy feature gate" in refused["message"]
            edit(world, networkPolicy=None)
            await world.rest(quiet=30)
            assert status(world)["state"] == "ready"
            assert "RayClusterSpecValid" not in conditions(world)
            assert sorted(pod["metadata"]["uid"] for pod in pods(world)) == before[1]
            assert sorted(policies(world)) == ([] if plugins else ALL)

    run_sim(run)


def test_a_spec_that_asks_while_the_plugin_is_not_on_says_what_to_install() -> None:
    async def run() -> None:
        async with RayWorld(seed=1) as world:
            operator(world, plugins=()).start()
            world.server.create(cluster({}))
            await world.rest(quiet=30)
            assert pods(world) == []
            missing = conditions(world)["PluginMissing"]
            assert missing["message"].startswith("spec.networkPolicy needs the plugin networkpolicy")
            assert "kuberay-networkpolicy" in missing["message"]

    run_sim(run)


def test_it_works_with_exactly_the_permissions_it_asks_for() -> None:
    async def run() -> None:
        async with RayWorld(seed=1) as world:
            manager = PluginManager(load(["networkpolicy", "autoscaler-v2"]))
            rules = operator_rules([rule for found in manager.rbac_rules().values() for rule in found])
            world.server.restrict("operator", rules)
            replica = SimOperator(world=world, hooks=manager, gates=GATES)
            replica.start()
            world.server.create(cluster({}, enableInTreeAutoscaling=True))
            await world.rest(quiet=30)
            edit(world, workerGroupSpecs=[build_group("a")])
            await world.rest(quiet=60)
            edit(world, networkPolicy=None)
            await world.rest(quiet=30)
            assert policies(world) == {}
            assert missing_permissions(replica.calls(), rules) == set()

    run_sim(run)
