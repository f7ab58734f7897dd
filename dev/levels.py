#!/usr/bin/env python3
"""Runs make targets one after another, stops at the first that fails, and ends with a table of what ran and how long.

``dev/levels.py TARGET...``; variables given to make reach the targets through the environment. Standard library only.
"""

from __future__ import annotations

import subprocess
import sys
import time


def main(targets: list[str]) -> int:
    results: list[tuple[str, str, float]] = []
    started = time.monotonic()
    for target in targets:
        print(f"\n=== {target} (at {time.monotonic() - started:.0f} s)", flush=True)
        began = time.monotonic()
        try:
            code = subprocess.run(["make", "--no-print-directory", target], check=False).returncode
        except KeyboardInterrupt:
            code = 130
        results.append((target, "ok" if code == 0 else f"FAILED (exit code {code})", time.monotonic() - began))
        if code:
            break
    left = targets[len(results) :]
    print(f"\n{'level':<16}{'seconds':>8}  result")
    for target, result, seconds in results:
        print(f"{target:<16}{seconds:>8.0f}  {result}")
    for target in left:
        print(f"{target:<16}{'-':>8}  not run")
    print(f"{'total':<16}{time.monotonic() - started:>8.0f}", flush=True)
    return 1 if left or any(result != "ok" for _, result, _ in results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
