"""A TCP link between two addresses of the cluster's network: a test decides how late it is, and whether anything gets through.

It forwards bytes and knows no protocol, so the same link carries TLS to an API server and HTTP/2 to etcd.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

Address = tuple[str, int]


class Link:
    """Runs in a thread with a loop of its own, so that a test may wait in any way it likes."""

    def __init__(self, listen: Address, to: Address) -> None:
        self._listen = listen
        self._to = to
        self._delay = 0.0
        self._loop = asyncio.new_event_loop()
        self._open = asyncio.Event()
        self._open.set()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="link", daemon=True)

    def delay(self, seconds: float) -> None:
        """How long bytes are on their way from now on, in each direction."""
        self._loop.call_soon_threadsafe(setattr, self, "_delay", seconds)

    def cut(self) -> None:
        """Nothing gets through any more, and nobody is told: connections stay open, as in a partition of the network."""
        self._loop.call_soon_threadsafe(self._open.clear)

    def heal(self) -> None:
        """What waited goes on, as after retransmission."""
        self._loop.call_soon_threadsafe(self._open.set)

    def start(self) -> None:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._serve(), self._loop).result(10)

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _serve(self) -> None:
        self._server = await asyncio.start_server(self._accept, *self._listen)

    async def _end(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there_reader, there_writer = await asyncio.open_connection(*self._to)
        except OSError:
            writer.transport.abort()
            return
        both = [self._carry(reader, there_writer), self._carry(there_reader, writer)]
        tasks = [asyncio.create_task(each) for each in both]
        self._tasks.update(tasks)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            self._tasks.difference_update(tasks)
            # One side has ended: so has the other, as when a process dies.
            for each in (writer, there_writer):
                each.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One direction. Reading goes on while bytes are on their way: a late link is not a slow one."""
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        delivering = asyncio.create_task(self._deliver(under_way, writer))
        try:
            with suppress(OSError):
                while data := await reader.read(2**16):
                    under_way.put_nowait((self._loop.time() + self._delay, data))
            await under_way.join()
        finally:
            delivering.cancel()

    async def _deliver(self, under_way: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
        while True:
            due, data = await under_way.get()
            await asyncio.sleep(max(0.0, due - self._loop.time()))
            await self._open.wait()
            with suppress(OSError):
                writer.write(data)
                await writer.drain()
            under_way.task_done()


@contextmanager
def link(listen: Address, to: Address) -> Iterator[Link]:
    """A link that ends with the block, and its connections with it."""
    made = Link(listen, to)
    made.start()
    try:
        yield made
    finally:
        made.stop()
