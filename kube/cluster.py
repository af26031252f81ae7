"""An API server, and the few requests that restow sends to it.

A ``Cluster`` sends a ``Request``, and streams the lines of a watch. The typed verbs are written once, on top of these
two. The verbs know nothing of migrations or controllers: they do not retry, decide, or decode objects. Request and
response bodies are bytes. Callers decode what they need; on the hot path that is a typed page with undecoded (``Raw``)
parts. Every status that is not 2xx raises an ``ApiError``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

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


class Request(msgspec.Struct, frozen=True):
    """One request to an API server.

    Attributes:
        verb: ``get``, ``list``, ``watch``, ``create``, ``update``, ``patch`` or ``delete``, as in RBAC and audit logs.
        resource: the resource; None for a discovery document.
        name: the name of the object, or the path of the discovery document; None for a collection.
        namespace: the namespace of the object or collection; None for all namespaces, or without one.
        subresource: e.g. ``status``.
        body: the body as sent.
        patch_type: the media type of a patch.
        params: the query parameters.
        metadata_only: asks for ``PartialObjectMetadata``: the reply then has apiVersion, kind and metadata.
        as_table: asks for a ``Table``: the metadata of each object, and the server's printer columns.
    """

    verb: str
    resource: Resource | None
    name: str | None = None
    namespace: str | None = None
    subresource: str | None = None
    body: bytes | None = None
    patch_type: PatchType | None = None
    params: Mapping[str, str] | None = None
    metadata_only: bool = False
    as_table: bool = False

    @property
    def path(self) -> str:
        """The path of the URL, percent-encoded."""
        if self.resource is None:
            return self.name or "/"
        return self.resource.path(self.namespace, self.name, self.subresource)

    @property
    def target(self) -> str:
        """What the request is about, for messages: ``widgets.example.com/status namespace/name``."""
        if self.resource is None:
            return self.path
        return self.resource.describe(self.namespace, self.name, self.subresource)

    def __str__(self) -> str:
        return f"{self.verb} {self.target}"


class Cluster(ABC):
    """An API server.

    ``metadata_only`` asks for ``PartialObjectMetadata``: the response then contains apiVersion, kind and metadata.
    ``params`` are further query parameters. The methods raise the errors of ``restow.kube.errors``.
    """

    @property
    @abstractmethod
    def host(self) -> str:
        """The server's URL, for messages."""

    @property
    @abstractmethod
    def default_namespace(self) -> str:
        """The namespace of the kubeconfig's context, or of the pod; ``default`` if none is set."""

    @abstractmethod
    async def send(self, request: Request) -> Reply:
        """Send one request that is no watch; every verb below does."""

    @abstractmethod
    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open one watch request: an iterator of raw event lines that ends when the server closes it."""

    @abstractmethod
    def at(self, host: str = "", server_name: str = "") -> AbstractAsyncContextManager[Cluster]:
        """Open this cluster through one new, separate connection with the same credentials.

        A load balancer chooses the API server for this connection, so that sequential requests reach the same one. An
        API server's own address reaches only that server.

        Args:
            host: ``https://host:port`` of another API server of the same cluster; empty for this one.
            server_name: the name that the server's certificate is verified against; empty for the host's.
        """

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
        params = {"resourceVersion": "0"} if cached else None
        return await self.send(Request("get", resource, name, namespace, params=params, metadata_only=metadata_only))

    async def discover(self, path: str) -> Reply:
        """Read a discovery document: ``/api/v1``, ``/apis``, ``/apis/<group>/<version>``."""
        return await self.send(Request("get", None, path))

    async def list_page(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        params: Mapping[str, str] | None = None,
        metadata_only: bool = False,
    ) -> Reply:
        """Read one page (``limit`` and ``continue`` are params) of one namespace or of all namespaces."""
        return await self.send(
            Request("list", resource, namespace=namespace, params=params, metadata_only=metadata_only)
        )

    async def create(
        self, resource: Resource, body: bytes, namespace: str | None = None, *, params: Mapping[str, str] | None = None
    ) -> Reply:
        """Create one object, or send a review (SelfSubjectAccessReview)."""
        return await self.send(Request("create", resource, namespace=namespace, body=body, params=params))

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
        return await self.send(Request("update", resource, name, namespace, subresource, body, params=params))

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
        return await self.send(
            Request("patch", resource, name, namespace, subresource, body, patch_type, params, metadata_only)
        )

    async def delete(
        self, resource: Resource, name: str, namespace: str | None = None, *, body: bytes | None = None
    ) -> Reply:
        """Delete one object; ``body`` is a ``DeleteOptions`` with preconditions."""
        return await self.send(Request("delete", resource, name, namespace, body=body))

    def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        params: Mapping[str, str],
        metadata_only: bool = False,
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open one watch request; see ``stream``."""
        return self.stream(Request("watch", resource, namespace=namespace, params=params, metadata_only=metadata_only))
