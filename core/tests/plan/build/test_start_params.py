"""Parameters of ``ray start`` and the command of the Ray container (spec raycluster.md 3.6, 3.7 and 8.2)."""

from __future__ import annotations

from typing import Any

import pytest
from kuberay.api.cluster import WorkerGroupSpec
from kuberay.plan.build.command import ray_start, set_command
from kuberay.plan.build.shell import shell
from kuberay.plan.build.start_params import add_container_resources, complete, gcs_port, is_gpu, port_param

ADDRESS = "c-head-svc.ns.svc.cluster.local:6379"


def params(node_type: str = "worker", limits: Any = None, requests: Any = None, **group: Any) -> dict[str, str]:
    resources = {"limits": limits or {}, "requests": requests or {}}
    template = {"spec": {"containers": [{"name": "ray", "resources": resources}]}}
    spec = WorkerGroupSpec.model_validate({"groupName": "g", "template": template, **group})
    return complete(spec, node_type=node_type, gcs_address=ADDRESS)


def test_worker_defaults() -> None:
    assert params(limits={"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": 3}, rayStartParams={"port": "6379"}) == {
        "address": ADDRESS,
        "block": "true",
        "dashboard-agent-listen-port": "52365",
        "memory": "1073741824",
        "metrics-export-port": "8080",
        "num-cpus": "1",
        "num-gpus": "3",
        "port": "6379",
    }


def test_head_defaults() -> None:
    assert params("head") == {
        "block": "true",
        "dashboard-agent-listen-port": "52365",
        "dashboard-host": "0.0.0.0",
        "metrics-export-port": "8080",
    }


@pytest.mark.parametrize(
    ("given", "key", "expected"),
    [
        ({"block": "false"}, "block", "true"),
        ({"address": "custom:1234"}, "address", "custom:1234"),
        ({}, "address", ADDRESS),
        ({}, "dashboard-host", None),
        ({"num-cpus": "0"}, "num-cpus", "0"),
    ],
)
def test_worker_parameter(given: dict[str, str], key: str, expected: str | None) -> None:
    assert params(limits={"cpu": "4"}, rayStartParams=given).get(key) == expected


def test_head_keeps_its_address_and_dashboard_host() -> None:
    found = params("head", rayStartParams={"address": "custom:1234", "dashboard-host": "localhost"})
    assert (found["address"], found["dashboard-host"]) == ("custom:1234", "localhost")


@pytest.mark.parametrize(
    ("limits", "requests", "expected"),
    [
        ({"cpu": "1500m"}, {}, {"num-cpus": "2"}),
        ({}, {"cpu": "2"}, {"num-cpus": "2"}),
        ({"cpu": "0"}, {"cpu": "2"}, {"num-cpus": "2"}),
        ({}, {"memory": "1Gi"}, {}),
        ({"nvidia.com/mig-2g.32gb": 1}, {}, {"num-gpus": "1"}),
        ({"nvidia.com/gpu-mig-12g.128gb": 1}, {}, {}),
        ({"amd.com/gpu": 2}, {}, {"num-gpus": "2"}),
        ({"google.com/tpu": "4"}, {}, {"resources": "'{\"TPU\":4}'"}),
        ({"aws.amazon.com/neuroncore": 4}, {}, {"resources": "'{\"neuron_cores\":4}'"}),
        (
            {"google.com/tpu": 8, "aws.amazon.com/neuroncore": 4, "nvidia.com/gpu": 1},
            {},
            {"num-gpus": "1", "resources": "'{\"neuron_cores\":4}'"},
        ),
        ({"huawei.com/Ascend910": 2}, {}, {}),
    ],
)
def test_container_resources(limits: Any, requests: Any, expected: dict[str, str]) -> None:
    found: dict[str, str] = {}
    add_container_resources(found, {"limits": limits, "requests": requests})
    assert found == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ('"{"custom_resource":2}"', '\'{"custom_resource":2,"neuron_cores":4}\''),
        ("'{\"neuron_cores\":3}'", "'{\"neuron_cores\":3}'"),
        ("'{\"TPU\":4}'", "'{\"TPU\":4}'"),
        ("{", "{"),
        ("[1]", "[1]"),
        ('{"a": 1e20, "b": 1e2, "c": 0.25}', '\'{"a":1e+20,"b":100,"c":0.25,"neuron_cores":4}\''),
        ('{"a":"x"}', '{"a":"x"}'),
    ],
)
def test_accelerators_join_the_users_resources(given: str, expected: str) -> None:
    found = {"resources": given}
    add_container_resources(found, {"limits": {"aws.amazon.com/neuroncore": 4}})
    assert found["resources"] == expected


def test_unreadable_resources_also_lose_the_gpus() -> None:
    found = {"resources": "{"}
    add_container_resources(found, {"limits": {"nvidia.com/gpu": 4}})
    assert found == {"resources": "{"}


@pytest.mark.parametrize(
    ("resources", "given", "expected"),
    [
        ({"CPU": "2", "GPU": "4"}, {}, {"num-cpus": "2", "num-gpus": "4"}),
        ({"cpu": "2", "memory": "4Gi"}, {}, {"num-cpus": "2", "memory": "4294967296"}),
        ({"nvidia.com/gpu": "1", "TPU": "4"}, {}, {"num-gpus": "1", "resources": "'{\"TPU\":4}'"}),
        ({"Custom-Resource": "500m"}, {}, {"resources": "'{\"Custom-Resource\":0.5}'"}),
        ({"cpu": "not a number"}, {}, {}),
        (
            {"cpu": "4", "Custom-Resource": "5"},
            {"num-cpus": "1", "memory": "1000", "resources": "x"},
            {"num-cpus": "4", "memory": "1000", "resources": "'{\"Custom-Resource\":5}'"},
        ),
    ],
)
def test_group_resources_win(resources: Any, given: dict[str, str], expected: dict[str, str]) -> None:
    found = params(resources=resources, rayStartParams=given)
    kept = {key: found[key] for key in ("num-cpus", "memory", "num-gpus", "resources") if key in found}
    assert kept == expected


def test_group_labels_are_sorted() -> None:
    labels = {"topology.kubernetes.io/zone": "z", "ray.io/node-group": "g", "cloud.google.com/gke-spot": "true"}
    expected = "cloud.google.com/gke-spot=true,ray.io/node-group=g,topology.kubernetes.io/zone=z"
    assert params(labels=labels)["labels"] == expected


def test_the_users_parameters_are_not_changed() -> None:
    group = WorkerGroupSpec.model_validate({"groupName": "g", "rayStartParams": {"a": "b"}})
    complete(group, node_type="worker", gcs_address=ADDRESS, forced={"c": "d"})
    assert group.ray_start_params == {"a": "b"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [("9000", 9000), ("+9000", 9000), ("invalid-port", 1), (str(2**31), 1), ("", 1), (" 9000", 1), ("9_000", 1)],
)
def test_port_parameter(text: str, expected: int) -> None:
    assert port_param({"p": text}, "p", 1) == expected


def test_gcs_port() -> None:
    assert (gcs_port({}), gcs_port({"port": "9999"})) == ("6379", "9999")


@pytest.mark.parametrize(("name", "expected"), [("gpu", True), ("foo.bar/gpu", True), ("nvidia.com/mig-1g.10gb", True)])
def test_gpu_names(name: str, expected: bool) -> None:
    assert is_gpu(name) is expected


@pytest.mark.parametrize(
    ("node_type", "given", "expected"),
    [
        ("head", {"block": "true", "num-cpus": "1"}, "ray start --head  --block  --num-cpus=1 "),
        ("worker", {"resources": "'{\"TPU\":4}'"}, "ray start  --resources='{\"TPU\":4}' "),
        ("worker", {"x": "TRUE", "y": "False"}, "ray start  --x "),
        ("worker", {"include-log-monitor": "false"}, "ray start  --include-log-monitor=false "),
        ("head", {"log-color": "true", "include-dashboard": "TRUE"}, None),
        ("submitter", {"block": "true"}, ""),
    ],
)
def test_ray_start_line(node_type: str, given: dict[str, str], expected: str | None) -> None:
    if expected is None:
        expected = "ray start --head  --include-dashboard=TRUE  --log-color=true "
    assert ray_start(node_type, given) == expected


START = "ray start --head  --block "
ULIMIT = "ulimit -n ${RAY_START_ULIMIT_OPEN_FILES:-65536}; "


@pytest.mark.parametrize(
    ("container", "overwrite", "expected"),
    [
        ({}, False, {"command": ["/bin/bash", "-c", "--"], "args": [ULIMIT + START]}),
        (
            {"command": ["a", "b"], "args": ["c"]},
            False,
            {"command": ["/bin/bash", "-c", "--"], "args": [" a  b  c  && " + ULIMIT + START]},
        ),
        ({"command": ["I am head"], "args": ["again"]}, True, {"command": ["I am head"], "args": ["again"]}),
        ({"args": ["ray start --head"]}, False, {"args": ["ray start --head"]}),
    ],
)
def test_command(container: dict[str, Any], overwrite: bool, expected: dict[str, Any]) -> None:
    set_command(container, START, overwrite=overwrite, login=False)
    assert container == expected


@pytest.mark.parametrize(
    ("options", "login", "flag"), [("c", False, "-c"), ("c", True, "-cl"), ("e", False, "-ce"), ("e", True, "-cel")]
)
def test_shell(options: str, login: bool, flag: str) -> None:
    assert shell(options, login) == ["/bin/bash", flag, "--"]
