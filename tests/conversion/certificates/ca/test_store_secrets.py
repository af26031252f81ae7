"""What is stored, and what is not to be touched."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from restow.conversion.certificates import Bundle
from restow.conversion.certificates.ca.authority import Authority, CertificateError, LeafCertificate, Trust
from restow.conversion.certificates.ca.store import leaf_data, leaf_of, secret, trust_data, trust_of
from restow.conversion.certificates.wiring.clientconfig import NO_BUNDLE

NOW = datetime(2026, 5, 4, tzinfo=UTC)
ONE, TWO = (Authority.create(name, now=NOW, valid_for=timedelta(days=9)) for name in ("one", "two"))
LEAF = ONE.issue(["localhost"], now=NOW, valid_for=timedelta(days=1))


@pytest.mark.parametrize(
    "trust",
    [Trust(ONE), Trust(ONE, TWO), Trust(ONE, TWO, Bundle.of([b"x"])), Trust(ONE, None, Bundle.of([b"x", b"y"]))],
)
def test_authorities_are_read_as_they_were_written(trust: Trust) -> None:
    """A successor or a certificate that is lost on the way breaks a rotation half-way."""
    assert trust_of(secret(None, "webhook-ca", "Opaque", trust_data(trust))) == trust


def test_a_leaf_is_read_as_it_was_written() -> None:
    """Every replica would issue its own."""
    document = secret(None, "webhook", "kubernetes.io/tls", leaf_data(LEAF, ONE))
    assert leaf_of(document) == LEAF and isinstance(leaf_of(document), LeafCertificate)
    assert document["type"] == "kubernetes.io/tls"
    assert {*document["data"]} == {"tls.crt", "tls.key", "ca.crt"}
    assert base64.b64decode(document["data"]["ca.crt"]) == ONE.certificate


def test_promotion_destroys_the_old_key() -> None:
    """With the old key in the Secret, a stolen backup of it could sign certificates that API servers trust."""
    data = trust_data(Trust(ONE, TWO).promoted())
    assert {*data} == {"ca.crt", "ca.key", "previous.crt"} and ONE.key not in data.values()
    with pytest.raises(ValueError, match="no successor"):
        Trust(ONE).promoted()


def test_what_a_chart_made_is_filled_and_kept() -> None:
    """The chart's labels would be gone, and its next upgrade would find a stranger."""
    empty: dict[str, Any] = {
        "metadata": {"name": "webhook", "namespace": "system", "resourceVersion": "5", "labels": {"chart": "x"}},
        "type": "Opaque",
        "data": {"tls.crt": "", "tls.key": ""},
    }
    assert leaf_of(empty) is None
    written = secret(empty, "webhook", "kubernetes.io/tls", leaf_data(LEAF, ONE))
    assert written["type"] == "Opaque" and written["metadata"]["resourceVersion"] == "5"
    assert written["metadata"]["labels"] == {"chart": "x", "app.kubernetes.io/managed-by": "restow"}
    assert empty["metadata"]["labels"] == {"chart": "x"}


def test_a_secret_of_somebody_else_is_refused() -> None:
    """cert-manager's certificate would be overwritten, and written back, and so on."""
    document = secret(None, "webhook", "kubernetes.io/tls", leaf_data(LEAF, ONE))
    document["metadata"] = {"name": "webhook", "namespace": "system"}
    for read in (leaf_of, trust_of):
        with pytest.raises(CertificateError, match="system/webhook is not one of restow's"):
            read(document)


@pytest.mark.parametrize("key", ["ca.crt", "ca.key", "next.key"])
@pytest.mark.parametrize("value", [None, b"garbage"])
def test_an_unreadable_authority_is_never_replaced_in_silence(key: str, value: bytes | None) -> None:
    """A new CA without overlap is an outage, so a damaged Secret is an error that says what to do."""
    data = {name: text for name, text in trust_data(Trust(ONE, TWO)).items() if name != key}
    document = secret(None, "webhook-ca", "Opaque", data | ({key: value} if value is not None else {}))
    with pytest.raises(CertificateError, match="restore it, or delete it to begin with a new CA"):
        trust_of(document)


def test_an_unreadable_leaf_is_replaced() -> None:
    """An unreadable leaf cannot be served, so it is replaced instead of failing the start."""
    data = {**leaf_data(LEAF, ONE), "tls.key": ONE.key}
    assert leaf_of(secret(None, "webhook", "kubernetes.io/tls", data)) is None


def test_nothing_is_none() -> None:
    """The first replica of all finds nothing."""
    assert leaf_of(None) is None and trust_of(None) is None
    assert Trust(ONE).previous == NO_BUNDLE
