"""The token Secret: made when absent, never touched afterwards (spec raycluster.md 6.5)."""

from __future__ import annotations

from typing import Any

import pytest
from kuberay.api.kinds import SECRET
from kuberay.plan.config import PlanConfig
from kuberay.plan.model import Create, ObjectProbe

OWN = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pair"}}


def secrets(tiny: Any) -> list[str]:
    return [name for kind, name in tiny.objects if kind == SECRET]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (None, []),
        ({}, ["pair"]),
        ({"mode": ""}, ["pair"]),
        ({"mode": "token"}, ["pair"]),
        ({"mode": "disabled"}, []),
        ({"mode": "token", "secretName": "mine"}, []),
        ({"mode": "token", "secretName": ""}, ["pair"]),
        ({"mode": "token", "enableK8sTokenAuth": False}, ["pair"]),
    ],
)
def test_when_it_is_made(kubernetes: Any, cluster: Any, options: Any, expected: list[str]) -> None:
    tiny = kubernetes(cluster(**({} if options is None else {"authOptions": options})))
    tiny.settle()
    assert secrets(tiny) == expected
    assert not [event for event in tiny.events if "ecret" in event.note]


def test_not_with_tokens_of_kubernetes(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster(authOptions={"mode": "token", "enableK8sTokenAuth": True}, rayVersion="2.55.0"))
    tiny.settle()
    assert secrets(tiny) == []
    assert tiny.status["state"] == "ready"


def test_what_it_is_made_of(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster(authOptions={"mode": "token"}))
    (create,) = [write for stage in tiny.plan().stages for write in stage if write.kind == SECRET]
    assert isinstance(create, Create)
    assert create.random_data == {"auth_token": 32}
    assert isinstance(create.body, dict)
    assert "data" not in create.body, "plans know no chance"
    metadata = create.body["metadata"]
    assert metadata["labels"] == {"ray.io/cluster": "pair"}
    assert metadata["ownerReferences"][0]["controller"] is True


def test_a_deleted_one_comes_back_and_a_changed_one_stays(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster(authOptions={"mode": "token"}))
    tiny.settle()
    tiny.objects[SECRET, "pair"]["data"] = {"auth_token": "bWluZQ=="}
    tiny.settle()
    assert tiny.objects[SECRET, "pair"]["data"] == {"auth_token": "bWluZQ=="}
    del tiny.objects[SECRET, "pair"]
    tiny.settle()
    assert tiny.objects[SECRET, "pair"]["data"] != {"auth_token": "bWluZQ=="}


def test_somebody_elses_of_that_name_counts(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster(authOptions={"mode": "token"}))
    tiny.add(SECRET, OWN)
    tiny.settle()
    assert "ownerReferences" not in tiny.objects[SECRET, "pair"]["metadata"]
    assert tiny.status["state"] == "ready"
    assert tiny.plan().probes == [], "a settled cluster asks for nothing"


def test_somebody_elses_is_looked_for_again_while_pods_are_not_ready(kubernetes: Any, cluster: Any) -> None:
    """It need not carry a label that is watched, so nobody tells that it is gone."""
    tiny = kubernetes(cluster(authOptions={"mode": "token"}))
    tiny.add(SECRET, OWN)
    tiny.settle()
    tiny.set_pod(next(iter(tiny.workers)), phase="Pending", ready=False)
    assert tiny.plan().probes == [ObjectProbe(SECRET, "default", "pair")]


def test_the_secret_of_a_former_cluster_of_the_name_is_waited_out(kubernetes: Any, cluster: Any) -> None:
    """It is collected with its owner: pods started with its token could not speak to those that come later."""
    tiny = kubernetes(cluster(authOptions={"mode": "token"}))
    former = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "pair", "uid": "former", "controller": True}
    tiny.add(SECRET, {**OWN, "metadata": {"name": "pair", "ownerReferences": [former]}})
    tiny.settle()
    assert tiny.pods == {}
    waiting = tiny.condition("PodsWaiting")
    assert (waiting["reason"], waiting["message"]) == (
        "SecretNotOwned",
        "the Secret default/pair still belongs to a former cluster of this name",
    )
    del tiny.objects[SECRET, "pair"]
    tiny.settle()
    assert tiny.objects[SECRET, "pair"]["metadata"]["ownerReferences"][0]["uid"] == tiny.cluster["metadata"]["uid"]
    assert tiny.status["state"] == "ready"
    assert tiny.condition("PodsWaiting") is None


def test_a_running_cluster_is_not_held_up_by_whose_secret_it_is(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster(authOptions={"mode": "token"}))
    tiny.settle()
    tiny.objects[SECRET, "pair"]["metadata"]["ownerReferences"][0]["uid"] = "former"
    tiny.edit(lambda spec: spec["workerGroupSpecs"][0].update(replicas=4))
    tiny.settle()
    assert len(tiny.workers) == 4


def test_a_cluster_whose_token_cannot_be_had_is_refused(kubernetes: Any, cluster: Any) -> None:
    config = PlanConfig(secret_namespaces=frozenset())
    tiny = kubernetes(cluster(authOptions={"mode": "token"}, rayVersion="2.55.0"), config=config)
    tiny.settle()
    assert tiny.objects == {}
    (valid,) = [c for c in tiny.cluster["status"]["conditions"] if c["type"] == "RayClusterSpecValid"]
    assert valid["status"] == "False"
    assert "spec.authOptions: authOptions.mode token needs a Secret" in valid["message"]


@pytest.mark.parametrize("options", [{}, {"mode": ""}])
def test_a_mode_that_does_nothing_needs_no_secret(kubernetes: Any, cluster: Any, options: Any) -> None:
    tiny = kubernetes(cluster(authOptions=options), config=PlanConfig(secret_namespaces=frozenset()))
    tiny.settle()
    assert secrets(tiny) == []
    assert tiny.objects
