"""The chart of the operator: objects and flags by values, O53 to O65 of the specification and what is ours."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from helm import OPERATOR, Helm, HelmError, configuration, container, of_kind, started_with
from kuberay.operator.settings import Settings
from kuberay.operator.start import operator_version


def test_the_charts_are_clean(helm: Helm) -> None:
    for chart in (OPERATOR, OPERATOR.parent / "ray-cluster"):
        assert "0 chart(s) failed" in helm.run("lint", "--strict", chart)


def test_nothing_set(helm: Helm) -> None:
    """O53, and pods that the strictest Pod Security level admits."""
    made = helm.template(OPERATOR)
    (deployment,) = of_kind(made, "Deployment")
    assert (deployment["metadata"]["name"], deployment["metadata"]["namespace"]) == ("kuberay-operator", "ns")
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    for kind in ("ConfigMap", "ServiceMonitor", "PodMonitor", "PrometheusRule", "Role"):
        assert [m["metadata"]["name"] for m in of_kind(made, kind)] == (
            ["kuberay-operator-leader-election"] if kind == "Role" else []
        )
    pod = deployment["spec"]["template"]["spec"]
    assert "volumes" not in pod
    (operator,) = pod["containers"]
    assert "command" not in operator
    assert operator["image"] == f"kuberay/operator:{operator_version()}", "the chart's version follows the packages'"
    restricted = {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert operator["securityContext"] == restricted
    (service,) = of_kind(made, "Service")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    # By this label network policies know the operator.
    assert labels["app.kubernetes.io/component"] == "kuberay-operator"
    expected = Settings(enable_metrics=True)
    settings = started_with(made)
    assert set(settings.plugins.enabled or ()) == {"autoscaler-v2", "gateway-upgrade"}
    assert settings.model_copy(update={"plugins": expected.plugins, "feature_gates": ""}) == expected


@pytest.mark.parametrize(
    ("values", "flags"),
    [
        (
            {"reconcileConcurrency": 5, "kubeClient": {"qps": 75.5, "burst": 150}},  # O54
            ["--reconcile-concurrency=5", "--qps=75.5", "--burst=150"],
        ),
        (
            {"reconcileConcurrency": "5", "kubeClient": {"qps": 100.0, "burst": 1000000}},
            ["--reconcile-concurrency=5", "--qps=100", "--burst=1000000"],
        ),
        (
            {"featureGates": [{"name": "KubernetesWAS", "enabled": True}]},  # O55
            ["--feature-gates=KubernetesWAS=true"],
        ),
        ({"batchScheduler": {"enabled": True}}, ["--enable-batch-scheduler"]),
        ({"batchScheduler": {"name": "yunikorn"}}, ["--batch-scheduler=yunikorn"]),
        ({"watchNamespace": ["a", "b"]}, ["--watch-namespace", "a,b"]),
        ({"watchNamespace": "a, b"}, ["--watch-namespace", "a,b"]),
        ({"singleNamespaceInstall": True}, ["--watch-namespace", "ns"]),
        ({"useKubernetesProxy": False}, ["--use-kubernetes-proxy=false"]),
        ({"leaderElectionEnabled": False}, ["--enable-leader-election=false"]),
        ({"metrics": {"enabled": False}}, ["--enable-metrics=false"]),
        (
            {"logging": {"baseDir": "/var/log", "fileName": "operator.log", "stdoutEncoder": "console"}},
            ["--log-file-path", "/var/log/operator.log", "--log-stdout-encoder", "console"],
        ),
        ({"plugins": {"autoscaler-v2": {"enabled": False}}}, ["--plugins=gateway-upgrade"]),
        (
            {"plugins": {"autoscaler-v2": {"enabled": False}, "gateway-upgrade": {"enabled": False}}},
            ["--plugins="],
        ),
    ],
)
def test_flags(helm: Helm, values: dict[str, Any], flags: list[str]) -> None:
    made = helm.template(OPERATOR, values)
    args = container(made)["args"]
    assert [word for word in args if word in flags] == flags
    assert not configuration(made)


def test_configuration_file(helm: Helm) -> None:
    """O56, O57, O59 and O60."""
    values = {
        "configuration": {"enabled": True},
        "reconcileConcurrency": 5,
        "leaderElectionEnabled": False,
        "watchNamespace": ["namespace1", "namespace2"],
        "logging": {"baseDir": "/var/log", "fileName": "operator.log", "stdoutEncoder": "console"},
    }
    made = helm.template(OPERATOR, values)
    operator = container(made)
    assert operator["args"][:2] == ["--config", "/etc/kuberay/config.yaml"]
    assert [word.partition("=")[0] for word in operator["args"][2:]] == ["--feature-gates"]
    mount = {"name": "operator-config", "mountPath": "/etc/kuberay", "readOnly": True}
    assert mount in operator["volumeMounts"]
    said = yaml.safe_load(configuration(made))
    assert said["watchNamespace"] == "namespace1,namespace2"
    assert said["logFile"] == "/var/log/operator.log"
    assert (said["logStdoutEncoder"], said["logFileEncoder"]) == ("console", "json")
    assert not said.keys() & {"defaultContainerEnvs", "headSidecarContainers", "defaultPodLabels"}
    settings = started_with(made)
    assert (settings.reconcile_concurrency, settings.enable_leader_election) == (5, False)


def test_both_spellings_of_a_scheduler_reach_the_operator(helm: Helm) -> None:
    """O58: the operator, not the chart, says that they are one too many."""
    values = {
        "configuration": {"enabled": True},
        "batchScheduler": {"enabled": True, "name": "volcano"},
    }
    said = yaml.safe_load(configuration(helm.template(OPERATOR, values)))
    assert (said["enableBatchScheduler"], said["batchScheduler"]) == (True, "volcano")


@pytest.mark.parametrize(
    "values",
    [
        {"reconcileConcurrency": 8, "watchNamespace": ["a"], "batchScheduler": {"name": "yunikorn"}},
        {"batchScheduler": {"enabled": True}, "kubeClient": {"qps": 2.5, "burst": 7}, "useKubernetesProxy": True},
        {"singleNamespaceInstall": True, "metrics": {"enabled": False}, "leaderElectionEnabled": False},
        {"plugins": {"volcano": {"enabled": True}, "mtls": {"enabled": True}}},
        {"featureGates": [{"name": "AllAlpha", "enabled": True}, {"name": "RayClusterMTLS", "enabled": False}]},
        {"logging": {"baseDir": "/logs/", "fileName": "o.log", "fileEncoder": "console"}},
    ],
    ids=lambda values: ",".join(values),
)
def test_the_same_settings_by_flags_and_by_file(helm: Helm, values: dict[str, Any]) -> None:
    """HE-05: turning the configuration file on loses nothing."""
    by_flags = helm.template(OPERATOR, values)
    by_file = helm.template(OPERATOR, values | {"configuration": {"enabled": True}})
    assert not configuration(by_flags)
    assert configuration(by_file)
    assert started_with(by_file) == started_with(by_flags)


def test_what_has_no_flag_needs_no_switch(helm: Helm) -> None:
    """Settings of plugins and keys of the file bring the file along, whatever configuration.enabled says."""
    values: dict[str, Any] = {
        "plugins": {
            "volcano": {"enabled": True, "autoscaling_reserve": "desired"},
            "mtls": {"enabled": False, "issuer": "own"},
        },
        "configuration": {"drainTimeoutSeconds": 0, "propagateJobMetadata": False, "defaultPodLabels": {"a": "b"}},
    }
    made = helm.template(OPERATOR, values)
    settings = started_with(made)
    assert settings.plugins.model_extra == {"volcano": {"autoscaling_reserve": "desired"}}
    assert (settings.drain_timeout_seconds, settings.propagate_job_metadata) == (0, False)
    assert settings.default_pod_labels == {"a": "b"}
    assert settings.enable_metrics

    # Pods are made anew when the file changes, unless the operator takes what changed while it runs.
    def checksum(**more: Any) -> str:
        (deployment,) = of_kind(helm.template(OPERATOR, values | more), "Deployment")
        return str(deployment["spec"]["template"]["metadata"]["annotations"]["checksum/config"])

    assert checksum() != checksum(reconcileConcurrency=2)
    assert checksum() == checksum(
        configuration=values["configuration"] | {"drainTimeoutSeconds": 5, "logLevels": {"kuberay.kube": "debug"}},
        kubeClient={"qps": 50, "burst": 60},
    )

    def with_plugin(name: str, **settings: Any) -> str:
        return checksum(plugins={**values["plugins"], name: {"enabled": True, **settings}})

    # Gateway-upgrade is on in any case, and says of this setting that it reloads; that of the other plugin does not.
    assert checksum() == with_plugin("gateway-upgrade", settle_seconds=5) == with_plugin("gateway-upgrade")
    assert checksum() != with_plugin("volcano", autoscaling_reserve="minimum")


def test_roles_and_accounts_that_somebody_else_makes(helm: Helm) -> None:
    """O61 and O62."""
    for values in ({"rbacEnable": False}, {"singleNamespaceInstall": True}):
        made = helm.template(OPERATOR, values)
        assert of_kind(made, "ClusterRole") == of_kind(made, "ClusterRoleBinding") == []
    assert of_kind(helm.template(OPERATOR, {"rbacEnable": False}), "Role") == []
    for account, name in (({"create": False, "name": "mine"}, "mine"), ({"create": False, "name": ""}, "default")):
        made = helm.template(OPERATOR, {"serviceAccount": account})
        assert of_kind(made, "ServiceAccount") == []
        (deployment,) = of_kind(made, "Deployment")
        bound = {s["name"] for b in of_kind(made, "ClusterRoleBinding") for s in b["subjects"]}
        assert {deployment["spec"]["template"]["spec"]["serviceAccountName"], *bound} == {name}


def test_roles_of_users(helm: Helm) -> None:
    def names(values: dict[str, Any]) -> dict[str, dict[str, str]]:
        roles = of_kind(helm.template(OPERATOR, values), "ClusterRole")
        return {
            r["metadata"]["name"]: r["metadata"]["labels"] for r in roles if r["metadata"]["name"].endswith("-role")
        }

    kinds = ("raycluster", "rayjob", "rayservice", "raycronjob")
    expected = {f"{kind}-{what}-role" for kind in kinds for what in ("editor", "viewer")}
    assert names({}).keys() == expected
    assert not [label for labels in names({}).values() for label in labels if "aggregate" in label]
    assert names({"userRoles": {"create": False}}) == {}
    joined = names({"userRoles": {"aggregate": True}})
    assert joined["rayjob-viewer-role"]["rbac.authorization.k8s.io/aggregate-to-view"] == "true"
    assert joined["rayjob-editor-role"]["rbac.authorization.k8s.io/aggregate-to-edit"] == "true"


def test_pod_and_service(helm: Helm) -> None:
    """O63 and O65; a digest goes before the tag, KubeRay's command means the image's own."""
    digest = "sha256:" + "0" * 64
    values = {
        "service": {"type": "NodePort", "port": 18080},
        "labels": {"team": "ml"},
        "annotations": {"note": "x"},
        "image": {"digest": digest, "tag": "v1"},
        "operatorCommand": "/manager",
        "replicas": 2,
        "nodeSelector": {"a": "b"},
        "env": [{"name": "CLUSTER_DOMAIN", "value": "example.test"}],
        "fullnameOverride": "",
        "logging": {"baseDir": "/logs", "fileName": "o.log", "sizeLimit": "1Gi"},
    }
    made = helm.template(OPERATOR, values, release="mine")
    (service,) = of_kind(made, "Service")
    assert (service["spec"]["type"], service["spec"]["ports"][0]["port"]) == ("NodePort", 18080)
    (deployment,) = of_kind(made, "Deployment")
    assert deployment["metadata"]["name"] == "mine-kuberay-operator"
    assert deployment["metadata"]["labels"]["team"] == "ml"
    assert "annotations" not in deployment["metadata"]
    template = deployment["spec"]["template"]
    assert template["metadata"]["labels"]["team"] == "ml"
    assert template["metadata"]["annotations"] == {"note": "x"}
    assert (deployment["spec"]["replicas"], deployment["spec"]["strategy"]["type"]) == (2, "RollingUpdate")
    assert template["spec"]["nodeSelector"] == {"a": "b"}
    assert template["spec"]["volumes"] == [{"name": "kuberay-logs", "emptyDir": {"sizeLimit": "1Gi"}}]
    operator = container(made)
    assert operator["image"] == f"kuberay/operator@{digest}"
    assert "command" not in operator
    assert {"name": "CLUSTER_DOMAIN", "value": "example.test"} in operator["env"]
    (stopped,) = of_kind(helm.template(OPERATOR, {"replicas": 0}), "Deployment")
    assert stopped["spec"]["replicas"] == 0
    assert container(helm.template(OPERATOR, {"operatorCommand": "/op"}))["command"] == ["/op"]


def test_plugins_of_others(helm: Helm) -> None:
    rule = {"apiGroups": ["acme.example"], "resources": ["quotas"], "verbs": ["get"]}
    requirement = "kuberay-acme==1.2.0 --hash=sha256:" + "0" * 64
    extra = {
        "name": "acme",
        "requirements": [requirement, "acme-client==3.0"],
        "rules": [rule],
        "settings": {"tier": "gold"},
    }
    values = {
        "plugins": {"extra": [extra, {"name": "in-image"}, {"name": "off", "enabled": False}]},
        "pluginInstaller": {"indexUrl": "https://pypi.example.test/simple"},
    }
    made = helm.template(OPERATOR, values)
    settings = started_with(made)
    assert settings.plugins.enabled == ["autoscaler-v2", "gateway-upgrade", "acme", "in-image"]
    assert settings.plugins.model_extra == {"acme": {"tier": "gold"}}
    (role,) = [r for r in of_kind(made, "ClusterRole") if r["metadata"]["name"] == "kuberay-operator"]
    assert rule in role["rules"]
    (deployment,) = of_kind(made, "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    (installer,) = pod["initContainers"]
    assert "--no-deps" in installer["command"]
    assert installer["securityContext"]["runAsUser"] == 65532
    assert {"name": "PIP_INDEX_URL", "value": "https://pypi.example.test/simple"} in installer["env"]
    (lines,) = [c["data"]["requirements.txt"] for c in of_kind(made, "ConfigMap") if "requirements.txt" in c["data"]]
    assert lines.splitlines() == [requirement, "acme-client==3.0"]
    volumes = {volume["name"] for volume in pod["volumes"]}
    assert {m["name"] for c in (*pod["containers"], installer) for m in c["volumeMounts"]} == volumes
    assert {"name": "PYTHONPATH", "value": "/plugins"} in container(made)["env"]
    own_image = helm.template(OPERATOR, {"plugins": {"extra": [{"name": "in-image"}]}})
    (deployment,) = of_kind(own_image, "Deployment")
    assert "initContainers" not in deployment["spec"]["template"]["spec"]


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"reconcileConcurency": 5}, "reconcileConcurency"),
        ({"image": {"repo": "x"}}, "repo"),
        ({"plugins": {"volcan": {"enabled": True}}}, "volcan"),
        ({"plugins": {"volcano": {"reserve": "x"}}}, "reserve"),
        ({"plugins": {"volcano": {"autoscaling_reserve": "most"}}}, "autoscaling_reserve"),
        ({"plugins": {"gateway-upgrade": {"settle_seconds": 601}}}, "settle_seconds"),
        ({"plugins": {"extra": [{"name": "acme", "requirements": ["acme>=1"]}]}}, "requirements"),
        ({"plugins": {"extra": [{"name": "acme", "requirements": ["acme"]}]}}, "requirements"),
        ({"plugins": {"extra": [{"name": "volcano"}]}}, "use plugins.volcano instead"),
        ({"plugins": {"extra": [{"name": "acme"}, {"name": "acme"}]}}, "acme is there twice"),
        ({"plugins": {"extra": [{"name": "enabled"}]}}, "name"),
        ({"configuration": {"drainTimeoutSecond": 1}}, "drainTimeoutSecond"),
        ({"configuration": {"drainTimeoutSeconds": -1}}, "drainTimeoutSeconds"),
        ({"configuration": {"qps": 1}}, "qps"),
        ({"reconcileConcurrency": 0}, "reconcileConcurrency"),
        ({"reconcileConcurrency": "many"}, "reconcileConcurrency"),
        ({"kubeClient": {"qps": -1}}, "qps"),
        ({"kubeClient": {"burst": 1.5}}, "burst"),
        ({"featureGates": [{"name": "RayCronJob"}]}, "enabled"),
        ({"logging": {"stdoutEncoder": "xml"}}, "stdoutEncoder"),
        ({"image": {"digest": "sha256:1"}}, "digest"),
        ({"replicas": 2, "leaderElectionEnabled": False}, "leaderElectionEnabled: true"),
        ({"metrics": {"serviceMonitor": {"enable": True}}}, "enable"),
    ],
    ids=str,
)
def test_what_is_refused(helm: Helm, values: dict[str, Any], told: str) -> None:
    with pytest.raises(HelmError, match=told):
        helm.template(OPERATOR, values)


def test_a_chart_that_depends_on_it_may_have_its_own_words_beside(helm: Helm) -> None:
    helm.template(OPERATOR, {"global": {"region": "eu"}, "enabled": True})
