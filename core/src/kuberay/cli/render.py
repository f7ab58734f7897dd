"""``kuberay render``: all children of the objects in a file, offline, with the plans and plugins the operator would use."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kuberay.cli.offline import print_yaml

if TYPE_CHECKING:
    from kuberay.api.problems import Problem
    from kuberay.hooks.calls import Hooks
    from kuberay.plan.config import PlanConfig


def render(
    file: Annotated[str, typer.Option("--file", "-f", help="Manifest with Ray objects; - for stdin.")],
    config: Annotated[str, typer.Option(help="Configuration file of the operator.")] = "",
    plugins: Annotated[str, typer.Option(help="Comma-separated plugins to turn on, instead of the default.")] = "",
    batch_scheduler: Annotated[str, typer.Option(help="As for 'kuberay run'.")] = "",
    feature_gates: Annotated[str, typer.Option(help="As for 'kuberay run'.")] = "",
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Where the manifest names none.")] = "default",
    show_changes: Annotated[bool, typer.Option("--show-changes", help="Tell on stderr which plugin set what.")] = False,
) -> None:
    """Print all children of the objects in FILE as YAML. Exit code 1 when an object would be refused or wait.

    Of a RayCronJob it is the next RayJob with its children. What follows that is no object is a comment.
    """
    from kuberay.api.gates import CRON_JOB
    from kuberay.api.names import MANAGED_BY
    from kuberay.cli.manifests import CRON_JOB_OFF, UnreadableError, documents, place_of
    from kuberay.cli.operator_flags import operator_flags
    from kuberay.operator.environment import read_environment
    from kuberay.operator.offline import render as render_offline
    from kuberay.operator.settings import SettingsError, load_settings
    from kuberay.operator.start import PLANS, assemble_plugins, operator_version
    from kuberay.plugins.gates import GateError
    from kuberay.plugins.loader import PluginError

    flags = operator_flags(plugins=plugins, batch_scheduler=batch_scheduler, feature_gates=feature_gates)
    try:
        settings = load_settings(config, flags)
        hooks, gates = assemble_plugins(settings)
        plan_config = read_environment().plan_config(settings, operator_version())
        found = documents(file, told=True)
    except (SettingsError, PluginError, GateError, UnreadableError) as error:
        raise _refuse(str(error)) from error
    failed = False
    for document in found:
        document["metadata"]["namespace"], name = place_of(document, namespace)
        what = f"{document['kind']} {document['metadata']['namespace']}/{name}"
        refusals = _problems(document, gates, hooks, plan_config)
        for refusal in refusals:
            failed = True
            typer.echo(f"kuberay: {what}: {' '.join(str(refusal).splitlines())}", err=True)
        if refusals:
            continue
        manager = document["spec"].get("managedBy") or MANAGED_BY
        if manager != MANAGED_BY:
            typer.echo(f"# {what}: spec.managedBy is {manager}: this operator leaves it alone")
            continue
        try:
            result = render_offline(
                document,
                plans=PLANS,
                hooks=hooks,
                gates=gates,
                config=plan_config,
                # When a RayCronJob starts next depends on today; all else is the same every day.
                **({"now": datetime.now(UTC)} if document["kind"] == "RayCronJob" else {}),
            )
        except ValueError as error:
            raise _refuse(f"{file}: {error}") from error
        if document["kind"] == "RayCronJob" and not gates.get(CRON_JOB):
            result.problems.append(f"{CRON_JOB_OFF}.")
        print_yaml(result.children)
        for note in result.notes:
            typer.echo(f"# then: {' '.join(note.splitlines())}")
        for problem in result.problems:
            failed = True
            typer.echo(f"kuberay: {problem}", err=True)
        if show_changes:
            for plugin, paths in sorted(result.plugin_changes.items()):
                for path in paths:
                    typer.echo(f"{plugin}: {path}", err=True)
    if failed:
        raise typer.Exit(1)


def _problems(document: dict[str, Any], gates: Mapping[str, bool], hooks: Hooks, config: PlanConfig) -> list[Problem]:
    """Why the API server or the operator would refuse the object, with the paths of its fields."""
    from kuberay.api.structural import defaulted
    from kuberay.cli.manifests import spec_schema
    from kuberay.plan.edit.problems import edit_problems

    schema = spec_schema(document["kind"])
    document["spec"] = document.get("spec") or {}
    after = {**document, "spec": defaulted(document["spec"], schema)}
    return edit_problems(None, document, after, schema, gates, hooks, config)


def _refuse(sentence: str) -> typer.Exit:
    typer.echo(f"kuberay: {sentence}", err=True)
    return typer.Exit(1)
