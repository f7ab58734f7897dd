"""Settings from files, flags and the environment, and the sentence each mistake is told with (operator.md 2, 3, 9, 20)."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kuberay.operator.environment import Environment, own_namespace, read_environment
from kuberay.operator.settings import (
    DEFAULT_PLUGINS,
    Settings,
    SettingsError,
    WaitGcsReadyResources,
    load_settings,
)

HEAD = "apiVersion: config.ray.io/v1alpha1\nkind: Configuration\n"


@pytest.fixture
def write(tmp_path: Path) -> Any:
    """Write a configuration file and return its path."""

    def _write(text: str) -> str:
        path = tmp_path / "config.yaml"
        path.write_text(text)
        return str(path)

    return _write


def refusal(config: str = "", **flags: Any) -> str:
    with pytest.raises(SettingsError) as caught:
        load_settings(config, flags)
    return str(caught.value)


def test_defaults_are_kuberays_except_where_documented(write: Any) -> None:
    """O1. ``qps`` differs on purpose: docs/differences.md."""
    settings = load_settings(write(HEAD), {})
    assert settings == load_settings("", {}) == Settings()
    told = {
        "metrics_addr": ":8080",
        "probe_addr": ":8082",
        "enable_leader_election": True,
        "leader_election_namespace": "",
        "reconcile_concurrency": 1,
        "qps": 0.0,
        "burst": 200,
        "watch_namespace": "",
        "log_file": "",
        "log_file_encoder": "json",
        "log_stdout_encoder": "json",
        "log_level": "info",
        "batch_scheduler": "",
        "enable_batch_scheduler": False,
        "use_kubernetes_proxy": False,
        "enable_metrics": False,
        "delete_ray_job_after_job_finishes": False,
        "feature_gates": "",
    }
    assert {name: getattr(settings, name) for name in told} == told


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("unknownKey: 1", "qps", 0.0),  # O2
        ("qps: 150.5", "qps", 150.5),  # O3
        ("burst: 300", "burst", 300),  # O3
        ("reconcileConcurrency: 100", "reconcile_concurrency", 100),  # O6
        ("reconcileConcurrency: 0", "reconcile_concurrency", 1),
        ("metricsAddr: ':1'", "metrics_addr", ":1"),
        ("probeAddr: ':2'", "probe_addr", ":2"),
        ("enableLeaderElection: false", "enable_leader_election", False),
        ("leaderElectionNamespace: x", "leader_election_namespace", "x"),
        ("watchNamespace: a,b", "namespaces", ["a", "b"]),
        ("logFile: /tmp/x", "log_file", "/tmp/x"),
        ("logFileEncoder: ''", "log_file_encoder", "json"),
        ("logStdoutEncoder: console", "log_stdout_encoder", "console"),
        ("useKubernetesProxy: true", "use_kubernetes_proxy", True),
        ("enableMetrics: true", "enable_metrics", True),
        ("deleteRayJobAfterJobFinishes: true", "delete_ray_job_after_job_finishes", True),
        ("burst: null", "burst", 200),
        (
            "headSidecarContainers: [{name: a, image: b}]",
            "head_sidecar_containers",
            [{"name": "a", "image": "b"}],
        ),  # O7
        ("workerSidecarContainers: [{name: a}]", "worker_sidecar_containers", [{"name": "a"}]),
        ("defaultContainerEnvs: [{name: A, value: b}]", "default_container_envs", [{"name": "A", "value": "b"}]),
        ("defaultPodAnnotations: {a: b}", "default_pod_annotations", {"a": "b"}),
        ("defaultPodLabels: {a: b}", "default_pod_labels", {"a": "b"}),
        (
            "waitGcsReadyResources: {cpu: 1}",
            "wait_gcs_ready_resources",
            WaitGcsReadyResources(cpu="1", memory="256Mi"),
        ),
    ],
)
def test_every_key_of_the_file_is_read(write: Any, text: str, name: str, value: Any) -> None:
    assert getattr(load_settings(write(HEAD + text), {}), name) == value


def test_a_json_file_is_read_too(write: Any) -> None:
    path = write('{"apiVersion": "config.ray.io/v1alpha1", "kind": "Configuration", "burst": 7}')
    assert load_settings(path, {}).burst == 7


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "burst: 300.5",  # O4
            "burst: Input should be a valid integer, got a number with a fractional part (given: 300.5).",
        ),
        ("reconcileConcurrency: many", "reconcileConcurrency: Input should be a valid integer, unable to parse string"
         " as an integer (given: 'many')."),
        ("reconcileConcurrency: true", "reconcileConcurrency: Input should be a number (given: True)."),  # O5
        ("waitGcsReadyResources: {cpu: lots}", "waitGcsReadyResources.cpu: 'lots' is no quantity: write a number with an"
         " optional suffix such as m, k, M, G, Ki, Mi, Gi (given: 'lots')."),
        ("waitGcsReadyResources: {memory: 0}", "waitGcsReadyResources.memory: it must be greater than 0 (given: 0)."),
        ("waitGcsReadyResources: {gpu: 1}", "waitGcsReadyResources.gpu: Extra inputs are not permitted (given: 1)."),
        ("qps: -1", "qps: Input should be greater than or equal to 0 (given: -1)."),
        (
            "drainTimeoutSeconds: 604801",
            "drainTimeoutSeconds: Input should be less than or equal to 604800 (given: 604801).",
        ),
        ("logStdoutEncoder: xml", "logStdoutEncoder: Input should be 'json' or 'console' (given: 'xml')."),
        ("defaultPodLabels: [a]", "defaultPodLabels: Input should be a valid dictionary (given: ['a'])."),
        ("headSidecarContainers: [a]", "headSidecarContainers.0: Input should be a valid dictionary (given: 'a')."),
    ],
)  # fmt: skip
def test_a_wrong_value_is_told_with_file_and_key(write: Any, text: str, sentence: str) -> None:
    path = write(HEAD + text)
    assert refusal(path) == f"configuration file {path}: {sentence}"


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("a: [", " is not YAML (line 1)."),
        ("- a\n", " must hold a mapping with apiVersion and kind."),
        ("", " must hold a mapping with apiVersion and kind."),
        (
            "kind: Configuration\n",
            " must say apiVersion: config.ray.io/v1alpha1 and kind: Configuration; it says None and 'Configuration'.",
        ),
        (
            "apiVersion: v1\nkind: ConfigMap\n",
            " must say apiVersion: config.ray.io/v1alpha1 and kind: Configuration; it says 'v1' and 'ConfigMap'.",
        ),
    ],
)
def test_a_file_that_is_no_configuration_is_refused(write: Any, text: str, rest: str) -> None:
    path = write(text)
    assert refusal(path) == f"The configuration file {path}{rest}"


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    missing = tmp_path / "none.yaml"
    assert refusal(str(missing)) == f"Cannot read the configuration file {missing}: No such file or directory."
    assert refusal(str(tmp_path)) == f"Cannot read the configuration file {tmp_path}: Is a directory."
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00\x80")
    assert refusal(str(binary)) == f"The configuration file {binary} is not YAML."


def test_with_a_file_most_flags_do_not_count(write: Any) -> None:
    path = write(HEAD + "burst: 5\nlogStdoutEncoder: json\n")
    flags = {
        "burst": 9,
        "watch_namespace": "a",
        "feature_gates": "RayCronJob=true",
        "log_stdout_encoder": "console",
        "log_level": "debug",
    }
    settings = load_settings(path, flags)
    assert (settings.burst, settings.watch_namespace) == (5, "")
    assert (settings.feature_gates, settings.log_stdout_encoder, settings.log_level) == (
        "RayCronJob=true",
        "console",
        "debug",
    )


@pytest.mark.parametrize("name", ["volcano", "yunikorn", "scheduler-plugins", "kai-scheduler"])
def test_the_four_schedulers_turn_on_the_plugin_of_that_name(name: str) -> None:
    """O8"""
    names, optional = load_settings("", {"batch_scheduler": name}).enabled_plugins()
    assert names == [*DEFAULT_PLUGINS, name]
    assert optional == set(DEFAULT_PLUGINS)


def test_any_plugin_may_be_named_as_the_scheduler() -> None:
    """Whether it is one shows when plugins are loaded (core/tests/plugins/test_schedulers.py)."""
    assert load_settings("", {"batch_scheduler": "theirs"}).enabled_plugins()[0] == [*DEFAULT_PLUGINS, "theirs"]


GATES = {
    "text": ("featureGates: RayCronJob=true", {}, "", "RayCronJob=true"),
    "mapping": ("featureGates: {RayCronJob: true, AllBeta: false}", {}, "", "RayCronJob=true,AllBeta=false"),
    "list of the chart": ("featureGates: [{name: RayCronJob, enabled: true}]", {}, "", "RayCronJob=true"),
    "file, variable, flag": (
        "featureGates: A=true",
        {"feature_gates": "A=false"},
        "A=true,B=true",
        "A=true,A=true,B=true,A=false",
    ),
    "variable alone": ("", {}, "B=true", "B=true"),
}


@pytest.mark.parametrize("case", GATES)
def test_feature_gates_of_all_sources_count_and_the_flag_is_last(
    write: Any, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    text, flags, variable, together = GATES[case]
    monkeypatch.setenv("KUBERAY_FEATURE_GATES", variable)
    assert load_settings(write(HEAD + text), flags).feature_gates == together


def test_feature_gates_of_the_environment_count_without_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERAY_FEATURE_GATES", "A=true")
    assert load_settings("", {}).feature_gates == "A=true"
    assert load_settings("", {"feature_gates": "A=false"}).feature_gates == "A=true,A=false"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("featureGates: {RayCronJob: on please}", "featureGates: RayCronJob is 'on please', and must be true or false"),
        ("featureGates: [RayCronJob]", "featureGates: each item must have name and enabled"),
        ("featureGates: 5", "featureGates: Input should be a valid string"),
    ],
)
def test_feature_gates_of_another_form_are_refused(write: Any, text: str, sentence: str) -> None:
    assert sentence in refusal(write(HEAD + text))


def test_the_deprecated_scheduler_switch() -> None:
    """O10"""
    assert load_settings("", {"enable_batch_scheduler": True}).enabled_plugins()[0] == [*DEFAULT_PLUGINS, "volcano"]
    assert refusal(enable_batch_scheduler=True, batch_scheduler="volcano") == (
        "flags: batchScheduler and the deprecated enableBatchScheduler are both set; keep batchScheduler."
    )


@pytest.mark.parametrize(
    ("flags", "names", "optional"),
    [
        ({}, ["autoscaler-v2", "gateway-upgrade"], {"autoscaler-v2", "gateway-upgrade"}),
        ({"plugins": {"enabled": []}}, [], set()),
        ({"plugins": {"enabled": ["a", "b"]}}, ["a", "b"], set()),
        ({"plugins": {"enabled": ["volcano"]}, "batch_scheduler": "volcano"}, ["volcano"], set()),
    ],
)
def test_which_plugins_are_on(flags: dict[str, Any], names: list[str], optional: set[str]) -> None:
    assert load_settings("", flags).enabled_plugins() == (names, optional)


def test_plugin_sections_are_kept_for_the_plugins(write: Any) -> None:
    settings = load_settings(write(HEAD + "plugins: {enabled: [a], a: {x: 1}}"), {})
    assert settings.plugins.model_extra == {"a": {"x": 1}}


@pytest.mark.parametrize(
    ("text", "names"), [("", []), ("a", ["a"]), (" a , b ", ["a", "b"]), ("a,,b,", ["a", "b"]), (",", [])]
)
def test_namespaces_are_trimmed_and_an_empty_one_does_not_widen_the_list(text: str, names: list[str]) -> None:
    assert load_settings("", {"watch_namespace": text}).namespaces == names


def test_concurrency_counts_in_units_of_sixteen() -> None:
    assert load_settings("", {"reconcile_concurrency": 2}).workers == 32


ON, OFF = ("true", "True", "TRUE"), ("", "false", "1", "yes")


@pytest.mark.parametrize(
    ("variable", "name", "default", "changes", "keeps"),
    [
        ("ENABLE_INIT_CONTAINER_INJECTION", "init_container_injection", True, ("false", "False", "FALSE"), ("", "True", "no", "0")),
        ("ENABLE_PROBES_INJECTION", "probes_injection", True, ("false", "FALSE"), ("", "true", "no", "0")),
        ("ENABLE_RAY_HEAD_CLUSTER_IP_SERVICE", "head_cluster_ip_service", False, ON, OFF),
        ("ENABLE_LOGIN_SHELL", "login_shell", False, ON, OFF),
        ("ENABLE_DETERMINISTIC_HEAD_POD_NAME", "deterministic_head_pod_name", False, ON, OFF),
        ("ENABLE_RANDOM_POD_DELETE", "random_pod_delete", False, ON, OFF),
        ("ENABLE_ZERO_DOWNTIME", "enable_zero_downtime", True, ("false", "False", "FALSE"), ("", "true", "no", "0")),
        ("DELETE_RAYJOB_CR_AFTER_JOB_FINISHES", "delete_rayjob_after_finish", False, ON, OFF),
        ("USE_INGRESS_ON_OPENSHIFT", "ingress_on_openshift", False, ON, OFF),
    ],
)  # fmt: skip
def test_switches_in_the_environment(
    variable: str, name: str, default: bool, changes: tuple[str, ...], keeps: tuple[str, ...]
) -> None:
    """O52 among them."""
    for value in (*changes, *keeps):
        config = read_environment({variable: value}).plan_config(Settings(), "1")
        assert getattr(config, name) is (default ^ (value in changes)), value


@pytest.mark.parametrize(
    ("variable", "name", "cases"),
    [
        ("RAYCLUSTER_DEFAULT_REQUEUE_SECONDS_ENV", "requeue_period", {"": 300, "10": 10, "x": 300, "0": 0, "-5": 0}),
        ("RAYJOB_STATUS_CHECK_TIMEOUT_SECONDS", "job_status_check_timeout", {"": 300, "120": 120, "invalid": 300, "0": 300, "-1": 300}),
        ("RAYJOB_DEPLOYMENT_STATUS_TRANSITION_GRACE_PERIOD_SECONDS", "job_transition_grace", {"": 300, "20": 20, "x": 300}),
    ],
)  # fmt: skip
def test_seconds_in_the_environment(variable: str, name: str, cases: dict[str, int]) -> None:
    """O51 among them."""
    for value, seconds in cases.items():
        config = read_environment({variable: value}).plan_config(Settings(), "1")
        assert getattr(config, name) == timedelta(seconds=seconds), value


@pytest.mark.parametrize(("value", "domain"), [("", "cluster.local"), ("corp.example", "corp.example")])
def test_the_cluster_domain(value: str, domain: str) -> None:
    assert read_environment({"CLUSTER_DOMAIN": value}).plan_config(Settings(), "1").cluster_domain == domain


def test_what_plans_need_of_the_file_reaches_them() -> None:
    settings = Settings(
        head_sidecar_containers=[{"name": "h"}],
        worker_sidecar_containers=[{"name": "w"}],
        default_container_envs=[{"name": "E"}],
        default_pod_annotations={"a": "b"},
        default_pod_labels={"c": "d"},
        use_kubernetes_proxy=True,
        delete_ray_job_after_job_finishes=True,
        wait_gcs_ready_resources=WaitGcsReadyResources(cpu="1", memory="1Gi"),
    )
    config = read_environment({}).plan_config(settings, "1.2.3")
    assert config.operator_version == "1.2.3"
    assert (config.head_sidecars, config.worker_sidecars) == ([{"name": "h"}], [{"name": "w"}])
    assert (config.default_envs, config.default_pod_annotations) == ([{"name": "E"}], {"a": "b"})
    assert (config.default_pod_labels, config.use_kubernetes_proxy) == ({"c": "d"}, True)
    assert config.delete_rayjob_after_finish
    assert (config.wait_gcs_ready_cpu, config.wait_gcs_ready_memory) == ("1", "1Gi")


def test_the_process_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLUSTER_DOMAIN", "from.env")
    monkeypatch.setenv("SOMETHING_ELSE", "x")
    assert read_environment().CLUSTER_DOMAIN == "from.env"


@pytest.mark.parametrize(
    ("connection", "variable", "expected"), [("", "", ""), ("a", "", "a"), ("a", "b", "b"), ("", "b", "b")]
)
def test_where_the_operator_lives(connection: str, variable: str, expected: str) -> None:
    assert own_namespace(connection, Environment(POD_NAMESPACE=variable)) == expected


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        ({"feature_gates": "RayClusterNetworkPolicy=true"}, [*DEFAULT_PLUGINS, "networkpolicy"]),
        (
            {"feature_gates": "RayClusterMTLS=true,RayClusterNetworkPolicy=true"},
            [*DEFAULT_PLUGINS, "networkpolicy", "mtls"],
        ),
        ({"feature_gates": "AllAlpha=true,RayClusterMTLS=false"}, [*DEFAULT_PLUGINS, "networkpolicy"]),
        ({"feature_gates": "RayClusterNetworkPolicy=false"}, list(DEFAULT_PLUGINS)),
        ({"feature_gates": "RayClusterNetworkPolicy=true", "plugins": {"enabled": []}}, ["networkpolicy"]),
        (
            {"feature_gates": "RayClusterNetworkPolicy=true", "plugins": {"enabled": ["networkpolicy"]}},
            ["networkpolicy"],
        ),
    ],
)
def test_a_gate_that_means_nothing_without_its_plugin_turns_it_on(flags: dict[str, Any], names: list[str]) -> None:
    """As far as it is installed: KubeRay has it built in. One that is listed must be there."""
    found, optional = load_settings("", flags).enabled_plugins()
    assert found == names
    listed = (flags.get("plugins") or {}).get("enabled")
    assert ("networkpolicy" in optional) is ("networkpolicy" in names and listed != ["networkpolicy"])


@pytest.mark.parametrize(
    ("said", "watched", "used"),
    [
        ("*", "", None),
        ("*", "a,b", None),
        ("a, *", "", None),
        ("", "", []),
        (" , ", "", []),
        ("a, b", "", ["a", "b"]),
        ("a,b", "b,c", ["b"]),
    ],
)
def test_where_secrets_may_be_used(said: str, watched: str, used: list[str] | None) -> None:
    settings = Settings(secret_namespaces=said, watch_namespace=watched)
    assert settings.secrets_in == used
    config = Environment().plan_config(settings, "1")
    assert config.secret_namespaces == (None if used is None else frozenset(used))


def test_the_standard_for_pods() -> None:
    assert Environment().plan_config(Settings(pod_security_standard="restricted"), "1").restricted_pods
    assert "restricted" in refusal(pod_security_standard="baseline")
