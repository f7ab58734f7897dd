"""A real Prometheus scrapes the operator and Ray's pods as our monitors say, and is asked every query of every rule and dashboard.

What came back is kept in ``.cache/dashboards/data.json``, from which ``make dashboards`` draws the panels.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import prometheus
import pytest
import rayjobs
import rayservices
import yaml
from waiting import eventually

from dev.dashboards import promql
from dev.dashboards.files import DASHBOARDS
from dev.dashboards.model import Dashboard, Panel
from dev.demo import workload
from dev.demo.kubectl import Kubectl
from dev.demo.traffic import Traffic

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / ".cache" / "dashboards" / "data.json"
SERVICE, GOOD, BAD = "greeting", "counting", "failing"
WATCHED = 75.0
"""Seconds that everything is scraped and asked before panels are: rates need a minute."""
TASKS = "import ray, time; ray.init(); ray.get([ray.remote(lambda: time.sleep(1)).remote() for _ in range(60)])"

PANELS = [(dashboard, panel) for dashboard in DASHBOARDS for panel in dashboard.panels()]
EACH_PANEL = pytest.mark.parametrize(
    ("dashboard", "panel"), PANELS, ids=[f"{dashboard.uid}: {panel.title}" for dashboard, panel in PANELS]
)


@dataclass
class Scraped:
    """A Prometheus that has seen all of it, and since when."""

    prometheus: prometheus.Prometheus
    began: float


@pytest.fixture(scope="module")
def scraped(
    kubectl: Kubectl, operator: str, namespace: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scraped]:
    """A RayService that is asked, a RayJob with tasks and one that fails; Prometheus has scraped them for a while."""
    service = next(
        each
        for each in yaml.safe_load_all((prometheus.CONFIG / "serviceMonitor.yaml").read_text())
        if each["kind"] == "Service"
    )
    kubectl.apply(yaml.safe_dump(service))
    folder = tmp_path_factory.mktemp("prometheus")
    targets = folder / "found.json"
    prometheus.discover(kubectl, targets)
    config = prometheus.configuration(targets)
    began = time.time()
    with prometheus.running(folder, config) as server:
        manifest = rayservices.rayservice(SERVICE, strategy=rayservices.NEW_CLUSTER)
        rayservices.apply(kubectl, namespace, rayservices.code(), manifest)
        workload.wait_for_service(kubectl, namespace, SERVICE, seconds=420, tell=print)
        prometheus.discover(kubectl, targets)
        good = rayjobs.rayjob(GOOD, rayjobs.HTTP, f'python -c "{TASKS}"')
        bad = rayjobs.rayjob(BAD, rayjobs.HTTP, "python -c 'raise SystemExit(3)'")
        rayjobs.apply(kubectl, namespace, good, bad)
        with Traffic(rayservices.serve_url(namespace, SERVICE)):
            rayjobs.wait_for_end(kubectl, namespace, BAD)
            rayjobs.wait_until_running(kubectl, namespace, GOOD)
            prometheus.discover(kubectl, targets)
            eventually(lambda: all_are_up(server), 120, "all targets are up")
            watch_for(WATCHED)
            found = Scraped(server, began)
            KEPT.parent.mkdir(parents=True, exist_ok=True)
            KEPT.write_text(json.dumps(kept(found)))
            yield found
    for kind, name in (("rayservice", SERVICE), ("rayjob", GOOD), ("rayjob", BAD)):
        kubectl.delete(kind, name, namespace)


def watch_for(seconds: float) -> None:
    """What is measured here is how things go over a time."""
    deadline = time.monotonic() + seconds
    eventually(lambda: time.monotonic() > deadline, seconds + 30, "time passes")


def all_are_up(server: prometheus.Prometheus) -> bool:
    """The operator, both heads and the worker; a RayJob's cluster that has gone may be among the targets for a moment."""
    up = [target["scrapePool"] for target in server.targets() if target["health"] == "up"]
    return all(
        any(name in pool for pool in up)
        for name in ("kuberay-operator-monitor", "ray-head-monitor", "ray-workers-monitor")
    )


def kept(found: Scraped) -> dict[str, Any]:
    """All that panels show, as ``uid`` to title to one list of series for each query."""
    end = time.time()
    answers: dict[str, dict[str, list[list[dict[str, Any]]]]] = {}
    for dashboard, panel in PANELS:
        asked = [chosen(dashboard, query.expr) for query in panel.queries]
        series = [
            found.prometheus.query(expr) if panel.instant else found.prometheus.range(expr, found.began, end, 5)
            for expr in asked
        ]
        answers.setdefault(dashboard.uid, {})[panel.title] = series
    return answers


def chosen(dashboard: Dashboard, expr: str) -> str:
    return dashboard.chosen(expr, rate_interval="1m")


@EACH_PANEL
def test_a_panel_has_data(scraped: Scraped, dashboard: Dashboard, panel: Panel) -> None:
    """Unless it says when it may be empty; a query that Prometheus refuses fails in any case."""
    found = [scraped.prometheus.query(chosen(dashboard, query.expr)) for query in panel.queries]
    assert any(found) or panel.empty, [query.expr for query in panel.queries]
    for series in (each for result in found for each in result):
        if panel.columns:
            assert panel.columns.keys() - {"Value"} <= series["metric"].keys()


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda each: each.uid)
def test_what_can_be_chosen_has_values(scraped: Scraped, dashboard: Dashboard) -> None:
    for variable in dashboard.variables:
        values = scraped.prometheus.query(f"count by ({variable.label}) ({dashboard.chosen(variable.metric)})")
        assert [each["metric"][variable.label] for each in values], variable.name


def test_every_rule_is_evaluated(scraped: Scraped) -> None:
    rules = scraped.prometheus.rules()
    assert rules
    for rule in rules:
        assert (rule["health"], rule.get("lastError", "")) == ("ok", ""), rule["name"]
        for alert in rule.get("alerts", ()):
            assert "error expanding" not in str(alert["annotations"]), alert
    recorded = [rule["name"] for rule in rules if rule["type"] == "recording"]
    assert [name for name in recorded if not scraped.prometheus.query(name)] == []


def test_no_alert_fires_but_of_what_is_wrong(scraped: Scraped) -> None:
    """Everything is well but for one RayJob of two, which are too few for an alert."""
    firing = scraped.prometheus.query('ALERTS{alertstate="firing", alertname=~"KubeRay.*|Ray.*|Missing.*"}')
    assert [each["metric"]["alertname"] for each in firing] == []


def test_ray_exports_what_is_said_of_it(scraped: Scraped) -> None:
    """dev/dashboards/ray_metrics.yaml"""
    for name, labels in yaml.safe_load((ROOT / "dev" / "dashboards" / "ray_metrics.yaml").read_text())[
        "exported"
    ].items():
        found = {label for series in scraped.prometheus.query(name) for label in series["metric"]}
        assert set(labels) <= found, name
        assert promql.TARGET - {"endpoint", "service"} <= found, name


def test_targets_have_the_labels_of_the_monitors(scraped: Scraped, namespace: str, operator: str) -> None:
    (build,) = scraped.prometheus.query("kuberay_build_info")
    assert {"namespace": operator, "container": "kuberay-operator"}.items() <= build["metric"].items()
    (cluster,) = scraped.prometheus.query(f'kuberay_service_info{{name="{SERVICE}"}}')
    assert cluster["metric"]["namespace"] == namespace, "the object's namespace, not the operator's"
