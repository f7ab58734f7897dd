"""Which parts of ``securityContext`` a pod gets for the Pod Security Standard "restricted", where its author said nothing.

Source: Kubernetes' Pod Security Standards. What is given is never changed: a pod that breaks the standard by its author's word still does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

RUNTIME_DEFAULT = {"type": "RuntimeDefault"}
_ALLOWED = frozenset({"NET_BIND_SERVICE"})
"""Capabilities that the standard lets a container add."""


def add_restricted_defaults(pod_spec: dict[str, Any]) -> None:
    """Fill what "restricted" asks for into *pod_spec* (a Pod's ``spec``, changed in place), init and ephemeral containers too.

    For the pod ``seccompProfile`` and ``runAsNonRoot``, for each container ``allowPrivilegeEscalation: false`` and
    ``capabilities.drop: [ALL]``. Containers that by their author's word are privileged, add capabilities or run as root keep
    what they need to run. Pods of Windows are left alone: these fields are refused there.
    """
    if (pod_spec.get("os") or {}).get("name") == "windows":
        return
    pod = _context(pod_spec)
    containers = list(_containers(pod_spec))
    pod.setdefault("seccompProfile", dict(RUNTIME_DEFAULT))
    for container in containers:
        context = _context(container)
        if not _beyond(context):
            context.setdefault("allowPrivilegeEscalation", False)
            context["capabilities"] = {"drop": ["ALL"], **_given(context.get("capabilities"))}
    if pod.get("runAsNonRoot") is not None:
        return
    roots = [container for container in containers if _is_root(pod, container["securityContext"])]
    if not roots:
        pod["runAsNonRoot"] = True
        return
    for container in containers:
        if container not in roots:
            container["securityContext"].setdefault("runAsNonRoot", True)


def _beyond(context: dict[str, Any]) -> bool:
    """Whether the author wants more than the standard ever lets in."""
    return bool(context.get("privileged")) or not _ALLOWED.issuperset(
        (context.get("capabilities") or {}).get("add") or ()
    )


def _is_root(pod: dict[str, Any], context: dict[str, Any]) -> bool:
    """Whether the author wants user 0, or seems to; a container's word goes before its pod's."""
    if context.get("runAsNonRoot") is not None:
        return not context["runAsNonRoot"]
    return _beyond(context) or context.get("runAsUser", pod.get("runAsUser")) == 0


def _containers(pod_spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for key in ("initContainers", "containers", "ephemeralContainers"):
        yield from pod_spec.get(key) or ()


def _context(owner: dict[str, Any]) -> dict[str, Any]:
    """The ``securityContext`` of a pod or container, there from now on."""
    context = owner["securityContext"] = _given(owner.get("securityContext"))
    return context


def _given(fields: Any) -> dict[str, Any]:
    """Without those that are null, which means absent."""
    return {key: value for key, value in (fields or {}).items() if value is not None}
