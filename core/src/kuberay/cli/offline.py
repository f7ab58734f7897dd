"""Commands that need no cluster: ``crds``, ``rbac`` and ``webhooks`` print what to install."""

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
    enable_webhooks: Annotated[bool, typer.Option("--enable-webhooks", help="As for 'kuberay run'.")] = False,
    webhook_certificates: Annotated[str, typer.Option(help="As for 'kuberay run'.")] = "",
    webhook_name: Annotated[str, typer.Option(help="As for 'kuberay run'.")] = "",
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
    if webhook_certificates:
        flags["webhook_certificates"] = webhook_certificates
    if webhook_name:
        flags["webhook_name"] = webhook_name
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
            secret_namespaces=settings.secrets_in,
            proxy=use_kubernetes_proxy or settings.use_kubernetes_proxy,
            own_certificates=settings.webhook_name
            if (enable_webhooks or settings.enable_webhooks) and settings.webhook_certificates == "self"
            else "",
        )
    )


def webhooks(
    namespace: Annotated[str, typer.Option(help="Namespace the operator runs in.")] = "default",
    watch_namespace: Annotated[str, typer.Option(help="As for 'kuberay run': other namespaces are left alone.")] = "",
    webhook_name: Annotated[str, typer.Option(help="As for 'kuberay run'.")] = "",
    webhook_port: Annotated[int, typer.Option(help="As for 'kuberay run'; 0: its default.")] = 0,
    config: Annotated[str, typer.Option(help="Configuration file of the operator, instead of the options above.")] = "",
    failure_policy: Annotated[
        str, typer.Option(help="Fail or Ignore: what happens while no operator answers. As KubeRay: Fail.")
    ] = "Fail",
    timeout_seconds: Annotated[int, typer.Option(min=1, max=30, help="How long API servers wait.")] = 10,
    defaulting: Annotated[bool, typer.Option("--defaulting", help="Also have defaults written into objects.")] = False,
    ca_file: Annotated[
        str,
        typer.Option(
            help="PEM file of whom to trust; without it the operator adds its own (webhook-certificates self)."
        ),
    ] = "",
) -> None:
    """Print the Service and the webhook configurations for an operator that runs with '--enable-webhooks'."""
    from pathlib import Path

    from kuberay.operator.settings import SettingsError, load_settings
    from kuberay.operator.webhooks.configurations import webhook_manifests

    flags: dict[str, Any] = {"watch_namespace": watch_namespace}
    flags |= {"webhook_name": webhook_name} if webhook_name else {}
    flags |= {"webhook_port": webhook_port} if webhook_port else {}
    try:
        if failure_policy not in ("Fail", "Ignore"):
            raise SettingsError(f"--failure-policy must be Fail or Ignore, not {failure_policy!r}")
        settings = load_settings(config, flags)
        bundle = Path(ca_file).read_text() if ca_file else ""
    except (SettingsError, OSError) as error:
        typer.echo(f"kuberay: {error}", err=True)
        raise typer.Exit(1) from error
    print_yaml(
        webhook_manifests(
            namespace=namespace,
            name=settings.webhook_name,
            port=settings.webhook_port,
            failure_policy=failure_policy,
            timeout_seconds=timeout_seconds,
            defaulting=defaulting,
            watch_namespaces=settings.namespaces,
            ca_bundle=bundle,
        )
    )
