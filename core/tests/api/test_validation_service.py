"""Each rule of spec rayservice.md 6.1, in KubeRay's words and order, and our own after them (rows 137-143 and 151 of 7)."""

from __future__ import annotations

from typing import Any

import pytest
from kuberay.api.gates import DEFAULT_GATES
from kuberay.api.problems import Problem
from kuberay.api.validation.service import event_note, validate_service

APPS = "applications:\n- import_path: m:app\n"
HEAD = {"template": {"spec": {"containers": [{"name": "ray", "image": "ray"}]}}}
BC = {"headGroupSpec": HEAD}
BASE: dict[str, Any] = {"rayClusterConfig": BC, "serveConfigV2": APPS}
TOKEN = {"mode": "token", "enableK8sTokenAuth": True}
PREFIX = "The RayService spec is invalid: "
METADATA = "The RayService metadata is invalid: "


def worker(name: str) -> dict[str, Any]:
    return {"groupName": name, "minReplicas": 0, "maxReplicas": 1, "template": HEAD["template"]}


def check(spec: dict[str, Any] = BASE, **more: Any) -> list[tuple[str, str]]:
    problems = validate_service("s", {}, {}, {**BASE, **spec}, DEFAULT_GATES, **more)
    assert {problem.reason for problem in problems} <= {"InvalidRayServiceSpec"}
    return [(problem.path, problem.message) for problem in problems]


def test_the_least_spec_is_accepted() -> None:
    assert check() == []


@pytest.mark.parametrize(
    ("spec", "path", "message"),
    [
        (
            {"rayClusterConfig": {**BC, "rayVersion": "2.60.0", "authOptions": TOKEN}},
            "spec.rayClusterConfig.authOptions.enableK8sTokenAuth",
            f"{PREFIX}K8s token auth mode is currently not supported for RayService",
        ),
        (
            {"rayClusterConfig": {"headGroupSpec": {"template": {}}}},
            "spec.rayClusterConfig.headGroupSpec.template.spec.containers",
            f"{PREFIX}headGroupSpec should have at least one container",
        ),
        (
            {"rayClusterConfig": {"headGroupSpec": {**HEAD, "headService": {"metadata": {"name": "x"}}}}},
            "spec.rayClusterConfig.headGroupSpec.headService.metadata.name",
            f"{PREFIX}spec.rayClusterConfig.headGroupSpec.headService.metadata.name should not be set",
        ),
        (
            {"upgradeStrategy": {"type": "Someday"}},
            "spec.upgradeStrategy.type",
            f"{PREFIX}Spec.UpgradeStrategy.Type value Someday is invalid, valid options are"
            " NewClusterWithIncrementalUpgrade, NewCluster, or None",
        ),
        (
            {"upgradeStrategy": {"type": ""}},
            "spec.upgradeStrategy.type",
            f"{PREFIX}Spec.UpgradeStrategy.Type value  is invalid, valid options are"
            " NewClusterWithIncrementalUpgrade, NewCluster, or None",
        ),
        (
            {"rayClusterDeletionDelaySeconds": -1},
            "spec.rayClusterDeletionDelaySeconds",
            f"{PREFIX}Spec.RayClusterDeletionDelaySeconds should be a non-negative integer, got -1",
        ),
        (
            {"upgradeStrategy": {"type": "Rolling", "maxUnavailable": 0, "maxSurge": "0%"}},
            "spec.upgradeStrategy.maxUnavailable",
            f"{PREFIX}upgradeStrategy.maxUnavailable may not be 0 when maxSurge is 0: no pod could ever be replaced",
        ),
        (
            {"upgradeStrategy": {"type": "Rolling", "maxSurge": "a lot"}},
            "spec.upgradeStrategy.maxSurge",
            f"{PREFIX}upgradeStrategy.maxSurge 'a lot' must be a whole number or a percentage such as 25%",
        ),
        (
            {
                "upgradeStrategy": {"type": "Rolling"},
                "rayClusterConfig": {**BC, "workerGroupSpecs": [worker("headgroup")]},
            },
            "spec.upgradeStrategy.type",
            f"{PREFIX}Rolling cannot be used with a worker group named headgroup: the head is called so",
        ),
        (
            {"rayClusterConfig": {**BC, "upgradeStrategy": {"type": "Recreate"}}},
            "spec.rayClusterConfig.upgradeStrategy.type",
            f"{PREFIX}upgradeStrategy cannot be set when RayCluster is created by RayService: the strategy is set in"
            " spec.upgradeStrategy",
        ),
        (
            {"rayClusterConfig": {**BC, "lifecycle": {"maxAgeSeconds": 5}}},
            "spec.rayClusterConfig.lifecycle",
            f"{PREFIX}lifecycle cannot be set when RayCluster is created by RayService, which ends it itself",
        ),
        (
            {"serveService": {"metadata": {"name": "No.Name"}}},
            "spec.serveService.metadata.name",
            f"{PREFIX}spec.serveService.metadata.name should be a valid DNS1035 label: [a DNS-1035 label must consist",
        ),
        (
            {"serveService": {"metadata": {"name": "s-head-svc"}}},
            "spec.serveService.metadata.name",
            f"{PREFIX}spec.serveService.metadata.name should not be s-head-svc, which is the name of the head service",
        ),
        (
            {"serveConfigV2": "applications:\n- name: a\n"},
            "spec.serveConfigV2",
            f"{PREFIX}spec.serveConfigV2: applications[0].import_path is missing",
        ),
        (
            {"serveConfigV2": "a: ["},
            "spec.serveConfigV2",
            f"{PREFIX}spec.serveConfigV2: line 1, column 5: while parsing a flow node: expected the node content",
        ),
        (
            {"serveConfigV2": ""},
            "spec.serveConfigV2",
            f"{PREFIX}spec.serveConfigV2: it is empty; it must name the applications that Serve is to run",
        ),
    ],
)
def test_one_rule(spec: dict[str, Any], path: str, message: str) -> None:
    [(where, told)] = check(spec)
    assert where == path
    assert told.startswith(message)


@pytest.mark.parametrize(
    "spec",
    [
        {"upgradeStrategy": {}},
        {"upgradeStrategy": {"type": None}},
        *({"upgradeStrategy": {"type": name}} for name in ("NewCluster", "None", "Recreate", "Rolling")),
        {"upgradeStrategy": {"type": "NewClusterWithIncrementalUpgrade"}},
        {"upgradeStrategy": {"type": "Rolling", "maxUnavailable": 0, "maxSurge": "25%", "allowHeadRestart": True}},
        {"upgradeStrategy": {"type": "NewCluster", "maxUnavailable": 0}},
        {"rayClusterDeletionDelaySeconds": 0},
        {"rayClusterConfig": {**BC, "upgradeStrategy": {}}},
        {"serveService": {"metadata": {"name": "front"}}},
        {"serveService": {"spec": {"type": "NodePort"}}},
        {"serveConfigV2": "applications: []"},
    ],
)
def test_accepted(spec: dict[str, Any]) -> None:
    assert check(spec) == []


def test_gw_04_what_the_strategy_finds_comes_after_kuberays_rules_and_before_ours() -> None:
    """GW-04: impossible step sizes are told with their exact cause."""
    found = Problem(
        "spec.upgradeStrategy.clusterUpgradeOptions.intervalSeconds", "intervalSeconds …", "InvalidRayServiceSpec"
    )
    spec = {
        "upgradeStrategy": {"type": "NewClusterWithIncrementalUpgrade"},
        "rayClusterDeletionDelaySeconds": -1,
        "serveConfigV2": "x",
    }
    told = check(spec, strategy_problems=[found])
    assert [path for path, _ in told] == ["spec.rayClusterDeletionDelaySeconds", found.path, "spec.serveConfigV2"]
    assert told[1][1] == f"{PREFIX}{found.message}", "in KubeRay's words, as every rule"


def test_a_type_that_a_plugin_offers_is_known() -> None:
    spec = {"upgradeStrategy": {"type": "Someday"}}
    assert check(spec, offered_type="Someday") == []
    assert check(spec, offered_type="Never") != []
    assert check({"upgradeStrategy": {"type": ""}}, offered_type="") != []


@pytest.mark.parametrize(
    ("status", "refused"),
    [
        (None, True),
        ({}, True),
        ({"activeServiceStatus": {}}, True),
        ({"activeServiceStatus": {"rayClusterName": ""}, "pendingServiceStatus": {"rayClusterName": "s-abcde"}}, True),
        ({"activeServiceStatus": {"rayClusterName": "s-abcde"}}, False),
    ],
)
def test_a_service_that_serves_is_not_refused_for_its_configuration(
    status: dict[str, Any] | None, refused: bool
) -> None:
    assert bool(check({"serveConfigV2": "a: ["}, status=status)) is refused
    assert check({"rayClusterDeletionDelaySeconds": -1}, status=status) != []


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("s" * 47, []),
        ("s" * 48, [f"{METADATA}RayService name should be no more than 47 characters"]),
        ("1" * 47, [f"{METADATA}RayService name should be a valid DNS1035 label: [a DNS-1035 label must consist of"]),
        ("invalid.name", [f"{METADATA}RayService name should be a valid DNS1035 label: [a DNS-1035 label must"]),
        (
            "s" * 84,
            [
                f"{METADATA}RayService name should be no more than 47 characters",
                f"{METADATA}RayService name should be a valid DNS1035 label: [must be no more than 63 bytes",
            ],
        ),
    ],
)
def test_names(name: str, told: list[str]) -> None:
    problems = validate_service(name, {}, {}, BASE, DEFAULT_GATES)
    assert {(problem.path, problem.reason) for problem in problems} <= {("metadata.name", "InvalidRayServiceMetadata")}
    assert len(problems) == len(told)
    for problem, begin in zip(problems, told, strict=True):
        assert problem.message.startswith(begin)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("5m", ""),
        ("300", ""),
        ("", ""),
        ("0", "must be a positive duration, got: 0"),
        ("-100", "must be a positive integer (seconds), got: -100"),
        ("-5m", "must be a positive duration, got: -5m"),
        ("invalid", "has invalid format: invalid"),
    ],
)
def test_initializing_timeout(text: str, told: str) -> None:
    problems = validate_service("s", {}, {"ray.io/initializing-timeout": text}, BASE, DEFAULT_GATES)
    if not told:
        assert problems == []
        return
    [problem] = problems
    assert (problem.path, problem.reason) == (
        "metadata.annotations[ray.io/initializing-timeout]",
        "InvalidRayServiceMetadata",
    )
    assert problem.message.startswith(
        f"{METADATA}RayService annotations is invalid: ray.io/initializing-timeout {told}"
    )


def test_rules_are_told_in_kuberays_order() -> None:
    spec = {
        "rayClusterConfig": {
            "headGroupSpec": {"template": {}, "headService": {"metadata": {"name": "x"}}},
            "authOptions": TOKEN,
            "rayVersion": "2.60.0",
            "upgradeStrategy": {"type": "Rolling"},
        },
        "upgradeStrategy": {"type": "Someday"},
        "rayClusterDeletionDelaySeconds": -1,
        "serveConfigV2": "x",
    }
    problems = validate_service("S", {}, {"ray.io/initializing-timeout": "x"}, spec, DEFAULT_GATES)
    assert [problem.path.removeprefix("spec.rayClusterConfig.") for problem in problems] == [
        "metadata.name",
        "metadata.annotations[ray.io/initializing-timeout]",
        "authOptions.enableK8sTokenAuth",
        "headGroupSpec.template.spec.containers",
        "headGroupSpec.headService.metadata.name",
        "spec.upgradeStrategy.type",
        "spec.rayClusterDeletionDelaySeconds",
        "upgradeStrategy.type",
        "spec.serveConfigV2",
    ]


def test_annotations_of_the_service_count_for_its_cluster() -> None:
    spec = {
        "rayClusterConfig": {**BC, "gcsFaultToleranceOptions": {"redisAddress": "redis:6379"}},
        "serveConfigV2": APPS,
    }
    [problem] = validate_service("s", {}, {"ray.io/ft-enabled": "false"}, spec, DEFAULT_GATES)
    assert problem.message.startswith(PREFIX)
    assert "ray.io/ft-enabled" in problem.message


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({}, "headGroupSpec should have at least one container"),
        ({"rayClusterConfig": {}}, "spec.rayClusterConfig.headGroupSpec: Field required"),
        ({**BASE, "serveConfigV2": {"applications": []}}, "spec.serveConfigV2: Input should be a valid string"),
        ({**BASE, "serveService": {"spec": []}}, "spec.serveService: spec must be an object"),
    ],
)
def test_what_cannot_be_parsed_is_told_with_its_path(spec: dict[str, Any], told: str) -> None:
    problem = validate_service("s", {}, {}, spec, DEFAULT_GATES)[0]
    assert problem.reason == "InvalidRayServiceSpec"
    assert told in problem.message


def test_the_event_names_the_object() -> None:
    [problem] = validate_service("s", {}, {}, {**BASE, "rayClusterDeletionDelaySeconds": -1}, DEFAULT_GATES)
    assert event_note(problem, "ns", "s").startswith("ns/s: The RayService spec is invalid: Spec.RayClusterDeletion")
