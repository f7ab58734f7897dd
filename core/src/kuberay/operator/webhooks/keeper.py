"""Keeps certificates of the operator's own: in a Secret that all replicas share, and trusted by the webhook configurations.

Every replica does the same: what is decided follows from the Secret (`rotation`), writes of it are conditional, and a bundle is only
written where it differs. So whoever comes first acts, the others find it done, and no leader is needed.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import orjson

from kuberay.api.kinds import SECRET, Kind
from kuberay.api.names import APP_NAME, COMPONENT
from kuberay.kube.client import Client
from kuberay.kube.clock import Clock
from kuberay.kube.errors import AlreadyExistsError, ApiError, ConflictError, NotFoundError
from kuberay.kube.transport import TransportError
from kuberay.operator.webhooks.authority import read
from kuberay.operator.webhooks.configurations import (
    MUTATING,
    VALIDATING,
    bundles,
    hosts,
    service_host,
    trusting,
)
from kuberay.operator.webhooks.rotation import Lifetimes, Ring, next_ring, usable

log = logging.getLogger("kuberay.operator.webhooks")

Manifest = dict[str, Any]

_CA, _CA_KEY, _CERTIFICATE, _KEY = "ca.crt", "ca.key", "tls.crt", "tls.key"
_TRIES = 5
"""How often a write is repeated that another replica was faster with."""
RETRY_SECONDS = 2.0
"""After a look that failed; twice as long after each further one."""


class Keeper:
    """*use* is given chain and key, PEM, that are to be served from now on."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        *,
        namespace: str,
        name: str,
        use: Callable[[bytes, bytes], bool],
        lifetimes: Lifetimes | None = None,
    ) -> None:
        """*name* is that of the Service and of both configurations; the Secret is called ``<name>-certificates``."""
        self._client = client
        self._clock = clock
        self._namespace = namespace
        self._name = name
        self._use = use
        self._lifetimes = lifetimes or Lifetimes()
        self._ring: Ring | None = None
        """What was served last: a Secret that somebody deleted is made again of it."""
        self._told_of_absence = False
        self.problem = f"the certificates in the Secret {namespace}/{self.secret} were not looked at yet"
        """Why nothing can be served yet, in one sentence; empty once it can."""

    @property
    def secret(self) -> str:
        """Name of the Secret."""
        return f"{self._name}-certificates"

    async def run(self) -> None:
        """Look again and again, for ever."""
        pause, told = self._lifetimes.look_every, ""
        while True:
            try:
                await self.look()
                pause, told = self._lifetimes.look_every, ""
            except (ApiError, TransportError) as error:
                pause = RETRY_SECONDS if not told else min(2 * pause, self._lifetimes.look_every)
                if str(error) != told:
                    log.warning("certificates of the webhooks: will look again: %s", error)
                told = str(error)
            except Exception:
                # What is served is served on; it lasts for a while.
                log.exception("certificates of the webhooks could not be looked after; will look again")
            await asyncio.sleep(pause)

    async def look(self) -> None:
        """Bring the Secret, the configurations and what is served up to date. Raises `ApiError` or `TransportError`."""
        found = await self._configurations()
        if not found and not self._told_of_absence:
            log.warning(
                "there is no %s %s, so nothing is checked before it is stored; 'kuberay webhooks' prints one",
                VALIDATING.kind,
                self._name,
            )
        self._told_of_absence = not found
        ring = await self._agreed(found)
        for kind, configuration in found.items():
            if any(bundle != ring.bundle for bundle in bundles(configuration)):
                body = trusting(kind, configuration, ring.bundle)
                await self._client.apply(kind, "", self._name, body)
                log.info("%s %s trusts the present authorities", kind.kind, self._name)
        # Last, so that what is served is always something that was told before.
        self._ring = ring
        if self._use(ring.certificate, ring.key):
            (leaf,) = read(ring.certificate)
            log.info("webhooks are served with a certificate that ends %s", leaf.ends.isoformat())
        self.problem = ""

    async def _configurations(self) -> Mapping[Kind, Manifest]:
        found: dict[Kind, Manifest] = {}
        for kind in (VALIDATING, MUTATING):
            with suppress(NotFoundError):
                found[kind] = orjson.loads(await self._client.get(kind, "", self._name))
        return found

    async def _agreed(self, found: Mapping[Kind, Manifest]) -> Ring:
        """The ring that the Secret holds after it was brought up to date, by us or by another replica."""
        names = hosts(found.values()) | {service_host(self._name, self._namespace)}
        for _ in range(_TRIES):
            stored = await self._stored()
            ring = _ring_of(stored)
            if stored is not None and ring is None:
                log.warning("the Secret %s/%s does not hold certificates that fit; it is written anew", *self._where)
            present = ring or self._ring
            published = present is not None and all(
                bundle == present.bundle for configuration in found.values() for bundle in bundles(configuration)
            )
            wanted = next_ring(
                present,
                self._clock.now(),
                names,
                published=published,
                trusted=_readable(found.values()),
                lifetimes=self._lifetimes,
            )
            if wanted == ring:
                return ring
            with suppress(AlreadyExistsError, ConflictError, NotFoundError):
                await self._write(wanted, stored)
                return wanted
        raise TransportError(f"the Secret {self._namespace}/{self.secret} is changed by others all the time")

    @property
    def _where(self) -> tuple[str, str]:
        return self._namespace, self.secret

    async def _stored(self) -> Manifest | None:
        try:
            stored: Manifest = orjson.loads(await self._client.get(SECRET, self._namespace, self.secret))
        except NotFoundError:
            return None
        return stored

    async def _write(self, ring: Ring, stored: Manifest | None) -> None:
        """Conditional: where another replica has written since, it fails."""
        data = {_CA: ring.bundle, _CA_KEY: ring.authority_key, _CERTIFICATE: ring.certificate, _KEY: ring.key}
        body: Manifest = {
            "apiVersion": SECRET.api_version,
            "kind": SECRET.kind,
            "type": "kubernetes.io/tls",
            "metadata": {
                "name": self.secret,
                "namespace": self._namespace,
                "labels": {"app.kubernetes.io/name": COMPONENT, "app.kubernetes.io/part-of": APP_NAME},
            },
            "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
        }
        if stored is None:
            await self._client.create(SECRET, self._namespace, body)
            return
        body = {**stored, "data": {**(stored.get("data") or {}), **body["data"]}}
        await self._client.replace(SECRET, self._namespace, self.secret, body)


def _ring_of(stored: Mapping[str, Any] | None) -> Ring | None:
    """What a Secret holds; None when it is not whole."""
    data = (stored or {}).get("data") or {}
    try:
        ca, ca_key, certificate, key = (
            base64.b64decode(data.get(each) or "") for each in (_CA, _CA_KEY, _CERTIFICATE, _KEY)
        )
        ring = Ring(tuple(each.pem for each in read(ca)), ca_key, certificate, key)
    except ValueError:
        return None
    return ring if usable(ring) else None


def _readable(configurations: Sequence[Mapping[str, Any]] | Any) -> list[bytes]:
    """Authorities that configurations trust now, each once."""
    found: dict[bytes, None] = {}
    for configuration in configurations:
        for bundle in bundles(configuration):
            with suppress(ValueError):
                found.update(dict.fromkeys(each.pem for each in read(bundle)))
    return list(found)
