"""Each rule of raycluster.md 1.8 with its message and field path; the spec under test is `BASE` with a change."""

import copy
from typing import Any

import pytest
from kuberay.api.cluster import RayClusterSpec
from kuberay.api.gates import DEFAULT_GATES, DELETION_POLICY, EMBEDDED_STORAGE, HISTORY_SERVER, MTLS, NETWORK_POLICY
from kuberay.api.validation.autoscaling import restart_policy_warning
from kuberay.api.validation.cluster import event_note, validate_cluster

ALL_GATES = dict.fromkeys(DEFAULT_GATES, True)


def template(**pod: Any) -> dict[str, Any]:
    env = [{"name": name, "value": value} for name, value in pod.pop("env", {}).items()]
    mounts = pod.pop("mounts", [])
    return {"spec": {"containers": [{"name": "ray", "image": "ray", "env": env, "volumeMounts": mounts}], **pod}}


def group(**fields: Any) -> dict[str, Any]:
    return {"groupName": "g", "minReplicas": 0, "maxReplicas": 3, "template": template(), **fields}


def spec(
    head: dict[str, Any] | None = None, groups: list[dict[str, Any]] | None = None, **fields: Any
) -> dict[str, Any]:
    return {
        "rayVersion": "2.56.0",
        "headGroupSpec": {"template": template(), **(head or {})},
        "workerGroupSpecs": [group()] if groups is None else groups,
        **fields,
    }


def check(
    raw: dict[str, Any], annotations: dict[str, str] | None = None, gates: dict[str, bool] = ALL_GATES
) -> list[tuple[str, str]]:
    before = copy.deepcopy(raw)
    problems = validate_cluster("c", {}, annotations or {}, raw, gates)
    assert raw == before
    assert {problem.reason for problem in problems} <= {"InvalidRayClusterSpec"}
    return [(problem.path, problem.message) for problem in problems]


HEAD = "spec.headGroupSpec"
GROUP = "spec.workerGroupSpecs[0]"
FT = "spec.gcsFaultToleranceOptions"
COLLECTOR = "spec.historyServerOptions.collectorOptions"
BOTH = "cannot set {} when GcsFaultToleranceOptions is enabled - use GcsFaultToleranceOptions.{} instead"
V2 = {"enableInTreeAutoscaling": True, "autoscalerOptions": {"version": "v2"}}


def collector(**env: str) -> dict[str, Any]:
    entries = [{"name": name, "value": value} for name, value in env.items()]
    return {"historyServerOptions": {"collectorOptions": {"image": "c", "env": entries}}}


@pytest.mark.parametrize(
    ("raw", "path", "message"),
    [
        (
            spec({"template": {"spec": {"containers": []}}}),
            f"{HEAD}.template.spec.containers",
            "headGroupSpec should have at least one container",
        ),
        (
            spec({"resources": {"CPU": "1"}, "rayStartParams": {"num-cpus": "1"}}),
            f"{HEAD}.resources",
            "resource fields should not be set in both rayStartParams and Resources for Head group; please use only one",
        ),
        (
            spec({"rayStartParams": {"labels": ""}}),
            f"{HEAD}.rayStartParams.labels",
            "rayStartParams['labels'] is not supported for Head group; please use the top-level Labels field instead",
        ),
        (
            spec(groups=[group(template={"spec": {}})]),
            f"{GROUP}.template.spec.containers",
            "workerGroupSpec should have at least one container",
        ),
        (
            spec(groups=[group(maxReplicas=None)]),
            f"{GROUP}.maxReplicas",
            "worker group g must set both minReplicas and maxReplicas when autoscaling is disabled",
        ),
        (spec(groups=[group(minReplicas=-1)]), f"{GROUP}.minReplicas", "worker group g has negative minReplicas -1"),
        (spec(groups=[group(maxReplicas=-2)]), f"{GROUP}.maxReplicas", "worker group g has negative maxReplicas -2"),
        (
            spec(groups=[group(minReplicas=5, maxReplicas=1)]),
            f"{GROUP}.minReplicas",
            "worker group g has minReplicas 5 greater than maxReplicas 1",
        ),
        (
            spec(groups=[group(resources={"GPU": "1"}, rayStartParams={"resources": "{}"})]),
            f"{GROUP}.resources",
            "resource fields should not be set in both rayStartParams and Resources for g group; please use only one",
        ),
        (
            spec(groups=[group(idleTimeoutSeconds=-1)], **V2),
            f"{GROUP}.idleTimeoutSeconds",
            "worker group g: idleTimeoutSeconds must be non-negative, got -1",
        ),
        (
            spec(groups=[group(priority=2)], **V2 | {"rayVersion": ""}),
            f"{GROUP}.priority",
            "worker group g: priority is set, but RayVersion was not specified. Ray version 2.56.0 or later is required",
        ),
        (
            spec(groups=[group(priority=2)], **V2 | {"rayVersion": "nightly"}),
            f"{GROUP}.priority",
            "worker group g: priority is set, but RayVersion format is invalid: nightly,"
            ' could not parse "nightly" as version',
        ),
        (
            spec(groups=[group(priority=2)], **V2 | {"rayVersion": "2.55.1"}),
            f"{GROUP}.priority",
            "worker group g: priority is set, but minimum Ray version is 2.56.0, got 2.55.1",
        ),
        (
            spec(groups=[group(priority=2)]),
            f"{GROUP}.priority",
            "worker group g: priority is set to 2, but autoscaler v2 is not enabled. Priority is only supported with"
            " autoscaler v2 enabled",
        ),
        (
            spec({"rayStartParams": {"redis-password": "x"}}, gcsFaultToleranceOptions={}),
            f"{HEAD}.rayStartParams.redis-password",
            BOTH.format("`redis-password` in rayStartParams", "RedisPassword"),
        ),
        (
            spec({"template": template(env={"REDIS_PASSWORD": "x"})}, gcsFaultToleranceOptions={}),
            f"{HEAD}.template.spec.containers[0].env",
            BOTH.format("`REDIS_PASSWORD` env var in head Pod", "RedisPassword"),
        ),
        (
            spec({"template": template(env={"RAY_REDIS_ADDRESS": "x"})}, gcsFaultToleranceOptions={}),
            f"{HEAD}.template.spec.containers[0].env",
            BOTH.format("`RAY_REDIS_ADDRESS` env var in head Pod", "RedisAddress"),
        ),
        (
            spec(gcsFaultToleranceOptions={"backend": "rocksdb", "redisUsername": {"value": "u"}}),
            f"{FT}.redisUsername",
            "cannot set GcsFaultToleranceOptions.RedisUsername when backend is 'rocksdb'",
        ),
        (
            spec(gcsFaultToleranceOptions={"backend": "rocksdb", "storage": {"claimName": "c", "size": "1Gi"}}),
            f"{FT}.storage.claimName",
            "GcsFaultToleranceOptions.Storage.ClaimName is mutually exclusive with size, storageClassName, and accessModes",
        ),
        (
            spec({"template": template(env={"RAY_gcs_storage": "x"})}, gcsFaultToleranceOptions={"backend": "rocksdb"}),
            f"{HEAD}.template.spec.containers[0].env",
            "cannot set `RAY_gcs_storage` or `RAY_gcs_storage_path` env var in head Pod when the embedded GCS FT backend"
            " is used - these are managed by KubeRay",
        ),
        (
            spec(
                {"template": template(mounts=[{"name": "d", "mountPath": "/data/gcs"}])},
                gcsFaultToleranceOptions={"backend": "rocksdb"},
            ),
            f"{HEAD}.template.spec.containers[0].volumeMounts[0]",
            'cannot set a volume mount named "gcs-storage" or mounted at /data/gcs in the head container when the'
            " embedded GCS FT backend is used - it is managed by KubeRay",
        ),
        (
            spec(
                {"template": template(volumes=[{"name": "gcs-storage"}])},
                gcsFaultToleranceOptions={"backend": "rocksdb"},
            ),
            f"{HEAD}.template.spec.volumes[0]",
            'cannot set a volume named "gcs-storage" in the head Pod when the embedded GCS FT backend is used - it is'
            " managed by KubeRay",
        ),
        (
            spec(gcsFaultToleranceOptions={"storage": {"size": "1Gi"}}),
            f"{FT}.storage",
            "cannot set GcsFaultToleranceOptions.Storage when backend is 'redis' - it only applies to the 'rocksdb' backend",
        ),
        (
            spec({"template": template(env={"REDIS_USERNAME": "x"})}),
            f"{HEAD}.template.spec.containers[0].env",
            "cannot set redis username in rayStartParams or environment variables - use"
            " GcsFaultToleranceOptions.RedisUsername instead",
        ),
        (
            spec({"template": template(env={"RAY_enable_autoscaler_v2": "true"})}),
            f"{HEAD}.template.spec.containers[0].env",
            "environment variable RAY_enable_autoscaler_v2 cannot be set to 'true' when enableInTreeAutoscaling is"
            " false. Please set enableInTreeAutoscaling: true to use autoscaler v2",
        ),
        (
            spec({"template": template(env={"RAY_enable_autoscaler_v2": "0"})}, **V2),
            "spec.autoscalerOptions.version",
            "both .spec.autoscalerOptions.version and head Pod env var RAY_enable_autoscaler_v2 are set, please only"
            " use the former",
        ),
        (
            spec({"template": template(restartPolicy="Always")}, **V2),
            f"{HEAD}.template.spec.restartPolicy",
            "restartPolicy for head Pod should be Never or unset when using autoscaler V2",
        ),
        (
            spec(autoscalerOptions={"idleTimeoutSeconds": -5}),
            "spec.autoscalerOptions.idleTimeoutSeconds",
            "autoscalerOptions.idleTimeoutSeconds must be non-negative, got -5",
        ),
        (
            spec(autoscalerOptions={"env": [{"name": "KUBERAY_GEN_AUTOSCALER_START_CMD", "value": "x"}]}),
            "spec.autoscalerOptions.env[0]",
            "autoscalerOptions.env must not contain KUBERAY_GEN_AUTOSCALER_START_CMD: it is managed by KubeRay and"
            " injected automatically into the autoscaler container",
        ),
        (spec(historyServerOptions={}), COLLECTOR, "historyServerOptions.collectorOptions must be set"),
        (
            spec(**collector(STORAGE_BACKEND="AliyunOSS", OSS_BUCKET="b", OSS_REGION="r")),
            f"{COLLECTOR}.env",
            "OSS_ENDPOINT environment variable must be set when STORAGE_BACKEND is AliyunOSS",
        ),
        (
            spec(**collector(STORAGE_BACKEND="azureblob", AZURE_STORAGE_AUTH_MODE="Default")),
            f"{COLLECTOR}.env",
            "AZURE_STORAGE_ACCOUNT_URL environment variable must be set when STORAGE_BACKEND is azureblob",
        ),
        (
            spec(**collector(STORAGE_BACKEND="other", RAY_ROLE="x")),
            f"{COLLECTOR}.env[1]",
            "RAY_ROLE environment variable is managed by KubeRay and must not be set",
        ),
        (
            spec(authOptions={"mode": "token"}, rayVersion=""),
            "spec.rayVersion",
            "authOptions.mode is 'token' but RayVersion was not specified. Ray version 2.52.0 or later is required",
        ),
        (
            spec(authOptions={"mode": "token"}, rayVersion="x"),
            "spec.rayVersion",
            "authOptions.mode is 'token' but RayVersion format is invalid: x, could not parse \"x\" as version",
        ),
        (
            spec(authOptions={"mode": "token", "enableK8sTokenAuth": True}, rayVersion="2.54"),
            "spec.rayVersion",
            "authOptions.enableK8sTokenAuth is enabled but minimum Ray version is 2.55.0, got 2.54",
        ),
        (
            spec(authOptions={"mode": "token", "enableK8sTokenAuth": True, "secretName": "s"}),
            "spec.authOptions.secretName",
            "authOptions.enableK8sTokenAuth is enabled and authOptions.secretName is also set",
        ),
        (
            spec(authOptions={"enableK8sTokenAuth": True}),
            "spec.authOptions.enableK8sTokenAuth",
            "authOptions.enableK8sTokenAuth is enabled but authOptions.mode not set to 'token'",
        ),
        (
            spec(networkPolicy={"mode": "DenyAllIngress", "workerGroups": [{"groupName": "g", "egressRules": [{}]}]}),
            "spec.networkPolicy.workerGroups[0].egressRules",
            'networkPolicy.workerGroups["g"].egressRules cannot be set when mode is "DenyAllIngress" (egress is not'
            " restricted)",
        ),
        (
            spec(
                tlsOptions={"enabled": True},
                autoscalerOptions={"volumeMounts": [{"name": "x", "mountPath": "/etc/ray/tls"}]},
            ),
            "spec.autoscalerOptions.volumeMounts[0]",
            'cannot use volume mount at path "/etc/ray/tls" in autoscalerOptions when tlsOptions is set - the operator'
            " manages TLS configuration automatically",
        ),
        (
            spec(
                groups=[group(template=template(mounts=[{"name": "ray-tls", "mountPath": "/x"}]))],
                tlsOptions={"enabled": True},
            ),
            f"{GROUP}.template.spec.containers[0].volumeMounts[0]",
            'cannot use volume mount named "ray-tls" in worker group g Pod when tlsOptions is set - the operator manages'
            " TLS configuration automatically",
        ),
        (
            spec(upgradeStrategy={"type": "Slowly"}),
            "spec.upgradeStrategy.type",
            "The RayCluster spec is invalid: Spec.UpgradeStrategy.Type value Slowly is invalid, valid options are"
            " Recreate or None",
        ),
        (
            spec(upgradeStrategy={"type": "Rolling", "maxUnavailable": "half"}),
            "spec.upgradeStrategy.maxUnavailable",
            "maxUnavailable 'half' must be a whole number or a percentage such as 25%",
        ),
        (
            spec(upgradeStrategy={"type": "Rolling", "maxUnavailable": -1}),
            "spec.upgradeStrategy.maxUnavailable",
            "maxUnavailable -1 must not be negative",
        ),
        (
            spec(upgradeStrategy={"type": "Rolling", "maxUnavailable": "101%"}),
            "spec.upgradeStrategy.maxUnavailable",
            "maxUnavailable '101%' must not be more than 100%",
        ),
        (
            spec(upgradeStrategy={"type": "Rolling", "maxSurge": "9" * 5000 + "%"}),
            "spec.upgradeStrategy.maxSurge",
            f"maxSurge '{'9' * 5000}%' must not be more than 10000%",
        ),
        (
            spec(upgradeStrategy={"type": "Rolling", "maxUnavailable": "0%", "maxSurge": 0}),
            "spec.upgradeStrategy.maxUnavailable",
            "maxUnavailable may not be 0 when maxSurge is 0: no pod could ever be replaced",
        ),
        (
            spec(upgradeStrategy={"type": "Rolling", "maxUnavailable": 0}),
            "spec.upgradeStrategy.maxUnavailable",
            "maxUnavailable may not be 0 when maxSurge is 0: no pod could ever be replaced",
        ),
        (
            spec(groups=[group(groupName="headgroup")], upgradeStrategy={"type": "Rolling"}),
            "spec.upgradeStrategy.type",
            "Rolling cannot be used with a worker group named headgroup: the head is called so",
        ),
        (spec(groups=[group(), group()]), "spec.workerGroupSpecs[1].groupName", "worker group names must be unique"),
        (spec(groups=[group(groupName="")]), f"{GROUP}.groupName", "worker group name must not be empty"),
    ],
)
def test_one_rule(raw: dict[str, Any], path: str, message: str) -> None:
    assert check(raw) == [(path, message)]


@pytest.mark.parametrize(
    ("raw", "annotations", "path", "message"),
    [
        (
            spec(gcsFaultToleranceOptions={}),
            {"ray.io/ft-enabled": "false"},
            "metadata.annotations[ray.io/ft-enabled]",
            "ray.io/ft-enabled annotation and GcsFaultToleranceOptions are both set. Please use only"
            " GcsFaultToleranceOptions to configure GCS fault tolerance",
        ),
        (
            spec(gcsFaultToleranceOptions={}),
            {"ray.io/external-storage-namespace": "x"},
            "metadata.annotations[ray.io/external-storage-namespace]",
            BOTH.format("`ray.io/external-storage-namespace` annotation", "ExternalStorageNamespace"),
        ),
        (
            spec({"template": template(env={"RAY_REDIS_ADDRESS": "x"})}),
            {"ray.io/ft-enabled": "false"},
            f"{HEAD}.template.spec.containers[0].env",
            "RAY_REDIS_ADDRESS is set which implicitly enables GCS fault tolerance, but GcsFaultToleranceOptions is not"
            " set. Please set GcsFaultToleranceOptions to enable GCS fault tolerance",
        ),
    ],
)
def test_rules_on_annotations(raw: dict[str, Any], annotations: dict[str, str], path: str, message: str) -> None:
    assert check(raw, annotations) == [(path, message)]


@pytest.mark.parametrize(
    ("gate", "raw", "path"),
    [
        (EMBEDDED_STORAGE, spec(gcsFaultToleranceOptions={"backend": "rocksdb"}), f"{FT}.backend"),
        (DELETION_POLICY, spec(groups=[group(suspend=True)]), f"{GROUP}.suspend"),
        (HISTORY_SERVER, spec(**collector(STORAGE_BACKEND="x")), "spec.historyServerOptions"),
        (NETWORK_POLICY, spec(networkPolicy={}), "spec.networkPolicy"),
        (MTLS, spec(tlsOptions={"enabled": False}), "spec.tlsOptions"),
    ],
)
def test_gates(gate: str, raw: dict[str, Any], path: str) -> None:
    assert check(raw) == []
    [(where, message)] = check(raw, gates=ALL_GATES | {gate: False})
    assert where == path
    assert gate in message


@pytest.mark.parametrize(
    ("raw", "annotations"),
    [
        (spec(), {}),
        (spec(), {"ray.io/ft-enabled": "true"}),
        (spec({"template": template(env={"RAY_REDIS_ADDRESS": "x"})}), {"ray.io/ft-enabled": "True"}),
        (spec({"resources": {"CPU": "1"}, "rayStartParams": {"num-cpus": ""}}), {}),
        (spec(groups=[group(priority=0)], rayVersion=""), {}),
        (spec(groups=[group(priority=5, idleTimeoutSeconds=0)], **V2), {}),
        (spec(groups=[group(minReplicas=None, maxReplicas=None)], enableInTreeAutoscaling=True), {}),
        (spec(groups=[group(replicas=99)]), {}),
        (spec(groups=[group(suspend=True)]), {}),
        (spec(gcsFaultToleranceOptions={"backend": "rocksdb", "storage": {"size": "1Gi"}}), {}),
        (spec({"template": template(restartPolicy="Never")}, **V2), {}),
        (spec(upgradeStrategy={"type": "Recreate"}), {}),
        (spec(upgradeStrategy={"type": "Rolling"}), {}),
        (spec(upgradeStrategy={"type": "Rolling", "maxUnavailable": 0, "maxSurge": "1%"}), {}),
        (spec(upgradeStrategy={"type": "Rolling", "maxUnavailable": "25%", "allowHeadRestart": True}), {}),
        (spec(groups=[group(groupName="Not_DNS")]), {}),
        (spec(**collector(STORAGE_BACKEND="local")), {}),
    ],
)
def test_accepted(raw: dict[str, Any], annotations: dict[str, str]) -> None:
    assert check(raw, annotations) == []


def test_order_is_kuberays_and_all_are_told() -> None:
    raw = spec(
        {"template": {"spec": {}}, "rayStartParams": {"labels": "x", "redis-username": "u"}},
        [group(minReplicas=-1), group()],
        authOptions={"enableK8sTokenAuth": True},
    )
    assert [path for path, _ in check(raw)] == [
        f"{HEAD}.template.spec.containers",
        f"{HEAD}.rayStartParams.labels",
        f"{GROUP}.minReplicas",
        f"{HEAD}.rayStartParams.redis-username",
        "spec.authOptions.enableK8sTokenAuth",
        "spec.workerGroupSpecs[1].groupName",
    ]


def test_all_bad_labels_are_one_message() -> None:
    [(path, message)] = check(spec({"labels": {"b c": "ok", "a": "-no"}}))
    assert path == f"{HEAD}.labels"
    first, second = message.split("; ")
    assert first.startswith("invalid label value for key 'a' in Head group: '-no', error: a valid label must be")
    assert second.startswith("invalid label key for Head group: 'b c', error: name part must consist of")


@pytest.mark.parametrize("creator", ["RayJob", "RayService"])
def test_upgrade_strategy_of_an_owned_cluster(creator: str) -> None:
    raw = spec(upgradeStrategy={"type": "None"})
    [problem] = validate_cluster("c", {"ray.io/originated-from-crd": creator}, {}, raw, ALL_GATES)
    assert problem.message == f"upgradeStrategy cannot be set when RayCluster is created by {creator}"
    assert event_note(problem, "ns", "c") == f"The RayCluster UpgradeStrategy is invalid ns/c: {problem.message}"


@pytest.mark.parametrize(
    ("creator", "strategy", "accepted"),
    [
        ("RayService", "Rolling", True),
        ("RayService", "Recreate", True),
        ("RayService", "Sometimes", False),
        ("RayJob", "Rolling", False),
        ("RayJob", "Recreate", False),
    ],
)
def test_a_rayservice_hands_its_strategy_down(creator: str, strategy: str, accepted: bool) -> None:
    raw = spec(upgradeStrategy={"type": strategy})
    problems = validate_cluster("c", {"ray.io/originated-from-crd": creator}, {}, raw, ALL_GATES)
    assert (problems == []) is accepted
    told = f"upgradeStrategy cannot be set when RayCluster is created by {creator}"
    assert any(problem.message == told for problem in problems) is not accepted


def test_contradicting_status() -> None:
    both = [{"type": kind, "status": "True"} for kind in ("RayClusterSuspending", "RayClusterSuspended")]
    [problem] = validate_cluster("c", {}, {}, spec(), ALL_GATES, {"conditions": both})
    assert (problem.path, problem.reason) == ("status.conditions", "InvalidRayClusterStatus")
    assert event_note(problem, "ns", "c").startswith("The RayCluster status is invalid ns/c, invalid RayCluster State")
    assert validate_cluster("c", {}, {}, spec(), ALL_GATES, {"conditions": both[:1]}) == []


def test_names() -> None:
    [problem] = validate_cluster("n" * 54, {}, {}, spec(), ALL_GATES)
    assert (problem.path, problem.reason) == ("metadata.name", "InvalidRayClusterMetadata")
    assert validate_cluster("n" * 53, {}, {}, spec(), ALL_GATES) == []


def test_what_cannot_be_parsed_is_told_with_its_path() -> None:
    [problem] = validate_cluster("c", {}, {}, {"headGroupSpec": {"template": {"spec": []}}}, ALL_GATES)
    assert str(problem) == "spec.headGroupSpec.template: spec must be an object"
    assert problem.reason == "InvalidRayClusterSpec"


def test_restart_policy_warning_of_autoscaler_v1() -> None:
    always = group(groupName="a", template=template(restartPolicy="Always"))
    raw = spec(groups=[always, group()], enableInTreeAutoscaling=True, autoscalerOptions={"version": "v1"})
    expected = "restartPolicy for worker groups [a] should be Never or unset when using autoscaler V1"
    assert restart_policy_warning(RayClusterSpec.parse(raw)) == expected
    assert restart_policy_warning(RayClusterSpec.parse(spec(groups=[always]))) == ""
