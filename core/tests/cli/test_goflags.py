"""Go's flag syntax, as KubeRay's manifests and people use it."""

from __future__ import annotations

import pytest
from kuberay.cli.goflags import go_style
from kuberay.cli.run import BOOLEAN_FLAGS


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("--metrics-addr=:8080", "--metrics-addr=:8080"),
        ("-metrics-addr=:8080", "--metrics-addr=:8080"),
        ("--metrics-addr :8080", "--metrics-addr :8080"),
        ("-metrics-addr :8080", "--metrics-addr :8080"),
        ("--enable-metrics", "--enable-metrics=true"),
        ("-enable-metrics", "--enable-metrics=true"),
        ("--enable-metrics=true", "--enable-metrics=true"),
        ("--enable-metrics=1", "--enable-metrics=true"),
        ("--enable-metrics=T", "--enable-metrics=true"),
        ("--enable-metrics=False", "--enable-metrics=false"),
        ("--enable-metrics=0", "--enable-metrics=false"),
        ("--enable-metrics=f", "--enable-metrics=false"),
        # Not a Go boolean: left for the parser to refuse.
        ("--enable-metrics=yes", "--enable-metrics=yes"),
        # A boolean never takes the next word.
        ("--enable-metrics false", "--enable-metrics=true false"),
        ("--feature-gates=A=true,B=false", "--feature-gates=A=true,B=false"),
        ("--qps -1", "--qps -1"),
        ("--qps -1.5", "--qps -1.5"),
        ("-", "-"),
        ("--", "--"),
        ("-- -enable-metrics", "-- -enable-metrics"),
        ("-h", "-h"),
        ("--help", "--help"),
        ("word", "word"),
        ("", ""),
    ],
)
def test_go_flags_become_long_options(given: str, expected: str) -> None:
    assert go_style(given.split(), BOOLEAN_FLAGS) == expected.split()


def test_the_helm_charts_arguments_pass_unchanged() -> None:
    chart = [
        "--watch-namespace",
        "a,b",
        "--use-kubernetes-proxy=false",
        "--enable-leader-election=true",
        "--enable-metrics=true",
        "--reconcile-concurrency=5",
        "--qps=75.5",
        "--burst=150",
        "--feature-gates=RayClusterStatusConditions=true",
    ]
    assert go_style(chart, BOOLEAN_FLAGS) == chart
