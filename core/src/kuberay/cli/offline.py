"""Commands that need no cluster: ``crds`` and ``rbac`` print what to install."""

from __future__ import annotations

from typing import Annotated, Any

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
    feature_gates: Annotated[str, typer.Option(help="As for 'kuberay run'.")] = "",
    config: Annotated[str, typer.Option(help="Configuration file of the operator, instead of the other options.")] = "",
    use_kubernetes_proxy: Annotated[bool, typer.Option("--use-kubernetes-proxy", help="As for 'kuberay run'.")] = False,
) -> None:
    """Print the ServiceAccount, Roles and bindings the operator needs with the given plugins."""
    from kuberay.cli.operator_flags import only_plugins
    from kuberay.operator.rbac import rbac_manifests
    from kuberay.operator.settings import SettingsError, load_settings
    from kuberay.operator.start import assemble_plugins
    from kuberay.plugins.gates import GateError
    from kuberay.plugins.loader import PluginError

    flags: dict[str, Any] = {
        "batch_scheduler": batch_scheduler,
        "watch_namespace": watch_namespace,
        "feature_gates": feature_gates,
    }
    if plugins:
        flags["plugins"] = only_plugins(plugins)
    try:
        settings = load_settings(config, flags)
        manager, _ = assemble_plugins(settings)
    except (SettingsError, PluginError, GateError) as error:
        typer.echo(f"kuberay: {error}", err=True)
        raise typer.Exit(1) from error
    rules = [rule for name in sorted(manager.rbac_rules()) for rule in manager.rbac_rules()[name]]
    print_yaml(
        rbac_manifests(
            namespace=namespace,
            plugin_rules=rules,
            watch_namespaces=settings.namespaces,
            proxy=use_kubernetes_proxy or settings.use_kubernetes_proxy,
        )
    )
