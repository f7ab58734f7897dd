"""``kuberay migrate check``: what this operator would change about what another one left running. Reads only."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

if TYPE_CHECKING:
    from kuberay.cli.diff_job_world import Rules
    from kuberay.cli.migrate_check import Checked, Place, Verdict
    from kuberay.cli.migrate_reading import Objects
    from kuberay.kube.client import Client

migrate = typer.Typer(
    help="Take over from another operator.", no_args_is_help=True, rich_markup_mode=None, add_completion=False
)

_HEADLINES: dict[Verdict, str] = {
    "untouched": "goes on untouched",
    "changes": "would be changed",
    "refused": "would be refused; what runs goes on as it is",
    "foreign": "is left alone: spec.managedBy names another controller",
    "incomplete": "cannot be judged: its pods are not among the objects that were read",
}
_LOOKUPS = 5


@migrate.callback()
def group() -> None:
    """Take over from another operator."""


@migrate.command()
def check(
    file: Annotated[
        list[str] | None,
        typer.Option(
            "--file", "-f", help="Objects as 'kubectl get … -o yaml' writes them, instead of a cluster; - for stdin."
        ),
    ] = None,
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Only this one. [default: all]")] = "",
    kubeconfig: Annotated[str, typer.Option(help="Kubeconfig file. [default: $KUBECONFIG, else ~/.kube/config]")] = "",
    config: Annotated[str, typer.Option(help="Configuration file this operator will have.")] = "",
    plugins: Annotated[str, typer.Option(help="Comma-separated plugins that will be on, as for 'kuberay run'.")] = "",
    batch_scheduler: Annotated[str, typer.Option(help="As for 'kuberay run'.")] = "",
    feature_gates: Annotated[str, typer.Option(help="As for 'kuberay run'.")] = "",
    output: Annotated[str, typer.Option("--output", "-o", help="text or json.")] = "text",
    show_all: Annotated[bool, typer.Option("--all", help="Also list objects that go on untouched.")] = False,
) -> None:
    """Tell for every Ray object what would change when this operator starts. Nothing is written.

    Exit code 0: all that runs goes on untouched; 1: something would be made, changed, deleted or refused;
    2: it cannot be told, or the command line is wrong.
    """
    from kuberay.cli.diff_job_world import Rules
    from kuberay.cli.manifests import UnreadableError
    from kuberay.cli.migrate_reading import from_files
    from kuberay.cli.operator_flags import operator_flags
    from kuberay.kube.connection import NoConnectionError
    from kuberay.kube.errors import ApiError
    from kuberay.kube.transport import TransportError
    from kuberay.operator.environment import read_environment
    from kuberay.operator.settings import SettingsError, load_settings
    from kuberay.operator.start import assemble_plugins, operator_version
    from kuberay.plugins.gates import GateError
    from kuberay.plugins.loader import PluginError

    if output not in ("text", "json"):
        raise _refuse(f"--output must be text or json, not {output!r}.")
    flags = operator_flags(plugins=plugins, batch_scheduler=batch_scheduler, feature_gates=feature_gates)
    try:
        settings = load_settings(config, flags)
        hooks, gates = assemble_plugins(settings)
        plan_config = read_environment().plan_config(settings, operator_version())
        rules = Rules(config=plan_config, gates=gates, hooks=hooks, now=datetime.now(UTC).replace(microsecond=0))
        watched = [watch.kind for watch in hooks.watches()]
        if file:
            objects = from_files(file, namespace, watched)
            found = asyncio.run(_Checker(objects, rules, None).all(namespace or None))
        else:
            found = asyncio.run(_check_cluster(kubeconfig, namespace, watched, rules))
    except (SettingsError, PluginError, GateError, NoConnectionError, UnreadableError) as error:
        raise _refuse(str(error)) from error
    except ApiError as error:
        raise _refuse(f"The API server refuses to tell what is there: {error}") from error
    except (TransportError, OSError, TimeoutError) as error:
        raise _refuse(f"Cannot reach the API server: {error}") from error
    if output == "json":
        typer.echo(orjson.dumps([_as_dict(each) for each in found], option=orjson.OPT_INDENT_2, default=str).decode())
    else:
        typer.echo(_page(found, show_all=show_all))
    if any(each.verdict == "incomplete" for each in found):
        raise typer.Exit(2)
    if not all(each.safe for each in found):
        raise typer.Exit(1)


async def _check_cluster(kubeconfig: str, namespace: str, watched: Sequence[Any], rules: Rules) -> list[Checked]:
    from kuberay.cli.migrate_reading import connected, from_cluster

    async with connected(kubeconfig) as client:
        objects = await from_cluster(client, namespace or None, watched)
        return await _Checker(objects, rules, client).all(namespace or None)


@dataclass(slots=True)
class _Checker:
    """Asks the plans about each object, and looks up what they want to know."""

    objects: Objects
    rules: Rules
    client: Client | None

    async def all(self, namespace: str | None) -> list[Checked]:
        places = [each for each in self.objects.ray_objects() if namespace in (None, each[1])]
        return [await self.one(place) for place in places]

    async def one(self, place: Place) -> Checked:
        from kuberay.api.gates import CRON_JOB
        from kuberay.api.kinds import RAYCRONJOB
        from kuberay.cli.manifests import CRON_JOB_OFF
        from kuberay.cli.migrate_check import Checked, check
        from kuberay.cli.migrate_reading import fetch
        from kuberay.operator.start import PLANS

        if place[0] == RAYCRONJOB and not self.rules.gates.get(CRON_JOB):
            return Checked(place[0].kind, place[1], place[2], "refused", changes=[CRON_JOB_OFF])
        tree, wanted = self.objects.tree(place), set[Any]()
        found = check(tree, PLANS[place[0]], self.rules)
        for _ in range(_LOOKUPS):
            if not found.unknown:
                break
            wanted |= found.unknown
            if self.client is not None:
                await fetch(self.client, self.objects, found.unknown)
            self.objects.settle(found.unknown)
            tree = self.objects.look_up(self.objects.tree(place), wanted)
            found = check(tree, PLANS[place[0]], self.rules)
        return found


def _as_dict(found: Checked) -> dict[str, Any]:
    return {
        "kind": found.kind,
        "namespace": found.namespace,
        "name": found.name,
        "verdict": found.verdict,
        "safe": found.safe,
        "changes": found.changes,
        "metadata": found.marks,
        "conditions": [
            {key: each.get(key) for key in ("type", "status", "reason", "message")} for each in found.conditions
        ],
        "assumed": found.assumed,
    }


def _page(found: Sequence[Checked], *, show_all: bool) -> str:
    parts = []
    for each in found:
        if each.safe and not show_all:
            continue
        lines = [f"{each.kind} {each.namespace}/{each.name} {_HEADLINES[each.verdict]}"]
        lines += [f"  {change}" for change in each.changes]
        lines += [f"  says {one['type']} ({one.get('reason')}): {one.get('message')}" for one in each.conditions]
        if show_all:
            lines += [f"  writes {mark}" for mark in each.marks]
            lines += [f"  was not read, and is taken to be there: {assumed}" for assumed in each.assumed]
        parts.append("\n".join(lines))
    counted = Counter(each.verdict for each in found)
    parts.append(_summary(len(found), counted, sum(not each.safe for each in found)))
    return "\n\n".join(parts)


def _summary(total: int, counted: Counter[Verdict], unsafe: int) -> str:
    objects = "1 Ray object" if total == 1 else f"{total} Ray objects"
    if not total:
        return "There are no Ray objects."
    if not unsafe:
        return f"{objects}: all that runs goes on untouched."
    words = ", ".join(f"{counted[name]} {name}" for name in _HEADLINES if counted[name])
    return f"{objects} ({words}); look at {unsafe} of them before this operator starts."


def _refuse(sentence: str) -> typer.Exit:
    typer.echo(f"kuberay: {sentence}", err=True)
    return typer.Exit(2)
