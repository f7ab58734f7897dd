"""``kuberay diff``: what an edit of a RayCluster would restart, and which fields cause it, before it is applied."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer
import yaml

if TYPE_CHECKING:
    from kuberay.kube.client import Client
    from kuberay.plan.edit.model import EditEffects

Manifest = dict[str, Any]

_OTHER_RAY_KINDS = ("RayJob", "RayService", "RayCronJob")


def diff(
    file: Annotated[str, typer.Option("--file", "-f", help="Manifest as it shall be; - for stdin.")],
    against: Annotated[
        str, typer.Option(help="Manifest as it is, instead of asking the API server; needs no cluster.")
    ] = "",
    output: Annotated[str, typer.Option("--output", "-o", help="table or json.")] = "table",
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Where the manifest names none. [default: the kubeconfig's]")
    ] = "",
    kubeconfig: Annotated[str, typer.Option(help="Kubeconfig file. [default: $KUBECONFIG, else ~/.kube/config]")] = "",
    config: Annotated[str, typer.Option(help="Configuration file of the operator.")] = "",
    feature_gates: Annotated[str, typer.Option(help="As for 'kuberay run'.")] = "",
) -> None:
    """Tell what applying FILE would restart: nothing, single worker groups, or the whole cluster.

    Exit code 0: it can be applied, whatever it restarts (unlike 'kubectl diff', where 1 means a difference).
    1: it would be refused, or cannot be looked at. 2: the command line is wrong.
    """
    from kuberay.api.cluster import RayClusterSpec
    from kuberay.api.crd import load_kubernetes_schemas, object_schema
    from kuberay.cli.diff_report import as_dict, page
    from kuberay.kube.connection import NoConnectionError
    from kuberay.kube.errors import ApiError
    from kuberay.kube.transport import TransportError
    from kuberay.operator.settings import SettingsError, load_settings, read_environment
    from kuberay.operator.start import assemble_plugins
    from kuberay.plugins.gates import GateError
    from kuberay.plugins.loader import PluginError

    if output not in ("table", "json"):
        typer.echo(f"kuberay: --output must be table or json, not {output!r}.", err=True)
        raise typer.Exit(2)
    try:
        settings = load_settings(config, {"feature_gates": feature_gates} if feature_gates else {})
        _, gates = assemble_plugins(settings)
        random_pod_delete = read_environment().plan_config(settings, "").random_pod_delete
        wanted = _clusters(file, told=True)
        if against:
            place = namespace or "default"
            live = {_place(document, place): Live(document) for document in _clusters(against)}
        else:
            place, live = asyncio.run(_look_up(wanted, namespace, kubeconfig))
    except (SettingsError, PluginError, GateError, NoConnectionError) as error:
        raise _refuse(str(error)) from error
    except ApiError as error:
        raise _refuse(f"The API server refuses to tell what is there: {error}") from error
    except (TransportError, OSError, TimeoutError) as error:
        raise _refuse(f"Cannot reach the API server: {error}") from error
    schema = object_schema(RayClusterSpec, load_kubernetes_schemas())
    rules = _Rules(schema=schema, gates=gates, merges=not against, random_pod_delete=random_pod_delete)
    results = []
    for document in wanted:
        key = _place(document, place)
        document["metadata"]["namespace"] = key[0]
        results.append((key, _effects(live.get(key), document, rules)))
    if output == "json":
        body = [as_dict(*key, effects) for key, effects in results]
        typer.echo(orjson.dumps(body, option=orjson.OPT_INDENT_2, default=str).decode())
    else:
        typer.echo("\n\n".join(page(*key, effects) for key, effects in results))
    if any(effects.problems for _, effects in results):
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True)
class Live:
    """What an edit starts from: the object, and its pods where they are known."""

    manifest: Manifest
    pods: Sequence[Manifest] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rules:
    """What an edit is judged by."""

    schema: Manifest
    gates: Mapping[str, bool]
    merges: bool
    """Whether the file is applied to what is there, rather than taking its place."""
    random_pod_delete: bool


def _effects(live: Live | None, wanted: Manifest, rules: _Rules) -> EditEffects:
    from kuberay.api.structural import defaulted
    from kuberay.cli.applied import applied, without_bookkeeping
    from kuberay.plan.edit import creation_effects, edit_effects
    from kuberay.plan.edit.outdated import older_pods
    from kuberay.plan.edit.problems import edit_problems

    schema, gates = rules.schema, rules.gates
    after = {**wanted, "spec": defaulted(wanted.get("spec") or {}, schema)}
    if live is None:
        return creation_effects(after, edit_problems(None, wanted, after, schema, gates))
    metadata = live.manifest.get("metadata") or {}
    metadata = {**metadata, "annotations": without_bookkeeping(metadata.get("annotations") or {})}
    before = {**live.manifest, "metadata": metadata, "spec": defaulted(live.manifest.get("spec") or {}, schema)}
    if rules.merges:
        after = applied({**before, "metadata": live.manifest.get("metadata") or {}}, after)
    problems = edit_problems(before, wanted, after, schema, gates)
    # Pods tell of the object as it is stored, which need not have all the defaults filled in (slim CRDs).
    older = older_pods(live.manifest, live.pods) if live.pods else None
    return edit_effects(before, after, problems=problems, older=older, random_pod_delete=rules.random_pod_delete)


def _place(document: Manifest, namespace: str) -> tuple[str, str]:
    """Namespace and name."""
    metadata = document["metadata"]
    return str(metadata.get("namespace") or namespace), str(metadata["name"])


def _clusters(file: str, *, told: bool = False) -> list[Manifest]:
    """The RayClusters of a file; with *told*, a word on standard error about other Ray kinds."""
    name = "standard input" if file == "-" else file
    try:
        documents = list(yaml.safe_load_all(sys.stdin.read() if file == "-" else Path(file).read_text()))
    except OSError as error:
        raise _refuse(f"Cannot read {file}: {error.strerror or error}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise _refuse(f"{name} is not YAML: {' '.join(str(error).split())}") from error
    found = []
    for document in _flat(documents):
        kind, metadata = document.get("kind"), document.get("metadata")
        called = metadata.get("name") if isinstance(metadata, dict) else None
        if kind in _OTHER_RAY_KINDS and told:
            typer.echo(f"kuberay: {kind} {called} is left out: 'kuberay diff' knows RayClusters only.", err=True)
        if kind != "RayCluster":
            continue
        if not called:
            raise _refuse(f"{name}: a RayCluster has no metadata.name.")
        wrong = _not_text(metadata)
        if wrong:
            raise _refuse(f"{name}: RayCluster {called}: {wrong}")
        found.append(document)
    if not found:
        raise _refuse(f"There is no RayCluster in {name}.")
    return found


def _not_text(metadata: Any) -> str:
    """What of labels and annotations the API server would not even read; empty when they are texts."""
    for part in ("labels", "annotations"):
        values = metadata.get(part)
        if values is not None and not isinstance(values, dict):
            return f"metadata.{part} must be a mapping."
        for key, value in (values or {}).items():
            if not isinstance(value, str | None):
                return f"metadata.{part}[{key}] must be a string, not {value!r}: write it in quotes."
    return ""


def _flat(documents: Sequence[Any]) -> list[Manifest]:
    """The documents, with lists (``kind: List``) taken apart."""
    found = []
    for document in documents:
        if isinstance(document, dict) and isinstance(document.get("items"), list):
            found += _flat(document["items"])
        elif isinstance(document, dict):
            found.append(document)
    return found


async def _look_up(
    wanted: Sequence[Manifest], namespace: str, kubeconfig: str
) -> tuple[str, dict[tuple[str, str], Live]]:
    """The namespace for those that name none, and what there is."""
    from kuberay.api.kinds import RAYCLUSTER
    from kuberay.kube.client import Client
    from kuberay.kube.connection import connect
    from kuberay.kube.errors import NotFoundError
    from kuberay.kube.http import HttpTransport

    connection = await connect(kubeconfig)
    place = namespace or connection.namespace or "default"
    transport = HttpTransport(connection, user_agent="kuberay-diff")
    client = Client(transport)
    found: dict[tuple[str, str], Live] = {}
    try:
        for document in wanted:
            key = _place(document, place)
            try:
                manifest = orjson.loads(await client.get(RAYCLUSTER, *key))
            except NotFoundError:
                continue
            found[key] = Live(manifest, await _pods(client, *key))
    finally:
        await transport.close()
    return place, found


async def _pods(client: Client, namespace: str, name: str) -> list[Manifest]:
    """The cluster's pods; none when they may not be read."""
    from kuberay.api.kinds import POD
    from kuberay.api.names import LABEL_CLUSTER
    from kuberay.kube.errors import ApiError

    found: list[Manifest] = []
    try:
        async for page in client.list_pages(POD, namespace, label_selector=f"{LABEL_CLUSTER}={name}"):
            found += [orjson.loads(bytes(raw)) for raw in page.items]
    except ApiError as error:
        typer.echo(
            f"kuberay: The pods of {namespace}/{name} may not be read ({error}); their age is not known.", err=True
        )
    return found


def _refuse(sentence: str) -> typer.Exit:
    typer.echo(f"kuberay: {sentence}", err=True)
    return typer.Exit(1)
