"""What the chart hands to Prometheus' operator and to Grafana, when it is told to: O64 and the rest."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml
from helm import OPERATOR, Helm, HelmError, of_kind

ROOT = OPERATOR.parents[1]


def test_service_monitor(helm: Helm) -> None:
    (plain,) = of_kind(helm.template(OPERATOR, {"metrics": {"serviceMonitor": {"enabled": True}}}), "ServiceMonitor")
    assert "labels" not in plain["metadata"]
    assert plain["metadata"]["namespace"] == "ns"
    (endpoint,) = plain["spec"]["endpoints"]
    assert endpoint == {"path": "/metrics", "targetPort": "http", "interval": "30s", "honorLabels": True}
    settings = {"enabled": True, "additionalLabels": {"release": "prometheus"}, "namespace": "monitoring"}
    made = helm.template(OPERATOR, {"metrics": {"serviceMonitor": settings}})
    (monitor,) = of_kind(made, "ServiceMonitor")
    assert monitor["metadata"]["labels"] == {"release": "prometheus"}
    assert monitor["metadata"]["namespace"] == "monitoring"
    assert monitor["spec"]["namespaceSelector"] == {"matchNames": ["ns"]}
    (service,) = of_kind(made, "Service")
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()


def test_pod_monitors(helm: Helm) -> None:
    values = {"metrics": {"podMonitor": {"enabled": True}}}
    monitors = {
        m["spec"]["selector"]["matchLabels"]["ray.io/node-type"]: m["spec"]
        for m in of_kind(helm.template(OPERATOR, values), "PodMonitor")
    }
    ports = {node: [e["port"] for e in spec["podMetricsEndpoints"]] for node, spec in monitors.items()}
    assert ports == {"head": ["metrics", "as-metrics", "dash-metrics"], "worker": ["metrics"]}
    assert monitors["head"]["namespaceSelector"] == {"any": True}
    told = monitors["worker"]["podMetricsEndpoints"][0]["relabelings"][0]
    assert told["targetLabel"] == "ray_io_cluster"
    (one, _) = of_kind(helm.template(OPERATOR, values | {"watchNamespace": ["a", "b"]}), "PodMonitor")
    assert one["spec"]["namespaceSelector"] == {"matchNames": ["a", "b"]}


def test_rules_are_all_that_the_project_has(helm: Helm) -> None:
    settings = {"enabled": True, "additionalLabels": {"release": "prometheus"}, "namespace": "monitoring"}
    (rule,) = of_kind(helm.template(OPERATOR, {"metrics": {"prometheusRule": settings}}), "PrometheusRule")
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    assert rule["metadata"]["namespace"] == "monitoring"
    files = sorted((ROOT / "config" / "prometheus" / "rules").glob("*.yaml"))
    groups = [group for file in files for group in yaml.safe_load(file.read_text())["groups"]]
    assert rule["spec"]["groups"] == groups
    names = {one.get("record") or one["alert"] for group in groups for one in group["rules"]}
    assert {"ray_gcs_availability_30d", "MissingMetricRayGlobalControlStore"} <= names


def test_the_projects_dashboards_are_rendered_as_they_are(helm: Helm) -> None:
    files = {path.name: json.loads(path.read_text()) for path in (ROOT / "config" / "grafana").glob("*.json")}
    made = of_kind(helm.template(OPERATOR, {"metrics": {"dashboards": {"enabled": True}}}), "ConfigMap")
    assert {name: json.loads(text) for each in made for name, text in each["data"].items()} == files
    assert {each["metadata"]["name"] for each in made} == {
        f"grafana-dashboard-{name.removesuffix('.json').replace('_', '-')}" for name in files
    }
    assert "kuberay_operator.json" in files


def test_each_dashboard_is_a_config_map(helm: Helm, tmp_path: Path) -> None:
    chart = tmp_path / "chart"
    shutil.copytree(OPERATOR, chart, ignore=shutil.ignore_patterns("crds", "dashboards"))
    settings = {"enabled": True, "annotations": {"folder": "Ray"}, "namespace": "monitoring"}
    with pytest.raises(HelmError, match="no dashboards"):
        helm.template(chart, {"metrics": {"dashboards": settings}})
    (chart / "dashboards").mkdir()
    for name in ("ray_jobs", "Operator"):
        (chart / "dashboards" / f"{name}.json").write_text(
            json.dumps({"title": f"{{{{ {name} }}}}", "panels": [1]}, indent=1)
        )
    made = of_kind(helm.template(chart, {"metrics": {"dashboards": settings}}), "ConfigMap")
    assert [m["metadata"]["name"] for m in made] == ["grafana-dashboard-operator", "grafana-dashboard-ray-jobs"]
    for manifest in made:
        assert manifest["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert manifest["metadata"]["annotations"] == {"folder": "Ray"}
        assert manifest["metadata"]["namespace"] == "monitoring"
    assert json.loads(made[1]["data"]["ray_jobs.json"]) == {"title": "{{ ray_jobs }}", "panels": [1]}
