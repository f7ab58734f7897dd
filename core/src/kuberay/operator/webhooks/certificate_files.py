"""Certificates that somebody else keeps, cert-manager for example: read from a mounted folder, and again when they change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

log = logging.getLogger("kuberay.operator.webhooks")

LOOK_EVERY = 10.0
"""Seconds between two looks. The kubelet takes up to a minute to bring a changed Secret, so this adds little."""
WAIT = 1.0
"""Seconds between two looks while there is nothing to serve."""


class CertificateFiles:
    """``tls.crt`` (the chain) and ``tls.key`` in *folder*, names as in KubeRay. *use* takes the pair, and raises ValueError for
    one that does not fit."""

    def __init__(self, folder: str, use: Callable[[bytes, bytes], bool]) -> None:
        self._chain, self._key = Path(folder) / "tls.crt", Path(folder) / "tls.key"
        self._use = use
        self._told = ""
        self._served = False
        self.problem = f"{self._chain} was not read yet"
        """Why nothing can be served yet; empty from the first pair on."""

    async def run(self) -> None:
        """Look again and again, for ever."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_EVERY if self._served else WAIT)

    async def look(self) -> None:
        """Serve what the folder holds. What cannot be served is told in the log, once; the former pair stays."""
        problem = ""
        try:
            chain, key = await asyncio.to_thread(self._read)
            if self._use(chain, key):
                log.info("webhooks are served with the certificate in %s", self._chain)
            self._served = True
        except OSError as error:
            problem = f"cannot read {error.filename}: {error.strerror}"
        except ValueError as error:
            problem = f"{self._chain}: {error}"
        if problem and problem != self._told:
            log.warning("certificates of the webhooks: %s", problem)
        self._told = problem
        self.problem = "" if self._served else problem

    def _read(self) -> tuple[bytes, bytes]:
        return self._chain.read_bytes(), self._key.read_bytes()
