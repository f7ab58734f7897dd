"""The chart of a RayCluster: KubeRay's values, and every field of the spec by a value."""

from __future__ import annotations

import json
from typing import Any

import pytest
from helm import RAY_CLUSTER, Helm, HelmError, Manifest
from kuberay.api.cluster import RayClusterSpec
from kuberay.api.crd import object_schema

SPEC = object_schema(RayClusterSpec, {})


def cluster(helm: Helm, values: dict[str, Any] | None = None, release: str = "test") -> Manifest:
    (made,) = helm.template(RAY_CLUSTER, values, release=release)
    assert made["kind"] == "RayCluster"
    RayClusterSpec.parse(made["spec"])
    return made


def test_nothing_set(helm: Helm) -> None:
    """O66."""
    made = cluster(helm)
    assert made["metadata"]["name"] == "test-kuberay"
    spec = made["spec"]
    assert spec.keys() == {"headGroupSpec", "workerGroupSpecs"}
    head, (worker,) = spec["headGroupSpec"], spec["workerGroupSpecs"]
    (container,) = head["template"]["spec"]["containers"]
    large = {"cpu": "1", "memory": "5Gi"}
    assert container == {
        "name": "ray-head",
        "image": "rayproject/ray:2.52.0",
        "imagePullPolicy": "IfNotPresent",
        "resources": {"limits": large, "requests": large},
        "volumeMounts": [{"mountPath": "/tmp/ray", "name": "log-volume"}],
    }
    assert head["serviceType"] == "ClusterIP"
    # Else a new version of the chart would be another spec, and restart what runs.
    assert "helm.sh/chart" in made["metadata"]["labels"]
    assert "helm.sh/chart" not in head["template"]["metadata"]["labels"]
    counts = ("groupName", "replicas", "minReplicas", "maxReplicas", "numOfHosts")
    assert [worker[name] for name in counts] == ["workergroup", 1, 1, 5, 1]
    assert cluster(helm, {"nameOverride": "ray"}, release="my-ray")["metadata"]["name"] == "my-ray"


def test_parameters_and_environment(helm: Helm) -> None:
    """O66: initArgs are put over rayStartParams, and all are texts; the common environment comes first."""
    made = cluster(
        helm,
        {
            "common": {"containerEnv": [{"name": "A", "value": "1"}]},
            "head": {
                "rayStartParams": {"num-cpus": 0, "block": True},
                "initArgs": {"num-cpus": 2},
                "containerEnv": [{"name": "B", "value": "2"}],
            },
        },
    )
    head = made["spec"]["headGroupSpec"]
    assert head["rayStartParams"] == {"num-cpus": "2", "block": "true"}
    assert [e["name"] for e in head["template"]["spec"]["containers"][0]["env"]] == ["A", "B"]
    (worker,) = made["spec"]["workerGroupSpecs"]
    assert [e["name"] for e in worker["template"]["spec"]["containers"][0]["env"]] == ["A"]


def test_more_groups(helm: Helm) -> None:
    """O66: what is not said has defaults, resources above all."""
    digest = "sha256:" + "a" * 64
    values = {
        "image": {"digest": digest},
        "imagePullSecrets": [{"name": "key"}],
        "worker": {"disabled": True},
        "additionalWorkerGroups": {
            "smallGroup": {"disabled": False},
            "gpu": {
                "image": {"repository": "acme/ray", "tag": "1"},
                "resources": {"limits": {"nvidia.com/gpu": 1}},
                "priorityClassName": "high",
                "runtimeClassName": "nvidia",
                "lifecycle": {"preStop": {"exec": {"command": ["ray", "stop"]}}},
                "dnsConfig": {"options": [{"name": "ndots", "value": "1"}]},
            },
        },
    }
    gpu, small = cluster(helm, values)["spec"]["workerGroupSpecs"]
    assert (gpu["groupName"], small["groupName"]) == ("gpu", "smallGroup")
    assert (gpu["minReplicas"], gpu["maxReplicas"], gpu["numOfHosts"]) == (0, 2147483647, 1)
    (container,) = small["template"]["spec"]["containers"]
    assert container["image"] == f"rayproject/ray@{digest}"
    assert container["resources"]["limits"] == container["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}
    pod = gpu["template"]["spec"]
    assert pod["imagePullSecrets"] == [{"name": "key"}]
    assert (pod["priorityClassName"], pod["runtimeClassName"]) == ("high", "nvidia")
    assert pod["dnsConfig"]["options"][0]["name"] == "ndots"
    (container,) = pod["containers"]
    assert container["image"] == "acme/ray:1"
    assert container["resources"] == {"limits": {"nvidia.com/gpu": 1}}
    assert "preStop" in container["lifecycle"]


def test_fault_tolerance(helm: Helm) -> None:
    plain = cluster(helm, {"gcsFaultTolerance": {"enabled": True}})
    assert plain["metadata"]["annotations"] == {"ray.io/ft-enabled": "true"}
    made = cluster(helm, {"gcsFaultTolerance": {"enabled": True, "redisAddress": "redis:6379"}})
    assert made["spec"]["gcsFaultToleranceOptions"] == {"redisAddress": "redis:6379"}
    assert "annotations" not in made["metadata"]
    with pytest.raises(HelmError, match=r"gcsFaultTolerance.enabled"):
        cluster(helm, {"gcsFaultTolerance": {"redisAddress": "redis:6379"}})


def example(schema: dict[str, Any]) -> Any:
    """Something that the schema allows."""
    if "enum" in schema:
        return schema["enum"][0]
    if "anyOf" in schema:
        return 1
    if "pattern" in schema:
        return ""
    match schema.get("type"):
        case "object" if "properties" in schema:
            return {name: example(inner) for name, inner in schema["properties"].items()}
        case "object":
            return {"key": example(schema.get("additionalProperties", {"type": "string"}))}
        case "array":
            return [example(schema["items"])]
        case "integer":
            return 7
        case "boolean":
            return True
    return "text"


def test_every_field_of_the_spec_has_a_value(helm: Helm) -> None:
    """HE-06: all of them at once come out as they went in."""
    fields = SPEC["properties"]
    head, worker = fields["headGroupSpec"]["properties"], fields["workerGroupSpecs"]["items"]["properties"]
    spec = {name: example(s) for name, s in fields.items() if name not in ("headGroupSpec", "workerGroupSpecs")}
    heads = {name: example(s) for name, s in head.items() if name != "template"}
    workers = {name: example(s) for name, s in worker.items() if name != "template"}
    template = {"spec": {"hostIPC": True, "shareProcessNamespace": False}}
    values = {
        **spec,
        "head": {"groupSpec": heads | {"template": template}},
        "worker": {"groupSpec": workers | {"template": template}},
    }
    (made,) = helm.template(RAY_CLUSTER, values)
    for name, said in spec.items():
        assert made["spec"][name] == said, name
    for group, told in ((made["spec"]["headGroupSpec"], heads), (made["spec"]["workerGroupSpecs"][0], workers)):
        for name, said in told.items():
            assert group[name] == said, name
        assert group["template"]["spec"].items() >= template["spec"].items()
        assert group["template"]["spec"]["containers"], "what is not said stays"


def test_every_value_reaches_the_object(helm: Helm) -> None:
    """HE-06: no value that the schema lets through is dropped: each leaves a trace of its own."""
    schema = json.loads((RAY_CLUSTER / "values.schema.json").read_text())["properties"]
    passed = {"disabled", "initArgs", "groupSpec"}
    groups = {place: schema[place] for place in ("head", "worker")}
    groups["additionalWorkerGroups"] = schema["additionalWorkerGroups"]["additionalProperties"]
    for place, group in groups.items():
        # Texts of its own for each, so that they can be found again.
        said = {n: _marked(example(s), n) for n, s in group["properties"].items() if n not in passed}
        (made,) = helm.template(RAY_CLUSTER, {place: {"more": said} if place == "additionalWorkerGroups" else said})
        text = json.dumps(made)
        assert [name for name, value in said.items() if not _found(name, value, text)] == [], place


def _marked(value: Any, name: str) -> Any:
    if value == "text":
        return f"text-{name.lower()}"
    if isinstance(value, list):
        return [_marked(item, name) for item in value]
    if isinstance(value, dict):
        return {key: _marked(item, name) for key, item in value.items()}
    return value


def _found(name: str, value: Any, text: str) -> bool:
    """Whether what only this value can have brought is there: its texts, or its name where it has none."""
    mark = f"text-{name.lower()}"
    return mark in text if mark in json.dumps(value) else f'"{name}"' in text


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"upgradeStrateg": {}}, "upgradeStrateg"),
        ({"upgradeStrategy": {"type": "Sometimes"}}, "upgradeStrategy"),
        ({"authOptions": {"mod": "token"}}, "mod"),
        ({"worker": {"replica": 1}}, "replica"),
        ({"worker": {"replicas": "many"}}, "replicas"),
        ({"head": {"replicas": 1}}, "replicas"),
        ({"additionalWorkerGroups": {"gpu": {"numOfHost": 2}}}, "numOfHost"),
        ({"head": {"groupSpec": {"templat": {}}}}, "templat"),
    ],
    ids=str,
)
def test_what_is_refused(helm: Helm, values: dict[str, Any], told: str) -> None:
    """HE-06: a value that is misspelt is no value that is dropped."""
    with pytest.raises(HelmError, match=told):
        helm.template(RAY_CLUSTER, values)
