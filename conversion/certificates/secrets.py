"""The two Secrets that the replicas of a webhook agree on, as data.

- ``NAME`` (kubernetes.io/tls): the leaf. ``tls.crt``, ``tls.key``, and in ``ca.crt`` the CA that signed it, as
  cert-manager lays it out: pods may mount it, and need no rights then.
- ``NAME-ca`` (Opaque): the authorities. ``ca.crt`` and ``ca.key`` sign; ``next.crt`` and ``next.key`` are going to;
  ``previous.crt`` are still trusted. Whoever reads it can impersonate the webhook: a Secret of its own, so that what is
  mounted into pods does not hold it.

A Secret that exists without data (made by a chart, so that no right to create any is needed) is filled; one that
somebody else filled is refused.

Pure.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
from collections.abc import Mapping
from typing import Any, Final

from restow.conversion.certificates.authority import Authority, CertificateError, Leaf, root_of
from restow.conversion.certificates.trust import Trust
from restow.conversion.values import Json
from restow.conversion.wiring.bundle import NO_BUNDLE, Bundle, BundleError
from restow.kube.resources import qualified_name

__all__ = ["MANAGED_BY", "leaf_data", "leaf_of", "roots_of", "secret", "trust_data", "trust_of"]

#: The label (key, value) of the Secrets that restow fills.
MANAGED_BY: Final = ("app.kubernetes.io/managed-by", "restow")

Data = Mapping[str, bytes]


def leaf_of(document: Mapping[str, Any] | None) -> Leaf | None:
    """Return the leaf of a Secret; None if there is none, or none that can be read: it is just made anew.

    Raises:
        CertificateError: the Secret is somebody else's.
    """
    data = _data(document)
    if not data:
        return None
    try:
        return Leaf(data.get("tls.crt", b""), data.get("tls.key", b""))
    except CertificateError:
        return None


def leaf_data(leaf: Leaf, signed_by: Authority) -> Data:
    """Return what the Secret of a leaf holds."""
    return {"tls.crt": leaf.certificate, "tls.key": leaf.key, "ca.crt": signed_by.certificate}


def trust_of(document: Mapping[str, Any] | None) -> Trust | None:
    """Return the authorities of a Secret; None if there are none.

    An unreadable CA is never replaced by itself: that would take the webhook's clients by surprise.

    Raises:
        CertificateError: they cannot be read.
    """
    data = _data(document)
    if not data:
        return None
    name = _name(document)
    try:
        successor = Authority(data["next.crt"], data["next.key"]) if "next.crt" in data else None
        previous = Bundle.from_pem(data.get("previous.crt", b""))
        return Trust(Authority(data["ca.crt"], data["ca.key"]), successor, previous)
    except KeyError as error:
        msg = f"the Secret {name} has no {error.args[0]}"
        raise CertificateError(msg + _CURE) from error
    except (CertificateError, BundleError) as error:
        msg = f"the Secret {name} cannot be read: {error}"
        raise CertificateError(msg + _CURE) from error


def roots_of(document: Mapping[str, Any] | None) -> Bundle:
    """Return the readable CA certificates of a Secret, also where its keys are spoilt; none of a foreign Secret.

    They are public, and what API servers verify by: a spoilt key is no reason to leave a CRD without them.
    """
    try:
        data = _data(document)
    except CertificateError:
        return NO_BUNDLE
    found: list[bytes] = []
    for name in ("ca.crt", "next.crt"):
        with contextlib.suppress(CertificateError):
            found.append(root_of(data.get(name, b"")))
    with contextlib.suppress(BundleError):
        found += Bundle.from_pem(data.get("previous.crt", b"")).certificates
    return Bundle.of(found)


_CURE: Final = "; restore it, or delete it to begin with a new CA"


def trust_data(trust: Trust) -> Data:
    """Return what the Secret of authorities holds."""
    data = {"ca.crt": trust.signing.certificate, "ca.key": trust.signing.key}
    if trust.successor is not None:
        data |= {"next.crt": trust.successor.certificate, "next.key": trust.successor.key}
    return data | ({"previous.crt": trust.previous.pem} if trust.previous else {})


def secret(document: Mapping[str, Any] | None, name: str, kind: str, data: Data) -> Json:
    """Return the Secret to write: the one that was read with other data, or a new one of a type."""
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    if document is None:
        metadata: Json = {"name": name, "labels": {MANAGED_BY[0]: MANAGED_BY[1]}}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind, "data": encoded}
    metadata = {**document["metadata"]}
    metadata["labels"] = {**(metadata.get("labels") or {}), MANAGED_BY[0]: MANAGED_BY[1]}
    return {**document, "metadata": metadata, "data": encoded}


def _data(document: Mapping[str, Any] | None) -> dict[str, bytes]:
    """The decoded data, without what is empty."""
    if document is None:
        return {}
    try:
        data = {
            key: base64.b64decode(value, validate=True) for key, value in (document.get("data") or {}).items() if value
        }
    except (binascii.Error, ValueError) as error:
        msg = f"the Secret {_name(document)} holds no base64"
        raise CertificateError(msg) from error
    labels = document["metadata"].get("labels") or {}
    if data and labels.get(MANAGED_BY[0]) != MANAGED_BY[1]:
        msg = (
            f"the Secret {_name(document)} is not one of restow's: it has data, but not the label "
            f"{'='.join(MANAGED_BY)}. Give another name, or leave certificates to whoever fills it"
        )
        raise CertificateError(msg)
    return data


def _name(document: Mapping[str, Any] | None) -> str:
    metadata = (document or {}).get("metadata") or {}
    return qualified_name(metadata.get("namespace"), metadata.get("name"))
