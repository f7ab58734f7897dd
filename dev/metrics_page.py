"""Renders ``docs/metrics.md`` from the table of metrics that the operator's registry is filled from."""

from __future__ import annotations

from kuberay.operator.metric_table import DEFINITIONS, PROCESS, Definition

_INTRODUCTION = """\
# Metrics

<!-- Written by `make generate` from core/src/kuberay/operator/metric_table.py. Change that file, not this page. -->

`GET /metrics` on port 8080 of every replica (`--metrics-addr`), in Prometheus' text format. What is under **Ray objects** is
there with `--enable-metrics`, which the chart sets and the flag's default, as KubeRay's, does not; all other metrics are always there.

- Names and labels of KubeRay, controller-runtime and client-go are kept, so its dashboards and alerts go on working.
- Series are there from zero on where their labels are known before anything happens.
- Series of an object are computed from its status when somebody scrapes: they are gone with the object, and the same after a restart of
  the operator. Counters and histograms count what this replica did since it started; only the leader acts, so add replicas up.
- A gauge that is always 1 says what it has to say in a label (`condition`, `state`, `deployment_status`): compare the label, not the value.
- A scrape of 1,000 RayClusters takes 16 to 30 ms and is 650 kB large. Per RayCluster there are six series, per RayJob two or more, per RayService five;
  `kuberay_object_conditions` has one for each namespace, condition, status and reason that exist.

How to have them scraped, and the rules and dashboards that use them: [monitoring.md](monitoring.md).
"""


def render() -> str:
    """The whole page."""
    sections = [_INTRODUCTION]
    for group in dict.fromkeys(definition.group for definition in DEFINITIONS):
        rows = [_row(each) for each in DEFINITIONS if each.group == group]
        note = "As the Python client library of Prometheus names them.\n\n" if group == PROCESS else ""
        head = "| Metric | Type | Labels | Unit | Meaning | Use |\n|---|---|---|---|---|---|\n"
        sections.append(f"## {group}\n\n{note}{head}" + "\n".join(rows) + "\n")
    return "\n".join(sections)


def _row(metric: Definition) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels) or "–"
    meaning, use = (text.replace("|", "\\|").replace("<", "&lt;") for text in (metric.meaning, metric.use))
    return f"| `{metric.name}` | {metric.type} | {labels} | {metric.unit or '–'} | {meaning} | {use or '–'} |"
