"""The few verbs that restow needs of an API server, as a Protocol.

The verbs know nothing of migrations or controllers: they do not retry, decide, or decode objects. Request and response
bodies are bytes. Callers decode what they need; on the hot path that is a typed page with undecoded (``Raw``) parts.
Every status that is not 2xx raises an ``ApiError``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol, TypeVar

import msgspec

from restow.kube.errors import read_json
from restow.kube.resources import Resource

_T = TypeVar("_T")


class PatchType(StrEnum):
    """The patch media types that custom resources support, which strategic merge is not."""

    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    APPLY = "application/apply-patch+yaml"


class Reply(msgspec.Struct, frozen=True):
    """A successful answer.

    Attributes:
        body: the bytes as received.
        date: the server's clock when it answered (the ``Date`` header), or None.
        warnings: texts of the ``Warning`` headers, e.g. "v1alpha1 is deprecated".
    """

    body: bytes
    date: datetime | None = None
    warnings: tuple[str, ...] = ()

    def json(self) -> Any:
        """Decode the whole body.

        Raises:
            BadReply: the body is not JSON.
        """
        return self.decode(_any)

    def decode(self, decoder: msgspec.json.Decoder[_T]) -> _T:
        """Decode with a typed decoder.

        Raises:
            BadReply: the body does not have that shape.
        """
        return read_json(decoder, self.body, "the API server answered with success", "the body cannot be read")


_any: msgspec.json.Decoder[Any] = msgspec.json.Decoder()


class Cluster(Protocol):
    """An API server.

    ``metadata_only`` asks for ``PartialObjectMetadata``: the response then contains apiVersion, kind and metadata.
    ``params`` are further query parameters. The methods raise the errors of ``restow.kube.errors``.
    """

    @property
    def host(self) -> str:
        """The server's URL, for messages."""
        ...

    @property
    def default_namespace(self) -> str:
        """The namespace of the kubeconfig's context, or of the pod; ``default`` if none is set."""
        ...

    async def get(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        metadata_only: bool = False,
        cached: bool = False,
    ) -> Reply:
        """Read one object; with ``cached`` from the API server's watch cache, which may lag behind etcd."""
        ...

    async def discover(self, path: str) -> Reply:
        """Read a discovery document: ``/api/v1``, ``/apis``, ``/apis/<group>/<version>``."""
        ...

    def at(self, host: str = "", server_name: str = "") -> AbstractAsyncContextManager[Cluster]:
        """Open this cluster through one new, separate connection with the same credentials.

        A load balancer chooses the API server for this connection, so that sequential requests reach the same one. An
        API server's own address reaches only that server.

        Args:
            host: ``https://host:port`` of another API server of the same cluster; empty for this one.
            server_name: the name that the server's certificate is verified against; empty for the host's.
        """
        ...

    async def list_page(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        params: Mapping[str, str] | None = None,
        metadata_only: bool = False,
    ) -> Reply:
        """Read one page (``limit`` and ``continue`` are params) of one namespace or of all namespaces."""
        ...

    async def table_page(
        self, resource: Resource, namespace: str | None = None, *, params: Mapping[str, str] | None = None
    ) -> Reply:
        """Read one page as a ``Table``: the metadata of each object, and the server's printer columns."""
        ...

    async def create(
        self, resource: Resource, body: bytes, namespace: str | None = None, *, params: Mapping[str, str] | None = None
    ) -> Reply:
        """Create one object, or send a review (SelfSubjectAccessReview)."""
        ...

    async def replace(
        self,
        resource: Resource,
        name: str,
        body: bytes,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
        params: Mapping[str, str] | None = None,
    ) -> Reply:
        """Replace one object (PUT)."""
        ...

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: bytes,
        namespace: str | None = None,
        *,
        patch_type: PatchType,
        subresource: str | None = None,
        params: Mapping[str, str] | None = None,
        metadata_only: bool = False,
    ) -> Reply:
        """Patch one object."""
        ...

    async def delete(
        self, resource: Resource, name: str, namespace: str | None = None, *, body: bytes | None = None
    ) -> Reply:
        """Delete one object; ``body`` is a ``DeleteOptions`` with preconditions."""
        ...

    def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        params: Mapping[str, str],
        metadata_only: bool = False,
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open one watch request: an iterator of raw event lines that ends when the server closes it."""
        ...
