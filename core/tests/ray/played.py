"""A dashboard that is played on loopback: it answers as told and remembers what it was asked."""

from __future__ import annotations

import asyncio

from aiohttp import web

Answer = tuple[int, str | bytes]


class Played:
    """Answers by (method, path), and otherwise alike."""

    def __init__(self, answer: Answer = (404, "not here")) -> None:
        self.answers: dict[tuple[str, str], Answer] = {}
        self.answer = answer
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self.delay = 0.0

    async def handle(self, request: web.Request) -> web.Response:
        self.requests.append((request.method, request.raw_path, dict(request.headers), await request.read()))
        await asyncio.sleep(self.delay)
        status, body = self.answers.get((request.method, request.raw_path), self.answer)
        if isinstance(body, str):
            return web.Response(status=status, text=body)
        return web.Response(status=status, body=body)
