"""What a dashboard is made of, and how that becomes Grafana's JSON: panels are placed row by row, and look alike by default.

A dashboard here says only what somebody decided: the question, the query, the unit. Grafana 10 and newer read the result.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["timeseries", "stat", "table", "piechart"]

_WIDTH = 24
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True)
class Query:
    """PromQL, and the name of its series in the legend (``{{label}}`` is the label's value)."""

    expr: str
    legend: str = ""


@dataclass(frozen=True)
class Panel:
    """One question. ``unit`` is one of Grafana's; ``empty`` says when having no data is right, for whoever looks and for tests."""

    title: str
    description: str
    unit: str
    queries: Sequence[Query]
    kind: Kind = "timeseries"
    width: int = 8
    height: int = 8
    stacked: bool = False
    columns: Mapping[str, str] = field(default_factory=dict)
    """Of a table: label to heading, in order. ``Value`` is the query's value, ``Value #B`` that of a second query; what is not
    named is left out."""
    empty: str = ""

    @property
    def instant(self) -> bool:
        """Whether only the present counts."""
        return self.kind != "timeseries"


@dataclass(frozen=True)
class Row:
    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True)
class Variable:
    """A choice above the panels: values of a label, all of them at first."""

    name: str
    title: str
    label: str
    metric: str
    """Selector of the series that have the label."""
    anything: bool = True
    """Whether all of them means whatever there is. Names of controller-runtime are other operators' too: there it means each value."""


@dataclass(frozen=True)
class Dashboard:
    uid: str
    title: str
    description: str
    variables: Sequence[Variable]
    rows: Sequence[Row]

    def panels(self) -> Iterator[Panel]:
        for row in self.rows:
            yield from row.panels

    def chosen(self, text: str, rate_interval: str = "2m", span: str = "1h") -> str:
        """*text* as Grafana asks it while all values of each variable are chosen."""
        for name in sorted((variable.name for variable in self.variables), key=len, reverse=True):
            text = text.replace(f"${name}", ".*")
        return text.replace("$__rate_interval", rate_interval).replace("$__range", span)


def render(dashboard: Dashboard) -> str:
    """The file."""
    panels: list[dict[str, Any]] = []
    y = 0
    for row in dashboard.rows:
        panels.append(_row(len(panels) + 1, row.title, y))
        y += 1
        x = line = 0
        for panel in row.panels:
            if x + panel.width > _WIDTH:
                x, y, line = 0, y + line, 0
            panels.append(_panel(len(panels) + 1, panel, x, y))
            x, line = x + panel.width, max(line, panel.height)
        y += line
    body = {
        "annotations": {"list": []},
        "description": dashboard.description,
        "editable": True,
        "graphTooltip": 1,
        "links": [],
        "panels": panels,
        "refresh": "30s",
        "schemaVersion": 38,
        "tags": ["ray", "kuberay"],
        "templating": {"list": [_datasource(), *(_variable(each) for each in dashboard.variables)]},
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "",
        "title": dashboard.title,
        "uid": dashboard.uid,
    }
    return json.dumps(body, indent=1, ensure_ascii=False) + "\n"


def _row(number: int, title: str, y: int) -> dict[str, Any]:
    place = {"h": 1, "w": _WIDTH, "x": 0, "y": y}
    return {"collapsed": False, "gridPos": place, "id": number, "panels": [], "title": title, "type": "row"}


def _panel(number: int, panel: Panel, x: int, y: int) -> dict[str, Any]:
    made = {
        "datasource": _SOURCE,
        "description": panel.description + (f" Empty {panel.empty}." if panel.empty else ""),
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "gridPos": {"h": panel.height, "w": panel.width, "x": x, "y": y},
        "id": number,
        "options": _options(panel),
        "targets": [_target(panel, query, chr(ord("A") + n)) for n, query in enumerate(panel.queries)],
        "title": panel.title,
        "type": panel.kind,
    }
    if panel.kind == "table":
        made["transformations"] = _columns(panel)
    return made


def _target(panel: Panel, query: Query, letter: str) -> dict[str, Any]:
    return {
        "datasource": _SOURCE,
        "editorMode": "code",
        "expr": query.expr,
        "format": "table" if panel.kind == "table" else "time_series",
        "instant": panel.instant,
        "legendFormat": query.legend or "__auto",
        "range": not panel.instant,
        "refId": letter,
    }


def _defaults(panel: Panel) -> dict[str, Any]:
    defaults: dict[str, Any] = {"color": {"mode": "palette-classic"}, "unit": panel.unit}
    if panel.kind == "stat":
        defaults |= {"noValue": "0", "color": {"mode": "fixed", "fixedColor": "text"}}
    if panel.unit == "percentunit":
        defaults |= {"min": 0, "max": 1}
    elif panel.kind == "timeseries":
        defaults |= {"min": 0}
    if panel.kind == "timeseries":
        defaults["custom"] = {
            "drawStyle": "line",
            "fillOpacity": 25 if panel.stacked else 5,
            "lineWidth": 1,
            "showPoints": "never",
            "spanNulls": False,
            "stacking": {"group": "A", "mode": "normal" if panel.stacked else "none"},
        }
    return defaults


def _options(panel: Panel) -> dict[str, Any]:
    match panel.kind:
        case "timeseries":
            legend = {
                "calcs": ["lastNotNull", "max"],
                "displayMode": "table",
                "placement": "bottom",
                "showLegend": True,
            }
            return {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}
        case "stat":
            calcs = {"calcs": ["lastNotNull"], "fields": "", "values": False}
            return {"colorMode": "value", "graphMode": "none", "reduceOptions": calcs, "textMode": "value_and_name"}
        case "piechart":
            legend = {"displayMode": "table", "placement": "right", "showLegend": True, "values": ["value"]}
            calcs = {"calcs": ["lastNotNull"], "fields": "", "values": False}
            return {"legend": legend, "pieType": "donut", "reduceOptions": calcs}
        case "table":
            return {"cellHeight": "sm", "showHeader": True, "footer": {"show": False}}


def _columns(panel: Panel) -> list[dict[str, Any]]:
    """Only the columns that are named, in their order."""
    names = list(panel.columns)
    organized = {"indexByName": {name: n for n, name in enumerate(names)}, "renameByName": dict(panel.columns)}
    merged = [{"id": "merge", "options": {}}] if len(panel.queries) > 1 else []
    return [
        *merged,
        {"id": "filterFieldsByName", "options": {"include": {"names": names}}},
        {"id": "organize", "options": {"excludeByName": {}, **organized}},
    ]


def _datasource() -> dict[str, Any]:
    return {"hide": 0, "label": "Data source", "name": "datasource", "query": "prometheus", "type": "datasource"}


def _variable(variable: Variable) -> dict[str, Any]:
    query = f"label_values({variable.metric}, {variable.label})"
    return {
        "allValue": ".*" if variable.anything else None,
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "datasource": _SOURCE,
        "definition": query,
        "hide": 0,
        "includeAll": True,
        "label": variable.title,
        "multi": True,
        "name": variable.name,
        "query": {"query": query, "refId": variable.name},
        "refresh": 2,
        "sort": 1,
        "type": "query",
    }
