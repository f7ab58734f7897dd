"""When certificates of the operator's own are made anew, in which order, so that no API server ever meets one it does not trust.

A new authority is first told (it stands in the bundle beside the old one), and signs only when every webhook configuration has had
it for a while; the old one stays in the bundle until it ends. All replicas decide this from the same Secret.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache

from kuberay.operator.webhooks.authority import Facts, fits, issue, new_authority, read

RENEWED_AFTER = 2 / 3
"""The share of its life after which a certificate is followed by another: what is left is the time for troubles."""

MOST_AUTHORITIES = 4
"""In a bundle. More than two are there only when Secrets were lost."""


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """How long things last. *serving* is chosen; the rest follows from it."""

    serving: timedelta = timedelta(days=90)

    @property
    def authority(self) -> timedelta:
        return 4 * self.serving

    @property
    def settled(self) -> timedelta:
        """How long a bundle must have been published before a certificate needs it: API servers hear of it within a second
        or so, and replicas that had not seen the new bundle yet might put the old one back until they look again."""
        return min(timedelta(minutes=5), self.serving / 6)

    @property
    def look_every(self) -> float:
        """Seconds between two looks at the Secret and the configurations."""
        return min(30.0, self.settled.total_seconds() / 5)


@dataclass(frozen=True, slots=True)
class Ring:
    """What the Secret holds: whom to trust, the newest first, the newest one's key, and what is served. All PEM."""

    authorities: tuple[bytes, ...]
    authority_key: bytes
    certificate: bytes
    key: bytes

    @property
    def bundle(self) -> bytes:
        """For ``caBundle``."""
        return b"".join(self.authorities)


@lru_cache(maxsize=8)
def usable(ring: Ring) -> bool:
    """Whether it is whole: everything can be read, keys fit, and what is served is signed by somebody of the bundle."""
    try:
        authorities, (leaf,) = read(ring.bundle), read(ring.certificate)
        return (
            fits(ring.authorities[0], ring.authority_key)
            and fits(ring.certificate, ring.key)
            and leaf.signer in {each.key for each in authorities}
        )
    except (ValueError, IndexError):
        return False


def next_ring(
    ring: Ring | None,
    now: datetime,
    names: Collection[str],
    *,
    published: bool,
    trusted: Sequence[bytes] = (),
    lifetimes: Lifetimes | None = None,
) -> Ring:
    """What the Secret should hold now; *ring* itself when that is what it holds.

    *published*: every configuration there is has the bundle of *ring*. *trusted* are authorities (PEM) that configurations name
    while there is no ring: replicas may still serve what one of them signed.
    """
    lives = lifetimes or Lifetimes()
    if ring is None:
        return _begin(now, names, trusted, lives)
    authorities = read(ring.bundle)
    (leaf,) = read(ring.certificate)
    newest = authorities[0]
    signer = next((each for each in authorities if each.key == leaf.signer), None)
    if newest.ends <= now:
        return _begin(now, names, [each.pem for each in authorities], lives)
    # Nobody trusts what is served any more: there is nothing left to be careful with.
    over = signer is None or min(leaf.ends, signer.ends) <= now
    alive = [each for each in authorities if each.ends > now][:MOST_AUTHORITIES]
    if len(alive) < len(authorities):
        return replace(ring, authorities=tuple(each.pem for each in alive))
    if newest.passed(now) >= RENEWED_AFTER and not over:
        certificate, key = new_authority(now, lives.authority)
        return replace(ring, authorities=(certificate, *ring.authorities), authority_key=key)
    known = over or signer is newest or (published and now >= newest.created + lives.settled)
    due = signer is not newest or leaf.passed(now) >= RENEWED_AFTER or not leaf.names.issuperset(names)
    if due and known:
        certificate, key = issue(newest.pem, ring.authority_key, leaf.names.union(names), now, lives.serving)
        if over or _lasts_longer(certificate, leaf) or not leaf.names.issuperset(names):
            return replace(ring, certificate=certificate, key=key)
    return ring


def _lasts_longer(certificate: bytes, leaf: Facts) -> bool:
    """One that ends with its authority is not made again and again."""
    (made,) = read(certificate)
    return made.ends > leaf.ends


def _begin(now: datetime, names: Collection[str], trusted: Sequence[bytes], lives: Lifetimes) -> Ring:
    certificate, key = new_authority(now, lives.authority)
    others = [each.pem for each in read(b"".join(trusted)) if each.ends > now]
    leaf, leaf_key = issue(certificate, key, names, now, lives.serving)
    return Ring((certificate, *others[: MOST_AUTHORITIES - 1]), key, leaf, leaf_key)
