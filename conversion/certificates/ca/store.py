"""The storage of certificates: two Secrets that all replicas share, and the folder that a server reads.

- `NAME` (kubernetes.io/tls): the leaf. `tls.crt`, `tls.key`, and in `ca.crt` the CA that signed it, in cert-manager's
  layout: pods may mount it, and then need no rights.
- `NAME-ca` (Opaque): the authorities. `ca.crt` and `ca.key` sign; `next.crt` and `next.key` are those of the successor;
  `previous.crt` are still trusted. A reader of it can impersonate the webhook. It is a separate Secret, so that the
  Secret that is mounted into pods does not hold it.

Every write is conditional on the Secret as it was read, so that one of several replicas wins. A Secret that exists
without data (made by a chart, so that no create right is needed) is filled; one with other data is refused. Rights:
get, create and update on the two secrets (create only if they do not exist yet).

A leaf goes into a folder as kubelet writes a mounted Secret, so that certificate and key change as one:

    FOLDER/tls.crt -> ..data/tls.crt        the names that a server is given
    FOLDER/tls.key -> ..data/tls.key
    FOLDER/..data  -> ..RANDOM              renamed into place: both change at this one moment
    FOLDER/..RANDOM/tls.crt, tls.key

A server that reads certificate and key one after the other can still hit the change in between; it has to check that
they belong together, and read again.

Source: kubernetes `pkg/volume/util/atomic_writer.go`.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from restow.conversion.certificates.ca.authority import Authority, CertificateError, LeafCertificate, Trust, root_of
from restow.conversion.certificates.wiring.clientconfig import NO_BUNDLE, Bundle, BundleError
from restow.conversion.certificates.wiring.fieldmanagers import MANAGED_BY
from restow.conversion.model.values import Json
from restow.kube import Cluster
from restow.kube.errors import NotFound
from restow.kube.resources import SECRETS, qualified_name

CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
_DATA: Final = "..data"


def installed(folder: Path) -> LeafCertificate | None:
    """Return the leaf in a folder; None if there is none, or it cannot be read."""
    try:
        current = (folder / _DATA).resolve(strict=True)
        return LeafCertificate((current / CERTIFICATE).read_bytes(), (current / KEY).read_bytes())
    except (OSError, CertificateError):
        return None


def install(folder: Path, leaf: LeafCertificate) -> bool:
    """Write a leaf into the folder; return whether it changed. Only the owner may read it.

    Raises:
        OSError: a file cannot be read or written.
    """
    if installed(folder) == leaf:
        return False
    install_files(folder, leaf.certificate, leaf.key)
    return True


def install_files(folder: Path, certificate: bytes, key: bytes) -> None:
    """Write a certificate and its key into the folder, both in one step. Only the owner may read them.

    Raises:
        OSError: a file cannot be read or written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix="..", dir=folder))  # mode 0700
    for name, content in ((CERTIFICATE, certificate), (KEY, key)):
        with os.fdopen(os.open(fresh / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
    before = _current(folder)
    _link(folder / _DATA, fresh.name)
    for name in (CERTIFICATE, KEY):
        if not (folder / name).is_symlink():
            _link(folder / name, f"{_DATA}/{name}")
    if before is not None:
        shutil.rmtree(before, ignore_errors=True)


def _current(folder: Path) -> Path | None:
    with contextlib.suppress(OSError):
        return folder / (folder / _DATA).readlink()
    return None


def _link(path: Path, target: str) -> None:
    """Make or replace a symbolic link in one step."""
    aside = path.with_name(f"{path.name}.tmp")
    aside.unlink(missing_ok=True)
    aside.symlink_to(target)
    aside.replace(path)


Data = Mapping[str, bytes]


def leaf_of(document: Mapping[str, Any] | None) -> LeafCertificate | None:
    """Return the leaf of a Secret; None if there is none, or it cannot be read: a new one is then issued.

    Raises:
        CertificateError: the Secret belongs to another owner.
    """
    data = _data(document)
    if not data:
        return None
    try:
        return LeafCertificate(data.get("tls.crt", b""), data.get("tls.key", b""))
    except CertificateError:
        return None


def leaf_data(leaf: LeafCertificate, signed_by: Authority) -> Data:
    """Return the data of a leaf's Secret."""
    return {"tls.crt": leaf.certificate, "tls.key": leaf.key, "ca.crt": signed_by.certificate}


def trust_of(document: Mapping[str, Any] | None) -> Trust | None:
    """Return the authorities of a Secret; None if there are none.

    An unreadable CA is never replaced automatically, because clients of the webhook would not expect it.

    Raises:
        CertificateError: a certificate or key cannot be read, or they do not belong together.
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
    """Return the readable CA certificates of a Secret, even if its keys are corrupt; none of a foreign Secret.

    They are public, and API servers verify with them: a corrupt key is no reason to leave a CRD without them.
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
    """Return the data of the authorities' Secret."""
    data = {"ca.crt": trust.signing.certificate, "ca.key": trust.signing.key}
    if trust.successor is not None:
        data |= {"next.crt": trust.successor.certificate, "next.key": trust.successor.key}
    return data | ({"previous.crt": trust.previous.pem} if trust.previous else {})


def secret(document: Mapping[str, Any] | None, name: str, kind: str, data: Data) -> Json:
    """Return the Secret to write: the one that was read with new data, or a new one of the given type."""
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    if document is None:
        metadata: Json = {"name": name, "labels": {MANAGED_BY[0]: MANAGED_BY[1]}}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind, "data": encoded}
    metadata = {**document["metadata"]}
    metadata["labels"] = {**(metadata.get("labels") or {}), MANAGED_BY[0]: MANAGED_BY[1]}
    return {**document, "metadata": metadata, "data": encoded}


def _data(document: Mapping[str, Any] | None) -> dict[str, bytes]:
    """Return the decoded data without empty values."""
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
            f"{'='.join(MANAGED_BY)}. Choose another name, or leave the certificates to the tool that fills it"
        )
        raise CertificateError(msg)
    return data


def _name(document: Mapping[str, Any] | None) -> str:
    metadata = (document or {}).get("metadata") or {}
    return qualified_name(metadata.get("namespace"), metadata.get("name"))


Document = Mapping[str, Any]


class SecretStore:
    """The Secrets of one webhook, by the name of the Secret with the leaf.

    The last read is the condition of the next write, so use one store for one task at a time.
    """

    def __init__(self, cluster: Cluster, namespace: str, name: str) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._leaf_name = name
        self._trust_name = f"{name}-ca"
        self._leaf: Document | None = None
        self._trust: Document | None = None

    async def read_leaf(self) -> LeafCertificate | None:
        """Read the leaf; call this before reading the authorities.

        A new leaf is written only if the Secret is unchanged since this read. With this order, a CA that was replaced
        before the read cannot sign it.

        Raises:
            CertificateError: its Secret belongs to another owner.
            KubeError: the API server refuses a request, or cannot be reached.
        """
        self._leaf = await self._get(self._leaf_name)
        return leaf_of(self._leaf)

    async def read_trust(self) -> Trust | None:
        """Read the authorities.

        Raises:
            CertificateError: their Secret belongs to another owner, or its certificates or keys are malformed.
            KubeError: the API server refuses a request, or cannot be reached.
        """
        self._trust = await self._get(self._trust_name)
        return trust_of(self._trust)

    def readable(self) -> Bundle:
        """Return the CA certificates that can be read in the last read Secrets, whatever else is wrong with them."""
        return roots_of(self._trust) | roots_of(self._leaf)

    async def write_leaf(self, leaf: LeafCertificate, signed_by: Authority) -> None:
        """Store a leaf.

        Raises:
            Conflict: the Secret was written since it was read.
        """
        data = leaf_data(leaf, signed_by)
        self._leaf = await self._put(self._leaf, self._leaf_name, "kubernetes.io/tls", data)

    async def write_trust(self, trust: Trust) -> None:
        """Store the authorities.

        Raises:
            Conflict: the Secret was written since it was read.
        """
        self._trust = await self._put(self._trust, self._trust_name, "Opaque", trust_data(trust))

    async def _get(self, name: str) -> Document | None:
        try:
            document: Document = (await self._cluster.get(SECRETS, name, self._namespace)).json()
        except NotFound:
            return None
        return document

    async def _put(self, document: Document | None, name: str, kind: str, data: Mapping[str, bytes]) -> Document:
        body = msgspec.json.encode(secret(document, name, kind, data))
        if document is None:
            reply = await self._cluster.create(SECRETS, body, self._namespace)
        else:
            reply = await self._cluster.replace(SECRETS, name, body, self._namespace)
        written: Document = reply.json()
        return written
