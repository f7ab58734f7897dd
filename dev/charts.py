"""Which files of the charts are generated, and from what: facts and schemas from the code, rules and dashboards from ``config``.

Helm reads nothing outside a chart, so rules and dashboards are copied; the CRDs are a link to ``config/crd/full``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from dev import chart_facts, chart_schemas

CHARTS = Path("charts")
OPERATOR = CHARTS / "kuberay-operator"
RAY_CLUSTER = CHARTS / "ray-cluster"
COPIED = {"config/prometheus/rules": ("rules", "*.yaml"), "config/grafana": ("dashboards", "*.json")}
"""Folder to the folder of the chart that has its files, and which."""


def pages(root: Path, others: Mapping[str, Callable[[], str]]) -> dict[str, Callable[[], str]]:
    """What renders each file, by its path below the *root* of the tree. *others* are generated outside of the charts; some
    of them are copied."""
    found: dict[str, Callable[[], str]] = {
        str(OPERATOR / "files" / "operator.yaml"): chart_facts.render,
        str(OPERATOR / "values.schema.json"): chart_schemas.operator_schema,
        str(RAY_CLUSTER / "files" / "fields.yaml"): chart_schemas.ray_cluster_fields,
        str(RAY_CLUSTER / "values.schema.json"): chart_schemas.ray_cluster_schema,
    }
    for folder, (name, pattern) in COPIED.items():
        written = {str(path.relative_to(root)): path.read_text for path in (root / folder).glob(pattern)}
        made = {path: render for path, render in others.items() if Path(path).parent == Path(folder)}
        for path, render in sorted({**written, **made}.items()):
            found[str(OPERATOR / name / Path(path).name)] = render
    return found
