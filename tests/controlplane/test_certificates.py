"""The authority and its certificates, checked by cryptography's own verifier and by a TLS handshake."""

from __future__ import annotations

import ipaddress
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import verification
from cryptography.x509.oid import NameOID

from restow.controlplane.users import (
    ControlPlaneAuthority,
    SignedKeyPair,
    public_key_pem,
    service_account_key,
    write_private,
)

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
TOMORROW = NOW + timedelta(days=1)


def _policy(authority: ControlPlaneAuthority, at: datetime) -> verification.PolicyBuilder:
    root = x509.load_pem_x509_certificate(authority.certificate)
    return verification.PolicyBuilder().store(verification.Store([root])).time(at)


def _leaf(pair: SignedKeyPair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.certificate)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "kubernetes.default.svc"])
def test_a_serving_certificate_is_good_for_each_of_its_hosts(host: str) -> None:
    """A client that uses one of the server's other names would refuse its certificate."""
    authority = ControlPlaneAuthority("ca", now=NOW)
    pair = authority.issue_server(["127.0.0.1", "::1", "localhost", "kubernetes.default.svc"], not_after=TOMORROW)
    subject = x509.DNSName(host) if host[0].isalpha() else x509.IPAddress(ipaddress.ip_address(host))
    chain = _policy(authority, NOW).build_server_verifier(subject).verify(_leaf(pair), [])
    assert len(chain) == 2


def test_a_client_certificate_names_user_and_groups() -> None:
    """RBAC would see another user or other groups, because Kubernetes reads the user from CN and the groups from O."""
    authority = ControlPlaneAuthority("ca", now=NOW)
    leaf = _leaf(authority.issue_client("alice", ["dev", "ops"], not_after=TOMORROW))
    assert [name.value for name in leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["alice"]
    assert [name.value for name in leaf.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)] == [
        "dev",
        "ops",
    ]
    usage = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH]


@pytest.mark.parametrize("expired_for", [timedelta(seconds=1), timedelta(days=30)])
def test_an_expired_certificate_can_be_made(expired_for: timedelta) -> None:
    """Expired credentials could not be tested: the certificate would be valid, or could not be created."""
    leaf = _leaf(ControlPlaneAuthority("ca", now=NOW).issue_client("late", not_after=NOW - expired_for))
    assert leaf.not_valid_before_utc < leaf.not_valid_after_utc == NOW - expired_for


def test_another_authority_is_not_trusted() -> None:
    """Two planes on one machine would accept each other's users and servers."""
    pair = ControlPlaneAuthority("ca", now=NOW).issue_server(["localhost"], not_after=TOMORROW)
    stranger = _policy(ControlPlaneAuthority("ca", now=NOW), NOW)
    with pytest.raises(verification.VerificationError):
        stranger.build_server_verifier(x509.DNSName("localhost")).verify(_leaf(pair), [])


def test_the_public_half_belongs_to_the_service_account_key() -> None:
    """The API server would refuse the tokens that it signs itself."""
    private = service_account_key()
    loaded = serialization.load_pem_private_key(private, password=None)
    public = serialization.load_pem_public_key(public_key_pem(private))
    assert isinstance(loaded, ec.EllipticCurvePrivateKey)
    assert loaded.public_key() == public


def test_a_strict_tls_handshake_succeeds_both_ways(tmp_path: Path) -> None:
    """Every client on Python 3.13, which checks X.509 strictly by default, would refuse the certificates."""
    authority = ControlPlaneAuthority.create()
    later = datetime.now(UTC) + timedelta(hours=1)
    write_private(tmp_path / "ca", authority.certificate)
    server = _context(tmp_path, ssl.PROTOCOL_TLS_SERVER, authority.issue_server(["localhost"], not_after=later))
    server.verify_mode = ssl.CERT_REQUIRED
    client = _context(tmp_path, ssl.PROTOCOL_TLS_CLIENT, authority.issue_client("alice", not_after=later))
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    finished = [False, False]
    for _ in range(10):
        for index, end in enumerate(ends):
            try:
                end.do_handshake()
                finished[index] = True
            except ssl.SSLWantReadError:
                continue
    assert finished == [True, True]
    peer = ends[1].getpeercert()
    assert peer is not None
    assert peer["subject"] == ((("commonName", "alice"),),)


def _context(folder: Path, protocol: int, pair: SignedKeyPair) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.load_verify_locations(folder / "ca")
    write_private(folder / "crt", pair.certificate)
    write_private(folder / "key", pair.key)
    context.load_cert_chain(folder / "crt", folder / "key")
    return context
