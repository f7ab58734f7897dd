"""What a request is about: the resource, object or subresource its path names, and the verb its method means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from kuberay.kube.transport import APPLY_PATCH

_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


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


@dataclass(frozen=True, slots=True)
class Subject:
    """What a request is about, as records, fault plans and access rules see it. ``verb`` is ``apply`` for server-side apply."""

    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    client: str


def subject_of(method: str, path: str, params: Mapping[str, str], content_type: str, client: str) -> Subject:
    """Paths outside the resource API are a ``get`` of themselves."""
    target = parse(path)
    if target is None:
        return Subject("get", "", path, "", "", "", client)
    verb = _VERBS.get(method, method.lower())
    if verb == "get" and not target.name:
        verb = "watch" if params.get("watch", "").lower() in ("1", "true") else "list"
    elif verb == "delete" and not target.name:
        verb = "deletecollection"
    elif verb == "patch" and content_type.startswith(APPLY_PATCH):
        verb = "apply"
    return Subject(verb, target.group, target.plural, target.subresource, target.namespace, target.name, client)
