"""What the plugin of bench/noop.py costs: figures of runs with it beside those of runs without, and whether the target is met.

``python -m bench.plugin_report PLAIN... -- NOOP...``; prints Markdown for docs/performance.md, exit code 1 when it is missed.
Runs on one machine differ by more than the target, so the least of each figure counts.
"""

from __future__ import annotations

import sys

from bench.report import read

RATIO = 1.02
"""Of the operator's CPU, and of the time until all RayClusters are ready."""


def main(arguments: list[str]) -> int:
    """*arguments*: files of runs without, ``--``, files of runs with the plugin."""
    split = arguments.index("--")
    plain, noop = ([read(path) for path in paths] for paths in (arguments[:split], arguments[split + 1 :]))
    n, runs = noop[0]["clusters"], len(noop)
    print(f"| {n} RayClusters × 4 pods, least of {runs} runs | without | with a no-op plugin | ratio |")
    print("|---|---|---|---|")
    missed = False
    for name, key, unit in (
        ("operator CPU per cluster", "operator_cpu_per_cluster_ms", "ms"),
        ("all ready after", "seconds", "s"),
    ):
        without, with_it = min(run[key] for run in plain), min(run[key] for run in noop)
        missed = missed or with_it / without > RATIO
        print(f"| {name} | {without:.2f} {unit} | {with_it:.2f} {unit} | {with_it / without:.3f} |")
    print(f"\nTarget: {RATIO:g} at most, {'missed' if missed else 'met'}.")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
