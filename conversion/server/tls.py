"""Serving certificates, replaced while the server runs when their files change, and client certificates.

A kubelet replaces a mounted secret atomically (it swaps the symlink `..data`), but the swap may happen after the
certificate is read and before its key is. Other tools overwrite the files in place, and for a moment only half of the
content is there. Files are therefore used only if two reads, a moment apart, return the same content, and if the loaded
pair has that content. A pair that does not load, does not match or has expired is reported, and the current one stays.

A live `SSLContext` is never changed: `load_cert_chain` would replace its certificate before reading the key. Each pair
gets a new context. OpenSSL calls the SNI callback in every handshake, and the callback assigns the new context to new
connections. Tickets come from the live context, so that sessions resume across a rotation.

`Clients` decides which clients may send requests. With an authority for clients, the handshake verifies a certificate
that the client presents; the path decides whether the client must present one. An API server presents one to admission
webhooks if it is configured to (`kubeConfigFile` of a WebhookAdmissionConfiguration: apiserver
`pkg/admission/plugin/webhook/config`), and never to conversion webhooks (apiextensions-apiserver
`pkg/apiserver/conversion/webhook_converter.go` gives its client an empty kubeconfig). The authority's file is watched
like the others. A resumed session would keep the identity that its client once proved, so no session is resumed:
TLS 1.3 without tickets.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Literal

from cryptography import x509

from restow.conversion.server.limits import Refusal
from restow.conversion.server.metrics import ServerMetrics
from restow.kube.clock import Clock

_log = logging.getLogger(__name__)

_LOOK_EVERY: Final = 5.0
_SETTLES_IN: Final = 0.5
_LOOKS_WHILE_CHANGING: Final = 10


class BadCertificate(Exception):
    """The files hold no valid pair of certificate and key, or no authority. The message is a sentence."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """The contents of the files; None for a file that cannot be read. Of the key, only a digest is kept."""

    certificate: bytes | None
    key_digest: bytes | None
    client_ca: bytes | None


@dataclass(frozen=True, slots=True)
class _Pair:
    """A certificate and key that can be served."""

    context: ssl.SSLContext
    expiry: datetime


class ServingCertificate:
    """The certificate and key files that are served, and ``context``, the context to listen with.

    ``client_ca`` is a PEM file with the authorities that sign client certificates. Without it, the server requests no
    client certificate.

    An expired pair is enough to start, because a running process picks up its replacement sooner.

    Raises:
        BadCertificate: the files cannot be read, are no certificate with its key, or ``client_ca`` has no certificates.
    """

    def __init__(
        self, certificate: Path, key: Path, *, client_ca: Path | None = None, counts: ServerMetrics, clock: Clock
    ) -> None:
        self._certificate_file = certificate
        self._key_file = key
        self._client_ca_file = client_ca
        self._counts = counts
        self._clock = clock
        self._hurry = asyncio.Event()
        self._seen = self._read()
        self._pair = self._load(self._seen)
        self.context = self._fresh_context()
        self.context.sni_callback = self._hand_over
        counts.add("restow_webhook_certificate_loads_total", "loaded")
        counts.gauge("restow_webhook_certificate_expiry_timestamp_seconds", self._expiry)
        if self._pair.expiry <= clock.now():
            _log.warning("the certificate in %s expired %s", certificate, self._pair.expiry.isoformat())

    def reload(self) -> None:
        """Make ``watch`` read the files at once."""
        self._hurry.set()

    async def watch(self) -> None:
        """Follow changes of the files until cancelled."""
        while True:
            # asyncio.wait_for of Python 3.11 loses a cancellation that arrives together with the event.
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_EVERY):
                    await self._hurry.wait()
            self._hurry.clear()
            await self.look()

    async def look(self) -> None:
        """Read the files, and serve their content from now on if it is new and valid."""
        for _ in range(_LOOKS_WHILE_CHANGING):
            seen = self._read()
            if seen == self._seen:
                return
            await self._clock.sleep(_SETTLES_IN)
            if seen == self._seen or (self._read() == seen and self._take(seen)):
                return

    def _expiry(self) -> float:
        return self._pair.expiry.timestamp()

    def _take(self, seen: _Seen) -> bool:
        """Serve the pair that was read, or report why not; False if the files have changed again."""
        refused = None
        try:
            pair = self._load(seen)
            if pair.expiry <= self._clock.now() < self._pair.expiry:
                refused = f"the new certificate in {self._certificate_file} expired {pair.expiry.isoformat()}"
        except BadCertificate as error:
            refused = str(error)
        if self._read() != seen:
            return False
        self._seen = seen
        if refused is not None:
            self._counts.add("restow_webhook_certificate_loads_total", "refused")
            _log.warning("%s; the certificate in use stays, it expires %s", refused, self._pair.expiry.isoformat())
            return True
        self._pair = pair
        self._counts.add("restow_webhook_certificate_loads_total", "loaded")
        _log.info("serving the new certificate in %s, it expires %s", self._certificate_file, pair.expiry.isoformat())
        return True

    def _read(self) -> _Seen:
        key = _bytes(self._key_file)
        client_ca = None if self._client_ca_file is None else _bytes(self._client_ca_file)
        return _Seen(_bytes(self._certificate_file), None if key is None else sha256(key).digest(), client_ca)

    def _load(self, seen: _Seen) -> _Pair:
        where = f"{self._certificate_file} and {self._key_file}"
        if seen.certificate is None or seen.key_digest is None:
            raise BadCertificate(f"{where} cannot be read")
        context = self._fresh_context()
        self._trust_clients(context, seen.client_ca)
        try:
            context.load_cert_chain(self._certificate_file, self._key_file, _no_password)
            expiry = x509.load_pem_x509_certificates(seen.certificate)[0].not_valid_after_utc
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or type(error).__name__
            raise BadCertificate(f"{where} are no certificate with its key ({reason})") from None
        return _Pair(context, expiry)

    def _trust_clients(self, context: ssl.SSLContext, authorities: bytes | None) -> None:
        """Make a context verify client certificates.

        Raises:
            BadCertificate: the file holds no certificates (PEM).
        """
        if self._client_ca_file is None:
            return
        try:
            context.load_verify_locations(cadata=(authorities or b"").decode("ascii"))
        except (ssl.SSLError, ValueError) as error:
            raise BadCertificate(f"{self._client_ca_file} holds no certificates (PEM) of an authority") from error

    def _fresh_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        if self._client_ca_file is not None:
            context.verify_mode = ssl.CERT_OPTIONAL
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            context.num_tickets = 0
        return context

    def _hand_over(self, connection: ssl.SSLSocket | ssl.SSLObject, _name: str | None, _live: ssl.SSLContext) -> None:
        connection.context = self._pair.context


def _no_password() -> str:
    """Refuse encrypted keys: without this, OpenSSL would ask for a password on the terminal."""
    return ""


def _bytes(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except OSError:
        return None


@dataclass(frozen=True, slots=True)
class Clients:
    """Which requests need a client certificate.

    Attributes:
        admission: requests to admission steps.
        conversion: conversion requests. API servers present no certificate, so set it only behind a proxy that does.
        names: the accepted common names; if empty, every certificate that the authority signed is accepted.
    """

    admission: bool = False
    conversion: bool = False
    names: frozenset[str] = frozenset()

    def check(self, kind: Literal["admission", "conversion"], certificate: Mapping[str, Any] | None) -> None:
        """Raise Refusal unless the client may send the request; ``certificate`` is the verified one from ``ssl``."""
        if not (self.admission if kind == "admission" else self.conversion):
            return
        if not certificate:
            message = (
                f"this webhook answers {kind} requests only to clients with a certificate of the authority that "
                "--client-ca names; see kubeConfigFile in docs/security.md"
            )
            raise Refusal(HTTPStatus.UNAUTHORIZED, "no-certificate", message, hangs_up=True)
        if self.names and self.names.isdisjoint(_common_names(certificate)):
            message = "the name in the client's certificate is none of those that --client-name allows"
            raise Refusal(HTTPStatus.FORBIDDEN, "wrong-certificate", message, hangs_up=True)


def _common_names(certificate: Mapping[str, Any]) -> Iterable[str]:
    return (value for part in certificate.get("subject", ()) for name, value in part if name == "commonName")
