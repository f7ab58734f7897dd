"""Which API server to talk to and as whom: kubeconfig or the pod's service account, read by the Kubernetes client.

The result is a plain value that both our transport and kopf are given, so there is one way of finding credentials.
"""

from __future__ import annotations

import logging
import os
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import ConfigException, load_incluster_config
from kubernetes.aio.config.kube_config import load_kube_config

log = logging.getLogger("kuberay.kube.connection")

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
    """The present value of the ``Authorization`` header; reads rotated tokens again, once a minute."""
    renew: Callable[[], Awaitable[str | None]]
    """The same, read anew because the API server refused what was read before."""

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
    path = kubeconfig or os.environ.get("KUBECONFIG", "")
    try:
        found = await _load(path, context)
    except (ConfigException, OSError, ValueError) as error:
        where = f"kubeconfig {path}" if path else "neither a kubeconfig nor a service account"
        raise NoConnectionError(f"Cannot find an API server to connect to ({where}): {error}") from error
    credentials = _Credentials(found, lambda: _load(path, context))
    configuration = found.configuration
    return Connection(
        server=str(configuration.host).rstrip("/"),
        ca_path=configuration.ssl_ca_cert,
        insecure=not configuration.verify_ssl,
        cert_path=configuration.cert_file,
        key_path=configuration.key_file,
        namespace=found.namespace,
        in_cluster=found.in_cluster,
        authorization=credentials.authorization,
        renew=credentials.renew,
    )


@dataclass(frozen=True, slots=True)
class _Found:
    configuration: Configuration
    namespace: str
    in_cluster: bool


async def _load(path: str, context: str) -> _Found:
    """Read the kubeconfig or the pod's account, with the token that is there now."""
    configuration = Configuration()
    if not path and "KUBERNETES_SERVICE_HOST" in os.environ and not context:
        load_incluster_config(client_configuration=configuration)
        namespace = NAMESPACE_FILE.read_text().strip() if NAMESPACE_FILE.is_file() else ""  # noqa: ASYNC240
        return _Found(configuration, namespace, in_cluster=True)
    loader = await load_kube_config(
        config_file=path or None, context=context or None, client_configuration=configuration
    )
    return _Found(configuration, loader.current_context.get("context", {}).get("namespace", ""), in_cluster=False)


RENEW_EVERY = 1.0
"""Seconds between two readings of refused credentials; a plugin of the kubeconfig may take as long to get new ones."""


class _Credentials:
    """The token that is sent. Asked from the operator's loop and from kopf's thread; both may read anew."""

    def __init__(self, found: _Found, load: Callable[[], Awaitable[_Found]]) -> None:
        self._configuration = found.configuration
        self._load = load
        self._renewed_at = time.monotonic()

    async def authorization(self) -> str | None:
        return await _authorization(self._configuration)

    async def renew(self) -> str | None:
        if time.monotonic() - self._renewed_at < RENEW_EVERY:
            return await self.authorization()
        self._renewed_at = time.monotonic()
        before = await self.authorization()
        try:
            configuration = (await self._load()).configuration
        except (ConfigException, OSError, ValueError) as error:
            log.warning("the API server refuses the credentials, and they cannot be read anew: %s", error)
            return before
        value = await _authorization(configuration)
        if value is None:
            # A file in the midst of its replacement.
            return before
        self._configuration = configuration
        if value != before:
            log.info("the API server refused the credentials; newer ones were found")
        return value


async def _authorization(configuration: Configuration) -> str | None:
    try:
        value = await configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
    except (ConfigException, OSError, ValueError) as error:
        # The file is being replaced, or is gone: what was read last is sent until there is another one.
        log.warning("the token cannot be read: %s", error)
        value = configuration.api_key.get("BearerToken")
    if value:
        return str(value)
    basic = configuration.get_basic_auth_token() if configuration.username else None
    return str(basic) if basic else None
