"""PodDisruptionBudgets: one per group that asks for one, with a number Kubernetes can count, and gone with the wish."""

from __future__ import annotations

from typing import Any

import pytest
from kuberay.api.cluster import DisruptionBudget
from kuberay.api.kinds import POD_DISRUPTION_BUDGET
from kuberay.plan.build.spec_hash import spec_hash
from kuberay.plan.cluster.disruption import available


def budgets(tiny: Any) -> dict[str, Any]:
    return {name: body for (kind, name), body in tiny.objects.items() if kind == POD_DISRUPTION_BUDGET}


@pytest.mark.parametrize(
    ("fields", "pods", "expected"),
    [
        ({"minAvailable": 2}, 3, 2),
        ({"minAvailable": 5}, 3, 5),
        ({"minAvailable": "50%"}, 3, 2),
        ({"minAvailable": "0%"}, 3, 0),
        ({"minAvailable": "100%"}, 3, 3),
        ({"maxUnavailable": 1}, 3, 2),
        ({"maxUnavailable": 5}, 3, 0),
        ({"maxUnavailable": 0}, 1, 1),
        ({"maxUnavailable": "30%"}, 3, 2),
        ({"maxUnavailable": "50%"}, 0, 0),
    ],
)
def test_how_many_stay(fields: dict[str, Any], pods: int, expected: int) -> None:
    assert available(DisruptionBudget.model_validate(fields), pods) == expected


def test_budgets_of_head_and_groups(kubernetes: Any, cluster: Any, group: Any) -> None:
    body = cluster(groups=[group(numOfHosts=2, disruptionBudget={"maxUnavailable": 1}), group("plain")])
    body["spec"]["headGroupSpec"]["disruptionBudget"] = {"maxUnavailable": 0}
    tiny = kubernetes(body)
    tiny.settle()
    found = budgets(tiny)
    assert {name: budget["spec"]["minAvailable"] for name, budget in found.items()} == {
        "pair-crew": 5,
        "pair-headgroup": 1,
    }
    assert found["pair-crew"]["spec"]["selector"] == {"matchLabels": {"ray.io/cluster": "pair", "ray.io/group": "crew"}}
    assert found["pair-crew"]["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
    assert found["pair-crew"]["metadata"]["ownerReferences"][0]["uid"] == tiny.cluster["metadata"]["uid"]
    for labels in (pod["metadata"]["labels"] for pod in tiny.workers.values() if "crew" in pod["metadata"]["name"]):
        assert found["pair-crew"]["spec"]["selector"]["matchLabels"].items() <= labels.items()
    told = {event.note for event in tiny.events if event.reason == "CreatedPodDisruptionBudget"}
    assert told == {f"Created pod disruption budget default/{name}" for name in found}


def test_a_budget_follows_the_replicas_and_goes_with_the_wish(kubernetes: Any, cluster: Any, group: Any) -> None:
    tiny = kubernetes(cluster(groups=[group(disruptionBudget={"maxUnavailable": 1})]))
    tiny.settle()
    tiny.edit(lambda spec: spec["workerGroupSpecs"][0].update(replicas=5))
    tiny.settle()
    assert budgets(tiny)["pair-crew"]["spec"]["minAvailable"] == 4
    tiny.edit(lambda spec: spec["workerGroupSpecs"][0].pop("disruptionBudget"))
    tiny.settle()
    assert budgets(tiny) == {}
    assert [event.note for event in tiny.events if event.reason == "DeletedPodDisruptionBudget"] == [
        "Deleted pod disruption budget default/pair-crew"
    ]


def test_a_budget_goes_with_its_group(kubernetes: Any, cluster: Any, group: Any) -> None:
    """RC-03: nothing of a removed group stays."""
    tiny = kubernetes(cluster(groups=[group(), group("gone", disruptionBudget={"minAvailable": 1})]))
    tiny.settle()
    assert set(budgets(tiny)) == {"pair-gone"}
    tiny.edit(lambda spec: spec["workerGroupSpecs"].pop())
    tiny.settle()
    assert budgets(tiny) == {}


def test_nothing_is_kept_of_a_suspended_cluster(kubernetes: Any, cluster: Any, group: Any) -> None:
    tiny = kubernetes(cluster(groups=[group(disruptionBudget={"maxUnavailable": 1})], suspend=True))
    tiny.settle()
    assert budgets(tiny)["pair-crew"]["spec"]["minAvailable"] == 0


def test_a_budget_of_somebody_else_is_left_alone_and_told(kubernetes: Any, cluster: Any, group: Any) -> None:
    tiny = kubernetes(cluster(groups=[group(disruptionBudget={"maxUnavailable": 1})]))
    theirs = tiny.add(POD_DISRUPTION_BUDGET, {"metadata": {"name": "pair-crew"}, "spec": {"minAvailable": 1}})
    plan = tiny.plan()
    (warning,) = [event for event in plan.events if event.reason == "FailedToCreatePodDisruptionBudget"]
    assert "belongs to somebody else" in warning.note
    (write,) = [write for stage in plan.stages for write in stage if write.kind == POD_DISRUPTION_BUDGET]
    assert write.yields, "the executor leaves it alone"
    assert budgets(tiny) == {"pair-crew": theirs}


def test_a_budget_changes_no_pod(cluster: Any, group: Any) -> None:
    with_budget = cluster(groups=[group(disruptionBudget={"minAvailable": 1})])["spec"]
    with_budget["headGroupSpec"]["disruptionBudget"] = {"maxUnavailable": 0}
    assert spec_hash(with_budget) == spec_hash(cluster(groups=[group()])["spec"])
