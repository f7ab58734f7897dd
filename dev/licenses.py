"""Which licence each Python package in the operator's image has, and whether it is one that is known to be permissive.

``python -m dev.licenses``; exit code 1 when one is not. Read from what is installed, for the versions of uv.lock.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from image.sbom import licence

ROOT = Path(__file__).resolve().parent.parent

PERMISSIVE = frozenset(
    {
        "0BSD",
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "ISC",
        "MIT",
        "MIT-0",
        "MPL-2.0",  # file by file: its own files stay under it, ours do not come under it
        "PSF-2.0",
        "Python-2.0",
        "Unlicense",
    }
)


def packages() -> list[tuple[str, str, bool]]:
    """Name and version of everything that `image/requirements.sh` lists, and whether a marker keeps it from some platforms."""
    env = {**os.environ, "UV": os.environ.get("UV") or "uv"}
    done = subprocess.run(
        ["sh", ROOT / "image" / "requirements.sh"], capture_output=True, text=True, check=True, cwd=ROOT, env=env
    )
    lines = re.finditer(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)(\s*;)?", done.stdout, re.MULTILINE)
    return [(each[1], each[2], each[3] is not None) for each in lines]


def is_permissive(expression: str) -> bool:
    """Whether every licence that has to be kept is one of `PERMISSIVE`; of alternatives one is enough."""
    return all(
        any(word in PERMISSIVE for word in re.findall(r"[A-Za-z0-9.+-]+", part) if word not in ("OR", "WITH"))
        for part in re.split(r"\sAND\s", expression)
    )


def main() -> int:
    wrong: list[str] = []
    counts: Counter[str] = Counter()
    listed = packages()
    width = max(len(name) for name, _, _ in listed)
    for name, version, elsewhere in listed:
        try:
            told = licence(distribution(name))
        except PackageNotFoundError:
            if elsewhere:
                continue  # not on Linux, so not in the image
            told = "not installed here, so nothing is known of it: make sync"
        good = is_permissive(told)
        wrong += [] if good else [name]
        counts[told] += 1
        print(f"{name:<{width}} {version:<16} {told}{'' if good else '   <-- look at it'}")
    print("\n" + ", ".join(f"{number} {told}" for told, number in counts.most_common()))
    if wrong:
        print(f"not known to be permissive: {', '.join(wrong)}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
