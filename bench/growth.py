"""Whether five times the RayClusters cost five times as much: the large runs beside those of `make bench`.

Prints Markdown for docs/performance.md; exit code 1 when a target is missed.
"""

from __future__ import annotations

import sys
from typing import Any

from bench.report import GROWTH, TIME_RATIO, read


def main(paths: list[str]) -> int:
    """*paths*: the figures of the floor and the operator at N, and of both at the larger number."""
    floor, operator, large_floor, large = (read(path) for path in paths)
    print(f"| | N={operator['clusters']} | N={large['clusters']} | growth |")
    print("|---|---|---|---|")
    rows = [
        ("all ready after, per cluster, ms", _per_cluster(operator), _per_cluster(large)),
        ("the same for the floor, ms", _per_cluster(floor), _per_cluster(large_floor)),
        ("time over the floor's", operator["seconds"] / floor["seconds"], large["seconds"] / large_floor["seconds"]),
        (
            "operator CPU per cluster, ms",
            operator["operator_cpu_per_cluster_ms"],
            large["operator_cpu_per_cluster_ms"],
        ),
        ("operator peak RSS, MB", operator["operator_peak_rss"], large["operator_peak_rss"]),
    ]
    for name, one, other in rows:
        print(f"| {name} | {one:.2f} | {other:.2f} | {other / one:.2f} |")
    targets = [
        ("time over the floor's", TIME_RATIO, large["seconds"] / large_floor["seconds"]),
        (
            "growth of CPU per cluster",
            GROWTH,
            large["operator_cpu_per_cluster_ms"] / operator["operator_cpu_per_cluster_ms"],
        ),
        ("requests once settled", 0.0, large["requests_while_settled"]),
        ("pods beyond those wanted", 0.0, abs(large["pods"] - large["pods_wanted"])),
    ]
    print("\n| target | wanted | measured | |\n|---|---|---|---|")
    for name, wanted, measured in targets:
        print(f"| {name} | ≤ {wanted:g} | {measured:.2f} | {'met' if measured <= wanted else '**missed**'} |")
    return 1 if any(measured > wanted for _, wanted, measured in targets) else 0


def _per_cluster(figures: dict[str, Any]) -> float:
    return 1000 * float(figures["seconds"]) / float(figures["clusters"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
