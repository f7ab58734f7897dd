"""Which authorities and certificates a RayCluster with an authority of its own has, and which are due to be made or renewed.

Every pod has a Secret with a certificate of its own, made when its address is known, and owned by the pod: it goes when the pod
has gone. Workers that come and go so change nothing for others, and no list of addresses grows. Source: cases.md SE-02.
"""

from __future__ import annotations

import hashlib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from ipaddress import ip_address

from kuberay.api import names
from kuberay.api.kinds import POD, SECRET
from kuberay.api.times import format_time, parse_time
from kuberay.hooks import OwnerContext, PodAnnotations, RandomSecret
from kuberay.hooks.types import LivePod, Manifest

from kuberay_mtls import naming
from kuberay_mtls.config import MtlsSettings
from kuberay_mtls.signing import Authority, Leaf, bundle, chain

SEED = "seed"
SEED_BYTES = 32
ADDRESS = "address"
"""Key of a pod's Secret: for which address its certificate is. The pod waits until it is its own."""
_LOCAL = ("127.0.0.1", "::1")
_MOST = 9999
"""Authorities that one RayCluster can have."""


@dataclass(frozen=True, slots=True)
class Certificates:
    """What the live objects of a RayCluster say."""

    authorities: tuple[Authority, ...]
    """Those that have not ended, the newest last. Empty until the first has been made."""
    unreadable: tuple[str, ...]
    """Secrets of authorities without a seed."""
    highest: int
    """The highest number that any has, 0 without one."""
    trusted: str
    """A digest of whom to trust."""


def exists(ctx: OwnerContext) -> bool:
    """Whether this RayCluster has an authority of its own."""
    return bool(_authority_secrets(ctx))


def read(ctx: OwnerContext, settings: MtlsSettings) -> Certificates:
    """The authorities as their Secrets say."""
    authorities: list[Authority] = []
    unreadable: list[str] = []
    highest = 0
    for number, secret in sorted(_authority_secrets(ctx).items()):
        highest = number
        seed = b64decode((secret.get("data") or {}).get(SEED) or "")
        if len(seed) < SEED_BYTES:
            unreadable.append(secret["metadata"]["name"])
            continue
        created = _time(secret["metadata"].get("creationTimestamp")) or ctx.now
        authority = Authority(seed, ctx.name, number, created, settings.authority_duration)
        if ctx.now < authority.ends:
            authorities.append(authority)
    trusted = hashlib.sha256(bundle(authorities)).hexdigest()
    return Certificates(tuple(authorities), tuple(unreadable), highest, trusted)


def missing_authority(ctx: OwnerContext, found: Certificates) -> RandomSecret | None:
    """The Secret of the next authority, when it is time for one: at first, after two thirds of a life, or when the user asks."""
    asked = asked_for(ctx)
    due = not found.authorities and not found.unreadable
    due = due or bool(found.authorities and ctx.now >= found.authorities[-1].renew_after)
    number = max(found.highest + due, asked)
    if number <= found.highest:
        return None
    secret_labels = {**naming.labels(ctx, "tls-authority"), naming.LABEL_AUTHORITY: str(number)}
    return RandomSecret(naming.authority_secret(ctx, number), {SEED: SEED_BYTES}, secret_labels)


def asked_for(ctx: OwnerContext) -> int:
    """The number of the RayCluster's annotation; 0 when there is none or it is none."""
    text = ctx.annotations.get(naming.ANNOTATION_AUTHORITY, "")
    return int(text) if text.isascii() and text.isdigit() and int(text) <= _MOST else 0


def annotation_problem(ctx: OwnerContext) -> str:
    """What is wrong with the annotation, in one sentence; empty when nothing is."""
    text = ctx.annotations.get(naming.ANNOTATION_AUTHORITY)
    if text is None or asked_for(ctx):
        return ""
    return f"{text!r} is no number of an authority; write a whole number from 1 to {_MOST}, or remove it"


def missing_certificates(ctx: OwnerContext, found: Certificates, settings: MtlsSettings) -> list[Manifest]:
    """Secrets of pods that have an address, and of clients outside, that are absent or not as they should be."""
    if not found.authorities:
        return []
    wanted = [_Wanted(ctx, found, settings)]
    wanted += [_Wanted(ctx, found, settings, pod) for pod in ctx.pods() if _is_address(pod.ip)]
    return [each.manifest() for each in wanted if not each.is_taken and not each.is_issued]


def announcements(ctx: OwnerContext, found: Certificates, settings: MtlsSettings) -> list[PodAnnotations]:
    """For pods whose Secret is there: the kubelet looks at the Secrets of a pod at once when the pod's annotations change."""
    notes: list[PodAnnotations] = []
    for pod in ctx.pods() if found.authorities else ():
        if not _is_address(pod.ip) or pod.annotations.get(naming.ANNOTATION_READY_FOR) == pod.ip:
            continue
        wanted = _Wanted(ctx, found, settings, pod)
        if wanted.is_issued and wanted.live is not None:
            expires = (wanted.live["metadata"].get("annotations") or {}).get(naming.ANNOTATION_EXPIRES, "")
            values = {naming.ANNOTATION_READY_FOR: pod.ip, naming.ANNOTATION_EXPIRES: expires}
            notes.append(PodAnnotations(pod.name, values))
    return notes


def troubles(ctx: OwnerContext, found: Certificates, settings: MtlsSettings) -> list[str]:
    """Why pods have no certificate, one sentence each."""
    told = [
        f"the Secret {ctx.namespace}/{name} of the certificate authority has no {SEED}; delete it to have a new authority made"
        for name in found.unreadable
    ]
    for pod in ctx.pods():
        if _is_address(pod.ip) and found.authorities and _Wanted(ctx, found, settings, pod).is_taken:
            told.append(
                f"pod {pod.name} has no certificate because the Secret {ctx.namespace}/{naming.pod_secret(pod.name)} is not its own"
            )
    return told


def ending_soon(ctx: OwnerContext, settings: MtlsSettings) -> str:
    """Which pods run with a certificate that ends soon, in one sentence; empty when none does. What was renewed since is not
    read by processes that run already."""
    soon: dict[str, datetime] = {}
    for pod in ctx.pods():
        expires = _time(pod.annotations.get(naming.ANNOTATION_EXPIRES))
        if expires is not None and ctx.now >= expires - settings.certificate_duration / 3:
            soon[pod.name] = expires
    if not soon:
        return ""
    first, *others = sorted(soon, key=lambda name: (soon[name], name))
    more = f" and of {len(others)} more" if others else ""
    return (
        f"the certificate with which the processes of pod {first}{more} started ends at {format_time(soon[first])}; "
        "Ray reads certificates when a process starts, so replace the pods before"
    )


class _Wanted:
    """The Secret of one pod, or without one that of clients outside the cluster, as it is and as it should be."""

    def __init__(
        self, ctx: OwnerContext, found: Certificates, settings: MtlsSettings, pod: LivePod | None = None
    ) -> None:
        self._ctx, self._pod = ctx, pod
        self._signer = found.authorities[-1]
        self._all = found.authorities
        self._trusted = found.trusted
        self._lifetime = settings.certificate_duration
        self.name = naming.pod_secret(pod.name) if pod else naming.shared_secret(ctx.name, names.WORKER)
        self.live = ctx.child(SECRET, self.name)
        self._address = pod.ip if pod else ""

    @property
    def is_taken(self) -> bool:
        """Whether another one's Secret has the name: that of a former pod, which is about to go, or somebody's."""
        if self.live is None:
            return False
        owner = self._pod.uid if self._pod else self._ctx.uid
        references = self.live["metadata"].get("ownerReferences") or ()
        return not any(each.get("controller") and each.get("uid") == owner for each in references)

    @property
    def is_issued(self) -> bool:
        """Whether the live Secret is what it should be, and not due to be renewed."""
        if self.live is None or self.is_taken:
            return False
        annotations = self.live["metadata"].get("annotations") or {}
        renew = _time(annotations.get(naming.ANNOTATION_RENEW))
        if renew is None or self._ctx.now >= renew:
            return False
        return annotations.get(naming.ANNOTATION_MADE_OF) == self._digest(self.live.get("data") or {})

    def manifest(self) -> Manifest:
        """The Secret with a certificate from now on."""
        issued = self._ctx.now.replace(microsecond=0)
        leaf = Leaf(self.name, self._dns_names, self._addresses, issued, self._lifetime)
        certificate, key, ends = self._signer.issue(leaf)
        files = {
            "tls.crt": certificate + chain(self._signer, self._all),
            "tls.key": key,
            "ca.crt": bundle(self._all),
        }
        if self._address:
            files[ADDRESS] = self._address.encode()
        data = {name: b64encode(content).decode() for name, content in files.items()}
        metadata: Manifest = {
            "name": self.name,
            "namespace": self._ctx.namespace,
            "labels": {**naming.labels(self._ctx, "tls-certificate"), names.LABEL_PLUGIN: naming.PLUGIN},
            "annotations": {
                naming.ANNOTATION_MADE_OF: self._digest(data),
                naming.ANNOTATION_EXPIRES: format_time(ends),
                naming.ANNOTATION_RENEW: format_time(issued + (ends - issued) * 2 / 3),
            },
        }
        if self._pod is not None:
            reference = {"apiVersion": "v1", "kind": POD.kind, "name": self._pod.name, "uid": self._pod.uid}
            metadata["ownerReferences"] = [{**reference, "controller": True}]
        return {
            "apiVersion": "v1",
            "kind": SECRET.kind,
            "metadata": metadata,
            "type": "kubernetes.io/tls",
            "data": data,
        }

    def _digest(self, data: Mapping[str, str]) -> str:
        """Of everything that must not change without a new certificate, and of what the Secret holds."""
        asked = (self.name, str(self._lifetime), *self._dns_names, *self._addresses, self._trusted)
        held = (f"{name}={data[name]}" for name in sorted(data))
        return hashlib.sha256("\n".join((*asked, *held)).encode()).hexdigest()[:32]

    @property
    def _dns_names(self) -> tuple[str, ...]:
        if self._pod is None or self._pod.node_type != names.HEAD:
            return ("localhost",)
        fqdn = naming.head_fqdn(self._ctx)
        service = fqdn.partition(".")[0]
        inside = f"{service}.{self._ctx.namespace}"
        return tuple(sorted({"localhost", service, inside, f"{inside}.svc", fqdn}))

    @property
    def _addresses(self) -> tuple[str, ...]:
        return tuple(sorted({*_LOCAL, self._address} - {""}))


def _authority_secrets(ctx: OwnerContext) -> dict[int, Manifest]:
    found: dict[int, Manifest] = {}
    for secret in ctx.children(SECRET):
        number = (secret["metadata"].get("labels") or {}).get(naming.LABEL_AUTHORITY, "")
        if number.isascii() and number.isdigit() and not secret["metadata"].get("deletionTimestamp"):
            found[int(number)] = secret
    return found


def _time(text: str | None) -> datetime | None:
    try:
        return parse_time(text) if text else None
    except ValueError:
        return None


def _is_address(text: str) -> bool:
    try:
        return bool(text) and bool(ip_address(text))
    except ValueError:
        return False
