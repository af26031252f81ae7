"""Users of a control plane: a client certificate each, and a kubeconfig that any client can read.

Why it exists: authorization can only be tested as somebody. A user is a name and groups, signed by the
plane's authority; rights come from RBAC objects that the test creates.
"""

from __future__ import annotations

import base64
import os
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    from pathlib import Path

    from restow.controlplane.certificates import KeyPair

__all__ = ["User", "kubeconfig_document", "write_private"]


@dataclass(frozen=True, slots=True)
class User:
    """A user's credentials as files (mode 0600) in the plane's folder; they go when the plane stops."""

    name: str
    groups: tuple[str, ...]
    server: str
    kubeconfig: Path
    certificate_file: Path
    key_file: Path
    ca_file: Path

    def ssl_context(self) -> ssl.SSLContext:
        """Return a client context that trusts the plane's authority only and authenticates as the user."""
        context = ssl.create_default_context(cafile=self.ca_file)
        context.load_cert_chain(self.certificate_file, self.key_file)
        return context


def create_user(folder: Path, *, name: str, groups: tuple[str, ...], server: str, ca_file: Path, pair: KeyPair) -> User:
    """Write a user's files into ``folder``, which must exist."""
    user = User(
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


def kubeconfig_document(user: str, server: str, ca: bytes, pair: KeyPair) -> dict[str, object]:
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
    """Write a file that only its owner can read, replacing an older one in one step."""
    temporary = path.with_name(f".{path.name}.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    temporary.replace(path)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
