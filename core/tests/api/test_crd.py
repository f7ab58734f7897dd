import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from kuberay.api.crd import crds
from kuberay.api.crd_files import crd_files

CONFIG = Path(__file__).parents[3] / "config/crd"
CLUSTER_FIELDS = (
    "authOptions autoscalerOptions enableInTreeAutoscaling gcsFaultToleranceOptions headGroupSpec headServiceAnnotations"
    " historyServerOptions lifecycle managedBy networkPolicy rayVersion suspend tlsOptions upgradeStrategy"
    " workerGroupSpecs"
)
HEAD_FIELDS = (
    "disruptionBudget enableIngress headService ingressOptions labels rayStartParams resources serviceType template"
)
GROUP_FIELDS = (
    "disruptionBudget fallback groupName idleTimeoutSeconds labels maxReplicas minReplicas numOfHosts priority rayStartParams"
    " replicas resources scaleStrategy suspend template"
)
AUTOSCALER_FIELDS = (
    "args command env envFrom idleTimeoutSeconds image imagePullPolicy resources securityContext upscalingMode version"
    " volumeMounts"
)
JOB_FIELDS = (
    "activeDeadlineSeconds backoffLimit clusterSelector deletionStrategy entrypoint entrypointNumCpus entrypointNumGpus"
    " entrypointResources jobId managedBy metadata preRunningDeadlineSeconds rayClusterSpec runtimeEnvYAML"
    " shutdownAfterJobFinishes submissionMode submitterConfig submitterPodTemplate suspend ttlSecondsAfterFinished"
)
CLUSTER_STATUS_FIELDS = (
    "availableWorkerReplicas conditions desiredCPU desiredGPU desiredMemory desiredTPU desiredWorkerReplicas endpoints"
    " fallbacks head lastUpdateTime maxWorkerReplicas minWorkerReplicas observedGeneration readyWorkerReplicas reason"
    " resources state stateTransitionTimes workerGroups"
)
JOB_STATUS_FIELDS = (
    "conditions dashboardURL endTime failed jobDeploymentStatus jobId jobStatus jobStatusCheckFailureStartTime message"
    " observedGeneration rayClusterName rayClusterStatus rayJobInfo reason startTime succeeded"
)

SERVICE_FIELDS = (
    "deploymentUnhealthySecondThreshold excludeHeadPodFromServeSvc managedBy rayClusterConfig"
    " rayClusterDeletionDelaySeconds serveConfigV2 serveService serviceUnhealthySecondThreshold suspend upgradeStrategy"
)
SERVICE_STATUS_FIELDS = (
    "activeServiceStatus conditions lastUpdateTime numServeEndpoints observedGeneration pendingServiceStatus"
    " serviceStatus"
)
SIDE_FIELDS = (
    "applicationStatuses lastTrafficMigratedTime rayClusterName rayClusterStatus targetCapacity trafficRoutedPercent"
)
OPTION_FIELDS = "gatewayClassName intervalSeconds maxSurgePercent stepSizePercent"

Schema = dict[str, Any]

made = cache(crds)
"""Made once: it takes a third of a second, and nobody changes them here."""


def version(kind: str, slim: bool, name: str = "v1") -> Schema:
    [crd] = [crd for crd in made(slim) if crd["spec"]["names"]["kind"] == kind]
    [found] = [version for version in crd["spec"]["versions"] if version["name"] == name]
    schema: Schema = found
    return schema


def at(schema: Schema, path: str) -> Schema:
    """The node below a version's schema: names of properties, ``[]`` for a list's items."""
    node = schema["schema"]["openAPIV3Schema"]
    for part in path.split("."):
        node = node["items"] if part == "[]" else node["properties"][part]
    return node


def nodes(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    for name in ("items", "additionalProperties"):
        if name in schema:
            yield from nodes(schema[name], f"{path}.{name}")


BOTH = pytest.mark.parametrize("slim", [False, True], ids=["full", "slim"])


@BOTH
def test_schemas_are_structural(slim: bool) -> None:
    for crd in made(slim):
        for found in crd["spec"]["versions"]:
            for path, node in nodes(found["schema"]["openAPIV3Schema"]):
                assert "type" in node or node.get("x-kubernetes-int-or-string"), path
                assert not {"$ref", "allOf", "description", "oneOf"} & node.keys(), path
                if node.get("type") == "array":
                    assert "items" in node, path
                for key in node.get("x-kubernetes-list-map-keys", ()):
                    items = node["items"]
                    assert key in items.get("required", ()) or "default" in items["properties"][key], path


@BOTH
@pytest.mark.parametrize(
    ("kind", "path", "fields"),
    [
        ("RayCluster", "spec", CLUSTER_FIELDS),
        ("RayCluster", "spec.headGroupSpec", HEAD_FIELDS),
        ("RayCluster", "spec.workerGroupSpecs.[]", GROUP_FIELDS),
        ("RayCluster", "spec.autoscalerOptions", AUTOSCALER_FIELDS),
        ("RayCluster", "spec.authOptions", "enableK8sTokenAuth mode secretName"),
        ("RayCluster", "status", CLUSTER_STATUS_FIELDS),
        ("RayCluster", "status.head", "podIP podName serviceIP serviceName"),
        ("RayJob", "spec", JOB_FIELDS),
        ("RayJob", "spec.rayClusterSpec", CLUSTER_FIELDS),
        ("RayJob", "status", JOB_STATUS_FIELDS),
        ("RayJob", "status.rayClusterStatus", CLUSTER_STATUS_FIELDS),
        ("RayService", "spec", SERVICE_FIELDS),
        ("RayService", "spec.rayClusterConfig", CLUSTER_FIELDS),
        (
            "RayService",
            "spec.upgradeStrategy",
            "allowHeadRestart clusterUpgradeOptions maxSurge maxUnavailable type",
        ),
        ("RayService", "spec.upgradeStrategy.clusterUpgradeOptions", OPTION_FIELDS),
        ("RayService", "status", SERVICE_STATUS_FIELDS),
        ("RayService", "status.activeServiceStatus", SIDE_FIELDS),
        ("RayService", "status.pendingServiceStatus", SIDE_FIELDS),
        ("RayService", "status.pendingServiceStatus.rayClusterStatus", CLUSTER_STATUS_FIELDS),
    ],
)
def test_fields_are_complete(kind: str, path: str, fields: str, slim: bool) -> None:
    for name in ("v1", "v1alpha1"):
        assert sorted(at(version(kind, slim, name), path)["properties"]) == fields.split()


@BOTH
@pytest.mark.parametrize(
    ("kind", "path", "enum"),
    [
        ("RayCluster", "spec.upgradeStrategy.type", ["Recreate", "None", "Rolling"]),
        ("RayCluster", "spec.authOptions.mode", ["disabled", "token"]),
        ("RayCluster", "spec.gcsFaultToleranceOptions.backend", ["redis", "rocksdb"]),
        ("RayCluster", "spec.gcsFaultToleranceOptions.storage.deletionPolicy", ["DeleteWithCluster", "Retain"]),
        ("RayCluster", "spec.networkPolicy.mode", ["DenyAll", "DenyAllIngress", "DenyAllEgress"]),
        ("RayCluster", "spec.autoscalerOptions.version", ["v1", "v2"]),
        ("RayCluster", "spec.lifecycle.action", ["Suspend", "Delete"]),
        ("RayCluster", "spec.autoscalerOptions.upscalingMode", ["Default", "Aggressive", "Conservative"]),
        (
            "RayCluster",
            "spec.headGroupSpec.ingressOptions.pathType",
            ["Exact", "Prefix", "ImplementationSpecific"],
        ),
        (
            "RayJob",
            "spec.deletionStrategy.deletionRules.[].policy",
            ["DeleteCluster", "DeleteWorkers", "DeleteSelf", "DeleteNone"],
        ),
        ("RayJob", "spec.deletionStrategy.deletionRules.[].condition.jobDeploymentStatus", ["Failed"]),
    ],
)
def test_enums(kind: str, path: str, enum: list[str], slim: bool) -> None:
    assert at(version(kind, slim), path)["enum"] == enum


@BOTH
def test_defaults(slim: bool) -> None:
    group = at(version("RayCluster", slim), "spec.workerGroupSpecs.[]")
    assert group["required"] == ["groupName", "maxReplicas", "minReplicas", "template"]
    defaults = {name: field["default"] for name, field in group["properties"].items() if "default" in field}
    assert defaults == {"replicas": 0, "minReplicas": 0, "maxReplicas": 2147483647, "numOfHosts": 1, "priority": 0}
    job = at(version("RayJob", slim), "spec")["properties"]
    defaults = {name: field["default"] for name, field in job.items() if "default" in field}
    assert defaults == {"backoffLimit": 0, "submissionMode": "K8sJobMode", "ttlSecondsAfterFinished": 0}
    assert at(version("RayCluster", slim), "spec.networkPolicy.mode")["default"] == "DenyAll"
    assert job["preRunningDeadlineSeconds"]["minimum"] == 1
    assert "required" not in at(version("RayJob", slim), "spec")
    assert at(version("RayJob", slim, "v1alpha1"), "spec")["required"] == ["entrypoint"]


@BOTH
def test_rules_of_the_api_server(slim: bool) -> None:
    def rules(kind: str, path: str) -> list[str]:
        return [rule["rule"] for rule in at(version(kind, slim), path)["x-kubernetes-validations"]]

    managed = ["self == oldSelf", "self in ['ray.io/kuberay-operator', 'kueue.x-k8s.io/multikueue']"]
    assert rules("RayCluster", "spec.managedBy") == managed
    assert rules("RayJob", "spec.managedBy") == managed
    assert rules("RayService", "spec.managedBy") == managed
    assert rules("RayService", "spec.rayClusterConfig.managedBy") == managed
    assert rules("RayCluster", "spec.gcsFaultToleranceOptions.backend") == ["self == oldSelf"]
    assert len(rules("RayJob", "spec.deletionStrategy")) == 2
    assert len(rules("RayJob", "spec.deletionStrategy.deletionRules.[].condition")) == 2


@BOTH
def test_conditions_merge_by_type(slim: bool) -> None:
    for kind in ("RayCluster", "RayJob", "RayService"):
        conditions = at(version(kind, slim), "status.conditions")
        assert conditions["x-kubernetes-list-type"] == "map"
        assert conditions["x-kubernetes-list-map-keys"] == ["type"]


def test_versions_and_columns() -> None:
    stored, old = version("RayCluster", True), version("RayCluster", True, "v1alpha1")
    assert (stored["storage"], old["storage"], old["deprecated"]) == (True, False, True)
    assert "removed in 1.9" in old["deprecationWarning"]
    columns = [(column["name"], column.get("priority", 0)) for column in stored["additionalPrinterColumns"]]
    assert columns == [
        ("desired workers", 0),
        ("available workers", 0),
        ("cpus", 0),
        ("memory", 0),
        ("gpus", 0),
        ("tpus", 1),
        ("status", 0),
        ("age", 0),
        ("head pod IP", 1),
        ("head service IP", 1),
    ]
    job = [column["jsonPath"] for column in version("RayJob", True)["additionalPrinterColumns"]]
    assert job == [
        ".status.jobStatus",
        ".status.jobDeploymentStatus",
        ".status.rayClusterName",
        ".status.startTime",
        ".status.endTime",
        ".metadata.creationTimestamp",
    ]
    assert "additionalPrinterColumns" not in version("RayJob", True, "v1alpha1")
    service = {column["name"]: column["jsonPath"] for column in version("RayService", True)["additionalPrinterColumns"]}
    assert service == {"service status": ".status.serviceStatus", "num serve endpoints": ".status.numServeEndpoints"}
    assert "additionalPrinterColumns" not in version("RayService", True, "v1alpha1")


@BOTH
def test_a_rayservice(slim: bool) -> None:
    """Spec rayservice.md 1.2 and 1.3: what is required, defaults, and strings that the operator checks, not the schema."""
    spec = at(version("RayService", slim), "spec")
    assert spec["required"] == ["rayClusterConfig"]
    assert at(version("RayService", slim), "spec.rayClusterConfig")["required"] == ["headGroupSpec"]
    assert spec["properties"]["upgradeStrategy"]["properties"]["type"] == {"type": "string"}
    options = at(version("RayService", slim), "spec.upgradeStrategy.clusterUpgradeOptions")
    assert options["required"] == ["gatewayClassName", "intervalSeconds", "stepSizePercent"]
    assert options["properties"]["maxSurgePercent"] == {"type": "integer", "format": "int32", "default": 100}
    assert spec["properties"]["rayClusterDeletionDelaySeconds"]["minimum"] == 0
    side = at(version("RayService", slim), "status.activeServiceStatus")["properties"]
    assert side["targetCapacity"] == side["trafficRoutedPercent"] == {"type": "integer", "format": "int32"}
    application = side["applicationStatuses"]["additionalProperties"]["properties"]
    assert sorted(application) == ["message", "serveDeploymentStatuses", "status"]
    deployment = application["serveDeploymentStatuses"]["additionalProperties"]["properties"]
    assert deployment == {"status": {"type": "string"}, "message": {"type": "string"}}


def test_full_schemas_know_pod_templates() -> None:
    template = at(version("RayCluster", slim=False), "spec.workerGroupSpecs.[].template")
    assert set(template["properties"]) == {"metadata", "spec"}
    assert set(template["properties"]["metadata"]["properties"]) >= {"labels", "annotations", "finalizers"}
    containers = template["properties"]["spec"]["properties"]["containers"]
    assert containers["x-kubernetes-list-map-keys"] == ["name"]
    ports = containers["items"]["properties"]["ports"]["items"]["properties"]
    assert ports["protocol"]["default"] == "TCP"
    assert "enum" not in containers["items"]["properties"]["imagePullPolicy"]
    limits = containers["items"]["properties"]["resources"]["properties"]["limits"]["additionalProperties"]
    assert limits["x-kubernetes-int-or-string"] is True


def test_slim_schemas_keep_pod_templates_as_they_come() -> None:
    template = at(version("RayCluster", slim=True), "spec.headGroupSpec.template")
    assert template == {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@pytest.mark.parametrize(("slim", "limit"), [(True, 250_000), (False, 1_400_000)], ids=["slim", "full"])
def test_sizes(slim: bool, limit: int) -> None:
    for crd in made(slim):
        assert len(json.dumps(crd)) < limit


def test_generated_files_are_up_to_date() -> None:
    files = crd_files()
    stored = {str(path.relative_to(CONFIG)): path.read_text() for path in CONFIG.rglob("*.yaml")}
    assert sorted(stored) == sorted(files)
    for name, text in files.items():
        assert stored[name] == text, f"{name} is out of date: run `make generate`"


def test_yaml_says_the_same() -> None:
    files = crd_files()
    for crd in crds(slim=True):
        name = f"slim/ray.io_{crd['spec']['names']['plural']}.yaml"
        assert yaml.load(files[name], Loader=yaml.CSafeLoader) == crd
