"""Keys and certificates of an authority, all of them functions of its seed: the same question gives the same bytes.

Hooks know no chance, and a pass that is repeated (after a crash, by a second replica, after a lost answer) must want the same
objects. The only chance is the seed, drawn once by whoever creates its Secret; keys come from it by HKDF (RFC 5869), signatures
are deterministic (RFC 6979). Keys are ECDSA on P-256: what gRPC's TLS takes, and cheap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property, lru_cache
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

BACKDATED = timedelta(hours=1)
"""How much earlier certificates begin, for nodes whose clocks are behind."""
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Of P-256 (SEC 2): private keys are below it."""
_LONGEST_NAME = 64
"""Characters of a common name (X.520)."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """What a certificate is for. ``issued`` is in whole seconds."""

    name: str
    dns_names: tuple[str, ...]
    addresses: tuple[str, ...]
    issued: datetime
    lifetime: timedelta


@dataclass(frozen=True)
class Authority:
    """One certificate authority. ``seed`` is the secret of which everything is made."""

    seed: bytes
    cluster: str
    number: int
    created: datetime
    lifetime: timedelta

    @property
    def ends(self) -> datetime:
        return self.created + self.lifetime

    @property
    def renew_after(self) -> datetime:
        """When its successor should take over."""
        return self.created + self.lifetime * 2 / 3

    @cached_property
    def certificate(self) -> bytes:
        """Signed by itself, as PEM."""
        return _authority_certificate(self, self)

    def signed_by(self, other: Authority) -> bytes:
        """Its certificate as *other* vouches for it, as PEM: processes that know only *other* trust what this one signs."""
        return _authority_certificate(self, other)

    def issue(self, leaf: Leaf) -> tuple[bytes, bytes, datetime]:
        """Certificate and key as PEM, and when the certificate ends."""
        identity = "\n".join([leaf.name, *leaf.dns_names, *leaf.addresses, leaf.issued.isoformat()])
        key = self._key(f"leaf\n{identity}")
        ends = min(leaf.issued + leaf.lifetime, self.ends)
        alternatives: list[x509.GeneralName] = [x509.DNSName(name) for name in leaf.dns_names]
        alternatives += [x509.IPAddress(ip_address(address)) for address in leaf.addresses]
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        certificate = (
            x509.CertificateBuilder()
            .subject_name(_common_name(leaf.name))
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(self._serial(f"leaf\n{identity}"))
            .not_valid_before(leaf.issued - BACKDATED)
            .not_valid_after(ends)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(_authority_key(self), critical=False)
            .sign(self._private_key, hashes.SHA256(), ecdsa_deterministic=True)
        )
        return certificate.public_bytes(serialization.Encoding.PEM), _pem(key), ends

    @cached_property
    def _private_key(self) -> ec.EllipticCurvePrivateKey:
        return self._key("authority")

    @property
    def _name(self) -> x509.Name:
        ending = f"-{self.number}"
        return _common_name(f"ray-ca-{self.cluster}"[: _LONGEST_NAME - len(ending)] + ending)

    def _key(self, purpose: str) -> ec.EllipticCurvePrivateKey:
        drawn = int.from_bytes(self._drawn(48, f"key\n{purpose}"), "big")
        # 128 bits more than the order has: the remainder is as good as uniform.
        return ec.derive_private_key(drawn % (_ORDER - 1) + 1, ec.SECP256R1())

    def _serial(self, purpose: str) -> int:
        return int.from_bytes(self._drawn(19, f"serial\n{purpose}"), "big") + 1

    def _drawn(self, size: int, purpose: str) -> bytes:
        return HKDF(hashes.SHA256(), size, salt=None, info=purpose.encode()).derive(self.seed)


@lru_cache(maxsize=1024)
def _authority_certificate(subject: Authority, signer: Authority) -> bytes:
    """Every pass asks for the same few, so they are kept."""
    own = subject == signer
    begins, ends = max(subject.created, signer.created), min(subject.ends, signer.ends)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject._name)
        .issuer_name(signer._name)
        .public_key(subject._private_key.public_key())
        .serial_number(subject._serial(f"authority\n{signer.number}"))
        .not_valid_before(begins - BACKDATED)
        .not_valid_after(ends)
        .add_extension(x509.BasicConstraints(ca=True, path_length=1 if own else 0), critical=True)
        .add_extension(_key_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(subject._private_key.public_key()), critical=False)
        .add_extension(_authority_key(signer), critical=False)
        .sign(signer._private_key, hashes.SHA256(), ecdsa_deterministic=True)
    )
    return certificate.public_bytes(serialization.Encoding.PEM)


def chain(signer: Authority, authorities: Sequence[Authority]) -> bytes:
    """What goes with a leaf of *signer*: its certificate by the oldest of *authorities*, since every process that may still
    run knows that one; empty when there is no older one."""
    oldest = min(authorities, key=lambda each: each.number)
    return b"" if oldest.number == signer.number else signer.signed_by(oldest)


def bundle(authorities: Sequence[Authority]) -> bytes:
    """Whom to trust, the newest first, as PEM."""
    newest_first = sorted(authorities, key=lambda each: -each.number)
    return b"".join(each.certificate for each in newest_first)


def _common_name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:_LONGEST_NAME])])


def _authority_key(signer: Authority) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(signer._private_key.public_key())


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
