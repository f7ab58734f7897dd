"""The benchmark's table: the operator's figures beside the floor's, the ratios that count, and whether targets are met.

Prints Markdown for docs/performance.md; exit code 1 when a target is missed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import orjson

TIME_RATIO = 1.25
OPERATOR_CPU_PER_THOUSAND = 14.0
EDIT_SECONDS = 1.0
DELETION_RATIO = 1.25
"""The garbage collector's own time varies by a fifth from run to run; the operator sends nothing meanwhile."""
OPERATOR_RSS = 160.0
GROWTH = 1.2
STATUS_APPLIES = 2.0
EVENTS = 3.0


def read(path: str) -> dict[str, Any]:
    figures: dict[str, Any] = orjson.loads(Path(path).read_bytes())
    return figures


def main(paths: list[str]) -> int:
    """*paths*: the floor's figures, the operator's, and the operator's with fewer clusters."""
    floor, operator, small = (read(path) for path in paths)
    n = operator["clusters"]
    print(f"| {n} RayClusters × {1 + 3} pods | floor | operator | operator / floor |")
    print("|---|---|---|---|")
    for name, key, unit in (
        ("all ready after", "seconds", "s"),
        ("API server CPU", "apiserver_cpu", "s"),
        ("API server CPU per cluster", "apiserver_cpu_per_cluster_ms", "ms"),
        ("etcd CPU", "etcd_cpu", "s"),
        ("controller-manager CPU", "controller-manager_cpu", "s"),
    ):
        print(f"| {name} | {floor[key]:.1f} {unit} | {operator[key]:.1f} {unit} | {operator[key] / floor[key]:.2f} |")
    if "deletion_seconds" in operator and "deletion_seconds" in floor:
        ours, theirs = operator["deletion_seconds"], floor["deletion_seconds"]
        print(f"| deletion of all, to the last pod | {theirs:.1f} s | {ours:.1f} s | {ours / theirs:.2f} |")
        print(f"| edit → pods run, p99 of {operator['edits']} | | {operator['edit_pods_p99']:.2f} s | |")
        print(f"| edit → status says so, p99 | | {operator['edit_status_p99']:.2f} s | |")
    for name, value in (
        ("creation → ready, p50", f"{operator['p50']:.1f} s"),
        ("creation → ready, p99", f"{operator['p99']:.1f} s"),
        ("operator CPU, start included", f"{operator['operator_cpu']:.1f} s"),
        ("operator CPU at start", f"{operator['operator_start_cpu']:.1f} s"),
        ("operator peak RSS", f"{operator['operator_peak_rss']:.0f} MB"),
        (f"operator CPU per cluster at N={small['clusters']}", f"{small['operator_cpu_per_cluster_ms']:.1f} ms"),
        (f"operator CPU per cluster at N={n}", f"{operator['operator_cpu_per_cluster_ms']:.1f} ms"),
        (
            f"requests in {operator['settled_seconds']:.0f} s once settled, lease aside",
            f"{operator['requests_while_settled']:.0f}",
        ),
    ):
        print(f"| {name} | | {value} | |")
    print("\n| operator's requests per cluster | |\n|---|---|")
    for name, value in operator["requests_per_cluster"].items():
        if value >= 0.1:
            print(f"| {name} | {value:g} |")
    print("\n| target | wanted | measured | |\n|---|---|---|---|")
    missed = 0
    for name, wanted, measured in _targets(floor, operator, small):
        met = measured <= wanted
        missed += not met
        print(f"| {name} | ≤ {wanted:g} | {measured:.2f} | {'met' if met else '**missed**'} |")
    return 1 if missed else 0


def _targets(floor: dict[str, Any], operator: dict[str, Any], small: dict[str, Any]) -> list[tuple[str, float, float]]:
    requests = operator["requests_per_cluster"]
    phases: list[tuple[str, float, float]] = []
    if "deletion_seconds" in operator and "deletion_seconds" in floor:
        ratio = operator["deletion_seconds"] / floor["deletion_seconds"]
        phases = [
            ("edit to running pods, p99 s", EDIT_SECONDS, operator["edit_pods_p99"]),
            ("edit to status, p99 s", EDIT_SECONDS, operator["edit_status_p99"]),
            ("deletion over the garbage collector's", DELETION_RATIO, ratio),
        ]
    return [
        *phases,
        ("time over the floor's", TIME_RATIO, operator["seconds"] / floor["seconds"]),
        (
            "operator CPU per 1,000, s",
            OPERATOR_CPU_PER_THOUSAND,
            operator["operator_cpu"] * 1000 / operator["clusters"],
        ),
        ("operator peak RSS, MB", OPERATOR_RSS, operator["operator_peak_rss"]),
        (
            "growth of CPU per cluster",
            GROWTH,
            operator["operator_cpu_per_cluster_ms"] / small["operator_cpu_per_cluster_ms"],
        ),
        ("status applies per cluster", STATUS_APPLIES, requests.get("patch rayclusters/status", 0)),
        ("events per cluster", EVENTS, requests.get("create events", 0) + requests.get("patch events", 0)),
        ("requests once settled", 0, operator["requests_while_settled"]),
        ("pods beyond those wanted", 0, abs(operator["pods"] - operator["pods_wanted"])),
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
