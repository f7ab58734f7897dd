"""The ``kuberay`` command from outside: what it prints, where, and with which exit code."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result
from kuberay.cli.goflags import go_style
from kuberay.cli.main import app
from kuberay.cli.run import BOOLEAN_FLAGS
from kuberay.operator.reload import ConfigFile
from kuberay.operator.settings import Settings
from kuberay_testkit.builders import build_group, build_raycluster, build_rayjob
from typer.testing import CliRunner


def kuberay(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(app, list(arguments), input=stdin)


def documents(result: Result) -> list[dict[str, Any]]:
    return [document for document in yaml.load_all(result.stdout, Loader=yaml.CSafeLoader) if document]


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def _write(*bodies: Any, name: str = "x.yaml") -> str:
        path = tmp_path / name
        path.write_text(bodies[0] if isinstance(bodies[0], str) else yaml.safe_dump_all(bodies))
        return str(path)

    return _write


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ENABLE_DETERMINISTIC_HEAD_POD_NAME", "CLUSTER_DOMAIN", "KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)


def test_the_version() -> None:
    result = kuberay("--version")
    assert result.exit_code == 0
    assert result.stdout.strip()[0].isdigit()


@pytest.mark.parametrize("slim", [False, True])
def test_crds_are_printed_as_yaml(slim: bool) -> None:
    result = kuberay("crds", *(["--slim"] if slim else []))
    assert result.exit_code == 0
    made = documents(result)
    names = [crd["metadata"]["name"] for crd in made]
    assert names == ["rayclusters.ray.io", "rayjobs.ray.io", "rayservices.ray.io", "raycronjobs.ray.io"]
    assert {crd["kind"] for crd in made} == {"CustomResourceDefinition"}
    assert (len(result.stdout) < 400_000) is slim


def test_rbac_is_printed_for_the_plugins_asked_for() -> None:
    plain, gang = (
        kuberay("rbac", "--namespace", "sys", "--plugins", ""),
        kuberay("rbac", "--batch-scheduler", "volcano"),
    )
    assert (plain.exit_code, gang.exit_code) == (0, 0)
    kinds = [document["kind"] for document in documents(plain)]
    assert kinds == ["ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"]
    assert documents(plain)[0]["metadata"]["namespace"] == "sys"

    def groups(result: Result) -> set[str]:
        (role,) = [document for document in documents(result) if document["kind"] == "ClusterRole"]
        return {group for rule in role["rules"] for group in rule["apiGroups"]}

    assert groups(gang) - groups(plain) == {"scheduling.volcano.sh"}


def test_rbac_of_what_a_gate_or_the_configuration_file_turns_on(write: Any) -> None:
    file = write(
        {
            "apiVersion": "config.ray.io/v1alpha1",
            "kind": "Configuration",
            "featureGates": {"RayClusterNetworkPolicy": True},
            "useKubernetesProxy": True,
        }
    )

    def resources(*arguments: str) -> set[str]:
        (role,) = [d for d in documents(kuberay("rbac", *arguments)) if d["kind"] == "ClusterRole"]
        return {resource for rule in role["rules"] for resource in rule["resources"]}

    plain = resources()
    assert resources("--feature-gates", "RayClusterNetworkPolicy=true") - plain == {"networkpolicies"}
    assert resources("--config", file) - plain == {"networkpolicies", "services/proxy", "pods/proxy"}


def test_rbac_per_namespace() -> None:
    made = documents(kuberay("rbac", "--watch-namespace", "a,b"))
    assert not [document for document in made if document["kind"].startswith("Cluster")]
    assert {d["metadata"]["namespace"] for d in made if d["kind"] == "Role"} == {"default", "a", "b"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["rbac", "--batch-scheduler", "slurm"], "batchScheduler is 'slurm'"),
        (["rbac", "--plugins", "no-such"], "no-such"),
        (["rbac", "--feature-gates", "NoSuch=true"], "unknown feature gate 'NoSuch'"),
        (["plugins", "--config", "/does/not/exist"], "Cannot read the configuration file /does/not/exist"),
    ],
)
def test_mistakes_are_one_sentence_on_standard_error(arguments: list[str], words: str) -> None:
    result = kuberay(*arguments)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("kuberay: ")
    assert words in result.stderr
    assert result.stderr.count("\n") == 1


def test_plugins_are_listed_for_machines_and_people() -> None:
    rows = {row["name"]: row for row in json.loads(kuberay("plugins", "--json").stdout)}
    assert rows["autoscaler-v2"]["enabled"]
    assert rows["autoscaler-v2"]["distribution"] == "kuberay-autoscaler-v2"
    assert "mutate_pod" in rows["autoscaler-v2"]["hooks"]
    assert not rows["volcano"]["enabled"]
    assert rows["volcano"]["hooks"] == []
    table = kuberay("plugins").stdout
    assert "autoscaler-v2" in table
    assert "kuberay-volcano" in table


def test_plugins_follow_the_configuration(write: Any) -> None:
    config = write("apiVersion: config.ray.io/v1alpha1\nkind: Configuration\nplugins: {enabled: [volcano]}\n")
    rows = {row["name"]: row["enabled"] for row in json.loads(kuberay("plugins", "--json", "--config", config).stdout)}
    assert [name for name, on in rows.items() if on] == ["volcano"]
    assert {"autoscaler-v2", "gateway-upgrade", "mtls"} <= rows.keys()


def test_plugins_tell_the_hook_api_they_work_with_and_their_gates() -> None:
    rows = {row["name"]: row for row in json.loads(kuberay("plugins", "--json", "--plugins", "mtls").stdout)}
    assert rows["mtls"]["api"] == ">=1.0,<2.0"
    assert rows["mtls"]["gates"] == ["RayClusterMTLS"]
    assert (rows["volcano"]["api"], rows["volcano"]["installed"]) == ("", True)


def test_gates_are_listed_for_machines_and_people(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERAY_FEATURE_GATES", "SidecarSubmitterRestart=true")
    config = write(
        "apiVersion: config.ray.io/v1alpha1\nkind: Configuration\nfeatureGates: {RayCronJob: true, KubernetesWAS: true}\n"
    )
    told = kuberay("gates", "--json", "--config", config, "--feature-gates", "RayCronJob=false")
    rows = {row["gate"]: row for row in json.loads(told.stdout)}
    values = {name for name, row in rows.items() if row["value"] and not row["default"]}
    assert values == {"KubernetesWAS", "SidecarSubmitterRestart"}
    assert rows["RayClusterMTLS"]["owner"] == "mtls"
    table = kuberay("gates", "--config", config)
    (heading, *lines) = [line.split() for line in table.stdout.splitlines()]
    assert heading == ["GATE", "STAGE", "DEFAULT", "VALUE", "OWNER", "INSTALLED", "ON"]
    assert ["KubernetesWAS", "ALPHA", "false", "true", "nobody", "no", "no"] in lines
    assert ["RayClusterNetworkPolicy", "ALPHA", "false", "false", "networkpolicy", "yes", "no"] in lines
    assert table.stderr == (
        "kuberay: feature gate KubernetesWAS is on and has no effect: nothing in this release serves it\n"
    )


def test_gates_that_the_operator_would_refuse_are_refused() -> None:
    result = kuberay("gates", "--feature-gates", "NoSuch=true")
    assert result.exit_code == 1
    assert result.stderr.startswith("kuberay: unknown feature gate 'NoSuch' (known: ")


def test_render_prints_every_child(write: Any) -> None:
    path = write(build_raycluster("rc", namespace="lab", groups=[build_group("w", 2)]), build_rayjob("rj"))
    result = kuberay("render", "-f", path)
    assert result.exit_code == 0, result.stderr
    made = [(child["kind"], child["metadata"]["name"]) for child in documents(result)]
    mine = [(kind, name) for kind, name in made if name.startswith("rc")]
    assert [kind for kind, _ in mine] == ["Service", "Pod", "Pod", "Pod"]
    assert [kind for kind, name in made if name.startswith("rj")].count("Pod") == 2
    assert {"RayCluster", "Job"} <= {kind for kind, name in made if name.startswith("rj")}
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("mode", "kinds", "then"),
    [
        ("K8sJobMode", ["RayCluster", "Service", "Pod", "Pod", "Job", "Service"], None),
        ("HTTPMode", ["RayCluster", "Service", "Pod", "Pod", "Service"], "# then: POST http://rj-"),
        ("SidecarMode", ["RayCluster", "Service", "Pod", "Pod", "Service"], None),
        ("InteractiveMode", ["RayCluster", "Service", "Pod", "Pod"], "# then: RayJob rj: a user submits the job"),
    ],
)
def test_render_of_each_submission_mode(write: Any, mode: str, kinds: list[str], then: str | None) -> None:
    result = kuberay("render", "-f", write(build_rayjob("rj", submissionMode=mode, runtimeEnvYAML="pip: [x]")))
    assert (result.exit_code, result.stderr) == (0, "")
    made = documents(result)
    assert [child["kind"] for child in made] == kinds
    (head,) = [
        pod for pod in made if pod["metadata"]["labels"].get("ray.io/node-type") == "head" and pod["kind"] == "Pod"
    ]
    names = [container["name"] for container in head["spec"]["containers"]]
    assert ("ray-job-submitter" in names) is (mode == "SidecarMode")
    notes = [line for line in result.stdout.splitlines() if line.startswith("# then: ")]
    assert [note.startswith(then or "?") for note in notes] == ([True] if then else [])
    if mode == "HTTPMode":
        assert '"runtime_env": {"pip": ["x"]}' in notes[0], "it is what the dashboard is sent"


def test_render_is_the_same_every_time(write: Any) -> None:
    path = write(build_raycluster("rc"), build_rayjob("rj"))
    assert kuberay("render", "-f", path).stdout == kuberay("render", "-f", path).stdout


def test_render_reads_standard_input_and_skips_other_kinds() -> None:
    text = yaml.safe_dump_all(
        [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}, build_raycluster()]
    )
    result = kuberay("render", "-f", "-", stdin=text)
    assert result.exit_code == 0
    assert {child["kind"] for child in documents(result)} == {"Service", "Pod"}


def test_render_puts_objects_without_a_namespace_where_it_is_told(write: Any) -> None:
    manifest = build_raycluster("rc")
    del manifest["metadata"]["namespace"]
    result = kuberay("render", "-f", write(manifest), "-n", "lab")
    (role,) = {child["metadata"]["namespace"] for child in documents(result)}
    assert role == "lab"


def test_render_uses_the_enabled_plugins_and_says_what_they_changed(write: Any) -> None:
    path = write(build_raycluster("rc", enableInTreeAutoscaling=True))
    result = kuberay("render", "-f", path, "--show-changes")
    assert result.exit_code == 0, result.stderr
    kinds = {child["kind"] for child in documents(result)}
    assert {"ServiceAccount", "Role", "RoleBinding"} <= kinds
    assert "autoscaler-v2: /spec/containers/1" in result.stderr
    without = kuberay("render", "-f", path, "--plugins", "volcano")
    assert without.exit_code == 1
    assert "kuberay-autoscaler-v2" in without.stderr, "the package to install is named"
    assert not [child for child in documents(without) if child["kind"] == "Pod"]


def test_render_of_an_invalid_object_names_the_field_and_fails(write: Any) -> None:
    manifest = build_raycluster("rc", groups=[build_group("w", 1, minReplicas=5, maxReplicas=3)])
    result = kuberay("render", "-f", write(manifest))
    assert result.exit_code == 1
    assert documents(result) == []
    assert "minReplicas" in result.stderr


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"submissionMode": 3}, ["spec.submissionMode: must be of type string, not integer"]),
        ({"entryPoint": "x"}, ["spec.entryPoint: is no known field; did you mean entrypoint?"]),
        ({"template": {}}, ["spec.template: is no known field"]),
        (
            {"submissionMode": "HttpMode"},
            ["spec.submissionMode: The RayJob spec is invalid: submissionMode 'HttpMode'"],
        ),
        ({"metadata": {"a": "b"}}, ["spec.metadata needs Ray 2.6.0 or newer"]),
        ({"runtimeEnvYAML": "- a\n"}, ["spec.runtimeEnvYAML: failed to unmarshal RuntimeEnvYAML: - a"]),
        (
            {"backoffLimit": -1, "activeDeadlineSeconds": 0},
            ["spec.activeDeadlineSeconds: The RayJob spec", "spec.backoffLimit: The RayJob spec"],
        ),
        (
            {"deletionStrategy": {"deletionRules": [{"policy": "DeleteWorker", "condition": {"jobState": "FAILED"}}]}},
            [
                "spec.deletionStrategy.deletionRules[0].condition.jobState: is no known field; did you mean jobStatus?",
                "spec.deletionStrategy.deletionRules[0].policy: 'DeleteWorker' is none of DeleteCluster, ",
            ],
        ),
        ({"managedBy": "kueue"}, ["spec.managedBy: the managedBy field value must be either"]),
    ],
)
def test_render_tells_each_problem_with_its_field(write: Any, spec: dict[str, Any], told: list[str]) -> None:
    job = build_rayjob("rj", **spec)
    job["spec"]["rayClusterSpec"]["rayVersion"] = "2.5.0"
    result = kuberay("render", "-f", write(job))
    assert (result.exit_code, result.stdout) == (1, "")
    lines = [line for line in result.stderr.splitlines() if line.startswith("kuberay: ")]
    starts = [f"kuberay: RayJob {job['metadata']['namespace']}/rj: {sentence}" for sentence in told]
    assert [line[: len(start)] for line, start in zip(lines, starts, strict=True)] == starts
    assert len(lines) == len(result.stderr.splitlines()), "one line each"


def test_render_says_who_manages_an_object_that_it_leaves_alone(write: Any) -> None:
    result = kuberay("render", "-f", write(build_rayjob("rj", managedBy="kueue.x-k8s.io/multikueue")))
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.endswith("/rj: spec.managedBy is kueue.x-k8s.io/multikueue: this operator leaves it alone\n")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a: [", "is not YAML"),
        ("apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {}\n", "a RayCluster has no metadata.name"),
        ("apiVersion: ray.io/v1\nkind: RayJobs\nmetadata: {name: x}\n", "RayJobs x is left out"),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n",
            "There is no RayCluster, RayJob, RayService or RayCronJob in",
        ),
        ("apiVersion: ray.io/v2\nkind: RayJob\nmetadata: {name: x}\n", "apiVersion is ray.io/v2: write ray.io/v1."),
        (
            "apiVersion: ray.io/v1\nkind: RayJob\nmetadata: {name: x, labels: {a: 1}}\n",
            "metadata.labels[a] must be a string, not 1: write it in quotes.",
        ),
    ],
)
def test_render_of_a_broken_file(write: Any, content: str, words: str) -> None:
    result = kuberay("render", "-f", write(content))
    assert result.exit_code == 1
    assert words in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-f", "/does/not/exist"], "Cannot read /does/not/exist: No such file or directory."),
        (["-f", "-", "--feature-gates", "NoSuchGate=true"], "unknown feature gate 'NoSuchGate'"),
        (["-f", "-", "--batch-scheduler", "slurm"], "batchScheduler is 'slurm'"),
    ],
)
def test_render_refuses_bad_arguments(arguments: list[str], words: str) -> None:
    result = kuberay("render", *arguments)
    assert result.exit_code == 1
    assert words in result.stderr


def run(arguments: Sequence[str]) -> Result:
    return kuberay("run", *go_style(arguments, BOOLEAN_FLAGS))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--batch-scheduler=default"], "batchScheduler is 'default'"),
        (["--config", "/does/not/exist"], "Cannot read the configuration file"),
        (["--log-stdout-encoder=xml"], "log"),
        (["--plugins=no-such"], "no-such"),
        (["--feature-gates=NoSuchGate=true"], "unknown feature gate 'NoSuchGate'"),
        (["--kubeconfig=/does/not/exist"], "Cannot find an API server to connect to (kubeconfig /does/not/exist)"),
    ],
)
def test_run_ends_with_one_sentence_and_exit_code_1(arguments: list[str], words: str, keep_logging: None) -> None:
    result = run(arguments)
    assert result.exit_code == 1
    told = [line for line in result.stderr.splitlines() if line.startswith("kuberay: ")]
    assert len(told) == 1
    assert words in told[0]
    assert "Traceback" not in result.output


@pytest.mark.parametrize("arguments", [["--no-such-flag"], ["-no-such-flag=1"], ["--burst=many"], ["--qps"]])
def test_run_refuses_unknown_flags_with_exit_code_2(arguments: list[str]) -> None:
    result = run(arguments)
    assert result.exit_code == 2
    assert "Error" in result.stderr
    assert "Traceback" not in result.output


@pytest.fixture
def keep_logging() -> Any:
    """The command sets up the process's logging; put it back afterwards."""
    import logging

    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    root.handlers[:] = before
    root.setLevel(level)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Settings, str, ConfigFile | None]]:
    """Instead of running, note the settings, the kubeconfig, and the file to be read again."""
    calls: list[tuple[Settings, str, ConfigFile | None]] = []

    def note(settings: Settings, kubeconfig: str = "", source: ConfigFile | None = None) -> int:
        calls.append((settings, kubeconfig, source))
        return 0

    monkeypatch.setattr("kuberay.operator.start.run_operator", note)
    return calls


@pytest.mark.parametrize(
    ("arguments", "name", "value"),
    [
        ("--metrics-addr=:1", "metrics_addr", ":1"),
        ("-metrics-addr :1", "metrics_addr", ":1"),
        ("--health-probe-bind-address=:2", "probe_addr", ":2"),
        ("--enable-leader-election=false", "enable_leader_election", False),
        ("-enable-leader-election=F", "enable_leader_election", False),
        ("--leader-election-namespace=x", "leader_election_namespace", "x"),
        ("--reconcile-concurrency=5", "reconcile_concurrency", 5),
        ("--watch-namespace a,b", "namespaces", ["a", "b"]),
        ("--forced-cluster-upgrade", "qps", 0.0),
        ("--log-file-path=/x", "log_file", "/x"),
        ("--log-file-encoder=console", "log_file_encoder", "console"),
        ("--log-stdout-encoder=console", "log_stdout_encoder", "console"),
        ("--enable-batch-scheduler", "enable_batch_scheduler", True),
        ("--batch-scheduler=volcano", "batch_scheduler", "volcano"),
        ("--use-kubernetes-proxy", "use_kubernetes_proxy", True),
        ("--feature-gates=RayCronJob=true", "feature_gates", "RayCronJob=true"),
        ("--enable-metrics", "enable_metrics", True),
        ("--qps=75.5", "qps", 75.5),
        ("--burst=150", "burst", 150),
        ("--profiling-addr=127.0.0.1:6060", "profiling_addr", "127.0.0.1:6060"),
        ("--zap-devel", "log_level", "debug"),
        ("--zap-log-level=error", "log_level", "error"),
        ("--zap-log-level=5", "log_level", "debug"),
        ("--zap-log-level=panic", "log_level", "error"),
        ("--zap-stacktrace-level=error --zap-encoder=json --zap-time-encoding=iso8601", "log_level", "info"),
    ],
)
def test_every_flag_of_run_reaches_the_settings(
    started: list[tuple[Settings, str, ConfigFile | None]], arguments: str, name: str, value: Any
) -> None:
    result = run(arguments.split())
    assert result.exit_code == 0, result.stderr
    ((settings, _, source),) = started
    assert source is None
    assert getattr(settings, name) == value


def test_plugins_and_kubeconfig_reach_the_operator(started: list[tuple[Settings, str, ConfigFile | None]]) -> None:
    assert run(["--plugins=volcano, x", "--kubeconfig=/k"]).exit_code == 0
    ((settings, kubeconfig, _),) = started
    assert settings.plugins.enabled == ["volcano", "x"]
    assert kubeconfig == "/k"


def test_a_configuration_file_is_read_again_with_the_flags_beside_it(
    started: list[tuple[Settings, str, ConfigFile | None]], tmp_path: Path
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("apiVersion: config.ray.io/v1alpha1\nkind: Configuration\nqps: 5\n")
    assert run([f"--config={path}", "--zap-log-level=debug", "--burst=7"]).exit_code == 0
    ((settings, _, source),) = started
    assert (settings.qps, settings.burst, settings.log_level) == (5, 200, "debug")
    assert source == ConfigFile(str(path), {"log_level": "debug", "burst": 7})
