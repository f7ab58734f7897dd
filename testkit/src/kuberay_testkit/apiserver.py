"""The simulated Kubernetes as a process with an address: ``python -m kuberay_testkit.apiserver FILE…`` serves it over HTTP.

In real time, for whole operators (``kuberay run``) and for looking around with ``kuberay why`` or curl, where no cluster is.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import yaml
from aiohttp import web
from kuberay.kube.transport import TransportError

from kuberay_testkit.sim.clock import VirtualClock
from kuberay_testkit.sim.gc import GarbageCollector
from kuberay_testkit.sim.jobs import JobController
from kuberay_testkit.sim.kubelet import SimKubelet
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.status import APIError

LARGEST_BODY = 4 * 2**20


class ApiServer:
    """A `SimServer` behind HTTP, with kubelet, Job controller and garbage collector, from `running` on."""

    def __init__(self, server: SimServer | None = None, *, host: str = "127.0.0.1", port: int = 0) -> None:
        """*port* 0 takes a free one."""
        self.server = server or SimServer(clock=VirtualClock(datetime.now(UTC)))
        self.host = host
        self.port = port

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        """Serve until the block ends; yields the address."""
        controllers = [SimKubelet(self.server), JobController(self.server), GarbageCollector(self.server)]
        tasks = [asyncio.create_task(each.run(), name=type(each).__name__) for each in controllers]
        app = web.Application(client_max_size=LARGEST_BODY)
        app.router.add_route("*", "/{path:.*}", self._answer)
        # A watch that its client leaves ends at once, not at its next event.
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.5, access_log=None)
        await runner.setup()
        try:
            site = web.TCPSite(runner, self.host, self.port)
            await site.start()
            self.port = runner.addresses[0][1]
            yield self.url
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        params, path = dict(request.query), request.path
        # Who asks is what the client's token says, for `SimServer.restrict` and `SimServer.calls`.
        client = request.headers.get("Authorization", "").removeprefix("Bearer ") or "user"
        if request.method == "GET" and params.get("watch", "").lower() in ("1", "true"):
            return await self._watch(request, path, params, client)
        body = await request.read()
        content_type = request.headers.get("Content-Type", "application/json")
        answer = self.server.handle(
            request.method,
            path,
            params=params,
            body=_as_json(body, content_type) or None,
            content_type=content_type,
            client=client,
        )
        headers = {"Content-Type": "application/json", **answer.headers}
        return web.Response(status=answer.status, body=answer.body, headers=headers)

    async def _watch(self, request: web.Request, path: str, params: dict[str, str], client: str) -> web.StreamResponse:
        status, source = self.server.open_watch(path, params, client)
        if isinstance(source, bytes):
            return web.Response(status=status, body=source, content_type="application/json")
        stream = web.StreamResponse(headers={"Content-Type": "application/json"})
        try:
            await stream.prepare(request)
            async for line in source.lines():
                await stream.write(line + b"\n")
        except (TransportError, ConnectionResetError):
            # The watch was cut, or its client is gone: the connection breaks.
            if request.transport is not None:
                request.transport.abort()
        finally:
            self.server.close_watch(source)
        return stream


def _as_json(body: bytes, content_type: str) -> bytes:
    """*body*, which may be YAML where the content type says so."""
    if "yaml" not in content_type or body.lstrip()[:1] in (b"{", b""):
        return body
    try:
        return orjson.dumps(yaml.safe_load(body))
    except yaml.YAMLError:
        return body


def kubeconfig(url: str, *, client: str = "operator", namespace: str = "default") -> str:
    """A kubeconfig, as YAML, for a client of that name."""
    named: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "simulated", "cluster": {"server": url}}],
        "users": [{"name": client, "user": {"token": client}}],
        "contexts": [
            {"name": "simulated", "context": {"cluster": "simulated", "user": client, "namespace": namespace}}
        ],
        "current-context": "simulated",
    }
    return yaml.safe_dump(named, sort_keys=False)


def create_all(server: SimServer, manifests: Iterable[str]) -> list[str]:
    """Create what YAML files hold, in order; returns ``Kind name`` of each. Raises `SystemExit` with one sentence."""
    made = []
    for path in manifests:
        try:
            for document in yaml.safe_load_all(Path(path).read_text(encoding="utf-8")):
                if document:
                    metadata = server.create(document)["metadata"]
                    made.append(f"{document['kind']} {metadata['name']}")
        except OSError as error:
            raise SystemExit(f"Cannot read {path}: {error.strerror}.") from error
        except (yaml.YAMLError, AttributeError, KeyError, TypeError) as error:
            raise SystemExit(f"{path} holds no Kubernetes manifests: {error}") from error
        except (APIError, LookupError) as error:
            raise SystemExit(f"{path}: {error}") from error
    return made


async def serve(files: Sequence[str], kubeconfig_file: str, port: int) -> None:
    """Until SIGTERM or SIGINT."""
    api = ApiServer(port=port)
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    for each in create_all(api.server, files):
        sys.stdout.write(f"created {each}\n")
    async with api.running() as url:
        await asyncio.to_thread(Path(kubeconfig_file).write_text, kubeconfig(url), encoding="utf-8")
        sys.stdout.write(f"serving {url}, kubeconfig {kubeconfig_file}\n")
        sys.stdout.flush()
        await ended.wait()


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m kuberay_testkit.apiserver",
        description="A simulated Kubernetes over HTTP, in memory, with Ray's kinds installed and pods that start and stop.",
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="manifests to create at the start, CRDs too")
    parser.add_argument("--kubeconfig", default="sim.kubeconfig", help="where to write one [default: %(default)s]")
    parser.add_argument("--port", type=int, default=0, help="[default: a free one]")
    given = parser.parse_args(arguments)
    with suppress(KeyboardInterrupt):
        asyncio.run(serve(given.files, given.kubeconfig, given.port))


if __name__ == "__main__":
    main()
