"""NP-02: a submitter that the network policy of the chosen RayCluster keeps out is told of at once, and does not try for ever."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kuberay.api.cluster import RayClusterSpec
from kuberay.api.gates import DEFAULT_GATES, NETWORK_POLICY
from kuberay.api.kinds import JOB, POD, RAYCLUSTER
from kuberay.api.times import format_time
from kuberay.hooks.calls import NoHooks
from kuberay.plan.job.kept_out import admits

Make = Callable[..., Any]
ORIGIN = {"ray.io/originated-from-crd": "RayJob", "ray.io/originated-from-cr-name": "j"}


class Enforced(NoHooks):
    """The plugin is on."""

    def has(self, plugin: str) -> bool:
        return plugin == "networkpolicy"


GATES = {**DEFAULT_GATES, NETWORK_POLICY: True}
ON = {"gates": GATES, "hooks": Enforced()}
DENIED = (
    "The networkPolicy of RayCluster default/shared denies ingress from this RayJob's submitter: add to its "
    "spec.networkPolicy.head.ingressRules a rule from pods with the labels ray.io/originated-from-crd: RayJob and "
    "ray.io/originated-from-cr-name: j to TCP port 8265"
)


def shared(policy: Any) -> dict[str, Any]:
    ray = {"containers": [{"name": "ray-head", "image": "ray:1"}]}
    spec = {"headGroupSpec": {"template": {"spec": ray}}, **({} if policy is None else {"networkPolicy": policy})}
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "shared"}, "spec": spec}


def selecting(new_world: Make, policy: Any, *, world: Any = ON, running: bool = True, **spec: Any) -> Any:
    """A RayJob with a clusterSelector whose submitter pod has begun to wait for the dashboard."""
    made = new_world(world=world, rayClusterSpec=None, clusterSelector={"ray.io/cluster": "shared"}, **spec)
    made.create(shared(policy))
    made.until(lambda: made.status.get("jobDeploymentStatus") == "Running")
    if (JOB, "j") in made.objects:
        add_pod(made, running=running)
    return made


def add_pod(world: Any, *, running: bool) -> None:
    job = world.objects[JOB, "j"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": job["metadata"]["uid"], "controller": True}
    state = {"running": {"startedAt": format_time(world.now)}} if running else {"waiting": {}}
    world.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "j-submitter",
                "labels": job["spec"]["template"]["metadata"]["labels"],
                "ownerReferences": [owner],
            },
            "spec": {"containers": [{"name": "ray-job-submitter"}]},
            "status": {
                "phase": "Running" if running else "Pending",
                "containerStatuses": [{"name": "ray-job-submitter", "state": state}],
            },
        }
    )


@pytest.mark.parametrize("policy", [{}, {"mode": "DenyAll"}, {"mode": "DenyAllIngress"}])
def test_a_denied_submitter_is_told_of_once_and_its_wait_ends(new_world: Make, policy: Any) -> None:
    """NP-02: one event that names the cluster and the rule to add, a condition, and an end after 300 s."""
    world = selecting(new_world, policy)
    world.run(10)
    assert world.notes("SubmitterDenied") == [DENIED]
    assert world.condition("PodsWaiting") == ("True", "SubmitterDenied")
    world.run(280)
    assert world.status["jobDeploymentStatus"] == "Running"
    world.run(20)
    assert (world.status["jobDeploymentStatus"], world.status["reason"]) == ("Failed", "SubmissionFailed")
    assert world.status["message"].startswith(
        "The submitter did not hand the job in within 300 s: the networkPolicy of"
    )
    assert world.notes("SubmitterDenied") == [DENIED]
    assert (RAYCLUSTER, "shared") in world.objects


def test_the_users_own_deadline_comes_first(new_world: Make) -> None:
    """NP-02"""
    world = selecting(new_world, {}, activeDeadlineSeconds=60)
    world.run(70)
    assert (world.status["jobDeploymentStatus"], world.status["reason"]) == ("Failed", "DeadlineExceeded")


def test_a_rule_that_is_added_in_time_lets_the_job_run(new_world: Make) -> None:
    """NP-02: as the event says."""
    world = selecting(new_world, {})
    world.run(100)
    assert world.condition("PodsWaiting") == ("True", "SubmitterDenied")
    cluster = world.objects[RAYCLUSTER, "shared"]
    cluster["spec"]["networkPolicy"] = {
        "head": {"ingressRules": [{"from": [{"podSelector": {"matchLabels": ORIGIN}}], "ports": [{"port": 8265}]}]}
    }
    world._put(RAYCLUSTER, cluster)
    world.run(5)
    assert world.told == []
    world.run(300)
    assert world.status["jobDeploymentStatus"] == "Running"
    world.set_job("SUCCEEDED")
    world.end_submitter("succeeded")
    world.run(10)
    assert world.status["jobDeploymentStatus"] == "Complete"


def test_a_job_that_got_in_all_the_same_goes_on(new_world: Make) -> None:
    """Another NetworkPolicy may admit the submitter, or nothing in the cluster enforces any."""
    world = selecting(new_world, {})
    world.run(5)
    world.set_job("RUNNING")
    world.run(400)
    assert world.status["jobStatus"] == "RUNNING"
    assert world.told == []


def test_a_submitter_that_has_not_started_is_not_late(new_world: Make) -> None:
    world = selecting(new_world, {}, running=False)
    world.run(400)
    assert world.condition("PodsWaiting") == ("True", "SubmitterDenied")
    world.delete(POD, "j-submitter")
    add_pod(world, running=True)
    world.run(290)
    assert world.status["jobDeploymentStatus"] == "Running"
    world.run(20)
    assert world.status["reason"] == "SubmissionFailed"


@pytest.mark.parametrize(
    ("policy", "world", "spec"),
    [
        pytest.param(None, ON, {}, id="no policy"),
        pytest.param({"mode": "DenyAllEgress"}, ON, {}, id="egress only"),
        pytest.param({}, {"gates": DEFAULT_GATES, "hooks": Enforced()}, {}, id="gate off"),
        pytest.param({}, {"gates": GATES}, {}, id="plugin off"),
        pytest.param({}, ON, {"submissionMode": "HTTPMode"}, id="the operator submits"),
    ],
)
def test_who_is_not_kept_out(new_world: Make, policy: Any, world: Any, spec: Any) -> None:
    made = selecting(new_world, policy, world=world, **spec)
    made.run(400)
    assert made.notes("SubmitterDenied") == []
    assert made.status["jobDeploymentStatus"] == "Running"


def test_the_submitter_of_the_clusters_own_job_is_not_kept_out(new_world: Make) -> None:
    """P47: the policy of its cluster names it."""
    world = new_world(world=ON)
    world.edit({"spec.rayClusterSpec.networkPolicy": {}})
    world.until(lambda: world.status.get("jobDeploymentStatus") == "Running")
    add_pod(world, running=True)
    world.run(400)
    assert world.told == []


LABELS = {**ORIGIN, "team": "blue"}
POD_RULE = {"podSelector": {"matchLabels": {"team": "blue"}}}


@pytest.mark.parametrize(
    ("rule", "admitted"),
    [
        pytest.param({}, True, id="everything"),
        pytest.param({"from": [POD_RULE]}, True, id="by a label"),
        pytest.param({"from": [{"podSelector": {}}]}, True, id="every pod of the namespace"),
        pytest.param({"from": [{"podSelector": {"matchLabels": {"team": "red"}}}]}, False, id="by another label"),
        pytest.param({"from": [POD_RULE], "ports": [{"port": 8265}]}, True, id="the port"),
        pytest.param({"from": [POD_RULE], "ports": [{"port": 8000}]}, False, id="another port"),
        pytest.param({"from": [POD_RULE], "ports": [{"port": 8000, "endPort": 9000}]}, True, id="a range"),
        pytest.param({"from": [POD_RULE], "ports": [{"port": 8265, "protocol": "UDP"}]}, False, id="UDP"),
        pytest.param({"from": [POD_RULE], "ports": [{"port": "dashboard"}]}, True, id="a port by name"),
        pytest.param({"from": [{"namespaceSelector": {"matchLabels": {"x": "y"}}}]}, True, id="unknown: a namespace"),
        pytest.param({"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}, True, id="unknown: addresses"),
        *(
            pytest.param(
                {"from": [{"podSelector": {"matchExpressions": [{"key": "team", "operator": operator, **values}]}}]},
                admitted,
                id=f"{operator} {values}",
            )
            for operator, values, admitted in (
                ("In", {"values": ["blue", "red"]}, True),
                ("In", {"values": ["red"]}, False),
                ("NotIn", {"values": ["red"]}, True),
                ("NotIn", {"values": ["blue"]}, False),
                ("Exists", {}, True),
                ("DoesNotExist", {}, False),
            )
        ),
    ],
)
def test_rules_of_the_user(rule: dict[str, Any], admitted: bool) -> None:
    spec = RayClusterSpec.parse(shared({"head": {"ingressRules": [rule]}})["spec"])
    assert admits(spec, "shared", LABELS) is admitted


def test_pods_of_the_cluster_itself_are_admitted() -> None:
    spec = RayClusterSpec.parse(shared({})["spec"])
    assert admits(spec, "shared", {"ray.io/cluster": "shared"})
    assert not admits(spec, "shared", {"ray.io/cluster": "other"})
