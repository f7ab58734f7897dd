"""Every alert and recorded series, played by promtool: what makes an alert fire, what must not, and what comes out of a rule."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import prometheus
import pytest
import yaml

_FILES = {
    path: [r for g in yaml.safe_load(path.read_text())["groups"] for r in g["rules"]] for path in prometheus.RULES
}
RULES = [rule for rules in _FILES.values() for rule in rules]
FILE = {rule.get("alert") or rule["record"]: path for path, rules in _FILES.items() for rule in rules}
"""In which file each rule is."""

MINUTES = 75
"""So many are played, a sample each."""

Series = tuple[str, str]
"""A series and its samples, in promtool's notation: ``0+1x150`` is one more each minute, ``_x150`` is nothing."""


def always(value: float) -> str:
    return f"{value}x{MINUTES}"


def rising(step: float, start: float = 0) -> str:
    return f"{start}+{step}x{MINUTES}"


UP: Series = ('kuberay_build_info{instance="a"}', always(1))


@dataclass(frozen=True)
class Played:
    """*fires*: series that make it fire, with the labels it then has. *quiet*: variants that must not, each whole."""

    fires: Sequence[Series]
    labels: Sequence[str]
    quiet: Sequence[Sequence[Series]]


def passes(bad: float, good: float) -> list[Series]:
    name = 'controller_runtime_reconcile_total{controller="rayjob",result='
    others = 'controller_runtime_reconcile_total{controller="certificates",result="error"}'
    return [(f'{name}"error"}}', rising(bad)), (f'{name}"success"}}', rising(good)), (others, rising(9))]


def waits(below_one: float, below_ten: float, controller: str = "rayjob") -> list[Series]:
    name = f'workqueue_queue_duration_seconds_bucket{{controller="{controller}",name="{controller}",le='
    return [
        (f'{name}"1.0"}}', rising(below_one)),
        (f'{name}"10.0"}}', rising(below_ten)),
        (f'{name}"+Inf"}}', rising(below_ten)),
    ]


def lag(below: float, all_: float) -> list[Series]:
    name = 'kuberay_event_loop_lag_seconds_bucket{instance="a",le='
    return [(f'{name}"0.1"}}', rising(below)), (f'{name}"1.0"}}', rising(all_)), (f'{name}"+Inf"}}', rising(all_))]


def requests(bad: float, good: float, instance: str = "a") -> list[Series]:
    name = "rest_client_requests_total{instance="
    return [(f'{name}"{instance}",code="<error>"}}', rising(bad)), (f'{name}"{instance}",code="200"}}', rising(good))]


def probes(running: float, failing: float) -> list[Series]:
    return [
        ('kuberay_probes{probe="job_info"}', always(running)),
        ('kuberay_probes_failing{probe="job_info"}', always(failing)),
    ]


def ended(failed: float, complete: float) -> list[Series]:
    name = "kuberay_job_attempts_ended_total{job_deployment_status="
    return [
        (f'{name}"Failed",reason="AppFailed"}}', rising(failed)),
        (f'{name}"Complete",reason=""}}', rising(complete)),
        (f'{name}"Retrying",reason="AppFailed"}}', rising(5)),
    ]


def object_(metric: str, condition: str, value: str = always(1), pod: str = "a") -> Series:
    return (f'{metric}{{name="x",namespace="ns",uid="u",condition="{condition}",instance="{pod}"}}', value)


def condition(kind: str, type_: str, status: str, reason: str = "Why", value: str = always(2)) -> Series:
    labels = f'kind="{kind}",namespace="ns",condition="{type_}",status="{status}",reason="{reason}"'
    return (f"kuberay_object_conditions{{{labels}}}", value)


def gcs(succeeded: float, finished: float) -> list[Series]:
    labels = '{Component="gcs_server",namespace="ns",ray_io_cluster="rc"}'
    return [
        (f"ray_grpc_server_req_succeeded_total{labels}", rising(succeeded)),
        (f"ray_grpc_server_req_finished_total{labels}", rising(finished)),
    ]


LEADER = 'leader_election_master_status{name="ray-operator-leader",job="op",namespace="sys",instance='
READY = ('kuberay_cluster_state{name="x",namespace="ns",uid="u",state="ready"}', always(1))
PROVISIONED = "kuberay_cluster_condition_provisioned"
SUSPENDED = ('kuberay_cluster_state{name="x",namespace="ns",uid="u",state="suspended"}', always(1))

ALERTS: dict[str, Played] = {
    "KubeRayOperatorDown": Played([], [], [[UP]]),
    "KubeRayNoLeader": Played(
        [
            UP,
            (f'{LEADER}"a"}}', always(0)),
            ('leader_election_master_status{name="other",job="op",namespace="sys",instance="a"}', always(1)),
        ],
        ["job", "namespace"],
        [
            [UP, (f'{LEADER}"a"}}', always(1))],
            [
                UP,
                ('kuberay_build_info{instance="b"}', always(1)),
                (f'{LEADER}"a"}}', always(0)),
                (f'{LEADER}"b"}}', always(1)),
            ],
        ],
    ),
    "KubeRayReconcileErrors": Played(passes(20, 80), ["controller"], [passes(5, 95), passes(0, 0)]),
    "KubeRayReconcilePanics": Played(
        [('controller_runtime_reconcile_panics_total{controller="rayjob"}', rising(1))],
        ["controller"],
        [
            [('controller_runtime_reconcile_panics_total{controller="rayjob"}', always(3))],
            [('controller_runtime_reconcile_panics_total{controller="certificates"}', rising(1))],
        ],
    ),
    "KubeRayQueueLatency": Played(waits(10, 100), ["controller"], [waits(100, 100), waits(10, 100, "certificates")]),
    "KubeRayEventLoopLate": Played(lag(10, 60), ["instance"], [lag(60, 60)]),
    "KubeRayStoreStale": Played(
        [('kuberay_store_list_age_seconds{instance="a",kind="Pod"}', rising(60))],
        ["instance", "kind"],
        [[('kuberay_store_list_age_seconds{instance="a",kind="Pod"}', always(600))]],
    ),
    "KubeRayApiRequestsFailing": Played(
        [UP, *requests(10, 90)],
        [],
        [[UP, *requests(1, 99)], [UP, *requests(0, 90), *requests(90, 10, "another operator")]],
    ),
    "KubeRayConfigurationNotTaken": Played(
        [('kuberay_config_last_reload_successful{instance="a"}', always(0))],
        ["instance"],
        [[('kuberay_config_last_reload_successful{instance="a"}', always(1))], []],
    ),
    "KubeRayPluginFailing": Played(
        [('kuberay_plugin_failures_total{plugin="p",hook="h"}', rising(1))],
        ["plugin", "hook"],
        [[('kuberay_plugin_failures_total{plugin="p",hook="h"}', always(7))]],
    ),
    "KubeRayPluginSlow": Played(
        [('kuberay_plugin_slow{plugin="p"}', always(1))], ["plugin"], [[('kuberay_plugin_slow{plugin="p"}', always(0))]]
    ),
    "KubeRayProbesFailing": Played(probes(10, 6), ["probe"], [probes(10, 4), probes(2, 2), probes(0, 0)]),
    "KubeRayClusterNotProvisioned": Played(
        [object_(PROVISIONED, "false"), object_(PROVISIONED, "false", pod="b")],
        ["name", "namespace", "uid"],
        [[object_(PROVISIONED, "true")], [object_(PROVISIONED, "false"), SUSPENDED]],
    ),
    "KubeRayPodsNotReady": Played(
        [condition("RayCluster", "PodsNotReady", "True")],
        ["namespace", "reason"],
        [
            [condition("RayCluster", "PodsNotReady", "True", value=f"{always(0)}")],
            [condition("RayCluster", "HeadPodReady", "True")],
        ],
    ),
    "KubeRaySpecRefused": Played(
        [condition("RayCluster", "RayClusterSpecValid", "False")],
        ["kind", "namespace", "condition"],
        [[condition("RayJob", "Accepted", "True")]],
    ),
    "KubeRayPluginMissing": Played(
        [condition("RayCluster", "PluginMissing", "True")],
        ["kind", "namespace"],
        [[condition("RayCluster", "PluginWarning", "True")]],
    ),
    "KubeRayJobsFailing": Played(ended(2, 1), [], [ended(1, 2), ended(0, 0), ended(0.02, 0.01)]),
    "KubeRayServiceNotReady": Played(
        [object_("kuberay_service_condition_ready", "false")],
        ["name", "namespace", "uid"],
        [
            [object_("kuberay_service_condition_ready", "true")],
            [
                object_("kuberay_service_condition_ready", "false"),
                object_("kuberay_service_condition_suspended", "true"),
            ],
        ],
    ),
    "KubeRayServiceUpgradeStuck": Played(
        [object_("kuberay_service_condition_upgrade_in_progress", "true")],
        ["name", "namespace", "uid"],
        [
            [object_("kuberay_service_condition_upgrade_in_progress", "false")],
            # Forty minutes, and then half an hour.
            [object_("kuberay_service_condition_upgrade_in_progress", "true", "1x40 _x6 1x28")],
        ],
    ),
    "RayGlobalControlStoreErrors": Played(gcs(95, 100), ["namespace", "ray_io_cluster"], [gcs(100, 100), gcs(0, 0)]),
    "MissingMetricRayGlobalControlStore": Played([READY], [], [[], [READY, *gcs(1, 1)]]),
}

SUMMARIES = {
    "KubeRayReconcileErrors": "20% of the passes of controller rayjob fail",
    "KubeRayClusterNotProvisioned": "RayCluster ns/x has not become ready for 30 minutes",
    "KubeRayJobsFailing": "66.67% of the RayJobs that ended within an hour failed",
    "RayGlobalControlStoreErrors": "The GCS of ns/rc fails 5% of its requests",
}
"""What some summaries say."""


def _file(rule: str, series: Sequence[Series], *tests: dict[str, Any], **more: Any) -> str:
    """Have promtool play *series* for `MINUTES`, with the file of that rule, and hold the outcome against *tests*."""
    body = {
        "rule_files": [str(FILE[rule])],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series],
                "promql_expr_test": list(tests),
                **more,
            }
        ],
    }
    return yaml.safe_dump(body)


def firing(alert: str, samples: Sequence[str]) -> dict[str, Any]:
    """Which alerts of that name fire in the end."""
    labels = sorted({"alertname", *ALERTS[alert].labels})
    expr = f'count by ({", ".join(labels)}) (ALERTS{{alertname="{alert}", alertstate="firing"}})'
    return {
        "expr": expr,
        "eval_time": f"{MINUTES - 1}m",
        "exp_samples": [{"labels": each, "value": 1} for each in samples],
    }


def test_every_rule_is_played() -> None:
    assert ALERTS.keys() == {rule["alert"] for rule in RULES if "alert" in rule}
    assert RECORDED.keys() == {rule["record"] for rule in RULES if "record" in rule}


def test_the_files_are_right() -> None:
    prometheus.promtool("check", "rules", *prometheus.RULES)


VALUES = {
    "controller": "rayjob", "job": "op", "namespace": "ns", "instance": "a", "kind": "RayCluster", "plugin": "p", "hook": "h",
    "probe": "job_info", "name": "x", "uid": "u", "reason": "Why", "condition": "RayClusterSpecValid", "ray_io_cluster": "rc",
}  # fmt: skip


def fires(alert: str) -> str:
    special = {"KubeRayNoLeader": {"namespace": "sys"}, "KubeRayStoreStale": {"kind": "Pod"}}.get(alert, {})
    values = VALUES | special
    labels = ", ".join(f'{name}="{values[name]}"' for name in sorted(ALERTS[alert].labels))
    expected = f'{{alertname="{alert}"{", " if labels else ""}{labels}}}'
    return _file(alert, ALERTS[alert].fires, firing(alert, [expected]))


def says(alert: str) -> str:
    """A test of what a firing alert tells its reader."""
    (rule,) = (rule for rule in RULES if rule.get("alert") == alert)
    labels = {name: VALUES[name] for name in ALERTS[alert].labels}
    told = {key: _expanded(text, labels) for key, text in rule["annotations"].items()} | {"summary": SUMMARIES[alert]}
    wanted = {"exp_labels": labels | rule["labels"], "exp_annotations": told}
    test = {"eval_time": f"{MINUTES - 1}m", "alertname": alert, "exp_alerts": [wanted]}
    return _file(alert, ALERTS[alert].fires, alert_rule_test=[test])


def _expanded(text: str, labels: dict[str, str]) -> str:
    for name, value in labels.items():
        text = text.replace(f"{{{{ $labels.{name} }}}}", value)
    return text


RECORDED: dict[str, tuple[Sequence[Series], list[tuple[str, float]]]] = {
    "kuberay:reconcile_error_ratio:rate5m": (passes(20, 80), [('{controller="rayjob"}', 0.2)]),
    "kuberay:queue_wait_seconds:p99_rate5m": (waits(0, 100), [('{controller="rayjob"}', 9.91)]),
    "kuberay:api_request_error_ratio:rate5m": ([UP, *requests(25, 75), *requests(1, 0, "b")], [("{}", 0.25)]),
    "kuberay:job_failure_ratio:increase1h": (ended(1, 3), [("{}", 0.25)]),
    "kuberay:time_to_ready_seconds:p90_rate6h": (
        [
            ('kuberay_time_to_ready_seconds_bucket{kind="RayJob",phase="all",le="10.0"}', rising(0)),
            ('kuberay_time_to_ready_seconds_bucket{kind="RayJob",phase="all",le="20.0"}', rising(10)),
            ('kuberay_time_to_ready_seconds_bucket{kind="RayJob",phase="all",le="+Inf"}', rising(10)),
        ],
        [('{kind="RayJob", phase="all"}', 19)],
    ),
    "ray_gcs_availability_30d": (gcs(99, 100), [("{}", 99)]),
}


def records(name: str) -> str:
    series, expected = RECORDED[name]
    test = {
        "expr": f"round({name}, 0.001)",
        "eval_time": f"{MINUTES - 1}m",
        "exp_samples": [{"labels": labels, "value": value} for labels, value in expected],
    }
    return _file(name, series, test)


PLAYS = {
    **{f"{alert} fires": fires(alert) for alert in ALERTS},
    **{
        f"{alert} stays quiet {number}": _file(alert, series, firing(alert, []))
        for alert, played in ALERTS.items()
        for number, series in enumerate(played.quiet)
    },
    **{f"{alert} says": says(alert) for alert in SUMMARIES},
    **{f"{name} is recorded": records(name) for name in RECORDED},
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What promtool says of each play. All are played at once: starting it takes longer than playing."""
    folder = tmp_path_factory.mktemp("plays")
    files = {f"{folder / str(number)}.yaml": name for number, name in enumerate(PLAYS)}
    for path, name in files.items():
        Path(path).write_text(PLAYS[name])
    argv = [str(prometheus.commands() / "promtool"), "test", "rules", *files]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    told = re.split(r"^Unit Testing:\s+", done.stdout + done.stderr, flags=re.MULTILINE)[1:]
    return {files[path]: words for path, _, words in (each.partition("\n") for each in told)}


@pytest.mark.parametrize("name", PLAYS)
def test_promtool_agrees(name: str, outcomes: dict[str, str]) -> None:
    assert outcomes[name].strip() == "SUCCESS", PLAYS[name]
