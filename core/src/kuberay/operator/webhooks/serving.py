"""The webhooks of one replica, from start to stop: its listener, its certificates, and whether it is ready.

Every replica serves, whether it leads or not: admission must not wait for an election.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from datetime import timedelta
from typing import Protocol

from kuberay.kube.client import Client
from kuberay.kube.clock import Clock
from kuberay.kube.errors import ApiError, ForbiddenError
from kuberay.kube.transport import TransportError
from kuberay.operator.preflight import StartError
from kuberay.operator.settings import Settings
from kuberay.operator.webhook_metrics import WebhookMetrics
from kuberay.operator.webhooks.certificate_files import CertificateFiles
from kuberay.operator.webhooks.listener import Certificate, Listener
from kuberay.operator.webhooks.review import Reviewer

log = logging.getLogger("kuberay.operator.webhooks")


LINGER_SECONDS = 3.0
"""How long webhooks are served after the process was asked to end: until every node has heard that its pod is going, requests still
come. It passes beside what else there is to end, and well within the ten seconds that a pod has."""


class Source(Protocol):
    """Where certificates come from. `problem` is empty once there is one."""

    problem: str

    async def look(self) -> None: ...
    async def run(self) -> None: ...


class Webhooks:
    """`start`, then `stop`."""

    def __init__(
        self,
        reviewer: Reviewer,
        settings: Settings,
        source: Source,
        certificate: Certificate,
        metrics: WebhookMetrics,
    ) -> None:
        self._reviewer = reviewer
        self._settings = settings
        self._source = source
        self._task: asyncio.Task[None] | None = None
        self._until = 0.0
        self.listener = Listener(reviewer, certificate, metrics)

    def why_not_ready(self) -> str:
        """Empty once requests can be answered."""
        if self._source.problem:
            return f"webhooks: {self._source.problem}"
        if self._task is not None and self._task.done():
            return "webhooks: nobody looks after the certificates any more"
        return ""

    async def start(self) -> None:
        """Listen, and have a certificate as soon as possible. Raises `StartError` for what only a human can change."""
        port = self._settings.webhook_port
        try:
            await self.listener.start(port)
        except OSError as error:
            raise StartError(f"The webhooks cannot listen on port {port}: {error.strerror or error}.") from error
        try:
            await self._source.look()
        except ForbiddenError as error:
            raise StartError(
                "The operator may not keep the certificates of its webhooks; grant it with: kuberay rbac --enable-webhooks "
                f"--webhook-certificates=self | kubectl apply -f - (the API server says: {error})"
            ) from error
        except (ApiError, TransportError) as error:
            log.warning("certificates of the webhooks: will look again: %s", error)
        self._task = asyncio.create_task(self._source.run(), name="webhook certificates")
        log.info("webhooks are served on port %d", self.listener.port)

    def leave(self) -> None:
        """The process is about to end: serve on for a moment, but keep no connection."""
        self.listener.close_connections()
        self._until = asyncio.get_running_loop().time() + LINGER_SECONDS

    async def stop(self) -> None:
        """After the moment that `leave` began, and the requests under way."""
        await asyncio.sleep(self._until - asyncio.get_running_loop().time())
        await self.listener.stop()
        self._reviewer.close()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await self._task


def webhooks(
    settings: Settings, reviewer: Reviewer, client: Client, clock: Clock, namespace: str, metrics: WebhookMetrics
) -> Webhooks:
    """Those that *settings* ask for. Raises `StartError`."""
    certificate = Certificate()
    source: Source
    if settings.webhook_certificates == "files":
        source = CertificateFiles(settings.webhook_cert_dir, certificate.use)
    else:
        try:
            from kuberay.operator.webhooks.keeper import Keeper
            from kuberay.operator.webhooks.rotation import Lifetimes
        except ImportError as error:
            raise StartError(
                "webhookCertificates: self needs the package cryptography: pip install 'kuberay-core[webhooks]', or bring "
                "certificates of your own with webhookCertificates: files."
            ) from error
        if not namespace:
            raise StartError(
                "webhookCertificates: self needs a namespace for its Secret and the operator's own is not known; set the "
                "environment variable POD_NAMESPACE."
            )
        source = Keeper(
            client,
            clock,
            namespace=namespace,
            name=settings.webhook_name,
            use=certificate.use,
            lifetimes=Lifetimes(timedelta(seconds=settings.webhook_certificate_seconds)),
        )
    return Webhooks(reviewer, settings, source, certificate, metrics)
