"""A certificate authority, the serving certificates (leaves) that it signs, and its successor.

Keys are ECDSA P-256: small, and the cheapest handshake that every API server accepts. Certificates satisfy the strict
X.509 checks of Go and Python 3.13: key usages, key identifiers, names only in subjectAltName. A certificate becomes
valid an hour before it is made, so that an API server whose clock is a little behind accepts it. The clock is passed
in; keys are random.

    signing ──(successor added)──> signing + successor ──(promoted)──> signing' + previous ──(forgotten)──> signing'

A private key exists only as long as it signs: promotion destroys the old one. `previous` may also hold certificates
that were found in a CRD when this state was made: the certificates that served until then stay trusted until they are
replaced.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from restow.conversion.certificates.wiring.clientconfig import NO_BUNDLE, Bundle

#: How long before a certificate is made its validity begins.
BACKDATED: Final = timedelta(hours=1)


class CertificateError(ValueError):
    """A certificate or a key cannot be read, or they do not belong together."""


@dataclass(frozen=True)
class CertifiedKey:
    """A certificate and its private key (PKCS #8, not encrypted), both PEM.

    Raises:
        CertificateError: one of them is malformed, or the key is not the certificate's.
    """

    certificate: bytes
    key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if _public(self.private.public_key()) != _public(_key_of(self.x509)):
            msg = f"the private key is not the one of the certificate {self.x509.subject.rfc4514_string()}"
            raise CertificateError(msg)

    @cached_property
    def x509(self) -> x509.Certificate:
        """The certificate, parsed."""
        return _parsed(self.certificate)

    @cached_property
    def private(self) -> ec.EllipticCurvePrivateKey:
        """The key, parsed."""
        try:
            key = serialization.load_pem_private_key(self.key, password=None)
        except UnsupportedAlgorithm as error:
            msg = "the private key is of a kind, or on a curve, that cannot be used here"
            raise CertificateError(msg) from error
        except (ValueError, TypeError) as error:
            msg = "the private key is no unencrypted key in PEM"
            raise CertificateError(msg) from error
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            msg = "the private key is no ECDSA key"
            raise CertificateError(msg)
        return key

    @property
    def der(self) -> bytes:
        """The certificate as bundles hold it (DER)."""
        return self.x509.public_bytes(serialization.Encoding.DER)

    @property
    def made_at(self) -> datetime:
        """The time at which the certificate was made."""
        return self.x509.not_valid_before_utc + BACKDATED

    @property
    def not_after(self) -> datetime:
        """The end of its validity."""
        return self.x509.not_valid_after_utc


@dataclass(frozen=True)
class LeafCertificate(CertifiedKey):
    """A serving certificate."""

    @property
    def hosts(self) -> frozenset[str]:
        """The DNS names and IP addresses that it is valid for."""
        try:
            names = self.x509.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError):
            return frozenset()  # no readable names: it counts as valid for none, and is replaced
        dns, ips = names.get_values_for_type(x509.DNSName), names.get_values_for_type(x509.IPAddress)
        return frozenset((*dns, *map(str, ips)))


@dataclass(frozen=True)
class Authority(CertifiedKey):
    """A root that signs leaves."""

    @classmethod
    def create(cls, name: str, *, now: datetime, valid_for: timedelta) -> Authority:
        """Make a new root. Its name includes the date, so that two roots can be distinguished."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = now.astimezone(UTC).replace(microsecond=0)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{name} {now:%Y-%m-%dT%H:%M:%SZ}"[:64])])
        builder = (
            _builder(subject, subject, key.public_key(), now, now + valid_for)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
        )
        return cls(_pem(builder.sign(key, hashes.SHA256())), _private_pem(key))

    def issue(self, hosts: Iterable[str], *, now: datetime, valid_for: timedelta) -> LeafCertificate:
        """Sign a leaf with a new key for DNS names and IP addresses; it never outlives its authority."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = now.astimezone(UTC).replace(microsecond=0)
        names = [_general_name(host) for host in sorted(hosts)]
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "restow webhook")])
        builder = (
            _builder(subject, self.x509.subject, key.public_key(), now, min(now + valid_for, self.not_after))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.private.public_key()), critical=False
            )
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
        )
        return LeafCertificate(_pem(builder.sign(self.private, hashes.SHA256())), _private_pem(key))


def ends_at(certificate: bytes) -> datetime:
    """Return the end of validity of a certificate: the first one of a PEM file, whatever its key.

    Raises:
        CertificateError: the certificate is malformed.
    """
    return _parsed(certificate).not_valid_after_utc


def is_signed_by(leaf: LeafCertificate, root: bytes) -> bool:
    """Return whether a root certificate (DER) signed the leaf."""
    try:
        leaf.x509.verify_directly_issued_by(x509.load_der_x509_certificate(root))
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def root_of(pem: bytes) -> bytes:
    """Return the certificate of a CA (DER) without its private key.

    Raises:
        CertificateError: the PEM holds no certificate, or its key has an unsupported type.
    """
    found = _parsed(pem)
    _public(_key_of(found))
    return found.public_bytes(serialization.Encoding.DER)


def _parsed(pem: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        msg = "the certificate is no X.509 certificate in PEM"
        raise CertificateError(msg) from error


def _key_of(certificate: x509.Certificate) -> object:
    try:
        return certificate.public_key()
    except (ValueError, UnsupportedAlgorithm) as error:
        msg = "the certificate's key is of a kind, or on a curve, that cannot be used here"
        raise CertificateError(msg) from error


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, not_after: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(not_after)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _public(key: object) -> bytes:
    if not isinstance(key, ec.EllipticCurvePublicKey):
        msg = "the certificate's key is no ECDSA key"
        raise CertificateError(msg)
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


@dataclass(frozen=True, slots=True)
class Trust:
    """The CA that signs, its successor if any, and the CAs that are still trusted."""

    signing: Authority
    successor: Authority | None = None
    previous: Bundle = NO_BUNDLE

    @property
    def bundle(self) -> Bundle:
        """All trusted certificates, the signing CA first."""
        own = [authority.der for authority in (self.signing, self.successor) if authority is not None]
        return Bundle.of(own) | self.previous

    def with_successor(self, authority: Authority) -> Trust:
        """Return the trust with a successor CA, which signs nothing yet."""
        return replace(self, successor=authority)

    def promoted(self) -> Trust:
        """Return the trust in which the successor signs.

        Raises:
            ValueError: there is no successor.
        """
        if self.successor is None:
            msg = "there is no successor to promote"
            raise ValueError(msg)
        return Trust(self.successor, None, Bundle.of([self.signing.der]) | self.previous)

    def forgetting(self, certificates: Bundle) -> Trust:
        """Return the trust without some previous certificates."""
        return replace(self, previous=self.previous - certificates)
