"""The tables of `make bench-jobs`: what polling costs, how late an end is told, what hung dashboards do to others.

Prints Markdown for docs/performance.md; exit code 1 when a target is missed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from bench.report import GROWTH, read

LAG_P99 = 4.0
"""Seconds: a job is asked for every three; then come the pass, the write and the watch."""
POLLS = 0.36
"""Answers per running job and second: every 3 s, and up to a tenth sooner, so that polls do not come in bursts."""
HUNG_RATIO = 1.25
RETURN_SECONDS = 35.0
"""An unreachable head is asked every 30 s, each time for 2 s."""
NEW_CLUSTER_SECONDS = 2.0
NEW_CLUSTER_RATIO = 1.5
"""Of tenths of a second, which vary more."""
OPERATOR_CPU_PER_THOUSAND = 45.0
"""Seconds for what 1,000 RayJobs need until they run: RayClusters, two pods each, the submission, the statuses."""

Figures = dict[str, Any]


def main(paths: list[str]) -> int:
    """*paths*: the figures of fewer jobs, of all, and of all with some dashboards hung."""
    runs = [read(path) for path in paths]
    titles = [f"{run['jobs']} RayJobs" + (f", {run['hung']} hung" if run["hung"] else "") for run in runs]
    print(f"| | {' | '.join(titles)} |\n|---|{'---|' * len(runs)}")
    for name, show in _ROWS:
        print(f"| {name} | {' | '.join(show(run) for run in runs)} |")
    small, whole, hung = runs
    print("\n| requests per job | |\n|---|---|")
    for name, value in whole["requests_per_job"].items():
        if value >= 0.1:
            print(f"| {name} | {value:g} |")
    for name, value in whole["dashboard_requests_per_job"].items():
        print(f"| dashboard: {name} | {value:.2f} |")
    print("\n| target | wanted | measured | |\n|---|---|---|---|")
    missed = 0
    for name, wanted, measured in _targets(small, whole, hung):
        met = measured <= wanted
        missed += not met
        print(f"| {name} | ≤ {wanted:g} | {measured:.2f} | {'met' if met else '**missed**'} |")
    return 1 if missed else 0


def polling_cpu(run: Figures) -> float:
    """Milliseconds of the operator's CPU per running job and second, what it needs when idle taken off."""
    return float(1000 * (run["plateau"]["operator_cpu"] - run["idle"]["operator_cpu"]) / run["jobs"])


def polls(run: Figures) -> float:
    """Answers per second and running job whose dashboard answers."""
    return float(run["plateau"]["answered"] / (run["jobs"] - run["hung"]))


_ROWS: list[tuple[str, Callable[[Figures], str]]] = [
    ("Complete", lambda run: str(run["complete"])),
    ("all run after", lambda run: f"{run['all_run_after']:.1f} s"),
    ("end of the job → status says so, p50", lambda run: f"{run['lag_p50']:.2f} s"),
    ("the same, p99", lambda run: f"{run['lag_p99']:.2f} s"),
    ("the same, longest", lambda run: f"{run['lag_max']:.2f} s"),
    ("dashboards answer again → status says so, longest", lambda run: _if(run, "hung_lag_after_return_max", "s")),
    ("polls per running job and second", lambda run: f"{polls(run):.3f}"),
    ("operator CPU per running job and second", lambda run: f"{polling_cpu(run):.3f} ms"),
    ("operator CPU per poll", lambda run: f"{polling_cpu(run) / polls(run):.2f} ms"),
    ("operator CPU while all run, share of a core", lambda run: f"{100 * run['plateau']['operator_cpu']:.1f} %"),
    ("API requests per second while all run", lambda run: f"{run['plateau']['api_requests']:.2f}"),
    ("name look-ups per job", lambda run: f"{sum(run['lookups_per_job'].values()):.2f}"),
    ("operator CPU per job until it runs", lambda run: f"{run['operator_cpu_per_start_ms']:.1f} ms"),
    ("operator CPU per job for its end, polling included", lambda run: f"{run['operator_cpu_per_end_ms']:.1f} ms"),
    ("operator peak RSS", lambda run: f"{run['operator_peak_rss']:.0f} MB"),
    ("new RayCluster → first pod, p50", lambda run: f"{run['new_cluster_first_pod_p50']:.3f} s"),
    ("new RayCluster → all four pods, p50", lambda run: f"{run['new_cluster_pods_p50']:.3f} s"),
    ("the same, longest of 20", lambda run: f"{run['new_cluster_pods_max']:.3f} s"),
]


def _if(run: Figures, key: str, unit: str) -> str:
    return f"{run[key]:.2f} {unit}" if run[key] else ""


def _targets(small: Figures, whole: Figures, hung: Figures) -> list[tuple[str, float, float]]:
    return [
        ("jobs that are not Complete", 0, sum(run["jobs"] - run["complete"] for run in (small, whole, hung))),
        ("jobs submitted twice", 0, sum(run["submitted_twice"] for run in (small, whole, hung))),
        ("lag p99, s", LAG_P99, whole["lag_p99"]),
        ("polls per running job and second", POLLS, polls(whole)),
        ("growth of CPU per running job", GROWTH, polling_cpu(whole) / polling_cpu(small)),
        ("API requests while all run", 0, whole["plateau"]["api_requests"]),
        (
            "operator CPU per 1,000 until they run, s",
            OPERATOR_CPU_PER_THOUSAND,
            whole["operator_cpu_per_start_ms"],
        ),
        ("lag p99 of the others beside hung, ratio", HUNG_RATIO, hung["lag_p99"] / whole["lag_p99"]),
        ("polls of the others beside hung, short by", 0.02, 1 - polls(hung) / polls(whole)),
        ("new RayCluster's pods beside hung, longest, s", NEW_CLUSTER_SECONDS, hung["new_cluster_pods_max"]),
        (
            "the same, ratio of p50",
            NEW_CLUSTER_RATIO,
            hung["new_cluster_pods_p50"] / whole["new_cluster_pods_p50"],
        ),
        ("hung ones told after their return, s", RETURN_SECONDS, hung["hung_lag_after_return_max"]),
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
