"""Certificates of the operator's own: what is made when, and that a server is always trusted by whoever heard of it a while ago."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta

import pytest
from kuberay.operator.webhooks.authority import BACKDATED, fits, issue, new_authority, read
from kuberay.operator.webhooks.rotation import MOST_AUTHORITIES, Lifetimes, Ring, next_ring, usable

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LIVES = Lifetimes(timedelta(days=90))
NAMES = ["webhook.ns.svc"]
DAY = timedelta(days=1)


def begin(now: datetime = NOW) -> Ring:
    return next_ring(None, now, NAMES, published=False, lifetimes=LIVES)


def after(ring: Ring, now: datetime, *, published: bool = True, names: list[str] | None = None) -> Ring:
    return next_ring(ring, now, names or NAMES, published=published, lifetimes=LIVES)


def verifies(bundle: bytes, ring: Ring) -> bool:
    """Whether a client that trusts *bundle* (PEM) takes what *ring* serves, by a handshake in memory."""
    import tempfile

    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as chain, tempfile.NamedTemporaryFile() as key:
        chain.write(ring.certificate)
        key.write(ring.key)
        chain.flush()
        key.flush()
        server.load_cert_chain(chain.name, key.name)
    client = ssl.create_default_context(cadata=bundle.decode())
    # Times are virtual here; they are looked at by `current`.
    client.verify_flags |= 0x200000  # X509_V_FLAG_NO_CHECK_TIME
    ends = [ssl.MemoryBIO() for _ in range(4)]
    one = client.wrap_bio(ends[0], ends[1], server_hostname=NAMES[0])
    two = server.wrap_bio(ends[2], ends[3], server_side=True)
    for _ in range(10):
        done = 0
        for side in (one, two):
            try:
                side.do_handshake()
                done += 1
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError:
                return False
            ends[2].write(ends[1].read())
            ends[0].write(ends[3].read())
        if done == 2:
            return True
    return False


def current(ring: Ring, now: datetime) -> bool:
    """Whether what is served, and its signer, hold at that time."""
    (leaf,) = read(ring.certificate)
    signer = next(each for each in read(ring.bundle) if each.key == leaf.signer)
    return leaf.created - BACKDATED <= now < leaf.ends and now < signer.ends


def test_the_first_ring_is_whole() -> None:
    ring = begin()
    assert usable(ring)
    assert verifies(ring.bundle, ring)
    (leaf,), (authority,) = read(ring.certificate), read(ring.bundle)
    assert leaf.names == {"webhook.ns.svc"}
    assert leaf.ends == NOW + 90 * DAY
    assert authority.ends == NOW + 360 * DAY
    assert leaf.created == authority.created == NOW


def test_addresses_are_names_too() -> None:
    ring = after(begin(), NOW, names=["127.0.0.1", "::1", "host.example"])
    (leaf,) = read(ring.certificate)
    assert leaf.names == {"webhook.ns.svc", "127.0.0.1", "::1", "host.example"}
    assert verifies(ring.bundle, ring)


def test_nothing_is_made_anew_without_need() -> None:
    ring = begin()
    for day in range(60):
        assert after(ring, NOW + day * DAY) is ring


def test_a_certificate_is_renewed_by_the_same_authority() -> None:
    ring = begin()
    renewed = after(ring, NOW + 61 * DAY)
    assert renewed.authorities == ring.authorities
    assert renewed.certificate != ring.certificate
    assert verifies(ring.bundle, renewed)
    (leaf,) = read(renewed.certificate)
    assert leaf.ends == NOW + 151 * DAY


def test_a_new_name_is_added_at_once() -> None:
    ring = begin()
    (leaf,) = read(after(ring, NOW, names=["other.ns.svc"]).certificate)
    assert leaf.names == {"webhook.ns.svc", "other.ns.svc"}, "another replica may serve under the old one"


def test_a_new_authority_is_told_first_and_signs_later() -> None:
    ring = after(after(begin(), NOW + 61 * DAY), NOW + 121 * DAY)
    ring = after(after(ring, NOW + 181 * DAY), NOW + 239 * DAY)
    due = NOW + 241 * DAY
    told = after(ring, due)
    assert len(told.authorities) == 2
    assert told.authorities[1] == ring.authorities[0]
    assert told.certificate == ring.certificate
    assert fits(told.authorities[0], told.authority_key)
    assert verifies(ring.bundle, told), "whoever has not heard of it yet trusts what is served"
    # Not before everybody was told, and not right after.
    assert after(told, due + 20 * DAY, published=False) is told
    assert after(told, due + LIVES.settled - timedelta(seconds=1)) is told
    signed = after(told, due + LIVES.settled)
    assert signed.authorities == told.authorities
    assert verifies(told.bundle, signed)
    assert not verifies(ring.bundle, signed)
    assert after(signed, due + DAY) is signed
    # The old one stays as long as it lives.
    (_, old) = read(signed.bundle)
    assert len(after(signed, old.ends - timedelta(hours=1)).authorities) == 2
    assert after(signed, old.ends).authorities == signed.authorities[:1]


@pytest.mark.parametrize("away", [91, 241, 359, 361, 4000])
def test_after_a_long_sleep_everything_is_right_within_a_few_looks(away: int) -> None:
    now = NOW + away * DAY
    ring = begin()
    for _ in range(6):
        ring = after(ring, now)
        assert usable(ring)
        assert current(ring, now)
        now += LIVES.settled
    (leaf,) = read(ring.certificate)
    assert leaf.signer == read(ring.bundle)[0].key
    assert len(ring.authorities) <= 2


def test_what_was_trusted_before_stays_trusted_when_there_is_no_secret() -> None:
    """Other replicas may serve what it signed until they look again."""
    lost, foreign = begin(), begin(NOW - DAY)
    over = new_authority(NOW - 400 * DAY, 360 * DAY)[0]
    many = [*foreign.authorities, *lost.authorities, over]
    ring = next_ring(None, NOW, NAMES, published=False, trusted=many, lifetimes=LIVES)
    assert ring.authorities[1:] == (*foreign.authorities, *lost.authorities)
    assert verifies(ring.bundle, lost)
    assert verifies(ring.bundle, ring)
    crowd = [new_authority(NOW, DAY)[0] for _ in range(9)]
    assert len(next_ring(None, NOW, NAMES, published=False, trusted=crowd).authorities) == MOST_AUTHORITIES


def test_five_years_of_looks() -> None:
    """Whoever heard of a bundle when it was published trusts whatever is served since then, until the next one is."""
    ring, now = begin(), NOW
    heard = [ring.bundle]
    made = 0
    while now < NOW + 1826 * DAY:
        now += timedelta(hours=6)
        before = ring
        ring = after(ring, now)
        if ring is before:
            continue
        made += 1
        assert usable(ring)
        assert current(ring, now)
        assert verifies(heard[-1], ring), f"what is served {now} is not trusted by those who heard of the last bundle"
        if ring.bundle != heard[-1]:
            heard.append(ring.bundle)
    assert 30 < made < 60
    assert len(heard) > 10


@pytest.mark.parametrize(
    "broken",
    [
        Ring((), b"", b"", b""),
        Ring((b"nonsense",), b"", b"", b""),
        Ring(begin().authorities, begin().authority_key, begin().certificate, begin().key),
        Ring(begin().authorities, b"-----BEGIN", begin().certificate, begin().key),
    ],
    ids=["empty", "nonsense", "mixed", "half"],
)
def test_what_is_not_whole(broken: Ring) -> None:
    assert not usable(broken)


def test_keys_of_others_do_not_fit() -> None:
    certificate, key = new_authority(NOW, DAY)
    leaf, leaf_key = issue(certificate, key, ["a"], NOW, DAY)
    assert fits(certificate, key)
    assert fits(leaf, leaf_key)
    assert not fits(leaf, key)


@pytest.mark.parametrize("days", [1 / 1440, 1, 90, 3650])
def test_what_follows_from_a_lifetime(days: float) -> None:
    lives = Lifetimes(timedelta(days=days))
    third = lives.serving / 3
    assert timedelta(seconds=5 * lives.look_every) <= lives.settled <= third / 2
    assert lives.authority / 3 > lives.serving, "a certificate of an authority that is about to be followed lives on"
