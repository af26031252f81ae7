"""CA bundles as what they mean: an ordered set of certificates, whatever their text looks like.

Why it exists: any change of a CRD's spec, be it white space in ``caBundle``, makes the API server tear down and rebuild
all watch caches of the CRD (apiextensions ``customresource_handler.go``). Two texts with the same certificates must
therefore count as the same bundle.

As the API server reads it (client-go ``util/cert/pem.go``): text around blocks and blocks of other types are skipped.

Pure.
"""

from __future__ import annotations

import base64
import binascii
import re
import ssl
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

__all__ = ["NO_BUNDLE", "Bundle", "BundleError"]

_BLOCK = re.compile(rb"-----BEGIN CERTIFICATE-----\s*([A-Za-z0-9+/=\s]+?)-----END CERTIFICATE-----")


class BundleError(ValueError):
    """The bytes are no CA bundle."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """Certificates (DER), each once, in order."""

    certificates: tuple[bytes, ...] = ()

    @classmethod
    def of(cls, certificates: Iterable[bytes]) -> Bundle:
        """Return the bundle of some certificates (DER); of equal ones the first counts."""
        return cls(tuple(dict.fromkeys(certificates)))

    @classmethod
    def from_pem(cls, pem: bytes) -> Bundle:
        """Read a PEM file; white space alone is an empty bundle.

        Raises:
            BundleError: the bundle is malformed.
        """
        found = cls.of(_blocks(pem))
        if pem.strip() and not found:
            message = "the CA bundle has no PEM block of the type CERTIFICATE"
            raise BundleError(message)
        return found

    @classmethod
    def from_base64(cls, text: str) -> Bundle:
        """Read the ``caBundle`` of a CRD: PEM in base64.

        Raises:
            BundleError: the bundle is malformed.
        """
        try:
            pem = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            message = "the CA bundle is no base64"
            raise BundleError(message) from error
        return cls.from_pem(pem)

    @property
    def pem(self) -> bytes:
        """The bundle as PEM: the same bytes for the same certificates in the same order."""
        return b"".join(ssl.DER_cert_to_PEM_cert(certificate).encode() for certificate in self.certificates)

    @property
    def base64(self) -> str:
        """The bundle as the ``caBundle`` of a CRD."""
        return base64.b64encode(self.pem).decode()

    def __len__(self) -> int:
        return len(self.certificates)

    def __or__(self, other: Bundle) -> Bundle:
        """Both: first ours in our order, then what ``other`` adds."""
        return Bundle.of((*self.certificates, *other.certificates))

    def __sub__(self, other: Bundle) -> Bundle:
        """Ours without those of ``other``."""
        return Bundle(tuple(each for each in self.certificates if each not in other.certificates))

    def __and__(self, other: Bundle) -> Bundle:
        """Ours that ``other`` has too."""
        return Bundle(tuple(each for each in self.certificates if each in other.certificates))

    def __ge__(self, other: Bundle) -> bool:
        """Whether every certificate of ``other`` is one of ours."""
        return not other - self

    def matches(self, other: Bundle) -> bool:
        """Say whether both have the same certificates, in any order."""
        return self >= other >= self


NO_BUNDLE = Bundle()
"""No certificate; a CRD without a bundle is called with the API server's system roots."""


def _blocks(pem: bytes) -> Iterator[bytes]:
    for match in _BLOCK.finditer(pem):
        try:
            yield base64.b64decode(b"".join(match[1].split()), validate=True)
        except binascii.Error as error:
            message = "the CA bundle has a CERTIFICATE block that is no base64"
            raise BundleError(message) from error
