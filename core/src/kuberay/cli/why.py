"""``kuberay why``: why an object is not ready, from what the API server shows. Reads only, and needs no operator."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from kuberay.cli.why_report import Report, as_json, print_report

_MOST_POD_EVENTS = 5
"""Pods in trouble whose events are read."""


def why(
    target: Annotated[str, typer.Argument(metavar="KIND/NAME", help="For example raycluster/demo.")],
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="[default: the kubeconfig's]")] = "",
    context: Annotated[str, typer.Option(help="Context of the kubeconfig. [default: the current one]")] = "",
    kubeconfig: Annotated[str, typer.Option(help="Kubeconfig file. [default: $KUBECONFIG, else ~/.kube/config]")] = "",
    output: Annotated[str, typer.Option("--output", "-o", help="text or json.")] = "text",
) -> None:
    """Tell in plain words what an object waits for, since when, and what to do about it.

    Exit code 0: here is the answer, whatever it is; 1: the object is not there or cannot be read; 2: wrong command line.
    """
    if output not in ("text", "json"):
        raise _wrong(f"--output must be text or json, not {output!r}.")
    kind, _, name = target.partition("/")
    explain = EXPLAINERS.get(kind.lower())
    if explain is None or not name:
        known = ", ".join(f"{kind}/NAME" for kind in ("raycluster",))
        raise _wrong(f"{target!r} is nothing that can be explained; write {known}.")
    now = datetime.now(UTC)
    try:
        report = asyncio.run(_ask(explain, name, namespace, kubeconfig, context, now))
    except _CannotTellError as error:
        typer.echo(f"kuberay: {error}", err=True)
        raise typer.Exit(1) from error
    if output == "json":
        typer.echo(as_json(report))
        return
    from rich.console import Console

    print_report(report, Console(highlight=False), now)


class _CannotTellError(Exception):
    """The text is one sentence for the user."""


async def _ask(explain: Explain, name: str, namespace: str, kubeconfig: str, context: str, now: datetime) -> Report:
    from kuberay.kube.connection import NoConnectionError
    from kuberay.kube.errors import ApiError
    from kuberay.kube.transport import TransportError

    try:
        async with reach(kubeconfig, context) as (client, default_namespace):
            return await explain(client, namespace or default_namespace or "default", name, now)
    except (NoConnectionError, ApiError, TransportError) as error:
        raise _CannotTellError(str(error).rstrip(".") + ".") from error


@asynccontextmanager
async def reach(kubeconfig: str, context: str) -> AsyncIterator[tuple[Any, str]]:
    """A client for the API server, and the namespace that the kubeconfig names."""
    from kuberay.kube.client import Client
    from kuberay.kube.connection import connect
    from kuberay.kube.http import HttpTransport

    connection = await connect(kubeconfig, context)
    transport = HttpTransport(connection, user_agent="kuberay-why")
    try:
        yield Client(transport), connection.namespace
    finally:
        await transport.close()


async def _explain_raycluster(client: Any, namespace: str, name: str, now: datetime) -> Report:
    import orjson

    from kuberay.api.kinds import POD, RAYCLUSTER, SERVICE
    from kuberay.api.names import LABEL_CLUSTER
    from kuberay.api.objects import Pod, RayObject, from_dict
    from kuberay.cli.why_cluster import Seen, explain_cluster
    from kuberay.kube.errors import ForbiddenError, NotFoundError
    from kuberay.plan.cluster.pod_health import is_ready

    try:
        body = orjson.loads(await client.get(RAYCLUSTER, namespace, name))
    except NotFoundError as error:
        if error.reason == "NotFound" and name in error.message:
            raise _CannotTellError(f"There is no RayCluster {name} in namespace {namespace}.") from error
        raise _CannotTellError(
            "This cluster does not know the kind RayCluster; install it: kuberay crds | kubectl apply --server-side -f -"
        ) from error
    except ForbiddenError as error:
        raise _CannotTellError(f"RayCluster {namespace}/{name} cannot be read: {error}.") from error
    obj = from_dict(RAYCLUSTER, body)
    assert isinstance(obj, RayObject)
    seen = Seen(obj, body)

    def owned(found: list[Any]) -> list[Any]:
        return [
            child
            for child in found
            if child.metadata.controller is not None and child.metadata.controller.uid == obj.uid
        ]

    label = f"{LABEL_CLUSTER}={name}"
    pods = await _list(client, POD, namespace, seen.notes, label_selector=label)
    seen.pods = None if pods is None else [pod for pod in owned(pods) if isinstance(pod, Pod)]
    services = await _list(client, SERVICE, namespace, seen.notes, label_selector=label)
    seen.services = None if services is None else owned(services)
    unready = [pod.name for pod in seen.pods or () if not is_ready(pod)]
    seen.events = await _events(client, namespace, seen.notes, ("RayCluster", name), *(("Pod", pod) for pod in unready))
    return explain_cluster(seen, now)


async def _list(client: Any, kind: Any, namespace: str, notes: list[str], **selectors: str) -> list[Any] | None:
    """Objects of *kind*; None, and a note, when they may not be read."""
    from kuberay.api.objects import decode
    from kuberay.kube.errors import ForbiddenError

    found: list[Any] = []
    try:
        async for page in client.list_pages(kind, namespace, **selectors):
            found += [decode(kind, raw) for raw in page.items]
    except ForbiddenError as error:
        notes.append(f"{kind.plural} cannot be read, so nothing is said about them: {error}")
        return None
    return found


async def _events(
    client: Any, namespace: str, notes: list[str], *about: tuple[str, str]
) -> list[dict[str, Any]] | None:
    """Events about the first few of *about*."""
    from kuberay.api.kinds import EVENT

    events: list[dict[str, Any]] = []
    for kind, name in about[: _MOST_POD_EVENTS + 1]:
        selector = f"regarding.kind={kind},regarding.name={name}"
        found = await _list(client, EVENT, namespace, notes, field_selector=selector)
        if found is None:
            return None
        events += [event.body() for event in found]
    return events


Explain = Callable[[Any, str, str, datetime], Awaitable[Report]]

EXPLAINERS: dict[str, Explain] = dict.fromkeys(
    ("raycluster", "rayclusters", "raycluster.ray.io", "rayclusters.ray.io"), _explain_raycluster
)
"""By the words a user may write for a kind."""


def _wrong(sentence: str) -> typer.Exit:
    typer.echo(f"kuberay: {sentence}", err=True)
    return typer.Exit(2)
