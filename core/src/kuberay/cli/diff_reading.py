"""How ``kuberay diff`` reads from the API server what an edit starts from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson
import typer

from kuberay.api.kinds import JOB, POD, RAYCLUSTER, RAYCRONJOB, RAYJOB, SERVICE, Kind
from kuberay.api.names import HEAD, LABEL_CLUSTER, LABEL_CRONJOB_NAME, LABEL_NODE_TYPE
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
    """Of a RayJob its RayCluster, head, services and submitter; of a RayCronJob its RayJobs."""


async def look_up(
    wanted: Sequence[Manifest], namespace: str, kubeconfig: str
) -> tuple[str, dict[tuple[str, str, str], Live]]:
    """The namespace for those that name none, and what there is by kind, namespace and name."""
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


async def _get(client: Client, kind: Kind, namespace: str, name: str) -> list[Manifest]:
    """The object, or nothing."""
    from kuberay.kube.errors import NotFoundError

    try:
        return [orjson.loads(await client.get(kind, namespace, name))]
    except NotFoundError:
        return []


async def _list(client: Client, kind: Kind, namespace: str, selector: str) -> list[Manifest]:
    """The objects; none when they may not be read."""
    from kuberay.kube.errors import ApiError

    found: list[Manifest] = []
    try:
        async for page in client.list_pages(kind, namespace, label_selector=selector):
            found += [orjson.loads(bytes(raw)) for raw in page.items]
    except ApiError as error:
        typer.echo(f"kuberay: {kind.plural} of {namespace} may not be read ({error}); they are left out.", err=True)
    return found
