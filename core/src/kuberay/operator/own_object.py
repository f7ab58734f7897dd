"""Whom an event about the operator itself is about: its pod, or the Lease where it may not look at pods, or nobody.

An event needs the UID of its object to show in ``kubectl describe``.
"""

from __future__ import annotations

import orjson

from kuberay.api.kinds import LEASE, POD, Kind
from kuberay.kube.client import Client
from kuberay.kube.errors import ApiError
from kuberay.kube.events import Reference
from kuberay.kube.lease import LEASE_NAME
from kuberay.kube.transport import TransportError


async def own_object(client: Client, namespace: str, pod: str, lease_namespace: str) -> Reference | None:
    """None when nothing of it can be read. *pod* is the host name, which is a pod's name unless it uses its node's network."""
    for kind, where, name in ((POD, namespace, pod), (LEASE, lease_namespace, LEASE_NAME)):
        found = await _found(client, kind, where, name) if where else None
        if found is not None:
            return found
    return None


async def _found(client: Client, kind: Kind, namespace: str, name: str) -> Reference | None:
    try:
        uid = orjson.loads(await client.get(kind, namespace, name))["metadata"]["uid"]
    except (ApiError, TransportError):
        return None
    return Reference(kind.api_version, kind.kind, namespace, name, uid)
