"""The HTTPS listener of the webhooks: paths, bodies, and a certificate that can be exchanged while it serves.

It is aiohttp, as everything else here that speaks HTTP, and not kopf's server: that one calls handlers in another thread, one for each
webhook, can give no causes with a refusal, and reads its certificate once.
"""

from __future__ import annotations

import os
import ssl
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import orjson
from aiohttp import web

from kuberay.api.kinds import Kind
from kuberay.operator.webhook_metrics import WebhookMetrics
from kuberay.operator.webhooks.paths import KINDS, mutating_path, validating_path
from kuberay.operator.webhooks.review import Review, Reviewer, ReviewError

LARGEST_BODY = 16 * 2**20
"""Bytes. A review has an object twice, and etcd takes one and a half MiB; text may grow when it is written as JSON."""

KEEP_ALIVE = 120.0
"""Seconds an idle connection stays. API servers give theirs up after 90, so that it is never this side that closes one which is
about to be used."""


class Certificate:
    """A TLS context for servers whose certificate can be exchanged: handshakes that begin later see the new one."""

    def __init__(self) -> None:
        self.context = _context()
        self.pair: tuple[bytes, bytes] | None = None
        """Chain and key as PEM, as they are served; None: nothing can be served yet."""

    def use(self, chain: bytes, key: bytes) -> bool:
        """Serve with this pair from now on; False: it is served already. Raises ValueError when the two do not belong
        together or cannot be read; then the former pair stays."""
        if (chain, key) == self.pair:
            return False
        try:
            # First where nothing can be broken: of a pair that does not fit half may have been taken.
            _load(_context(), chain, key)
            _load(self.context, chain, key)
        except ssl.SSLError as error:
            raise ValueError(f"the certificate and the key cannot be used: {error.reason or error}") from error
        self.pair = (chain, key)
        return True


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _load(context: ssl.SSLContext, chain: bytes, key: bytes) -> None:
    with _file(chain) as chain_path, _file(key) as key_path:
        context.load_cert_chain(chain_path, key_path)


@contextmanager
def _file(content: bytes) -> Iterator[str]:
    """A path that has *content*: OpenSSL reads files only. Where Linux offers it, in memory, since a pod's files are
    read-only and keys do not belong on a disk."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("certificate", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        yield file.name


class Listener:
    """Serves a `Reviewer` for all kinds."""

    def __init__(self, reviewer: Reviewer, certificate: Certificate, metrics: WebhookMetrics) -> None:
        self._reviewer = reviewer
        self._certificate = certificate
        self._metrics = metrics
        self._closing = False
        self._runner: web.AppRunner | None = None
        self.port = 0
        """Where it listens; 0: it does not."""

    async def start(self, port: int, host: str | None = None) -> None:
        """Listen. Raises OSError when the port is taken. Handshakes fail until there is a certificate."""
        app = web.Application(client_max_size=LARGEST_BODY)
        for kind in KINDS:
            app.router.add_post(validating_path(kind), self._answering(kind, self._validate))
            app.router.add_post(mutating_path(kind), self._answering(kind, self._default))
        runner = web.AppRunner(
            app, access_log=None, handle_signals=False, keepalive_timeout=KEEP_ALIVE, shutdown_timeout=2.0
        )
        await runner.setup()
        self._runner = runner
        await web.TCPSite(runner, host, port, ssl_context=self._certificate.context).start()
        self.port = runner.addresses[0][1]

    def close_connections(self) -> None:
        """Say with each answer that the connection ends, so that no request meets one that this process closes."""
        self._closing = True

    async def stop(self) -> None:
        """End after the requests that are under way."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _validate(self, kind: Kind, review: Review, patience: float) -> Review:
        return await self._reviewer.validate(kind, review, patience)

    async def _default(self, kind: Kind, review: Review, _patience: float) -> Review:
        return self._reviewer.default(kind, review)

    def _answering(
        self, kind: Kind, answer: Callable[[Kind, Review, float], Awaitable[Review]]
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            started = time.perf_counter()
            status = 500
            try:
                with self._metrics.under_way(request.path):
                    body = await answer(kind, orjson.loads(await request.read()), _patience(request))
                response = web.Response(body=orjson.dumps(body), content_type="application/json")
                status = 200
            except (ReviewError, orjson.JSONDecodeError) as error:
                status = 400
                response = web.Response(status=status, text=f"no AdmissionReview: {error}")
            finally:
                self._metrics.answered(request.path, status, time.perf_counter() - started)
            if self._closing:
                response.force_close()
            return response

        return handle


def _patience(request: web.Request) -> float:
    """How long the API server waits: it says so, as Go writes durations."""
    told = request.query.get("timeout", "")
    try:
        return min(30.0, float(told.removesuffix("s")))
    except ValueError:
        return 10.0
