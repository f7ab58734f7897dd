"""Draws the dashboards from what a real run kept, so that somebody can look at them where there is no Grafana.

``make dashboards`` runs tests/e2e/test_monitoring.py and then this; the pictures are in ``.cache/dashboards``. Needs the dependency
group ``pictures``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from dev.dashboards.files import DASHBOARDS
from dev.dashboards.model import Dashboard, Panel, Query

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".cache" / "dashboards"
COLUMN, LINE = 0.72, 0.42
"""Inches of one of the 24 columns and of one line of the grid."""
MOST_ROWS = 9
MOST_NAMES = 8

Series = Mapping[str, Any]


def number(value: float, unit: str) -> str:
    """As Grafana would write it."""
    match unit:
        case "percentunit":
            return f"{value * 100:.3g} %"
        case "percent":
            return f"{value:.4g} %"
        case "s":
            return (
                f"{value * 1000:.3g} ms"
                if abs(value) < 1
                else f"{value:.3g} s"
                if value < 120
                else f"{value / 60:.3g} min"
            )
        case "ms":
            return f"{value:.3g} ms" if abs(value) < 1000 else f"{value / 1000:.3g} s"
        case "bytes" | "Bps":
            for name in ("B", "KiB", "MiB", "GiB"):
                if abs(value) < 1024 or name == "GiB":
                    return f"{value:.3g} {name}" + ("/s" if unit == "Bps" else "")
                value /= 1024
    suffix = {"reqps": " req/s", "ops": " ops/s"}.get(unit, "")
    return f"{value:.3g}{suffix}"


def name_of(query: Query, series: Series) -> str:
    return re.sub(r"{{(\w+)}}", lambda found: str(series["metric"].get(found[1], "")), query.legend)


def draw_timeseries(axes: Axes, panel: Panel, answers: Sequence[Sequence[Series]]) -> None:
    lines = [
        (name_of(query, each), each["values"])
        for query, found in zip(panel.queries, answers, strict=True)
        for each in found
    ]
    times = sorted({float(at) for _, values in lines for at, _ in values})
    begun = times[0]
    below = dict.fromkeys(times, 0.0)
    for name, values in sorted(lines):
        points = {float(at): float(value) for at, value in values}
        if panel.stacked:
            xs = times
            ys = [below[at] + points.get(at, 0.0) for at in xs]
            axes.fill_between([at - begun for at in xs], [below[at] for at in xs], ys, alpha=0.25)
            below = dict(zip(xs, ys, strict=True))
        else:
            xs, ys = list(points), list(points.values())
        label = f"{name}  {number(list(points.values())[-1], panel.unit)}"
        axes.plot([at - begun for at in xs], ys, linewidth=1, label=label)
    axes.set_ylim(bottom=0)
    if panel.unit == "percentunit":
        axes.set_ylim(top=1)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value, panel.unit)))
    axes.tick_params(labelsize=6)
    axes.grid(alpha=0.2)
    handles, labels = axes.get_legend_handles_labels()
    more = [f"… and {len(labels) - MOST_NAMES} more"] if len(labels) > MOST_NAMES else []
    legend = axes.legend(handles[:MOST_NAMES], labels[:MOST_NAMES], fontsize=5.5, loc="upper left", framealpha=0.6)
    if more:
        legend.set_title(more[0], prop={"size": 5})


def draw_stat(axes: Axes, panel: Panel, answers: Sequence[Sequence[Series]]) -> None:
    axes.axis("off")
    found = [
        (name_of(q, each), float(each["value"][1]))
        for q, series in zip(panel.queries, answers, strict=True)
        for each in series
    ]
    axes.text(
        0.5, 0.45, "\n".join(number(value, panel.unit) for _, value in found), ha="center", va="center", fontsize=20
    )


def draw_table(axes: Axes, panel: Panel, answers: Sequence[Sequence[Series]]) -> None:
    axes.axis("off")
    rows = [
        [
            number(float(each["value"][1]), panel.unit) if label == "Value" else each["metric"].get(label, "")
            for label in panel.columns
        ]
        for each in answers[0]
    ]
    table = axes.table(rows[:MOST_ROWS], colLabels=list(panel.columns.values()), loc="upper center", cellLoc="left")
    table.auto_set_font_size(False)
    table.set_fontsize(6)


def draw_piechart(axes: Axes, panel: Panel, answers: Sequence[Sequence[Series]]) -> None:
    found = [(name_of(panel.queries[0], each), float(each["value"][1])) for each in answers[0]]
    axes.pie(
        [value for _, value in found], labels=[f"{name} {value:g}" for name, value in found], textprops={"fontsize": 7}
    )


DRAW: dict[str, Callable[[Axes, Panel, Sequence[Sequence[Series]]], None]] = {
    "timeseries": draw_timeseries,
    "stat": draw_stat,
    "table": draw_table,
    "piechart": draw_piechart,
}


def draw(dashboard: Dashboard, answers: Mapping[str, Sequence[Sequence[Series]]]) -> Path:
    """One picture of the whole dashboard."""
    file = json.loads((ROOT / "config" / "grafana" / f"{dashboard.uid}.json").read_text())
    height = max(each["gridPos"]["y"] + each["gridPos"]["h"] for each in file["panels"])
    figure = plt.figure(figsize=(24 * COLUMN, height * LINE))
    panels = {panel.title: panel for panel in dashboard.panels()}
    for each in file["panels"]:
        box = each["gridPos"]
        left, bottom = box["x"] / 24, 1 - (box["y"] + box["h"]) / height
        if each["type"] == "row":
            figure.text(left + 0.003, bottom + 0.3 / height, each["title"], fontsize=11, weight="bold")
            continue
        panel = panels[each["title"]]
        place = (left + 0.03, bottom + 1.0 / height, box["w"] / 24 - 0.04, (box["h"] - 2.2) / height)
        axes = figure.add_axes(place)
        axes.set_title(panel.title, fontsize=8, loc="left")
        if any(answers[panel.title]):
            DRAW[panel.kind](axes, panel, answers[panel.title])
        else:
            axes.axis("off")
            axes.text(
                0.5,
                0.5,
                f"no data\n(right {panel.empty})" if panel.empty else "NO DATA",
                ha="center",
                va="center",
                fontsize=8,
            )
    path = FOLDER / f"{dashboard.uid}.png"
    figure.savefig(path, dpi=80)
    plt.close(figure)
    return path


def main() -> None:
    mpl.use("Agg")
    kept = json.loads((FOLDER / "data.json").read_text())
    for dashboard in DASHBOARDS:
        print(draw(dashboard, kept[dashboard.uid]))


if __name__ == "__main__":
    main()
