"""Which API server to talk to and as whom: kubeconfig or the pod's service account, read by the Kubernetes client.

The result is a plain value that both our transport and kopf are given, so there is one way of finding credentials.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import ConfigException, load_incluster_config
from kubernetes.aio.config.kube_config import load_kube_config

NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class NoConnectionError(Exception):
    """No usable configuration; the text is one sentence for the user."""


@dataclass(frozen=True, slots=True)
class Connection:
    """How to reach the API server."""

    server: str
    """For example ``https://10.96.0.1:443``, without a trailing slash."""
    ca_path: str | None
    insecure: bool
    cert_path: str | None
    key_path: str | None
    namespace: str
    """Namespace of the operator's own pod, or of the kubeconfig context; empty when unknown."""
    in_cluster: bool
    authorization: Callable[[], Awaitable[str | None]]
    """The present value of the ``Authorization`` header; reads rotated tokens again."""

    def ssl_context(self) -> ssl.SSLContext | None:
        """None for plain HTTP."""
        if not self.server.startswith("https:"):
            return None
        context = ssl.create_default_context(cafile=self.ca_path)
        if self.cert_path:
            context.load_cert_chain(self.cert_path, self.key_path)
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


async def connect(kubeconfig: str = "", context: str = "") -> Connection:
    """Find the API server: *kubeconfig* if given, else ``KUBECONFIG``, else the pod's account, else ``~/.kube/config``.
    *context* is one of the kubeconfig's; without it the current one counts.

    Raises `NoConnectionError`.
    """
    configuration = Configuration()
    path = kubeconfig or os.environ.get("KUBECONFIG", "")
    in_cluster = False
    namespace = ""
    try:
        if path:
            loader = await load_kube_config(
                config_file=path, context=context or None, client_configuration=configuration
            )
            namespace = loader.current_context.get("context", {}).get("namespace", "")
        elif "KUBERNETES_SERVICE_HOST" in os.environ and not context:
            load_incluster_config(client_configuration=configuration)
            in_cluster = True
            namespace = NAMESPACE_FILE.read_text().strip() if NAMESPACE_FILE.is_file() else ""  # noqa: ASYNC240
        else:
            loader = await load_kube_config(context=context or None, client_configuration=configuration)
            namespace = loader.current_context.get("context", {}).get("namespace", "")
    except (ConfigException, OSError, ValueError) as error:
        where = f"kubeconfig {path}" if path else "neither a kubeconfig nor a service account"
        raise NoConnectionError(f"Cannot find an API server to connect to ({where}): {error}") from error

    async def authorization() -> str | None:
        value = await configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
        if value:
            return str(value)
        basic = configuration.get_basic_auth_token() if configuration.username else None
        return str(basic) if basic else None

    return Connection(
        server=str(configuration.host).rstrip("/"),
        ca_path=configuration.ssl_ca_cert,
        insecure=not configuration.verify_ssl,
        cert_path=configuration.cert_file,
        key_path=configuration.key_file,
        namespace=namespace,
        in_cluster=in_cluster,
        authorization=authorization,
    )
