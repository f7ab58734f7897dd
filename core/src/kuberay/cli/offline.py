"""Commands that need no cluster: ``crds``, ``rbac`` and ``plugins`` print what to install and what is there."""

from __future__ import annotations

from typing import Annotated, Any

import orjson
import typer
import yaml


def print_yaml(documents: list[dict[str, Any]]) -> None:
    """All documents on standard output, keys in the order given. May be called more than once."""
    text = yaml.safe_dump_all(documents, sort_keys=False, default_flow_style=False, width=160, explicit_start=True)
    typer.echo(text if documents else "", nl=False)


def crds(
    slim: Annotated[
        bool, typer.Option("--slim", help="Small CRDs for plain 'kubectl apply': pod templates are not checked.")
    ] = False,
) -> None:
    """Print the CustomResourceDefinitions (install with 'kubectl apply --server-side -f -')."""
    from kuberay.api.crd import crds as generate

    print_yaml(generate(slim=slim))


def rbac(
    namespace: Annotated[str, typer.Option(help="Namespace the operator runs in.")] = "default",
    watch_namespace: Annotated[
        str, typer.Option(help="Comma-separated: Roles in these namespaces instead of a ClusterRole.")
    ] = "",
    plugins: Annotated[str, typer.Option(help="Comma-separated plugins that will be on.")] = "",
    batch_scheduler: Annotated[str, typer.Option(help="As for 'kuberay run'.")] = "",
    use_kubernetes_proxy: Annotated[bool, typer.Option("--use-kubernetes-proxy", help="As for 'kuberay run'.")] = False,
) -> None:
    """Print the ServiceAccount, Roles and bindings the operator needs with the given plugins."""
    from kuberay.operator.rbac import rbac_manifests
    from kuberay.operator.settings import SettingsError, load_settings
    from kuberay.operator.start import assemble_plugins
    from kuberay.plugins.loader import PluginError

    flags: dict[str, Any] = {"batch_scheduler": batch_scheduler, "watch_namespace": watch_namespace}
    if plugins:
        flags["plugins"] = {"enabled": [name.strip() for name in plugins.split(",") if name.strip()]}
    try:
        settings = load_settings("", flags)
        manager, _ = assemble_plugins(settings)
    except (SettingsError, PluginError) as error:
        typer.echo(f"kuberay: {error}", err=True)
        raise typer.Exit(1) from error
    rules = [rule for name in sorted(manager.rbac_rules()) for rule in manager.rbac_rules()[name]]
    print_yaml(
        rbac_manifests(
            namespace=namespace,
            plugin_rules=rules,
            watch_namespaces=settings.namespaces,
            proxy=use_kubernetes_proxy,
        )
    )


def plugins(
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
    config: Annotated[str, typer.Option(help="Configuration file that says which are on.")] = "",
) -> None:
    """List installed plugins, which of them are on, and the hooks those implement."""
    from rich.console import Console
    from rich.table import Table

    from kuberay.operator.settings import SettingsError, load_settings
    from kuberay.plugins.loader import PluginError, list_installed, load

    try:
        names, optional = load_settings(config, {}).enabled_plugins()
        loaded = {plugin.name: plugin for plugin in load(names, optional=optional)}
        installed = list_installed()
    except (SettingsError, PluginError) as error:
        typer.echo(f"kuberay: {error}", err=True)
        raise typer.Exit(1) from error
    rows = [
        {
            "name": item.name,
            "distribution": item.distribution,
            "version": item.version,
            "enabled": item.name in loaded,
            "hooks": sorted(loaded[item.name].hooks) if item.name in loaded else [],
        }
        for item in installed
    ]
    if as_json:
        typer.echo(orjson.dumps(rows, option=orjson.OPT_INDENT_2).decode())
        return
    if not rows:
        typer.echo("No plugins are installed. Try: pip install kuberay-autoscaler-v2")
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("NAME", "DISTRIBUTION", "VERSION", "ON", "HOOKS"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(
            str(row["name"]),
            str(row["distribution"]),
            str(row["version"]),
            "yes" if row["enabled"] else "no",
            ", ".join(row["hooks"]) if isinstance(row["hooks"], list) else "",
        )
    Console(width=None).print(table)
