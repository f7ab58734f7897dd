"""Metrics, rules, alerts and dashboards hold together: what one names the other has, with the labels it is used by."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import exposition
import pytest
import yaml
from kuberay.operator.metric_table import DEFINITIONS
from kuberay_testkit.sim.virtual import in_virtual_time

from dev.dashboards import promql
from dev.dashboards.files import DASHBOARDS
from dev.dashboards.model import Dashboard, Panel

ROOT = Path(__file__).resolve().parents[2]
RULES = [
    rule
    for path in sorted((ROOT / "config" / "prometheus" / "rules").glob("*.yaml"))
    for group in yaml.safe_load(path.read_text())["groups"]
    for rule in group["rules"]
]
ALERTS = {rule["alert"]: rule for rule in RULES if "alert" in rule}
_RAY = yaml.safe_load((ROOT / "dev" / "dashboards" / "ray_metrics.yaml").read_text())
RAY: dict[str, list[str]] = _RAY["exported"] | _RAY["rare"]
PANELS = [(dashboard, panel) for dashboard in DASHBOARDS for panel in dashboard.panels()]
EACH_PANEL = pytest.mark.parametrize(
    ("dashboard", "panel"), PANELS, ids=[f"{dashboard.uid}: {panel.title}" for dashboard, panel in PANELS]
)


@in_virtual_time
async def test_the_registry_has_what_the_table_says_and_nothing_else() -> None:
    found = exposition.parse(exposition.of_everything())
    assert {name: metric.type for name, metric in found.items()} == {each.name: each.type for each in DEFINITIONS}
    labels = {name: metric.labels for name, metric in found.items() if metric.series}
    assert labels.keys() == found.keys(), "each has a series here, so that its labels are compared"
    assert labels == {each.name: set(each.labels) for each in DEFINITIONS}


OBJECT = "name namespace uid"
KUBERAYS = {
    "kuberay_cluster_provisioned_duration_seconds": ("gauge", OBJECT),
    "kuberay_cluster_info": ("gauge", f"{OBJECT} owner_kind"),
    "kuberay_cluster_condition_provisioned": ("gauge", f"{OBJECT} condition"),
    "kuberay_job_execution_duration_seconds": ("gauge", f"{OBJECT} job_deployment_status retry_count"),
    "kuberay_job_info": ("gauge", OBJECT),
    "kuberay_job_deployment_status": ("gauge", f"{OBJECT} deployment_status"),
    "kuberay_service_info": ("gauge", OBJECT),
    "kuberay_service_condition_ready": ("gauge", f"{OBJECT} condition"),
    "kuberay_service_condition_upgrade_in_progress": ("gauge", f"{OBJECT} condition"),
    "rest_client_requests_total": ("counter", "code method host"),
    "rest_client_request_duration_seconds": ("histogram", "verb host"),
    "rest_client_dns_resolution_duration_seconds": ("histogram", "host"),
    "rest_client_request_size_bytes": ("histogram", "verb host"),
    "rest_client_response_size_bytes": ("histogram", "verb host"),
    "rest_client_rate_limiter_duration_seconds": ("histogram", "verb host"),
    "rest_client_request_retries_total": ("counter", "code verb host"),
    "controller_runtime_reconcile_total": ("counter", "controller result"),
    "controller_runtime_reconcile_errors_total": ("counter", "controller"),
    "controller_runtime_reconcile_panics_total": ("counter", "controller"),
    "controller_runtime_reconcile_time_seconds": ("histogram", "controller"),
    "controller_runtime_active_workers": ("gauge", "controller"),
    "controller_runtime_max_concurrent_reconciles": ("gauge", "controller"),
    "workqueue_depth": ("gauge", "name controller"),
    "workqueue_adds_total": ("counter", "name controller"),
    "workqueue_queue_duration_seconds": ("histogram", "name controller"),
    "workqueue_work_duration_seconds": ("histogram", "name controller"),
    "workqueue_unfinished_work_seconds": ("gauge", "name controller"),
    "workqueue_longest_running_processor_seconds": ("gauge", "name controller"),
    "workqueue_retries_total": ("counter", "name controller"),
    "leader_election_master_status": ("gauge", "name"),
}
"""Spec operator.md 12, rayjob.md 7.2 and rayservice.md 6.4."""


def test_all_of_kuberays_metrics_are_there_with_their_types_and_labels() -> None:
    table = {each.name: (each.type, set(each.labels)) for each in DEFINITIONS}
    assert {name: table.get(name) for name in KUBERAYS} == {
        name: (type_, set(labels.split())) for name, (type_, labels) in KUBERAYS.items()
    }


def test_each_metric_is_on_the_page_once_with_its_labels() -> None:
    rows = re.findall(
        r"^\| `([a-z_]+)` \| ([a-z]+) \| ([^|]*) \|", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE
    )
    assert [(name, type_, re.findall(r"`(\w+)`", labels)) for name, type_, labels in rows] == [
        (each.name, each.type, list(each.labels)) for each in DEFINITIONS
    ]
    assert len({each.name for each in DEFINITIONS}) == len(DEFINITIONS)
    assert [each.name for each in DEFINITIONS if not each.meaning] == []


def known() -> Mapping[str, frozenset[str]]:
    """Labels by every name that can be queried."""
    found: dict[str, frozenset[str]] = {}
    for each in DEFINITIONS:
        labels = frozenset(each.labels) | promql.TARGET
        if each.type == "histogram":
            found |= {f"{each.name}_sum": labels, f"{each.name}_count": labels, f"{each.name}_bucket": labels | {"le"}}
        else:
            found[each.name] = labels
    found |= {rule["record"]: promql.labels_of(rule["expr"]) for rule in RULES if "record" in rule}
    return found | {name: frozenset(labels) | promql.TARGET for name, labels in RAY.items()}


def wrong(expr: str) -> Iterator[str]:
    names = known()
    for use in promql.uses(expr):
        found = [name for name in names if re.fullmatch(use.pattern, name)] if use.pattern else [use.name]
        if not found:
            yield f"no metric is like {use.pattern}"
        for name in found:
            if name not in names:
                yield f"nobody exports {name}"
            elif not use.labels <= names[name]:
                yield f"{name} has no label {', '.join(sorted(use.labels - names[name]))}"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.get("alert") or rule["record"])
def test_what_rules_ask_for_exists(rule: dict[str, Any]) -> None:
    assert list(wrong(rule["expr"])) == []


@EACH_PANEL
def test_what_panels_ask_for_exists(dashboard: Dashboard, panel: Panel) -> None:
    assert [problem for query in panel.queries for problem in wrong(dashboard.chosen(query.expr))] == []


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda each: each.uid)
def test_what_variables_are_made_of_exists(dashboard: Dashboard) -> None:
    for variable in dashboard.variables:
        assert list(wrong(f"count by ({variable.label}) ({dashboard.chosen(variable.metric)})")) == []
    asked = " ".join(query.expr for panel in dashboard.panels() for query in panel.queries)
    asked += " ".join(variable.metric for variable in dashboard.variables)
    used = set(re.findall(r"\$(?!__)(\w+)", asked))
    assert used == {variable.name for variable in dashboard.variables}


def test_the_list_of_rays_metrics_has_no_more_than_is_asked_for() -> None:
    asked = [rule["expr"] for rule in RULES]
    asked += [dashboard.chosen(query.expr) for dashboard, panel in PANELS for query in panel.queries]
    assert {use.name for expr in asked for use in promql.uses(expr)} >= RAY.keys()


def test_a_misspelt_name_or_label_is_found() -> None:
    assert list(wrong("sum by (nmae) (kuberay_cluster_info)")) == ["kuberay_cluster_info has no label nmae"]
    assert list(wrong('kuberay_cluster_infos{name="x"}')) == ["nobody exports kuberay_cluster_infos"]
    assert list(wrong("kuberay_job_info unless on (uuid) kuberay_cluster_info")) == [
        "kuberay_job_info has no label uuid",
        "kuberay_cluster_info has no label uuid",
    ]
    assert list(wrong('{__name__=~"kuberay_x.*"}')) == ["no metric is like kuberay_x.*"]


@EACH_PANEL
def test_a_panel_can_be_read(dashboard: Dashboard, panel: Panel) -> None:
    """Legends name labels that the query keeps, tables show all of them, and each panel says what it is about."""
    for query in panel.queries:
        kept = promql.labels_of(dashboard.chosen(query.expr))
        named = set(re.findall(r"{{(\w+)}}", query.legend))
        if kept:
            assert named <= kept
        if panel.kind == "table" and kept:
            assert kept == panel.columns.keys() - {"Value"}
        elif panel.kind != "table":
            assert query.legend
    assert panel.description or panel.title.endswith("per namespace")
    assert panel.unit
    assert not panel.empty.endswith(".")
    assert bool(panel.columns) == (panel.kind == "table")


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda each: each.uid)
def test_the_file_of_a_dashboard_is_sound(dashboard: Dashboard) -> None:
    found = json.loads((ROOT / "config" / "grafana" / f"{dashboard.uid}.json").read_text())
    assert (found["uid"], found["title"]) == (dashboard.uid, dashboard.title)
    ids = [panel["id"] for panel in found["panels"]]
    assert len(set(ids)) == len(ids)
    boxes = [panel["gridPos"] for panel in found["panels"]]
    assert all(box["x"] + box["w"] <= 24 for box in boxes)
    for a, b in combinations(boxes, 2):
        apart = (
            a["x"] + a["w"] <= b["x"]
            or b["x"] + b["w"] <= a["x"]
            or a["y"] + a["h"] <= b["y"]
            or b["y"] + b["h"] <= a["y"]
        )
        assert apart, (a, b)
    titles = [panel["title"] for panel in found["panels"] if panel["type"] != "row"]
    assert len(set(titles)) == len(titles)


def test_alerts_are_explained_where_they_send_their_reader() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    section = page.split("\n## Alerts\n")[1].split("\n## ")[0]
    assert sorted(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == sorted(ALERTS)
    anchors = {
        re.sub(r"[^a-z0-9-]", "", heading.lower().replace(" ", "-"))
        for heading in re.findall(r"^## (.+)$", page, re.MULTILINE)
    }
    for name, rule in ALERTS.items():
        assert rule["labels"]["severity"] in ("critical", "warning", "info"), name
        assert {"summary", "description", "runbook", "runbook_url"} == rule["annotations"].keys(), name
        path, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        assert (ROOT / path).exists(), name
        assert anchor in anchors, name
        assert "docs/troubleshooting.md" in rule["annotations"]["runbook"], name


def test_recorded_series_are_on_the_page_about_monitoring() -> None:
    page = (ROOT / "docs" / "monitoring.md").read_text()
    section = page.split("\n## Rules\n")[1].split("\n## ")[0]
    assert re.findall(r"^\| `([\w:]+)` \|", section, re.MULTILINE) == [r["record"] for r in RULES if "record" in r]


def test_dashboards_are_on_the_page_about_monitoring() -> None:
    section = (ROOT / "docs" / "monitoring.md").read_text().split("\n## Dashboards\n")[1].split("\n## ")[0]
    assert re.findall(r"^\| ([^|`]+) \| `(\w+)` \|", section, re.MULTILINE) == [(d.title, d.uid) for d in DASHBOARDS]
