"""Certificates for the webhooks: an authority, what it signs, and what a certificate says of itself.

Keys are ECDSA on P-256, which every API server speaks. The package `cryptography` comes with the extra ``webhooks``.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

BACKDATED = timedelta(hours=1)
"""How much earlier certificates begin, for API servers whose clocks are behind."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a certificate says of itself."""

    pem: bytes
    created: datetime
    ends: datetime
    names: frozenset[str]
    """DNS names and addresses it is for; none of an authority."""
    key: bytes
    """Identifies its own key, and its signer's."""
    signer: bytes

    def passed(self, now: datetime) -> float:
        """The share of its life that is over."""
        return (now - self.created) / (self.ends - self.created)


def new_authority(now: datetime, lifetime: timedelta) -> tuple[bytes, bytes]:
    """Certificate and key of an authority of its own, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"kuberay-webhooks-{now:%Y%m%d%H%M%S}")])
    own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        _begun(now, lifetime)
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(own, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier(own.digest, None, None), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _pem(certificate), _key_pem(key)


def issue(
    authority: bytes, authority_key: bytes, names: Collection[str], now: datetime, lifetime: timedelta
) -> tuple[bytes, bytes]:
    """Certificate and key of a server of these *names*, as PEM; it ends with the authority at the latest."""
    signer = x509.load_pem_x509_certificate(authority)
    signer_key = serialization.load_pem_private_key(authority_key, None)
    assert isinstance(signer_key, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    ordered = sorted(names)
    lifetime = min(lifetime, signer.not_valid_after_utc - now)
    certificate = (
        _begun(now, lifetime)
        # A common name is short; what counts are the alternatives.
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kuberay-webhooks")]))
        .issuer_name(signer.subject)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general(name) for name in ordered]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier(_own_key(signer), None, None), critical=False)
        .sign(signer_key, hashes.SHA256())
    )
    return _pem(certificate), _key_pem(key)


@lru_cache(maxsize=32)
def read(pem: bytes) -> tuple[Facts, ...]:
    """The certificates in *pem*, in their order. Raises ValueError when one cannot be read."""
    return tuple(map(_facts, x509.load_pem_x509_certificates(pem))) if pem.strip() else ()


def fits(certificate: bytes, key: bytes) -> bool:
    """Whether *key* is that of the certificate; both PEM."""
    try:
        private = serialization.load_pem_private_key(key, None)
    except (ValueError, TypeError):
        return False
    public = x509.load_pem_x509_certificate(certificate).public_key()
    return isinstance(private, ec.EllipticCurvePrivateKey) and private.public_key() == public


def _facts(certificate: x509.Certificate) -> Facts:
    extensions = certificate.extensions
    signer, names = b"", list[str]()
    with suppress(x509.ExtensionNotFound):
        signer = extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier or b""
    with suppress(x509.ExtensionNotFound):
        found = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names = found.get_values_for_type(x509.DNSName)
        names += [str(address) for address in found.get_values_for_type(x509.IPAddress)]
    return Facts(
        pem=_pem(certificate),
        created=certificate.not_valid_before_utc + BACKDATED,
        ends=certificate.not_valid_after_utc,
        names=frozenset(names),
        key=_own_key(certificate),
        signer=signer,
    )


def _own_key(certificate: x509.Certificate) -> bytes:
    return x509.SubjectKeyIdentifier.from_public_key(certificate.public_key()).digest


def _begun(now: datetime, lifetime: timedelta) -> x509.CertificateBuilder:
    now = now.replace(microsecond=0)
    return (
        x509.CertificateBuilder()
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + lifetime)
    )


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _usage(*, signs: bool) -> x509.KeyUsage:
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


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
