"""``kuberay run``: KubeRay's flags to `Settings`, then the operator. Only flags the user gave override anything."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from kuberay.cli.operator_flags import only_plugins

BOOLEAN_FLAGS = (
    "enable-leader-election",
    "forced-cluster-upgrade",
    "enable-batch-scheduler",
    "use-kubernetes-proxy",
    "enable-metrics",
    "enable-webhooks",
    "zap-devel",
)


def run(
    metrics_addr: Annotated[
        str | None, typer.Option(help="Address of /metrics; 0 turns it off. [default: :8080]")
    ] = None,
    health_probe_bind_address: Annotated[
        str | None, typer.Option(help="Address of /livez, /healthz and /readyz. [default: :8082]")
    ] = None,
    enable_leader_election: Annotated[
        str | None, typer.Option(help="Hold a Lease before acting. [default: true]")
    ] = None,
    leader_election_namespace: Annotated[
        str | None, typer.Option(help="Namespace of the Lease. [default: the operator's own]")
    ] = None,
    reconcile_concurrency: Annotated[
        int | None, typer.Option(help="Objects worked on at once, in units of 16. [default: 1]")
    ] = None,
    watch_namespace: Annotated[str | None, typer.Option(help="Comma-separated namespaces. [default: all]")] = None,
    forced_cluster_upgrade: Annotated[str | None, typer.Option(help="Deprecated; has no effect.")] = None,
    log_file_path: Annotated[str | None, typer.Option(help="Also log to this file.")] = None,
    log_file_encoder: Annotated[str | None, typer.Option(help="json or console. [default: json]")] = None,
    log_stdout_encoder: Annotated[str | None, typer.Option(help="json or console. [default: json]")] = None,
    enable_batch_scheduler: Annotated[str | None, typer.Option(help="Deprecated: --batch-scheduler=volcano.")] = None,
    batch_scheduler: Annotated[
        str | None,
        typer.Option(
            help="volcano, yunikorn, scheduler-plugins, kai-scheduler, or another installed plugin that is a scheduler."
        ),
    ] = None,
    plugins: Annotated[
        str | None,
        typer.Option(help="Comma-separated plugins to turn on; see 'kuberay plugins'. [default: autoscaler-v2]"),
    ] = None,
    config: Annotated[str, typer.Option(help="Configuration file; most other flags are then ignored.")] = "",
    use_kubernetes_proxy: Annotated[
        str | None, typer.Option(help="Reach Ray dashboards through the API server.")
    ] = None,
    feature_gates: Annotated[str | None, typer.Option(help="Name=true,Name=false; see 'kuberay gates'.")] = None,
    enable_metrics: Annotated[str | None, typer.Option(help="Export kuberay_* metrics. [default: false]")] = None,
    qps: Annotated[
        float | None, typer.Option(help="Requests per second to the API server; 0: no limit. [default: 0]")
    ] = None,
    burst: Annotated[int | None, typer.Option(help="Requests at once when --qps is set. [default: 200]")] = None,
    enable_webhooks: Annotated[
        str | None, typer.Option(help="Serve admission webhooks; see 'kuberay webhooks'. [default: false]")
    ] = None,
    webhook_port: Annotated[int | None, typer.Option(help="Port of the webhooks. [default: 9443]")] = None,
    webhook_certificates: Annotated[
        str | None, typer.Option(help="files, or self: the operator makes its own. [default: files]")
    ] = None,
    webhook_cert_dir: Annotated[
        str | None,
        typer.Option(help="Folder with tls.crt and tls.key. [default: /tmp/k8s-webhook-server/serving-certs]"),
    ] = None,
    webhook_name: Annotated[
        str | None,
        typer.Option(help="Name of their Service and configurations. [default: kuberay-operator-webhook]"),
    ] = None,
    kubeconfig: Annotated[
        str, typer.Option(help="Kubeconfig file. [default: $KUBECONFIG, else the pod's account, else ~/.kube/config]")
    ] = "",
    profiling_addr: Annotated[
        str | None, typer.Option(help="Loopback address of profiles, such as 127.0.0.1:6060. [default: 0]")
    ] = None,
    zap_devel: Annotated[str | None, typer.Option(help="Logs at debug level.")] = None,
    zap_log_level: Annotated[
        str | None, typer.Option(help="debug, info, warning or error; panic is error, a number debug. [default: info]")
    ] = None,
    zap_stacktrace_level: Annotated[str | None, typer.Option(help="Accepted; stack traces come with errors.")] = None,
    zap_encoder: Annotated[str | None, typer.Option(help="Accepted; see --log-stdout-encoder.")] = None,
    zap_time_encoding: Annotated[str | None, typer.Option(help="Accepted; times are ISO 8601.")] = None,
) -> None:
    """Run the operator until SIGTERM."""
    from kuberay.operator.reload import ConfigFile
    from kuberay.operator.settings import SettingsError, load_settings

    given: dict[str, Any] = {
        "metrics_addr": metrics_addr,
        "probe_addr": health_probe_bind_address,
        "enable_leader_election": enable_leader_election,
        "leader_election_namespace": leader_election_namespace,
        "reconcile_concurrency": reconcile_concurrency,
        "watch_namespace": watch_namespace,
        "log_file": log_file_path,
        "log_file_encoder": log_file_encoder,
        "log_stdout_encoder": log_stdout_encoder,
        "profiling_addr": profiling_addr,
        "log_level": _level(zap_log_level, zap_devel),
        "enable_batch_scheduler": enable_batch_scheduler,
        "batch_scheduler": batch_scheduler,
        "use_kubernetes_proxy": use_kubernetes_proxy,
        "feature_gates": feature_gates,
        "enable_metrics": enable_metrics,
        "qps": qps,
        "burst": burst,
        "enable_webhooks": enable_webhooks,
        "webhook_port": webhook_port,
        "webhook_certificates": webhook_certificates,
        "webhook_cert_dir": webhook_cert_dir,
        "webhook_name": webhook_name,
    }
    flags = {name: value for name, value in given.items() if value is not None}
    if plugins is not None:
        flags["plugins"] = only_plugins(plugins)
    try:
        settings = load_settings(config, flags)
    except SettingsError as error:
        typer.echo(f"kuberay: {error}", err=True)
        raise typer.Exit(1) from error
    from kuberay.operator.start import run_operator

    raise typer.Exit(run_operator(settings, kubeconfig, ConfigFile(config, flags) if config else None))


def _level(zap_log_level: str | None, zap_devel: str | None) -> str | None:
    if zap_log_level is None:
        return "debug" if zap_devel == "true" else None
    # zap also takes numbers, of which any above zero is debug here, and panic, of which nothing is told.
    level = zap_log_level.lower()
    return "debug" if level.isdigit() and int(level) > 0 else {"panic": "error", "warn": "warning"}.get(level, level)
