"""Which licence each package in the operator's image has, and whether it is one that is known to be permissive.

``python -m dev.licenses``; exit code 1 when a licence is unknown. Read from what is installed, for the versions of uv.lock.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

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

SPELLINGS = {
    "3-clause bsd license": "BSD-3-Clause",
    "apache": "Apache-2.0",
    "apache 2": "Apache-2.0",
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license version 2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "apache-2": "Apache-2.0",
    "bsd": "BSD-3-Clause",
    "bsd 2-clause license": "BSD-2-Clause",
    "bsd 3-clause": "BSD-3-Clause",
    "bsd license": "BSD-3-Clause",
    "isc license": "ISC",
    "isc license (iscl)": "ISC",
    "mit license": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "psf": "PSF-2.0",
    "psfl": "PSF-2.0",
    "python software foundation license": "PSF-2.0",
}
"""As packages write them that have no SPDX expression."""


def packages() -> list[tuple[str, str]]:
    """Name and version of everything that `image/requirements.sh` lists."""
    env = {**os.environ, "UV": os.environ.get("UV") or "uv"}
    done = subprocess.run(
        ["sh", ROOT / "image" / "requirements.sh"], capture_output=True, text=True, check=True, cwd=ROOT, env=env
    )
    return [(m[1], m[2]) for m in re.finditer(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", done.stdout, re.MULTILINE)]


def licence(found: Distribution) -> str:
    """The SPDX expression, or what comes nearest to one."""
    metadata = found.metadata
    expression = metadata.get("License-Expression") or ""
    if expression:
        return expression
    told = [c.rpartition(" :: ")[2] for c in metadata.get_all("Classifier") or () if c.startswith("License ::")]
    short = (metadata.get("License") or "").strip()
    candidates = [*told, *([short] if short and "\n" not in short and len(short) < 60 else [])]
    known = [SPELLINGS.get(text.lower(), text) for text in candidates if text != "OSI Approved"]
    return " AND ".join(dict.fromkeys(known)) or "unknown"


def is_permissive(expression: str) -> bool:
    """Whether every licence that has to be kept is one of `PERMISSIVE`; of alternatives one is enough."""
    return all(
        any(word in PERMISSIVE for word in re.findall(r"[A-Za-z0-9.+-]+", part) if word not in ("OR", "WITH"))
        for part in re.split(r"\sAND\s", expression)
    )


def main() -> int:
    wrong = 0
    for name, version in packages():
        try:
            told = licence(distribution(name))
        except PackageNotFoundError:
            told = "not installed here (another platform's)"
            print(f"{name:<28} {version:<14} {told}")
            continue
        good = is_permissive(told)
        wrong += not good
        print(f"{name:<28} {version:<14} {told}{'' if good else '   <-- look at it'}")
    if wrong:
        print(f"{wrong} licences are not known to be permissive", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
