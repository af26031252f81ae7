"""The control plane's certificate authority, the key pairs that it signs, and its users with their kubeconfigs."""

from __future__ import annotations

import base64
import ipaddress
import os
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Self

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

try:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ModuleNotFoundError as error:
    _HINT = "restow.controlplane needs the package cryptography: install restow[controlplane]."
    raise ModuleNotFoundError(_HINT, name=error.name) from error


_BACKDATED = timedelta(hours=1)  # accept a fresh certificate on a machine whose clock is a little behind


@dataclass(frozen=True, slots=True)
class SignedKeyPair:
    """A private key (PKCS #8, PEM, not encrypted) and its certificate (PEM)."""

    certificate: bytes
    key: bytes


class ControlPlaneAuthority:
    """A root authority that signs server and client certificates."""

    def __init__(self, common_name: str, *, now: datetime, valid_for: timedelta = timedelta(days=365)) -> None:
        """Create a new key and a self-signed certificate for it."""
        self._key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        builder = _builder(name, name, self._key.public_key(), now - _BACKDATED, now + valid_for)
        self._certificate = (
            builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .add_extension(_issuer_of(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )

    @classmethod
    def create(cls, common_name: str = "restow-controlplane") -> Self:
        """Create an authority that is valid from now on, for a year."""
        return cls(common_name, now=datetime.now(UTC))

    @property
    def certificate(self) -> bytes:
        """The root certificate, PEM."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def issue_server(self, hosts: Iterable[str], *, not_after: datetime) -> SignedKeyPair:
        """Sign a serving certificate for host names and IP addresses."""
        names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")])
        return self._issue(subject, ExtendedKeyUsageOID.SERVER_AUTH, not_after, [names])

    def issue_client(self, user: str, groups: Sequence[str] = (), *, not_after: datetime) -> SignedKeyPair:
        """Sign a client certificate: Kubernetes reads the user from CN and the groups from O.

        A past ``not_after`` gives an expired certificate, which was valid for the hour before it.
        """
        organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, user)])
        return self._issue(subject, ExtendedKeyUsageOID.CLIENT_AUTH, not_after, [])

    def _issue(
        self,
        subject: x509.Name,
        usage: x509.ObjectIdentifier,
        not_after: datetime,
        extensions: Sequence[x509.ExtensionType],
    ) -> SignedKeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        not_before = min(self._certificate.not_valid_before_utc, not_after - _BACKDATED)
        builder = _builder(subject, self._certificate.subject, key.public_key(), not_before, not_after)
        builder = (
            builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(_issuer_of(self._key.public_key()), critical=False)
        )
        for extension in extensions:
            builder = builder.add_extension(extension, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return SignedKeyPair(certificate.public_bytes(serialization.Encoding.PEM), _private_pem(key))


def public_key_pem(private_key: bytes) -> bytes:
    """Return the public half (SubjectPublicKeyInfo, PEM) of a private key in PEM."""
    key = serialization.load_pem_private_key(private_key, password=None)
    return key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def service_account_key() -> bytes:
    """Return a new private key (PEM) that signs service account tokens."""
    return _private_pem(ec.generate_private_key(ec.SECP256R1()))


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    not_before: datetime,
    not_after: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(not_before)
        .not_valid_after(not_after)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _issuer_of(key: ec.EllipticCurvePublicKey) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(key)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
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


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


@dataclass(frozen=True, slots=True)
class ClusterUser:
    """A user's credentials as files (mode 0600) in the plane's folder, which are removed when the plane stops."""

    name: str
    groups: tuple[str, ...]
    server: str
    kubeconfig: Path
    certificate_file: Path
    key_file: Path
    ca_file: Path

    def ssl_context(self) -> ssl.SSLContext:
        """Return a client context that trusts only the plane's authority and authenticates as the user."""
        context = ssl.create_default_context(cafile=self.ca_file)
        context.load_cert_chain(self.certificate_file, self.key_file)
        return context


def create_user(
    folder: Path, *, name: str, groups: tuple[str, ...], server: str, ca_file: Path, pair: SignedKeyPair
) -> ClusterUser:
    """Write a user's files into ``folder``, which must exist."""
    user = ClusterUser(
        name=name,
        groups=groups,
        server=server,
        kubeconfig=folder / "kubeconfig",
        certificate_file=folder / "client.crt",
        key_file=folder / "client.key",
        ca_file=ca_file,
    )
    write_private(user.certificate_file, pair.certificate)
    write_private(user.key_file, pair.key)
    document = kubeconfig_document(name, server, ca_file.read_bytes(), pair)
    write_private(user.kubeconfig, yaml.safe_dump(document, sort_keys=False).encode())
    return user


def kubeconfig_document(user: str, server: str, ca: bytes, pair: SignedKeyPair) -> dict[str, object]:
    """Return a kubeconfig with everything inline, so that the file can be copied elsewhere."""
    name = "restow-controlplane"
    cluster = {"server": server, "certificate-authority-data": _base64(ca)}
    credentials = {"client-certificate-data": _base64(pair.certificate), "client-key-data": _base64(pair.key)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user, "namespace": "default"}}],
        "current-context": name,
    }


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read; an older file is replaced in one step."""
    temporary = path.with_name(f".{path.name}.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    temporary.replace(path)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
