"""What a request path names: a resource, an object, one of its subresources, or something that is not served."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote


@dataclass(frozen=True, slots=True)
class Target:
    """A parsed resource path. Empty strings mean: not in the path."""

    group: str
    version: str
    plural: str
    namespace: str
    name: str
    subresource: str


def parse(path: str) -> Target | None:
    """None when *path* is not below ``/api/v1/<plural>`` or ``/apis/<group>/<version>/<plural>``."""
    parts = [unquote(part) for part in path.split("?", 1)[0].strip("/").split("/")]
    if len(parts) >= 3 and parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    # /namespaces/x is the Namespace object itself; /namespaces/x/<plural> is inside it.
    if rest[0] == "namespaces" and len(rest) > 2 and not (len(rest) == 3 and rest[2] in ("status", "finalize")):
        namespace, rest = rest[1], rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    subresource = "/".join(rest[2:])
    return Target(group, version, rest[0], namespace, name, subresource)
