"""Renders ``config/prometheus/prometheusRules.yaml``: the rules as objects of Prometheus' operator, for installs without the chart."""

from __future__ import annotations

from pathlib import Path

import yaml

_HEAD = """\
# Written by `make generate` from config/prometheus/rules. Change those files, not this one; the chart makes its own
# (metrics.prometheusRule.enabled).
"""


def render(rules: Path) -> str:
    """One PrometheusRule for each file of the folder *rules*, named like it."""
    objects = [
        {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "PrometheusRule",
            "metadata": {
                "name": f"{path.stem}-rules",
                "namespace": "prometheus-system",
                # The release of kube-prometheus-stack, by which its Prometheus finds monitors and rules.
                "labels": {"release": "prometheus"},
            },
            "spec": yaml.safe_load(path.read_text()),
        }
        for path in sorted(rules.glob("*.yaml"))
    ]
    return _HEAD + yaml.safe_dump_all(objects, sort_keys=False, width=120)
