"""Certificates as TLS sees them: who trusts whom before, while and after an authority is replaced."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from kuberay_mtls.signing import Authority, Leaf, bundle, chain

NOW = datetime.now(UTC).replace(microsecond=0)
DAY = timedelta(days=1)


def authority(number: int, *, seed: bytes = b"", age: timedelta = DAY) -> Authority:
    return Authority(seed or bytes([number]) * 44, "a-cluster", number, NOW - age, 300 * DAY)


OLD, NEW, STRANGER = authority(1, age=201 * DAY), authority(2), authority(1, seed=b"s" * 44)


def leaf(address: str = "10.0.0.5", *, name: str = "pod", lifetime: timedelta = 30 * DAY) -> Leaf:
    return Leaf(name, ("localhost",), ("127.0.0.1", address), NOW, lifetime)


class Process:
    """What one Ray process has loaded: files as its pod has them when it starts."""

    def __init__(self, folder: Path, signer: Authority, known: list[Authority], address: str = "10.0.0.5") -> None:
        certificate, key, _ = signer.issue(leaf(address))
        self.files = (folder / "tls.crt", folder / "tls.key", folder / "ca.crt")
        folder.mkdir()
        for path, data in zip(self.files, (certificate + chain(signer, known), key, bundle(known)), strict=True):
            path.write_bytes(data)

    def context(self, purpose: int) -> ssl.SSLContext:
        """Both sides show a certificate and check the other's, as Ray's gRPC does; clients check the address, too."""
        context = ssl.SSLContext(purpose)
        context.load_cert_chain(*self.files[:2])
        context.load_verify_locations(self.files[2])
        context.verify_mode = ssl.CERT_REQUIRED
        return context


def handshake(client: Process, server: Process, address: str = "10.0.0.5") -> None:
    """Raises `ssl.SSLError` when one refuses the other."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    calling = client.context(ssl.PROTOCOL_TLS_CLIENT).wrap_bio(to_client, to_server, server_hostname=address)
    serving = server.context(ssl.PROTOCOL_TLS_SERVER).wrap_bio(to_server, to_client, server_side=True)
    done: set[ssl.SSLObject] = set()
    for _ in range(20):
        for side in (calling, serving):
            try:
                side.do_handshake()
                done.add(side)
            except ssl.SSLWantReadError:
                pass
        if len(done) == 2:
            return
    raise AssertionError("the handshake came to no end")


def test_the_same_question_gets_the_same_bytes() -> None:
    assert authority(1).issue(leaf()) == authority(1).issue(leaf())
    assert bundle([authority(1), authority(2)]) == bundle([authority(2), authority(1)])
    others = [leaf("10.0.0.6"), leaf(name="other"), Leaf("pod", (), ("127.0.0.1",), NOW, DAY)]
    keys = {authority(1).issue(each)[1] for each in [leaf(), *others]} | {authority(2).issue(leaf())[1]}
    assert len(keys) == 5


def test_pods_of_one_authority_talk_to_each_other_and_to_nobody_else(tmp_path: Path) -> None:
    one, other = Process(tmp_path / "a", NEW, [NEW]), Process(tmp_path / "b", NEW, [NEW], "10.0.0.6")
    handshake(one, other, "10.0.0.6")
    handshake(other, one)
    with pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"):
        handshake(one, other, "10.0.0.7")
    stranger = Process(tmp_path / "c", STRANGER, [STRANGER])
    for client, server in ((one, stranger), (stranger, one)):
        with pytest.raises(ssl.SSLError):
            handshake(client, server)


def test_a_new_authority_is_trusted_by_processes_that_started_before_it(tmp_path: Path) -> None:
    """Ray's servers read whom to trust once, so an old head knows the old authority only, whatever its files say by now."""
    before = Process(tmp_path / "before", OLD, [OLD])
    after = Process(tmp_path / "after", NEW, [OLD, NEW], "10.0.0.6")
    handshake(before, after, "10.0.0.6")
    handshake(after, before)


def test_the_old_authority_is_trusted_until_it_has_ended_and_no_longer(tmp_path: Path) -> None:
    before = Process(tmp_path / "before", OLD, [OLD])
    later = Process(tmp_path / "later", NEW, [NEW], "10.0.0.6")
    with pytest.raises(ssl.SSLError):
        handshake(later, before)


@pytest.mark.parametrize("known", [[OLD], [OLD, NEW]], ids=["knows the first", "knows both"])
def test_a_third_authority_is_trusted_by_all_that_know_the_first(known: list[Authority], tmp_path: Path) -> None:
    third = authority(3, age=timedelta(0))
    before = Process(tmp_path / "before", known[-1], known)
    after = Process(tmp_path / "after", third, [OLD, NEW, third], "10.0.0.6")
    handshake(before, after, "10.0.0.6")
    handshake(after, before)


def test_a_certificate_ends_with_who_signed_it() -> None:
    certificate, _, ends = OLD.issue(leaf(lifetime=1000 * DAY))
    assert ends == OLD.ends
    parsed = x509.load_pem_x509_certificate(certificate)
    assert parsed.not_valid_after_utc == OLD.ends
    assert parsed.not_valid_before_utc == NOW - timedelta(hours=1)


def test_long_names_fit() -> None:
    long = Authority(b"x" * 44, "c" * 63, 12, NOW, DAY)
    subject = x509.load_pem_x509_certificate(long.certificate).subject.rfc4514_string()
    assert subject == f"CN={'ray-ca-' + 'c' * 54}-12"
    assert long.issue(leaf(name="p" * 70))[0]
