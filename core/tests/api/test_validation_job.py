"""Each rule of rayjob.md 6 (numbers in comments are those of its section 8)."""

from typing import Any

import pytest
from kuberay.api.gates import DEFAULT_GATES
from kuberay.api.validation.job import validate_job

BC = {"headGroupSpec": {"template": {"spec": {"containers": [{"name": "ray", "image": "ray"}]}}}}
SELECTOR = {"ray.io/cluster": "ray-cluster"}
AUTOSCALED = {**BC, "enableInTreeAutoscaling": True}
PREFIX = "The RayJob spec is invalid: "


def check(gates: dict[str, bool] = DEFAULT_GATES, **spec: Any) -> list[tuple[str, str]]:
    problems = validate_job("j", {}, {}, spec, gates)
    assert {problem.reason for problem in problems} <= {"InvalidRayJobSpec"}
    return [(problem.path, problem.message) for problem in problems]


def legacy(success: str | None, failure: str | None) -> dict[str, Any]:
    sides = {"onSuccess": success, "onFailure": failure}
    return {name: {"policy": policy} for name, policy in sides.items() if policy is not None}


def rules(*items: tuple[str, str, int]) -> dict[str, Any]:
    """(policy, condition, delay): the condition ``Failed`` is a deployment status, others are job statuses."""
    return {
        "deletionRules": [
            {
                "policy": policy,
                "condition": {
                    "jobDeploymentStatus" if state == "Failed" else "jobStatus": state,
                    "ttlSeconds": seconds,
                },
            }
            for policy, state, seconds in items
        ]
    }


@pytest.mark.parametrize(
    ("spec", "path", "message"),
    [
        ({}, "rayClusterSpec", f"{PREFIX}one of RayClusterSpec or ClusterSelector must be set"),
        (
            {"rayClusterSpec": BC, "suspend": True},
            "suspend",
            f"{PREFIX}a RayJob with shutdownAfterJobFinishes set to false is not allowed to be suspended",
        ),
        (
            {"clusterSelector": SELECTOR, "suspend": True, "shutdownAfterJobFinishes": True},
            "suspend",
            f"{PREFIX}the ClusterSelector mode doesn't support the suspend operation",
        ),
        (
            {"rayClusterSpec": BC, "ttlSecondsAfterFinished": 5},
            "ttlSecondsAfterFinished",
            f"{PREFIX}a RayJob with shutdownAfterJobFinishes set to false cannot have TTLSecondsAfterFinished",
        ),
        (
            {"rayClusterSpec": BC, "ttlSecondsAfterFinished": -5, "shutdownAfterJobFinishes": True},
            "ttlSecondsAfterFinished",
            f"{PREFIX}TTLSecondsAfterFinished must be a non-negative integer",
        ),
        (
            {"clusterSelector": {"key": "value"}},
            "clusterSelector",
            "cluster name in ClusterSelector should not be empty",
        ),
        (
            {"clusterSelector": {"ray.io/cluster": ""}},
            "clusterSelector",
            "cluster name in ClusterSelector should not be empty",
        ),
        (
            {"clusterSelector": SELECTOR, "submissionMode": "SidecarMode"},
            "clusterSelector",
            "ClusterSelector is not supported in SidecarMode",
        ),
        (
            {"clusterSelector": SELECTOR, "backoffLimit": 1},
            "backoffLimit",
            f"{PREFIX}BackoffLimit is incompatible with ClusterSelector",
        ),
        (
            {"rayClusterSpec": BC, "submissionMode": "InteractiveMode", "backoffLimit": 1},
            "backoffLimit",
            f"{PREFIX}BackoffLimit is incompatible with InteractiveMode",
        ),
        (
            {"rayClusterSpec": BC, "submissionMode": "SidecarMode", "submitterPodTemplate": {}},
            "submitterPodTemplate",
            "Currently, SidecarMode doesn't support SubmitterPodTemplate",
        ),
        (
            {"rayClusterSpec": BC, "submissionMode": "SidecarMode", "submitterConfig": {"backoffLimit": 1}},
            "submitterConfig",
            "Currently, SidecarMode doesn't support SubmitterConfig",
        ),
        (
            {
                "rayClusterSpec": {
                    "headGroupSpec": {"template": {"spec": {"containers": [{"name": "r"}], "restartPolicy": "Always"}}}
                },
                "submissionMode": "SidecarMode",
            },
            "rayClusterSpec.headGroupSpec.template.spec.restartPolicy",
            "restartPolicy for head Pod should be Never or unset when using SidecarMode",
        ),
        (
            {"rayClusterSpec": {"headGroupSpec": {"template": {}}}},
            "rayClusterSpec.headGroupSpec.template.spec.containers",
            f"{PREFIX}headGroupSpec should have at least one container",
        ),
        (
            {"rayClusterSpec": BC, "runtimeEnvYAML": "invalid_yaml_str"},
            "runtimeEnvYAML",
            "failed to unmarshal RuntimeEnvYAML: invalid_yaml_str: it must be a mapping, not a str",
        ),
        (
            {"rayClusterSpec": BC, "activeDeadlineSeconds": 0},
            "activeDeadlineSeconds",
            f"{PREFIX}activeDeadlineSeconds must be a positive integer",
        ),
        (
            {"rayClusterSpec": BC, "preRunningDeadlineSeconds": 0},
            "preRunningDeadlineSeconds",
            f"{PREFIX}preRunningDeadlineSeconds must be a positive integer",
        ),
        (
            {"rayClusterSpec": BC, "backoffLimit": -1},
            "backoffLimit",
            f"{PREFIX}backoffLimit must be a positive integer",
        ),
        (
            {"rayClusterSpec": BC, "submissionMode": "Carrier"},
            "submissionMode",
            f"{PREFIX}submissionMode 'Carrier' is none of K8sJobMode, HTTPMode, InteractiveMode, SidecarMode",
        ),
        (
            {"rayClusterSpec": {**BC, "upgradeStrategy": {"type": "Recreate"}}},
            "rayClusterSpec.upgradeStrategy.type",
            "upgradeStrategy cannot be set when RayCluster is created by RayJob",
        ),
    ],
)
def test_one_rule(spec: dict[str, Any], path: str, message: str) -> None:
    assert check(**spec) == [(f"spec.{path}", message)]


def test_kubernetes_token_auth_is_refused() -> None:
    cluster = {**BC, "rayVersion": "2.60.0", "authOptions": {"mode": "token", "enableK8sTokenAuth": True}}
    [(path, _)] = check(rayClusterSpec=cluster)
    assert path == "spec.rayClusterSpec.authOptions.enableK8sTokenAuth"


def test_broken_yaml_is_told_in_one_line() -> None:
    [(path, message)] = check(rayClusterSpec=BC, runtimeEnvYAML="a: [")
    assert path == "spec.runtimeEnvYAML"
    assert message.startswith("failed to unmarshal RuntimeEnvYAML: a: [: ")
    assert "\n" not in message


@pytest.mark.parametrize(
    "spec",
    [
        {"rayClusterSpec": BC, "suspend": True, "shutdownAfterJobFinishes": True},  # 11
        {"rayClusterSpec": BC, "submissionMode": "InteractiveMode", "backoffLimit": 0},  # 16
        {"rayClusterSpec": BC, "submissionMode": "InteractiveMode"},  # 17
        {"rayClusterSpec": BC, "shutdownAfterJobFinishes": True, "ttlSecondsAfterFinished": 5},  # 19
        {"rayClusterSpec": BC, "submissionMode": "SidecarMode"},  # 21
        {"clusterSelector": SELECTOR},  # 28
        {"rayClusterSpec": BC, "runtimeEnvYAML": ""},
        {"rayClusterSpec": BC, "runtimeEnvYAML": "pip: [a]\n"},
    ],
)
def test_accepted(spec: dict[str, Any]) -> None:
    assert check(**spec) == []


REFUSED_STRATEGIES: list[tuple[int, dict[str, Any], dict[str, Any], str]] = [
    (32, legacy("DeleteCluster", "DeleteSelf"), {"clusterSelector": SELECTOR}, "onSuccess.policy"),
    (33, legacy("DeleteSelf", "DeleteWorkers"), {"clusterSelector": SELECTOR}, "onFailure.policy"),
    (34, legacy("DeleteSelf", "DeleteWorkers"), {"rayClusterSpec": AUTOSCALED}, "onFailure.policy"),
    (37, legacy("DeleteNone", "DeleteSelf"), {"shutdownAfterJobFinishes": True}, "onSuccess.policy"),
    (38, legacy(None, "DeleteSelf"), {}, "onSuccess"),
    (39, legacy("DeleteSelf", None), {}, "onFailure"),
    (40, {"onSuccess": {"policy": "DeleteSelf"}, "onFailure": {}}, {}, "onFailure.policy"),
    (42, rules(("DeleteSelf", "SUCCEEDED", 10)), {"shutdownAfterJobFinishes": True}, "deletionRules"),
    (43, rules(("DeleteSelf", "SUCCEEDED", 10)) | {"onSuccess": {"policy": "DeleteSelf"}}, {}, "deletionRules"),
    (44, {}, {}, ""),
    (45, {"deletionRules": []}, {}, ""),
    (46, rules(("DeleteSelf", "SUCCEEDED", 10), ("DeleteSelf", "SUCCEEDED", 20)), {}, "deletionRules[1]"),
    (47, rules(("DeleteSelf", "SUCCEEDED", -10)), {}, "deletionRules[0]"),
    (48, rules(("DeleteWorkers", "SUCCEEDED", 0)), {"clusterSelector": SELECTOR}, "deletionRules[0]"),
    (49, rules(("DeleteCluster", "SUCCEEDED", 0)), {"clusterSelector": SELECTOR}, "deletionRules[0]"),
    (50, rules(("DeleteWorkers", "SUCCEEDED", 0)), {"rayClusterSpec": AUTOSCALED}, "deletionRules[0]"),
    (51, rules(("DeleteWorkers", "SUCCEEDED", 20), ("DeleteCluster", "SUCCEEDED", 10)), {}, "deletionRules"),
    (52, rules(("DeleteCluster", "SUCCEEDED", 20), ("DeleteSelf", "SUCCEEDED", 10)), {}, "deletionRules"),
    (
        55,
        {
            "deletionRules": [
                {"policy": "DeleteSelf", "condition": {"jobStatus": "FAILED", "jobDeploymentStatus": "Failed"}}
            ]
        },
        {},
        "deletionRules[0]",
    ),
    (56, {"deletionRules": [{"policy": "DeleteSelf", "condition": {}}]}, {}, "deletionRules[0]"),
    (57, rules(("DeleteCluster", "Failed", 0), ("DeleteCluster", "Failed", 9)), {}, "deletionRules[1]"),
    (59, rules(("DeleteWorkers", "Failed", 20), ("DeleteCluster", "Failed", 10)), {}, "deletionRules"),
]


@pytest.mark.parametrize(("number", "strategy", "more", "path"), REFUSED_STRATEGIES, ids=lambda value: str(value)[:3])
def test_refused_strategies(number: int, strategy: dict[str, Any], more: dict[str, Any], path: str) -> None:
    cluster = {} if "clusterSelector" in more else {"rayClusterSpec": BC}
    [(where, message)] = check(**cluster | more, deletionStrategy=strategy)
    assert where == f"spec.deletionStrategy.{path}".rstrip(".")
    assert message


@pytest.mark.parametrize(
    ("strategy", "shutdown"),
    [
        (legacy("DeleteCluster", "DeleteCluster"), True),  # 35
        (rules(("DeleteSelf", "SUCCEEDED", 10)), False),  # 41
        (
            rules(
                ("DeleteWorkers", "SUCCEEDED", 10),
                ("DeleteCluster", "SUCCEEDED", 20),
                ("DeleteSelf", "SUCCEEDED", 30),
                ("DeleteSelf", "FAILED", 0),
            ),
            False,
        ),  # 53
        (rules(("DeleteCluster", "Failed", 10), ("DeleteSelf", "Failed", 20)), False),  # 54
        (rules(("DeleteWorkers", "FAILED", 10), ("DeleteCluster", "Failed", 20)), False),  # 58
        (rules(("DeleteWorkers", "FAILED", 20), ("DeleteCluster", "Failed", 10)), False),
    ],
)
def test_accepted_strategies(strategy: dict[str, Any], shutdown: bool) -> None:
    assert check(rayClusterSpec=BC, deletionStrategy=strategy, shutdownAfterJobFinishes=shutdown) == []


def test_strategy_needs_its_gate() -> None:
    [(path, message)] = check(
        DEFAULT_GATES | {"RayJobDeletionPolicy": False},
        rayClusterSpec=BC,
        deletionStrategy=legacy("DeleteSelf", "DeleteSelf"),
    )
    assert path == "spec.deletionStrategy"
    assert "RayJobDeletionPolicy" in message


def test_rule_errors_are_joined_by_newlines() -> None:
    strategy = rules(("DeleteSelf", "SUCCEEDED", -1), ("DeleteCluster", "FAILED", 1), ("DeleteCluster", "FAILED", 2))
    [(path, message)] = check(rayClusterSpec=BC, deletionStrategy=strategy)
    assert path == "spec.deletionStrategy.deletionRules"
    assert [line.split(":")[0] for line in message.split("\n")] == ["deletionRules[0]", "deletionRules[2]"]


def test_names_and_status() -> None:
    spec = {"rayClusterSpec": BC}
    [problem] = validate_job("1" * 47, {}, {}, spec, DEFAULT_GATES)
    assert problem.reason == "InvalidRayJobMetadata"
    assert problem.message.startswith("The RayJob metadata is invalid: RayJob name should be a valid DNS1035 label")
    [problem] = validate_job("j", {}, {}, spec, DEFAULT_GATES, {"jobDeploymentStatus": "Waiting"})
    assert (problem.reason, problem.path) == ("InvalidRayJobStatus", "status.jobDeploymentStatus")
    interactive = spec | {"submissionMode": "InteractiveMode"}
    assert validate_job("j", {}, {}, interactive, DEFAULT_GATES, {"jobDeploymentStatus": "Waiting"}) == []


def test_what_cannot_be_parsed_is_told_with_its_path() -> None:
    [problem] = validate_job("j", {}, {}, {"rayClusterSpec": {}, "entrypoint": "x"}, DEFAULT_GATES)
    assert str(problem) == "spec.rayClusterSpec.headGroupSpec: Field required"
