"""``kuberay why``: why an object is not ready, from what the API server shows. Reads only, and needs no operator."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from kuberay.cli.why_ask import Explain
    from kuberay.cli.why_report import Report


def why(
    target: Annotated[
        str, typer.Argument(metavar="KIND/NAME", help="For example raycluster/demo, rayjob/demo or rayservice/demo.")
    ],
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="[default: the kubeconfig's]")] = "",
    context: Annotated[str, typer.Option(help="Context of the kubeconfig. [default: the current one]")] = "",
    kubeconfig: Annotated[str, typer.Option(help="Kubeconfig file. [default: $KUBECONFIG, else ~/.kube/config]")] = "",
    output: Annotated[str, typer.Option("--output", "-o", help="text or json.")] = "text",
) -> None:
    """Tell in plain words what an object waits for, since when, and what to do about it.

    Exit code 0: here is the answer, whatever it is; 1: the object is not there or cannot be read; 2: wrong command line.
    """
    from kuberay.cli.why_ask import EXPLAINERS, KINDS
    from kuberay.cli.why_reading import CannotTellError
    from kuberay.cli.why_report import as_json, print_report

    if output not in ("text", "json"):
        raise _wrong(f"--output must be text or json, not {output!r}.")
    kind, _, name = target.partition("/")
    explain = EXPLAINERS.get(kind.lower())
    if explain is None or not name:
        known = " or ".join(f"{kind}/NAME" for kind in KINDS)
        raise _wrong(f"{target!r} is nothing that can be explained; write {known}.")
    now = datetime.now(UTC)
    try:
        report = asyncio.run(_ask(explain, name, namespace, kubeconfig, context, now))
    except CannotTellError as error:
        typer.echo(f"kuberay: {error}", err=True)
        raise typer.Exit(1) from error
    if output == "json":
        typer.echo(as_json(report))
        return
    from rich.console import Console

    print_report(report, Console(highlight=False), now)


async def _ask(explain: Explain, name: str, namespace: str, kubeconfig: str, context: str, now: datetime) -> Report:
    from kuberay.cli.why_reading import CannotTellError
    from kuberay.kube.connection import NoConnectionError
    from kuberay.kube.errors import ApiError
    from kuberay.kube.transport import TransportError

    try:
        async with reach(kubeconfig, context) as (client, default_namespace):
            return await explain(client, namespace or default_namespace or "default", name, now)
    except (NoConnectionError, ApiError, TransportError) as error:
        raise CannotTellError(str(error).rstrip(".") + ".") from error


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


def _wrong(sentence: str) -> typer.Exit:
    typer.echo(f"kuberay: {sentence}", err=True)
    return typer.Exit(2)
