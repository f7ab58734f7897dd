"""How connections to Ray heads are made: names are looked up without threads and only once, and none waits for another.

How many requests there are at once is not decided here but by who asks (`kuberay.operator.turns`).
"""

from __future__ import annotations

import socket
import ssl

import aiohttp
from aiohttp.abc import ResolveResult


def head_connector(domain: str, ssl_context: ssl.SSLContext | None = None) -> aiohttp.TCPConnector:
    """Connections to the heads of a cluster whose services have names in *domain*; they are kept between two polls."""
    # No limit: a head that hangs keeps its connection busy, and others must not wait for that.
    return aiohttp.TCPConnector(limit=0, ssl=ssl_context or True, resolver=HeadResolver(domain))


class HeadResolver(aiohttp.AsyncResolver):
    """Looks names up without threads: a DNS server that hangs would keep threads busy for seconds each, and with them
    other heads and the end of the process."""

    def __init__(self, domain: str) -> None:
        super().__init__()
        self._suffix = f".{domain.strip('.')}"

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The addresses of *host*. A pod's search list (``ndots:5``) would have six names that do not exist looked up
        before a service's full name, unless a dot ends it."""
        return await super().resolve(f"{host}." if host.endswith(self._suffix) else host, port, family)
