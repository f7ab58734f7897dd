"""Every row of KubeRay's tables of flags, keys and variables, held against the models (operator.md 2, 3, 9, 20 and 21)."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
import yaml
from kuberay.cli import settings_docs
from kuberay.cli.goflags import go_style
from kuberay.cli.run import BOOLEAN_FLAGS, run
from kuberay.operator.environment import Environment, read_environment
from kuberay.operator.settings import FLAGS_KEPT_WITH_FILE, Settings, SettingsError, load_settings
from kuberay.operator.start import assemble
from kuberay.plugins.gates import GateError
from kuberay.plugins.loader import PluginError

NO_KEY = object()
"""A flag that no key of the file has."""

FLAGS: dict[str, tuple[Any, Any]] = {
    "metrics-addr": (":8080", ":8080"),
    "health-probe-bind-address": (":8082", ":8082"),
    "enable-leader-election": (True, True),
    "leader-election-namespace": ("", ""),
    "reconcile-concurrency": (1, 1),
    "watch-namespace": ("", ""),
    "forced-cluster-upgrade": (False, NO_KEY),
    "log-file-path": ("", ""),
    "log-file-encoder": ("json", "json"),
    "log-stdout-encoder": ("json", "json"),
    "enable-batch-scheduler": (False, False),
    "batch-scheduler": ("", ""),
    "config": ("", NO_KEY),
    "use-kubernetes-proxy": (False, False),
    "feature-gates": ("", ""),
    "enable-metrics": (False, False),
    # docs/differences.md: no limit of our own.
    "qps": (100, 0),
    "burst": (200, 200),
    "kubeconfig": ("", NO_KEY),
    "zap-devel": (False, NO_KEY),
    "zap-log-level": ("info", "info"),
    "zap-stacktrace-level": ("error", NO_KEY),
    "zap-encoder": ("", NO_KEY),
    "zap-time-encoding": ("", NO_KEY),
}
"""operator.md 2: KubeRay's default, and ours."""

KEYS: dict[str, tuple[Any, Any]] = {
    "metricsAddr": (":8080", ":9090"),
    "probeAddr": (":8082", ":9092"),
    "enableLeaderElection": (True, False),
    "leaderElectionNamespace": ("", "x"),
    "reconcileConcurrency": (1, 100),
    "qps": (0, 150.5),
    "burst": (200, 300),
    "watchNamespace": ("", "a,b"),
    "logFile": ("", "/x"),
    # Dead in KubeRay; here they do what they say.
    "logFileEncoder": ("json", "console"),
    "logStdoutEncoder": ("json", "console"),
    "batchScheduler": ("", "volcano"),
    "enableBatchScheduler": (False, True),
    "headSidecarContainers": ([], [{"name": "a", "image": "b"}]),
    "workerSidecarContainers": ([], [{"name": "a", "image": "b"}]),
    "defaultContainerEnvs": ([], [{"name": "A", "value": "b"}]),
    "defaultPodAnnotations": ({}, {"a": "b"}),
    "defaultPodLabels": ({}, {"a": "b"}),
    "useKubernetesProxy": (False, True),
    "deleteRayJobAfterJobFinishes": (False, True),
    "enableMetrics": (False, True),
}
"""operator.md 3: our default (KubeRay's but for qps), and another value."""

VARIABLES = (
    "ENABLE_WEBHOOKS",
    "CLUSTER_DOMAIN",
    "ENABLE_INIT_CONTAINER_INJECTION",
    "ENABLE_PROBES_INJECTION",
    "ENABLE_GCS_FT_REDIS_CLEANUP",
    "RAYCLUSTER_DEFAULT_REQUEUE_SECONDS_ENV",
    "ENABLE_RANDOM_POD_DELETE",
    "ENABLE_RAY_HEAD_CLUSTER_IP_SERVICE",
    "USE_INGRESS_ON_OPENSHIFT",
    "ENABLE_ZERO_DOWNTIME",
    "DELETE_RAYJOB_CR_AFTER_JOB_FINISHES",
    "RAYJOB_DEPLOYMENT_STATUS_TRANSITION_GRACE_PERIOD_SECONDS",
    "RAYJOB_STATUS_CHECK_TIMEOUT_SECONDS",
    "ENABLE_LOGIN_SHELL",
    "ENABLE_DETERMINISTIC_HEAD_POD_NAME",
)
"""operator.md 9, but for what client libraries read."""


@pytest.fixture
def load(tmp_path: Path) -> Any:
    def _load(values: dict[str, Any] | None = None, **flags: Any) -> Settings:
        path = tmp_path / "config.yaml"
        head = {"apiVersion": "config.ray.io/v1alpha1", "kind": "Configuration"}
        path.write_text(yaml.safe_dump({**head, **(values or {})}))
        return load_settings(str(path), flags)

    return _load


@pytest.mark.parametrize("flag", FLAGS)
def test_each_flag_is_there_with_its_default(flag: str) -> None:
    assert flag.replace("-", "_") in inspect.signature(run).parameters
    kuberays, ours = FLAGS[flag]
    assert (flag in BOOLEAN_FLAGS) is isinstance(kuberays, bool), "booleans are bare, or have =true or =false"
    fields = {given.name: field for field, given in settings_docs._flags().items()}
    if ours is not NO_KEY:
        assert getattr(Settings(), fields[flag]) == ours
    assert (flag in fields and fields[flag] in FLAGS_KEPT_WITH_FILE) is (
        flag in ("feature-gates", "log-file-encoder", "log-stdout-encoder", "zap-log-level")
    )


@pytest.mark.parametrize("form", ["--{}=x", "-{}=x", "--{} x", "-{} x"])
def test_each_flag_takes_its_value_as_gos_do(form: str) -> None:
    for flag, (kuberays, _) in FLAGS.items():
        if not isinstance(kuberays, bool):
            found = go_style(form.format(flag).split(), BOOLEAN_FLAGS)
            assert found in ([f"--{flag}=x"], [f"--{flag}", "x"])


@pytest.mark.parametrize("key", KEYS)
def test_each_key_is_read_and_has_its_default(load: Any, key: str) -> None:
    """O1 to O3, O6, O7."""
    (name,) = [name for name, field in Settings.model_fields.items() if field.alias == key]
    default, value = KEYS[key]
    assert getattr(load(), name) == default
    assert getattr(load({key: value, "unknownKey": 1}), name) == value


@pytest.mark.parametrize("key", KEYS)
def test_a_value_of_another_type_is_refused_with_its_key(load: Any, key: str) -> None:
    """O4, O5."""
    with pytest.raises(SettingsError, match=f": {key}"):
        load({key: {"a": []} if not isinstance(KEYS[key][0], dict) else "text"})


def test_variables_are_those_of_kuberay_and_few_more() -> None:
    assert set(Environment.model_fields) == {*VARIABLES, "KUBERAY_FEATURE_GATES", "POD_NAMESPACE"}


def test_variables_of_kuberay_reach_plans() -> None:
    """Each of them changes what plans are told, or what is served."""
    values = {"CLUSTER_DOMAIN": "corp", "ENABLE_WEBHOOKS": "true"}
    values |= dict.fromkeys((name for name in VARIABLES if "SECONDS" in name), "7")
    off = read_environment({}).plan_config(Settings(), "1")
    for name in VARIABLES:
        changed = [
            read_environment({name: values.get(name, word)}).plan_config(Settings(), "1") != off
            for word in ("true", "false")
        ]
        if name == "ENABLE_WEBHOOKS":
            assert read_environment({name: "true"}).webhooks(Settings())
            assert not read_environment({name: "True"}).webhooks(Settings())
        else:
            assert any(changed), name


@pytest.mark.parametrize("name", ["default", "unknown-scheduler-name", "kubernetes-was-v1alpha2"])
def test_schedulers_that_are_none(name: str) -> None:
    """O9."""
    with pytest.raises(PluginError, match=name):
        assemble(load_settings("", {"batch_scheduler": name}))


@pytest.mark.parametrize(
    ("flags", "valid"), [({}, True), ({"batch_scheduler": "volcano"}, False), ({"enable_batch_scheduler": True}, False)]
)
def test_the_gate_of_workload_aware_scheduling_stands_alone(flags: dict[str, Any], valid: bool) -> None:
    """O11."""
    settings = load_settings("", {"feature_gates": "KubernetesWAS=true", "plugins": {"enabled": []}, **flags})
    if valid:
        assert assemble(settings)[1]["KubernetesWAS"]
    else:
        with pytest.raises(GateError, match="KubernetesWAS and the batch scheduler 'volcano' cannot both be on"):
            assemble(settings)


def test_traps(load: Any) -> None:
    """operator.md 21: 1 (keys that are dead there), 3 and 5, where we do what was meant."""
    settings = load({"logStdoutEncoder": "console", "deleteRayJobAfterJobFinishes": True})
    assert settings.log_stdout_encoder == "console"
    assert read_environment({}).plan_config(settings, "1").delete_rayjob_after_finish
    assert not Settings().enable_metrics
    assert load({"watchNamespace": "a, b,"}).namespaces == ["a", "b"]
