"""What the plugin of bench/noop.py costs: figures of runs with it beside those of runs without, and whether the target is met.

``python -m bench.plugin_report PLAIN... -- NOOP...``; prints Markdown for docs/performance.md, exit code 1 when it is missed.
A machine's pace changes from run to run by more than the target. It changes for the API server of the same run too, whose work
is the same with and without the plugin, since that one sends nothing: so the operator's CPU time is counted in the API server's.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from statistics import median
from typing import Any

from bench.report import read

RATIO = 1.02
"""Of the operator's CPU, and of the time until all RayClusters are ready."""


def operator_share(run: dict[str, Any]) -> float:
    """CPU time of the operator, its start not counted, per CPU time of the API server."""
    return float(run["operator_cpu_per_cluster_ms"] / run["apiserver_cpu_per_cluster_ms"])


def main(arguments: list[str]) -> int:
    """*arguments*: files of runs without, ``--``, files of runs with the plugin."""
    split = arguments.index("--")
    plain, noop = ([read(path) for path in paths] for paths in (arguments[:split], arguments[split + 1 :]))
    print(
        f"| {noop[0]['clusters']} RayClusters × 4 pods, {len(noop)} runs each | without | with a no-op plugin | ratio |"
    )
    print("|---|---|---|---|")
    share = _line(
        "operator CPU per API server CPU, median", *(median(map(operator_share, runs)) for runs in (plain, noop))
    )
    _line(
        "operator CPU per cluster, least (ms)", *(_least(runs, "operator_cpu_per_cluster_ms") for runs in (plain, noop))
    )
    seconds = _line("all ready after, least (s)", *(_least(runs, "seconds") for runs in (plain, noop)))
    missed = max(share, seconds) > RATIO
    print(f"\nTarget: {RATIO:g} at most for the first and the last line, {'missed' if missed else 'met'}.")
    return int(missed)


def _least(runs: Sequence[dict[str, Any]], key: str) -> float:
    return float(min(run[key] for run in runs))


def _line(name: str, without: float, with_it: float) -> float:
    """Prints it; returns the ratio."""
    print(f"| {name} | {without:.4g} | {with_it:.4g} | {with_it / without:.3f} |")
    return with_it / without


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
