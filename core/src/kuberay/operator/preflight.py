"""Whether the operator can work on this cluster at all: reachable, CRDs there, permissions given.

Each failure is one sentence that says what is wrong and what to do; the process then ends with exit code 1.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from kuberay.api.gates import SIDECAR_SUBMITTER_RESTART
from kuberay.api.kinds import Kind
from kuberay.api.versions import Version, try_parse_version
from kuberay.kube.client import Client
from kuberay.kube.errors import ApiError, ForbiddenError, NotFoundError, raise_for_status
from kuberay.kube.transport import TransportError


class StartError(Exception):
    """Start-up cannot go on; the text is for the user."""


async def check_cluster(
    client: Client, server: str, ray_kinds: Sequence[Kind], children: Sequence[Kind], namespaces: Sequence[str]
) -> None:
    """Raise `StartError` at the first thing that is missing. Of *children* only the permission is checked."""
    try:
        await _call(client, "/version")
    except TransportError as error:
        raise StartError(
            f"The API server at {server} cannot be reached ({error}); check the kubeconfig and the network."
        ) from error
    except ForbiddenError as error:
        raise StartError(f"The API server at {server} refuses the operator's credentials: {error}.") from error
    for kind in ray_kinds:
        await _check_served(client, kind)
    for kind in (*ray_kinds, *children):
        for namespace in namespaces or [""]:
            await _check_list(client, kind, namespace)


RESTARTS_CONTAINERS = Version(1, 35)
"""The first Kubernetes in which one container of a pod may have another restart policy than the pod."""


async def check_gates(client: Client, gates: Mapping[str, bool]) -> None:
    """Raise `StartError` when a feature gate is on that needs a later Kubernetes (spec rayjob.md 0)."""
    if not gates.get(SIDECAR_SUBMITTER_RESTART):
        return
    told = str((await _discover(client, "/version")).get("gitVersion", ""))
    version = try_parse_version(told)
    if version is None or version < RESTARTS_CONTAINERS:
        raise StartError(
            f"The feature gate {SIDECAR_SUBMITTER_RESTART} needs Kubernetes {RESTARTS_CONTAINERS} or later, and the API "
            f"server says {told or 'no version'}: turn the gate off or upgrade the cluster."
        )


OPENSHIFT_GROUPS = frozenset({"route.openshift.io", "security.openshift.io", "config.openshift.io"})


async def is_openshift(client: Client) -> bool:
    """Whether the cluster serves any API group of OpenShift (spec raycluster.md 6.3)."""
    groups = (await _discover(client, "/apis")).get("groups") or ()
    return any(group.get("name") in OPENSHIFT_GROUPS for group in groups)


async def offers_resize(client: Client) -> bool:
    """Whether CPU and memory of running pods can be changed (the subresource ``pods/resize``, Kubernetes 1.33)."""
    resources = (await _discover(client, "/api/v1")).get("resources") or ()
    return any(resource.get("name") == "pods/resize" for resource in resources)


SERVED_WITHIN = 5.0
"""Seconds a CRD may take to be served after it was installed: an operator started in the same breath waits for it."""


async def _check_served(client: Client, kind: Kind) -> None:
    deadline = asyncio.get_running_loop().time() + SERVED_WITHIN
    while not await _is_served(client, kind):
        if asyncio.get_running_loop().time() >= deadline:
            raise StartError(f"The CRD {kind} is not installed; run: kuberay crds | kubectl apply --server-side -f -")
        await asyncio.sleep(0.25)


async def _is_served(client: Client, kind: Kind) -> bool:
    try:
        served = orjson.loads(await _call(client, f"/apis/{kind.group}/{kind.version}"))
    except NotFoundError:
        return False
    return kind.plural in {resource["name"] for resource in served.get("resources", ())}


async def _check_list(client: Client, kind: Kind, namespace: str) -> None:
    where = f"in namespace {namespace}" if namespace else "in all namespaces"
    try:
        async for _ in client.list_pages(kind, namespace or None, chunk=1):
            break
    except NotFoundError:
        return  # a plugin's kind may be installed later; the Ray kinds were checked
    except ForbiddenError as error:
        raise StartError(
            f"The operator may not list {kind} {where}; grant it with: kuberay rbac | kubectl apply -f - "
            f"(the API server says: {error})"
        ) from error


async def _discover(client: Client, path: str) -> dict[str, Any]:
    """What the API server says about what it serves."""
    try:
        told: dict[str, Any] = orjson.loads(await _call(client, path))
    except (ApiError, TransportError) as error:
        raise StartError(
            f"The API server does not tell what it serves ({path}: {error}); everybody may ask that unless the "
            f"ClusterRoleBinding system:discovery was changed."
        ) from error
    return told


async def _call(client: Client, path: str) -> bytes:
    response = await client.transport.request("GET", path)
    raise_for_status(response)
    return response.body
