"""Validation, line by line of raycluster.md 1.8 and section 8: what other tests of the rules leave out.

Ids name the rule of 1.8, or the line of section 8.
"""

from __future__ import annotations

from typing import Any

import pytest
from kuberay.api.gates import DEFAULT_GATES, HISTORY_SERVER, MTLS, NETWORK_POLICY
from kuberay.api.validation.cluster import event_note, validate_cluster

Manifest = dict[str, Any]
ALL_GATES = dict.fromkeys(DEFAULT_GATES, True)
LABEL_WORDS = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
    " (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is"
    " '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
DNS1035_WORDS = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character,"
    " and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is"
    " '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
DNS1123_WORDS = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with"
    " an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is"
    " '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
NO_STORAGE_NAMES = "cannot set GcsFaultToleranceOptions.{} when backend is 'rocksdb'"
CLAIM_ALONE = (
    "GcsFaultToleranceOptions.Storage.ClaimName is mutually exclusive with size, storageClassName, and accessModes"
)
GCS_ENV = (
    "cannot set `RAY_gcs_storage` or `RAY_gcs_storage_path` env var in head Pod when the embedded GCS FT backend is used"
    " - these are managed by KubeRay"
)
GCS_MOUNT = (
    'cannot set a volume mount named "gcs-storage" or mounted at /data/gcs in the head container when the embedded GCS'
    " FT backend is used - it is managed by KubeRay"
)
REDIS_USER = (
    "cannot set redis username in rayStartParams or environment variables - use"
    " GcsFaultToleranceOptions.RedisUsername instead"
)
TLS_MANAGED = "when tlsOptions is set - the operator manages TLS configuration automatically"
IDLE_WITHOUT_V2 = (
    "worker group g: idleTimeoutSeconds is set, but autoscaler v2 is not enabled. Please set"
    " .spec.autoscalerOptions.version to 'v2' (or set RAY_enable_autoscaler_v2 environment variable to 'true' in the"
    " head pod if using KubeRay < 1.4.0)"
)
V2_NEVER = "should be Never or unset when using autoscaler V2"


def template(**pod: Any) -> Manifest:
    env = [{"name": name, "value": value} for name, value in pod.pop("env", {}).items()]
    mounts = pod.pop("mounts", [])
    return {"spec": {"containers": [{"name": "ray", "image": "ray", "env": env, "volumeMounts": mounts}], **pod}}


def group(name: str = "g", **fields: Any) -> Manifest:
    return {"groupName": name, "minReplicas": 0, "maxReplicas": 3, "template": template(), **fields}


def spec(head: Manifest | None = None, groups: list[Manifest] | None = None, **fields: Any) -> Manifest:
    return {
        "rayVersion": "2.56.0",
        "headGroupSpec": {"template": template(), **(head or {})},
        "workerGroupSpecs": [group()] if groups is None else groups,
        **fields,
    }


def rocksdb(head: Manifest | None = None, **options: Any) -> Manifest:
    return spec(head, gcsFaultToleranceOptions={"backend": "rocksdb", **options})


def autoscaled(version: str | None = None, head: Manifest | None = None, **fields: Any) -> Manifest:
    options = {} if version is None else {"autoscalerOptions": {"version": version}}
    return spec(head, enableInTreeAutoscaling=True, **options, **fields)


def messages(
    raw: Manifest,
    *,
    name: str = "c",
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    gates: dict[str, bool] = ALL_GATES,
) -> list[str]:
    return [problem.message for problem in validate_cluster(name, labels or {}, annotations or {}, raw, gates)]


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        pytest.param(
            spec({"template": {"metadata": {"labels": {"a": "b"}}}}),
            "headGroupSpec should have at least one container",
            id="1-no-pod-spec",
        ),
        pytest.param(
            spec({"resources": {"CPU": "1"}, "rayStartParams": {"memory": "1"}}),
            "resource fields should not be set in both rayStartParams and Resources for Head group; please use only one",
            id="2-head-memory",
        ),
        pytest.param(
            spec(groups=[group("a"), group("b", resources={"x": "1"}, rayStartParams={"num-gpus": "0"})]),
            "resource fields should not be set in both rayStartParams and Resources for b group; please use only one",
            id="2-second-group",
        ),
        pytest.param(
            spec(groups=[group(rayStartParams={"labels": "a=b"})]),
            "rayStartParams['labels'] is not supported for g group; please use the top-level Labels field instead",
            id="3-worker",
        ),
        pytest.param(
            spec({"labels": {"not a key!": "v"}}),
            f"invalid label key for Head group: 'not a key!', error: name part {LABEL_WORDS}",
            id="4-key",
        ),
        pytest.param(
            spec(groups=[group(labels={"/": "v"})]),
            "invalid label key for g group: '/', error: prefix part must be non-empty; name part must be non-empty;"
            f" name part {LABEL_WORDS}",
            id="4-several-of-one-key",
        ),
        pytest.param(
            spec(groups=[group(labels={"/name": "v"})]),
            "invalid label key for g group: '/name', error: prefix part must be non-empty",
            id="4-empty-prefix",
        ),
        pytest.param(
            spec(groups=[group(labels={"a": "v" * 64})]),
            f"invalid label value for key 'a' in g group: '{'v' * 64}', error: must be no more than 63 bytes",
            id="4-long-value",
        ),
        pytest.param(
            spec(groups=[group("a"), group("b", template={"spec": {"containers": []}})]),
            "workerGroupSpec should have at least one container",
            id="5",
        ),
        pytest.param(
            spec(groups=[group(minReplicas=None)]),
            "worker group g must set both minReplicas and maxReplicas when autoscaling is disabled",
            id="6-min",
        ),
        pytest.param(
            autoscaled(groups=[group(minReplicas=None, maxReplicas=-1)]),
            "worker group g has negative maxReplicas -1",
            id="7-autoscaled",
        ),
        pytest.param(
            spec(groups=[group(minReplicas=-3, maxReplicas=-5)]),
            "worker group g has negative minReplicas -3",
            id="7-first",
        ),
        pytest.param(spec(groups=[group(idleTimeoutSeconds=60)]), IDLE_WITHOUT_V2, id="10-no-autoscaling"),
        pytest.param(autoscaled("v1", groups=[group(idleTimeoutSeconds=60)]), IDLE_WITHOUT_V2, id="10-v1"),
        pytest.param(
            autoscaled("v2", groups=[group(priority=1)], rayVersion="2"),
            'worker group g: priority is set, but RayVersion format is invalid: 2, illegal version string "2"',
            id="11-one-number",
        ),
        pytest.param(
            autoscaled("v1", groups=[group(priority=-7)]),
            "worker group g: priority is set to -7, but autoscaler v2 is not enabled. Priority is only supported with"
            " autoscaler v2 enabled",
            id="11-v1",
        ),
        pytest.param(rocksdb(redisAddress="r"), NO_STORAGE_NAMES.format("RedisAddress"), id="16-address"),
        pytest.param(rocksdb(redisPassword={"value": ""}), NO_STORAGE_NAMES.format("RedisPassword"), id="16-password"),
        pytest.param(
            rocksdb(externalStorageNamespace="n"),
            NO_STORAGE_NAMES.format("ExternalStorageNamespace"),
            id="16-namespace",
        ),
        pytest.param(rocksdb(storage={"claimName": "c", "storageClassName": ""}), CLAIM_ALONE, id="17-class"),
        pytest.param(rocksdb(storage={"claimName": "c", "accessModes": ["ReadWriteMany"]}), CLAIM_ALONE, id="17-modes"),
        pytest.param(rocksdb({"template": template(env={"RAY_gcs_storage_path": "/x"})}), GCS_ENV, id="18-path-env"),
        pytest.param(
            rocksdb({"template": template(mounts=[{"name": "gcs-storage", "mountPath": "/x"}])}),
            GCS_MOUNT,
            id="18-mount-name",
        ),
        pytest.param(
            spec(gcsFaultToleranceOptions={"backend": "redis", "storage": {}}),
            "cannot set GcsFaultToleranceOptions.Storage when backend is 'redis' - it only applies to the 'rocksdb'"
            " backend",
            id="19-empty-storage",
        ),
        pytest.param(spec({"rayStartParams": {"redis-username": ""}}), REDIS_USER, id="20-param"),
        pytest.param(
            spec({"template": template(env={"REDIS_USERNAME": "x"})}, gcsFaultToleranceOptions={}),
            REDIS_USER,
            id="20-with-options",
        ),
        pytest.param(
            spec({"template": template(env={"RAY_enable_autoscaler_v2": "1"})}, enableInTreeAutoscaling=False),
            "environment variable RAY_enable_autoscaler_v2 cannot be set to '1' when enableInTreeAutoscaling is false."
            " Please set enableInTreeAutoscaling: true to use autoscaler v2",
            id="22-one",
        ),
        pytest.param(
            autoscaled(groups=[group(suspend=True)]),
            "worker group g cannot be suspended with Autoscaler enabled",
            id="23",
        ),
        pytest.param(
            autoscaled("v2", groups=[group(template=template(restartPolicy="OnFailure"))]),
            f"restartPolicy for worker group g {V2_NEVER}",
            id="25-worker",
        ),
        pytest.param(
            autoscaled(head={"template": template(env={"RAY_enable_autoscaler_v2": "true"}, restartPolicy="Always")}),
            f"restartPolicy for head Pod {V2_NEVER}",
            id="25-by-env",
        ),
        pytest.param(
            spec(authOptions={"mode": "token"}, rayVersion="2.51.9"),
            "authOptions.mode is 'token' but minimum Ray version is 2.52.0, got 2.51.9",
            id="29-old",
        ),
        pytest.param(
            spec(authOptions={"mode": "token"}, rayVersion="v2.50.0rc1"),
            "authOptions.mode is 'token' but minimum Ray version is 2.52.0, got v2.50.0rc1",
            id="29-old-with-suffix",
        ),
        pytest.param(
            spec(authOptions={"mode": "token"}, rayVersion="invalid-version"),
            "authOptions.mode is 'token' but RayVersion format is invalid: invalid-version,"
            ' could not parse "invalid-version" as version',
            id="29-8.3-invalid-version",
        ),
        pytest.param(
            spec(authOptions={"mode": "disabled", "enableK8sTokenAuth": True}),
            "authOptions.enableK8sTokenAuth is enabled but authOptions.mode not set to 'token'",
            id="30-disabled",
        ),
        pytest.param(
            spec(networkPolicy={"mode": "DenyAllEgress", "worker": {"ingressRules": [{}]}}),
            'networkPolicy.worker.ingressRules cannot be set when mode is "DenyAllEgress" (ingress is not restricted)',
            id="32-worker",
        ),
        pytest.param(
            spec(groups=[group("GPU-Group")], networkPolicy={}),
            f'worker group name "GPU-Group" must be a valid DNS1123 label when networkPolicy is enabled ({DNS1123_WORDS})',
            id="33-8.9-upper-case",
        ),
        pytest.param(
            spec(networkPolicy={"workerGroups": [{"groupName": "nobody"}]}),
            'networkPolicy.workerGroups["nobody"] does not match any group name in workerGroupSpecs',
            id="33-unknown-group",
        ),
        pytest.param(
            spec({"template": template(env={"RAY_TLS_CA_CERT": "x"})}, tlsOptions={"enabled": True}),
            f"cannot set RAY_TLS_CA_CERT environment variable in head Pod {TLS_MANAGED}",
            id="35-head-env",
        ),
        pytest.param(
            spec(
                {"template": template(mounts=[{"name": "x", "mountPath": "/etc/ray/tls"}])},
                tlsOptions={"enabled": True},
            ),
            f'cannot use volume mount at path "/etc/ray/tls" in head Pod {TLS_MANAGED}',
            id="35-head-mount",
        ),
        pytest.param(
            spec(
                tlsOptions={"enabled": True},
                autoscalerOptions={"env": [{"name": "RAY_TLS_SERVER_KEY", "value": "x"}]},
            ),
            f"cannot set RAY_TLS_SERVER_KEY environment variable in autoscalerOptions {TLS_MANAGED}",
            id="35-autoscaler-env",
        ),
    ],
)
def test_refused(raw: Manifest, message: str) -> None:
    assert messages(raw) == [message]


@pytest.mark.parametrize(
    ("gate", "fields", "message"),
    [
        pytest.param(
            HISTORY_SERVER,
            {"historyServerOptions": {}},
            "RayClusterHistoryServer feature gate is not enabled",
            id="28",
        ),
        pytest.param(
            NETWORK_POLICY,
            {"networkPolicy": {"mode": "DenyAllEgress", "head": {"ingressRules": [{}]}}},
            "spec.networkPolicy requires the RayClusterNetworkPolicy feature gate to be enabled",
            id="31-before-32",
        ),
        pytest.param(
            MTLS,
            {"tlsOptions": {}},
            "spec.tlsOptions requires the RayClusterMTLS feature gate to be enabled",
            id="34-empty-options",
        ),
    ],
)
def test_a_closed_gate_is_told_first(gate: str, fields: Manifest, message: str) -> None:
    assert messages(spec(**fields), gates=ALL_GATES | {gate: False})[0] == message


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("n" * 54, ["RayCluster name should be no more than 53 characters"], id="8.1-54"),
        pytest.param(
            "1" * 10, [f"RayCluster name should be a valid DNS1035 label: [{DNS1035_WORDS}]"], id="8.1-digits"
        ),
        pytest.param("a.b", [f"RayCluster name should be a valid DNS1035 label: [{DNS1035_WORDS}]"], id="dot"),
        pytest.param("Upper", [f"RayCluster name should be a valid DNS1035 label: [{DNS1035_WORDS}]"], id="upper-case"),
        pytest.param("n" * 53, [], id="8.1-53"),
    ],
)
def test_names(name: str, expected: list[str]) -> None:
    problems = validate_cluster(name, {}, {}, spec(), ALL_GATES)
    assert [problem.message for problem in problems] == expected
    for problem in problems:
        assert event_note(problem, "ns", name) == f"The RayCluster metadata is invalid ns/{name}: {problem.message}"


@pytest.mark.parametrize(
    ("raw", "annotations"),
    [
        pytest.param(spec({"resources": {"CPU": "1"}}), {}, id="8.2-resources-alone"),
        pytest.param(spec({"rayStartParams": {"num-cpus": "1"}}), {}, id="8.2-param-alone"),
        pytest.param(spec(groups=[group(minReplicas=2, replicas=0)]), {}, id="8.9-replicas-below-min"),
        pytest.param(spec(groups=[group(maxReplicas=3, replicas=9)]), {}, id="replicas-above-max"),
        pytest.param(spec(groups=[group(priority=None)], rayVersion=""), {}, id="8.9-priority-nil"),
        pytest.param(spec(authOptions={"mode": "token"}, rayVersion="2.52"), {}, id="8.3-2.52"),
        pytest.param(spec(authOptions={"mode": "token"}, rayVersion="v2.53.0rc1"), {}, id="29-suffix"),
        pytest.param(spec(authOptions={}, rayVersion="nightly"), {}, id="29-mode-unset"),
        pytest.param(
            spec(authOptions={"mode": "token", "enableK8sTokenAuth": True}, rayVersion="2.55.0"), {}, id="8.3-2.55.0"
        ),
        pytest.param(
            spec(authOptions={"mode": "token", "enableK8sTokenAuth": False, "secretName": "s"}), {}, id="30-false"
        ),
        pytest.param(spec(groups=[group("GPU-Group")]), {}, id="8.9-upper-case-group"),
        pytest.param(spec(groups=[]), {}, id="no-groups"),
        pytest.param(spec(groups=None, workerGroupSpecs=None), {}, id="null-groups"),
        pytest.param(spec(), {"ray.io/ft-enabled": ""}, id="12-empty-annotation"),
        pytest.param(spec(gcsFaultToleranceOptions={}), {"ray.io/ft-enabled": ""}, id="12-empty-with-options"),
        pytest.param(
            spec(gcsFaultToleranceOptions={}), {"ray.io/external-storage-namespace": ""}, id="14-empty-annotation"
        ),
        pytest.param(
            spec({"rayStartParams": {"redis-password": "x"}}), {"ray.io/ft-enabled": "true"}, id="14-without-options"
        ),
        pytest.param(spec({"template": template(env={"REDIS_PASSWORD": "x"})}), {}, id="14-without-ft"),
        pytest.param(rocksdb(storage={"claimName": "c", "subPath": "p"}), {}, id="17-sub-path"),
        pytest.param(
            autoscaled(head={"template": template(env={"RAY_enable_autoscaler_v2": "1"})}), {}, id="22-24-by-env"
        ),
        pytest.param(
            spec({"template": template(env={"RAY_enable_autoscaler_v2": "True"})}), {}, id="22-other-spelling"
        ),
        pytest.param(
            autoscaled(
                head={"template": template(env={"RAY_enable_autoscaler_v2": "1"})}, groups=[group(idleTimeoutSeconds=1)]
            ),
            {},
            id="10-by-env",
        ),
        pytest.param(
            autoscaled("v1", groups=[group(template=template(restartPolicy="Always"))]), {}, id="25-v1-warns-only"
        ),
        pytest.param(spec(networkPolicy={"mode": "DenyAll", "head": {"ingressRules": [{}]}}), {}, id="32-deny-all"),
        pytest.param(spec(networkPolicy={"head": {"ingressRules": [{}], "egressRules": [{}]}}), {}, id="8.9-nil-mode"),
        pytest.param(
            spec({"template": template(env={"RAY_USE_TLS": "1"})}, tlsOptions={"enabled": False}), {}, id="35-off"
        ),
        pytest.param(spec(upgradeStrategy={}), {}, id="8.9-nil-type"),
        pytest.param(spec(upgradeStrategy={"type": "None"}), {}, id="8.9-none"),
    ],
)
def test_accepted(raw: Manifest, annotations: dict[str, str]) -> None:
    assert messages(raw, annotations=annotations) == []


@pytest.mark.parametrize("creator", ["RayCluster", "RayCronJob", "anything", ""])
def test_upgrade_strategy_of_other_creators(creator: str) -> None:
    """1.8: only RayJob and RayService count as creators of their own (0.6)."""
    labels = {"ray.io/originated-from-crd": creator}
    assert messages(spec(upgradeStrategy={"type": "Recreate"}), labels=labels) == []


def test_rules_are_told_in_kuberays_order() -> None:
    """1.8: metadata, then the spec's rules by number, then the upgrade strategy."""
    raw = spec(
        {"rayStartParams": {"labels": "x"}},
        [group(minReplicas=-1, labels={"b c": "d"}), group("h", suspend=True)],
        enableInTreeAutoscaling=True,
        autoscalerOptions={"idleTimeoutSeconds": -1},
        authOptions={"mode": "token"},
        rayVersion="2.0.0",
        upgradeStrategy={"type": "Never"},
    )
    told = messages(raw, name="X", annotations={"ray.io/ft-enabled": "no"})
    begins = [
        "RayCluster name should be",
        "rayStartParams['labels'] is not supported for Head group",
        "worker group g has negative minReplicas",
        "invalid label key for g group",
        "worker group h cannot be suspended",
        "autoscalerOptions.idleTimeoutSeconds must be",
        "authOptions.mode is 'token' but minimum",
        "The RayCluster spec is invalid: Spec.UpgradeStrategy.Type value Never",
    ]
    assert len(told) == len(begins)
    assert all(message.startswith(begin) for message, begin in zip(told, begins, strict=True))
