"""The authority and its leaves, judged by cryptography's own verifier and by a TLS handshake."""

from __future__ import annotations

import ipaddress
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509 import verification

from restow.conversion.certificates import Service
from restow.conversion.certificates.ca.authority import (
    Authority,
    CertificateError,
    CertifiedKey,
    LeafCertificate,
    is_signed_by,
)

NOW = datetime(2026, 5, 4, 12, 0, 0, 123456, tzinfo=UTC)
YEAR, DAY = timedelta(days=365), timedelta(days=1)
HOSTS = ("webhook.system.svc", "127.0.0.1", "::1", "localhost")


@pytest.fixture(scope="module")
def authority() -> Authority:
    """A CA of a year."""
    return Authority.create("test", now=NOW, valid_for=YEAR)


def policy(authority: Authority, at: datetime) -> verification.PolicyBuilder:
    """Verification as strict as Go's and Python 3.13's."""
    return verification.PolicyBuilder().store(verification.Store([authority.x509])).time(at)


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("at", [NOW - timedelta(minutes=50), NOW, NOW + DAY - timedelta(seconds=1)])
def test_a_leaf_is_good_for_each_of_its_hosts(authority: Authority, host: str, at: datetime) -> None:
    """An API server that uses another name, or whose clock is behind, would refuse it."""
    leaf = authority.issue(HOSTS, now=NOW, valid_for=DAY)
    try:
        subject: x509.verification.Subject = x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        subject = x509.DNSName(host)
    policy(authority, at).build_server_verifier(subject).verify(leaf.x509, [])
    assert leaf.hosts == frozenset(HOSTS)


@pytest.mark.parametrize("at", [NOW - timedelta(hours=2), NOW + DAY + timedelta(seconds=1)])
def test_a_leaf_is_good_for_no_longer(authority: Authority, at: datetime) -> None:
    """The tests above would pass for certificates that are valid for ever."""
    leaf = authority.issue(HOSTS, now=NOW, valid_for=DAY)
    with pytest.raises(verification.VerificationError):
        policy(authority, at).build_server_verifier(x509.DNSName("localhost")).verify(leaf.x509, [])


def test_a_leaf_never_outlives_its_authority(authority: Authority) -> None:
    """A leaf that outlives its CA looks valid while nothing verifies it."""
    leaf = authority.issue(HOSTS, now=NOW, valid_for=2 * YEAR)
    assert leaf.not_after == authority.not_after


def test_moments(authority: Authority) -> None:
    """The schedule counts from when a certificate was made, not from when it is backdated to."""
    leaf = authority.issue(HOSTS, now=NOW, valid_for=DAY)
    assert leaf.made_at == NOW.replace(microsecond=0) and leaf.not_after == leaf.made_at + DAY


def test_who_signed(authority: Authority) -> None:
    """Two authorities of one name must be told apart by their keys."""
    other = Authority.create("test", now=NOW, valid_for=YEAR)
    leaf = authority.issue(HOSTS, now=NOW, valid_for=DAY)
    assert is_signed_by(leaf, authority.der) and not is_signed_by(leaf, other.der)
    assert not is_signed_by(leaf, b"no certificate")


def test_a_handshake_while_two_authorities_of_one_name_are_trusted(authority: Authority, tmp_path: Path) -> None:
    """In a rotation both are in the bundle; OpenSSL looks issuers up by name first."""
    other = Authority.create("test", now=NOW, valid_for=YEAR)
    now = datetime.now(UTC)
    leaf = authority.issue(["localhost"], now=now, valid_for=DAY)
    pair = tmp_path / "pair.pem"
    pair.write_bytes(leaf.certificate + leaf.key)
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(pair)
    bundle = (other.certificate + authority.certificate).decode()
    context = ssl.create_default_context(cadata=bundle)
    context.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(to_client, to_server, server_hostname="localhost")
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    open_ends = [client, server]
    for _ in range(10):
        for end in list(open_ends):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            open_ends.remove(end)
    assert not open_ends


def test_what_does_not_belong_together_is_refused(authority: Authority) -> None:
    """A server would fail at every handshake, long after it was written down."""
    one, other = (authority.issue(HOSTS, now=NOW, valid_for=DAY) for _ in range(2))
    with pytest.raises(CertificateError, match="not the one of the certificate"):
        LeafCertificate(one.certificate, other.key)
    for certificate, key in ((b"x", one.key), (one.certificate, b"x"), (b"", b"")):
        with pytest.raises(CertificateError):
            CertifiedKey(certificate, key)


def test_keys_are_not_shown(authority: Authority) -> None:
    """A log line with a CA's key in it is the end of the CA."""
    assert b"PRIVATE" not in repr(authority).encode() and "PRIVATE" in authority.key.decode()


def test_the_names_of_a_service() -> None:
    """API servers call it by the third one."""
    assert Service("system", "webhook").hosts == {
        "webhook",
        "webhook.system",
        "webhook.system.svc",
        "webhook.system.svc.cluster.local",
    }
