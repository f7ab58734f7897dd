"""Completes the list of parts (SBOM) that uv writes: what it is about, the licence of each part, and nothing that is not installed here.

`sh image/requirements.sh` with FORMAT=cyclonedx1.5 on standard input, CycloneDX 1.5 on standard output. Run it with the Python whose packages are meant. Needs the standard library alone.
"""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import Any

OURS = "kuberay-"
"""How the names of this project's own packages begin."""
CORE = "kuberay-core"
PRODUCT = "kuberay-operator"
"""What the list is about; its version is the core's."""

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
UNKNOWN = "unknown"


def licence(found: Distribution) -> str:
    """The SPDX expression, or what comes nearest to one; `UNKNOWN` where the package says nothing."""
    metadata = found.metadata

    def first(field: str) -> str:
        return str((metadata.get_all(field) or ("",))[0]).strip()

    if first("License-Expression"):
        return first("License-Expression")
    told = [c.rpartition(" :: ")[2] for c in metadata.get_all("Classifier") or () if c.startswith("License ::")]
    short = first("License")
    candidates = [*told, *([short] if short and "\n" not in short and len(short) < 60 else [])]
    known = [SPELLINGS.get(text.lower(), text) for text in candidates if text != "OSI Approved"]
    return " AND ".join(dict.fromkeys(known)) or UNKNOWN


def as_licences(told: str) -> list[dict[str, Any]]:
    """The field ``licenses``: an expression where *told* is one, a name where a package has words of its own, nothing where it is unknown."""
    if told == UNKNOWN:
        return []
    if re.fullmatch(r"\(*[A-Za-z0-9.+-]+\)*(?:\s(?:AND|OR|WITH)\s\(*[A-Za-z0-9.+-]+\)*)*", told):
        return [{"expression": told}]
    return [{"license": {"name": told}}]


def complete(listed: dict[str, Any]) -> dict[str, Any]:
    """*listed*, which uv wrote of the workspace, as the list of what is installed. Raises `SystemExit` where another version is than the one in the lock file."""
    parts: dict[str, dict[str, Any]] = {}
    for part in listed["components"]:
        name, version = part["name"], part["version"]
        try:
            found = distribution(name)
        except PackageNotFoundError:
            if any(each["name"] == "uv:package:marker" for each in part.get("properties", ())):
                continue  # another platform's
            raise SystemExit(f"{name} {version} is in uv.lock and not installed here") from None
        if found.version != version:
            raise SystemExit(f"{name} {version} is in uv.lock, and {found.version} is installed here")
        licences = as_licences(licence(found))
        if licences:
            part["licenses"] = licences
        if name.startswith(OURS):
            part["purl"] = f"pkg:pypi/{name}@{version}"
            part.pop("properties", None)
        parts[part["bom-ref"]] = part
    ours = sorted(ref for ref, part in parts.items() if part["name"].startswith(OURS))
    version = next(part["version"] for part in parts.values() if part["name"] == CORE)
    root = {"type": "application", "bom-ref": PRODUCT, "name": PRODUCT, "version": version}
    edges = [
        edge | {"dependsOn": [ref for ref in edge.get("dependsOn", ()) if ref in parts]}
        for edge in listed["dependencies"]
        if edge["ref"] in parts
    ]
    return listed | {
        "metadata": listed["metadata"] | {"component": root},
        "components": list(parts.values()),
        "dependencies": [{"ref": PRODUCT, "dependsOn": ours}, *edges],
    }


if __name__ == "__main__":
    json.dump(complete(json.load(sys.stdin)), sys.stdout, indent=2)
    sys.stdout.write("\n")
