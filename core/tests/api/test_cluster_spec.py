import pytest
from kuberay.api.cluster import RayClusterSpec, WorkerGroupSpec, parse_problems
from pydantic import ValidationError

TEMPLATE = {"spec": {"containers": [{"name": "ray", "image": "ray"}]}}


def problems(raw: dict) -> list[str]:
    with pytest.raises(ValidationError) as caught:
        RayClusterSpec.parse(raw)
    return [str(problem) for problem in parse_problems(caught.value)]


@pytest.mark.parametrize(
    ("group", "replicas", "pods", "minimum"),
    [
        ({}, 0, 0, 0),
        ({"replicas": 2, "minReplicas": 0, "maxReplicas": 5}, 2, 2, 0),
        ({"replicas": 9, "minReplicas": 1, "maxReplicas": 5}, 5, 5, 1),
        ({"replicas": 0, "minReplicas": 3, "maxReplicas": 5}, 3, 3, 3),
        ({"minReplicas": 2, "maxReplicas": 5, "numOfHosts": 4}, 2, 8, 8),
        ({"replicas": 1, "minReplicas": 5, "maxReplicas": 2}, 5, 5, 5),
        ({"replicas": 7, "minReplicas": 5, "maxReplicas": 2}, 2, 2, 5),
        ({"replicas": 3, "minReplicas": 1, "suspend": True}, 0, 0, 0),
        ({"replicas": None, "minReplicas": None, "maxReplicas": None}, 0, 0, 0),
    ],
)
def test_replica_counts(group: dict, replicas: int, pods: int, minimum: int) -> None:
    spec = WorkerGroupSpec.model_validate({"groupName": "g", "template": TEMPLATE} | group)
    assert (spec.desired_replicas(), spec.desired_pods(), spec.minimum_pods) == (replicas, pods, minimum)


def test_maximum_never_exceeds_int32() -> None:
    assert WorkerGroupSpec.model_validate({"numOfHosts": 4}).maximum_pods == 2**31 - 1


def test_unknown_fields_and_names_are_kept() -> None:
    spec = RayClusterSpec.parse(
        {"headGroupSpec": {"template": TEMPLATE, "later": 1}, "authOptions": {"enableK8sTokenAuth": True}, "new": [2]}
    )
    assert spec.model_dump(by_alias=True, exclude_unset=True) == {
        "headGroupSpec": {"template": TEMPLATE, "later": 1},
        "authOptions": {"enableK8sTokenAuth": True},
        "new": [2],
    }
    assert spec.auth_options is not None
    assert spec.auth_options.enable_k8s_token_auth is True


def test_null_means_absent() -> None:
    spec = RayClusterSpec.parse(
        {
            "headGroupSpec": {"template": TEMPLATE, "rayStartParams": None, "labels": None},
            "workerGroupSpecs": None,
            "autoscalerOptions": {"env": None},
        }
    )
    assert spec.head_group_spec.ray_start_params == {}
    assert spec.worker_group_specs == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            {"headGroupSpec": None},
            "spec.headGroupSpec: Input should be a valid dictionary or instance of HeadGroupSpec",
        ),
        ({"rayVersion": 2.5}, "spec.rayVersion: Input should be a valid string"),
        (
            {"workerGroupSpecs": [{"groupName": "g", "replicas": "three"}]},
            "spec.workerGroupSpecs[0].replicas: Input should be a valid integer",
        ),
        (
            {"headGroupSpec": {"template": TEMPLATE, "rayStartParams": {"num-cpus": 4}}},
            "spec.headGroupSpec.rayStartParams.num-cpus: Input should be a valid string",
        ),
        (
            {"headGroupSpec": {"template": {"spec": {"containers": {"name": "ray"}}}}},
            "spec.headGroupSpec.template: spec.containers must be a list",
        ),
        (
            {"headGroupSpec": {"template": {"spec": {"containers": [{"env": ["A=1"]}]}}}},
            "spec.headGroupSpec.template: spec.containers[0].env[0] must be an object",
        ),
        (
            {"headGroupSpec": {"template": {"spec": {"containers": [{"env": [{"name": "A", "value": 1}]}]}}}},
            "spec.headGroupSpec.template: spec.containers[0].env[0].value must be a string (quote it)",
        ),
        (
            {"headGroupSpec": {"template": {"spec": {"containers": [{"ports": [{"containerPort": "6379"}]}]}}}},
            "spec.headGroupSpec.template: spec.containers[0].ports[0].containerPort must be an integer",
        ),
        (
            {"headGroupSpec": {"template": {"spec": {"containers": [{"command": "sh"}]}}}},
            "spec.headGroupSpec.template: spec.containers[0].command must be a list of strings",
        ),
        (
            {"headGroupSpec": {"template": {"metadata": {"labels": {"a": 1}}}}},
            "spec.headGroupSpec.template: metadata.labels.a must be a string",
        ),
        (
            {"headGroupSpec": {"template": TEMPLATE, "headService": {"spec": {"ports": [{"port": "80"}]}}}},
            "spec.headGroupSpec.headService: spec.ports[0].port must be an integer",
        ),
    ],
)
def test_wrong_types_become_problems_with_paths(change: dict, expected: str) -> None:
    assert problems({"headGroupSpec": {"template": TEMPLATE}} | change) == [expected]


def test_quantities_are_checked() -> None:
    template = {"spec": {"containers": [{"resources": {"limits": {"cpu": "lots"}}}]}}
    [problem] = problems({"headGroupSpec": {"template": template}})
    assert problem.startswith(
        "spec.headGroupSpec.template: spec.containers[0].resources.limits.cpu: 'lots' is no quantity"
    )
    [problem] = problems(
        {"headGroupSpec": {"template": TEMPLATE}, "autoscalerOptions": {"resources": {"requests": {"cpu": "x"}}}}
    )
    assert problem.startswith("spec.autoscalerOptions.resources: requests.cpu: 'x' is no quantity")


def test_missing_head_group() -> None:
    assert problems({}) == ["spec.headGroupSpec: Field required"]


@pytest.mark.parametrize(
    ("annotation", "options", "enabled"),
    [(None, None, False), ("TRUE", None, True), ("yes", None, False), (None, {}, True), ("false", {}, True)],
)
def test_gcs_fault_tolerance(annotation: str | None, options: dict | None, enabled: bool) -> None:
    spec = RayClusterSpec.parse({"headGroupSpec": {"template": TEMPLATE}, "gcsFaultToleranceOptions": options})
    assert spec.gcs_ft_enabled({"ray.io/ft-enabled": annotation} if annotation else {}) is enabled
    assert not spec.gcs_ft_embedded


@pytest.mark.parametrize(
    ("version", "env", "v2"),
    [
        (None, None, False),
        ("v2", None, True),
        ("v1", None, False),
        (None, "1", True),
        (None, "true", True),
        (None, "0", False),
    ],
)
def test_autoscaler_v2(version: str | None, env: str | None, v2: bool) -> None:
    container = {"name": "ray", "env": [{"name": "RAY_enable_autoscaler_v2", "value": env}] if env else []}
    spec = RayClusterSpec.parse(
        {
            "headGroupSpec": {"template": {"spec": {"containers": [container]}}},
            "autoscalerOptions": {"version": version} if version else None,
        }
    )
    assert spec.autoscaler_v2 is v2
