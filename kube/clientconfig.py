"""What a kubeconfig's cluster and user, or a pod's service account, say of a connection: server, certificates, token.

Exec plugins and auth providers need kubernetes-asyncio (``restow.kube.credentials``). It takes 0.4 s and 70 MB to
import, so everything else is read here.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet puts the files of a pod's service account."""

Pem = Path | bytes
"""Certificates or a key: a file that is read when it is needed, or the text itself."""


@dataclass(frozen=True, slots=True, repr=False)
class ClientConfig:
    """How to reach a server, and as whom; ``authorization`` is the value of the header."""

    host: str
    authority: Pem | None = None
    certificate: Pem | None = None
    key: Pem | None = None
    verify: bool = True
    server_name: str | None = None
    proxy: str | None = None
    authorization: str | None = None

    @classmethod
    def of_entries(cls, cluster: Mapping[str, Any], user: Mapping[str, Any]) -> ClientConfig:
        """Read the entries of a kubeconfig, as kubectl does; a user with a plugin is not for here.

        Raises:
            OSError: the token file cannot be read.
            ValueError: certificates or a key are not base64.
        """
        return cls(
            str(cluster["server"]),
            _pem(cluster, "certificate-authority"),
            _pem(user, "client-certificate"),
            _pem(user, "client-key"),
            verify=not cluster.get("insecure-skip-tls-verify"),
            server_name=cluster.get("tls-server-name"),
            proxy=cluster.get("proxy-url"),
            authorization=_authorization(user),
        )

    @classmethod
    def of_pod(cls, environment: Mapping[str, str]) -> ClientConfig:
        """Read the service account of the pod that this process runs in.

        Raises:
            OSError: a file is missing.
            ValueError: the environment names no API server, or the token is empty.
        """
        host, port = (environment.get(f"KUBERNETES_SERVICE_{each}", "") for each in ("HOST", "PORT"))
        if not host or not port:
            msg = "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not both set"
            raise ValueError(msg)
        token, authority = (ACCOUNT / "token").read_text(encoding="utf-8"), ACCOUNT / "ca.crt"
        if not token.strip() or not authority.read_bytes().strip():
            msg = "its token or ca.crt is empty"
            raise ValueError(msg)
        return cls(
            f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
            authority,
            authorization=f"Bearer {token}",
        )

    def digest(self) -> bytes:
        """Return what differs when the TLS context does.

        Raises:
            OSError: a file cannot be read.
        """
        contents = (_content(each) for each in (self.authority, self.certificate, self.key))
        each = (hashlib.sha256(content).digest() for content in contents)
        return hashlib.sha256(b"".join((*each, bytes([self.verify])))).digest()

    def authorities(self) -> ssl.SSLContext:
        """Return a TLS context that trusts the authority, else those of the system.

        Raises:
            OSError: the file cannot be read, or (``ssl.SSLError``) holds no certificate.
        """
        if isinstance(self.authority, bytes):
            context = ssl.create_default_context(cadata=self.authority.decode("ascii", "replace"))
        else:
            context = ssl.create_default_context(cafile=self.authority)
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    def identify(self, context: ssl.SSLContext) -> None:
        """Give the context the client's certificate and key, if there are any.

        Raises:
            OSError: a file cannot be read, or (``ssl.SSLError``) they are malformed or do not belong together.
        """
        if self.certificate is None:
            return
        with _file(self.certificate) as certificate, _file(self.key or self.certificate) as key:
            context.load_cert_chain(certificate, key)


@contextmanager
def _file(pem: Pem) -> Iterator[Path]:
    """A file with the text, since the TLS library reads a client's certificate from files alone; it is removed."""
    if not isinstance(pem, bytes):
        yield pem
        return
    with TemporaryDirectory(prefix="restow-") as folder:  # only this user can read it
        file = Path(folder, "pem")
        file.write_bytes(pem)
        yield file


def _pem(entry: Mapping[str, Any], name: str) -> Pem | None:
    """Return the data of an entry, which kubectl prefers, else its file."""
    if text := entry.get(f"{name}-data"):
        try:
            return base64.b64decode("".join(str(text).split()), validate=True)
        except binascii.Error as error:
            msg = f"{name}-data is not base64"
            raise ValueError(msg) from error
    return Path(entry[name]) if entry.get(name) else None


def _content(pem: Pem | None) -> bytes:
    return pem.read_bytes() if isinstance(pem, Path) else pem or b""


def _authorization(user: Mapping[str, Any]) -> str | None:
    token = user.get("token")
    if user.get("tokenFile"):
        token = Path(user["tokenFile"]).read_text(encoding="utf-8")
    if token:
        return f"Bearer {token}"
    if "username" in user and "password" in user:
        return "Basic " + base64.b64encode(f"{user['username']}:{user['password']}".encode()).decode()
    return None
