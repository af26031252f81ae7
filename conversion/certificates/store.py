"""Reads and writes the Secrets; every write is conditional on what was read, so that of several replicas one wins.

Rights: get, create and update on the two secrets (create only if they do not exist yet).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from restow.conversion.certificates.authority import Authority, Leaf
from restow.conversion.certificates.secrets import leaf_data, leaf_of, roots_of, secret, trust_data, trust_of
from restow.conversion.certificates.trust import Trust
from restow.conversion.wiring.bundle import Bundle
from restow.kube import Cluster, Resource
from restow.kube.errors import NotFound

__all__ = ["SECRETS", "SecretStore"]

SECRETS: Final = Resource("", "v1", "secrets", namespaced=True)

Document = Mapping[str, Any]


class SecretStore:
    """The Secrets of one webhook, by the name of the one with the leaf.

    What was read last is remembered as the condition of the next write, so use one store for one task at a time.
    """

    def __init__(self, cluster: Cluster, namespace: str, name: str) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._leaf_name = name
        self._trust_name = f"{name}-ca"
        self._leaf: Document | None = None
        self._trust: Document | None = None

    async def read_leaf(self) -> Leaf | None:
        """Read the leaf, before the authorities.

        A new leaf is written only if the Secret is unchanged since this read. With this order, a CA that was replaced
        before the read cannot sign it.

        Raises:
            CertificateError: its Secret is foreign.
            KubeError: the API server refuses a request, or cannot be reached.
        """
        self._leaf = await self._get(self._leaf_name)
        return leaf_of(self._leaf)

    async def read_trust(self) -> Trust | None:
        """Read the authorities.

        Raises:
            CertificateError: they cannot be used.
            KubeError: the API server refuses a request, or cannot be reached.
        """
        self._trust = await self._get(self._trust_name)
        return trust_of(self._trust)

    def readable(self) -> Bundle:
        """Return the CA certificates that can be read of what was read last, whatever else is wrong with it."""
        return roots_of(self._trust) | roots_of(self._leaf)

    async def write_leaf(self, leaf: Leaf, signed_by: Authority) -> None:
        """Store a leaf.

        Raises:
            Conflict: somebody wrote since it was read.
        """
        data = leaf_data(leaf, signed_by)
        self._leaf = await self._put(self._leaf, self._leaf_name, "kubernetes.io/tls", data)

    async def write_trust(self, trust: Trust) -> None:
        """Store the authorities.

        Raises:
            Conflict: somebody wrote since they were read.
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
