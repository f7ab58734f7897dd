"""How ``kuberay diff`` reads from the API server what an edit starts from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson
import typer

from kuberay.api.kinds import ENDPOINT_SLICE, JOB, POD, RAYCLUSTER, RAYCRONJOB, RAYJOB, RAYSERVICE, SERVICE, Kind
from kuberay.api.names import (
    HEAD,
    LABEL_CLUSTER,
    LABEL_CRONJOB_NAME,
    LABEL_NODE_TYPE,
    LABEL_ORIGIN_CRD,
    LABEL_ORIGIN_NAME,
)
from kuberay.cli.manifests import KINDS, place_of

if TYPE_CHECKING:
    from kuberay.kube.client import Client

Manifest = dict[str, Any]


@dataclass(slots=True)
class Live:
    """What an edit starts from: the object, and what is around it where that is known."""

    manifest: Manifest
    pods: Sequence[Manifest] = ()
    """Of a RayCluster."""
    others: list[tuple[Kind, Manifest]] = field(default_factory=list)
    """Of a RayJob its RayCluster, head, services and submitter; of a RayService its RayClusters, their pods and services,
    endpoints and gateways; of a RayCronJob its RayJobs."""


async def look_up(
    wanted: Sequence[Manifest], namespace: str, kubeconfig: str, watched: Sequence[Kind] = ()
) -> tuple[str, dict[tuple[str, str, str], Live]]:
    """The namespace for those that name none, and what there is by kind, namespace and name. Plugins look at *watched*."""
    from kuberay.kube.client import Client
    from kuberay.kube.connection import connect
    from kuberay.kube.errors import NotFoundError
    from kuberay.kube.http import HttpTransport

    connection = await connect(kubeconfig)
    place = namespace or connection.namespace or "default"
    transport = HttpTransport(connection, user_agent="kuberay-diff")
    client = Client(transport)
    found: dict[tuple[str, str, str], Live] = {}
    try:
        for document in wanted:
            kind, where = KINDS[document["kind"]], place_of(document, place)
            try:
                manifest = orjson.loads(await client.get(kind, *where))
            except NotFoundError:
                continue
            live = Live(manifest)
            if kind == RAYCLUSTER:
                live.pods = await _list(client, POD, where[0], f"{LABEL_CLUSTER}={where[1]}")
            elif kind == RAYJOB:
                live.others = await _around_job(client, where[0], manifest)
            elif kind == RAYSERVICE:
                live.others = await _around_service(client, where[0], manifest, watched)
            elif kind == RAYCRONJOB:
                jobs = await _list(client, RAYJOB, where[0], f"{LABEL_CRONJOB_NAME}={where[1]}")
                live.others = [(RAYJOB, job) for job in jobs]
            found[kind.kind, *where] = live
    finally:
        await transport.close()
    return place, found


async def _around_job(client: Client, namespace: str, job: Manifest) -> list[tuple[Kind, Manifest]]:
    """The RayCluster, its head and services, and the submitter Job."""
    cluster = (job.get("status") or {}).get("rayClusterName")
    found: list[tuple[Kind, Manifest]] = []
    if cluster:
        found += [(RAYCLUSTER, body) for body in await _get(client, RAYCLUSTER, namespace, str(cluster))]
        label = f"{LABEL_CLUSTER}={cluster},{LABEL_NODE_TYPE}={HEAD}"
        found += [(POD, body) for body in await _list(client, POD, namespace, label)]
        found += [(SERVICE, body) for body in await _list(client, SERVICE, namespace, f"{LABEL_CLUSTER}={cluster}")]
    return found + [(JOB, body) for body in await _get(client, JOB, namespace, job["metadata"]["name"])]


async def _around_service(
    client: Client, namespace: str, service: Manifest, watched: Sequence[Kind]
) -> list[tuple[Kind, Manifest]]:
    """The RayClusters with their pods and services, what leads requests to them, and who is ready behind that."""
    metadata = service["metadata"]
    mine = f"{LABEL_ORIGIN_CRD}={RAYSERVICE.kind},{LABEL_ORIGIN_NAME}={metadata['name']}"
    clusters = await _list(client, RAYCLUSTER, namespace, mine)
    found: list[tuple[Kind, Manifest]] = [(RAYCLUSTER, body) for body in clusters]
    services = {body["metadata"]["name"]: body for body in await _list(client, SERVICE, namespace, mine)}
    for cluster in clusters:
        label = f"{LABEL_CLUSTER}={cluster['metadata']['name']}"
        found += [(POD, body) for body in await _list(client, POD, namespace, label)]
        services |= {body["metadata"]["name"]: body for body in await _list(client, SERVICE, namespace, label)}
        own = f"{LABEL_ORIGIN_CRD}={RAYSERVICE.kind},{LABEL_ORIGIN_NAME}={cluster['metadata']['name']}"
        services |= {body["metadata"]["name"]: body for body in await _list(client, SERVICE, namespace, own)}
    found += [(SERVICE, body) for body in services.values()]
    endpoints = await _list(client, ENDPOINT_SLICE, namespace, f"{LABEL_ORIGIN_CRD}={RAYSERVICE.kind}")
    found += [(ENDPOINT_SLICE, body) for body in endpoints if _owner(body) in services]
    for kind in watched:
        if kind in (RAYCLUSTER, SERVICE, POD, ENDPOINT_SLICE):
            continue
        owned = [body for body in await _list(client, kind, namespace, "") if _owner(body) == metadata["name"]]
        found += [(kind, body) for body in owned]
    return found


def _owner(body: Manifest) -> str:
    """Name of the controller."""
    owners = (body.get("metadata") or {}).get("ownerReferences") or ()
    return next((str(each.get("name")) for each in owners if each.get("controller")), "")


async def _get(client: Client, kind: Kind, namespace: str, name: str) -> list[Manifest]:
    """The object, or nothing."""
    from kuberay.kube.errors import NotFoundError

    try:
        return [orjson.loads(await client.get(kind, namespace, name))]
    except NotFoundError:
        return []


async def _list(client: Client, kind: Kind, namespace: str, selector: str) -> list[Manifest]:
    """The objects; none when they may not be read, or the cluster does not know the kind."""
    from kuberay.kube.errors import ApiError, NotFoundError

    found: list[Manifest] = []
    try:
        async for page in client.list_pages(kind, namespace, label_selector=selector):
            found += [orjson.loads(bytes(raw)) for raw in page.items]
    except NotFoundError:
        return []
    except ApiError as error:
        typer.echo(f"kuberay: {kind.plural} of {namespace} may not be read ({error}); they are left out.", err=True)
    return found
