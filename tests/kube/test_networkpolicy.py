"""NetworkPolicies on a real API server: what presets add is valid, comes before the pods, and settles; a submitter that is kept out."""

from __future__ import annotations

from typing import Any

from kube_world import Operator, World
from kuberay.api.kinds import NETWORK_POLICY, RAYCLUSTER, RAYJOB

FLAGS = ("--feature-gates=RayClusterNetworkPolicy=true",)
WHERE = {"POD_NAMESPACE": "kuberay-system"}


def cluster(name: str = "ray", policy: Any = None, **spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "ray", "image": "rayproject/ray:2.54.0"}]}}
    group = {"groupName": "small", "replicas": 1, "minReplicas": 0, "maxReplicas": 9, "template": template}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": name},
        "spec": {
            "rayVersion": "2.54.0",
            "headGroupSpec": {"template": template},
            "workerGroupSpecs": [group],
            "networkPolicy": policy or {},
            **spec,
        },
    }


async def ready(world: World, name: str = "ray") -> None:
    async def check() -> bool:
        status = (await world.get(RAYCLUSTER, name)).get("status", {})
        return bool(status.get("state") == "ready" and status.get("readyWorkerReplicas", 0) == 1)

    await world.eventually(check, what=f"{name} is ready")


async def test_policies_with_presets_live_and_go_with_the_field(operators: Operator, world: World) -> None:
    """NP-01 and NP-05: the operator, name servers and the API server are admitted by valid rules."""
    operators.ensure(FLAGS, WHERE)
    rules = {"worker": {"egressRules": [{"ports": [{"port": 443}]}]}}
    await world.put(cluster(policy={"mode": "DenyAll", **rules}, enableInTreeAutoscaling=True))
    await ready(world)
    policies = {policy["metadata"]["name"]: policy for policy in await world.list(NETWORK_POLICY)}
    assert sorted(policies) == ["ray-head", "ray-workers-small"]
    ingress, egress = policies["ray-head"]["spec"]["ingress"], policies["ray-head"]["spec"]["egress"]
    (peer,) = ingress[1]["from"]
    assert peer["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "kuberay-system"}
    assert [port["port"] for port in ingress[1]["ports"]] == [8265, 6379]
    assert [len(rule["ports"]) for rule in egress[1:]] == [4, 2]
    assert policies["ray-workers-small"]["spec"]["egress"][-1] == {"ports": [{"port": 443, "protocol": "TCP"}]}
    made = [policy["metadata"]["creationTimestamp"] for policy in policies.values()]
    assert max(made) <= min(pod["metadata"]["creationTimestamp"] for pod in await world.pods())
    # Nothing is written while nothing changes, though the API server has filled in defaults.
    before = [policy["metadata"]["resourceVersion"] for policy in policies.values()]
    await world.settled(quiet=3)
    calls = operators.requests()
    await world.settled(quiet=3)
    assert operators.requests() == calls
    assert [p["metadata"]["resourceVersion"] for p in await world.list(NETWORK_POLICY)] == before
    await world.patch(
        NETWORK_POLICY, "ray-head", {"metadata": {"labels": {"ray.io/group": "mine"}}, "spec": {"ingress": []}}
    )

    async def reverted() -> bool:
        live = await world.get(NETWORK_POLICY, "ray-head")
        return bool(live["metadata"]["labels"]["ray.io/group"] == "headgroup" and live["spec"]["ingress"] == ingress)

    await world.eventually(reverted)
    await world.patch(RAYCLUSTER, "ray", {"spec": {"networkPolicy": None}})

    async def gone() -> bool:
        return not await world.list(NETWORK_POLICY)

    await world.eventually(gone)
    reasons = {event["reason"] for event in await world.events()}
    assert {"CreatedNetworkPolicy", "UpdatedNetworkPolicy", "DeletedNetworkPolicy"} <= reasons


async def test_a_submitter_that_the_chosen_cluster_denies_is_told_of(operators: Operator, world: World) -> None:
    """NP-02: an event on the RayJob names the cluster and the rule that is missing."""
    operators.ensure(FLAGS, WHERE)
    await world.put(cluster("shared", {"mode": "DenyAllIngress"}))
    await ready(world, "shared")
    spec = {"clusterSelector": {"ray.io/cluster": "shared"}, "entrypoint": "python a.py"}
    await world.put({"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "train"}, "spec": spec})

    async def told() -> Any:
        return [
            e for e in await world.events() if e["reason"] == "SubmitterDenied" and e["regarding"]["name"] == "train"
        ]

    (event,) = await world.eventually(told)
    assert event["type"] == "Warning"
    assert "ray.io/originated-from-cr-name: train to TCP port 8265" in event["note"]

    async def waiting() -> Any:
        conditions = (await world.get(RAYJOB, "train"))["status"].get("conditions", ())
        return [c for c in conditions if (c["type"], c["reason"]) == ("PodsWaiting", "SubmitterDenied")]

    (condition,) = await world.eventually(waiting)
    assert "networkPolicy of RayCluster" in condition["message"]
