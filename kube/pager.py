"""Lists of any length, one page in memory at a time, as client-go's ``pager`` reads them.

Each page names a continue token for the next one. When etcd has compacted the history of a token, the API server
answers 410 with an inconsistent token, and the list continues with that one: it skips no object that existed when the
list began, and may or may not contain objects created meanwhile. Callers that need one state for the whole list watch
instead (``restow.kube.listwatch``).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec

from restow.kube.cluster import Cluster, Reply, Request
from restow.kube.errors import BadReply, Gone
from restow.kube.resources import Resource

_T = TypeVar("_T")

_EXPIRED: Final = 5  # times that the token of one page may expire


class ListMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """A page's metadata: the token of the next page, empty on the last one, and the number of remaining objects."""

    continue_: str = msgspec.field(name="continue", default="")
    remaining_item_count: int | None = None


class _ListPage(msgspec.Struct, frozen=True):
    """Every list has metadata; not every one has a resourceVersion (metrics.k8s.io)."""

    metadata: ListMetadata


_Page = TypeVar("_Page", bound=_ListPage)


class ObjectList(_ListPage, Generic[_T], frozen=True):
    """One page, with objects decoded as far as the caller needs; a server writes an empty one as null or ``[]``."""

    items: list[_T] | None


class TableColumn(msgspec.Struct, frozen=True):
    """A printer column, by its name."""

    name: str


class Row(msgspec.Struct, Generic[_T], frozen=True):
    """One object: the values of the columns, and its metadata, decoded as far as the caller needs."""

    cells: list[Any]
    object: _T


class Table(_ListPage, Generic[_T], frozen=True, rename="camel"):
    """One page in the server's printed form."""

    column_definitions: list[TableColumn] = []
    rows: list[Row[_T]] | None = None

    def column(self, name: str) -> int | None:
        """Return the index of a column in the cells, or None if the server does not print it."""
        names = [column.name for column in self.column_definitions]
        return names.index(name) if name in names else None


DOCUMENTS: Final = msgspec.json.Decoder(ObjectList[dict[str, Any]])
"""A decoder of whole objects."""


class _NameMetadata(msgspec.Struct, frozen=True):
    name: str


class _Named(msgspec.Struct, frozen=True):
    metadata: _NameMetadata


_NAMES: Final = msgspec.json.Decoder(ObjectList[_Named])
_NAMES_OF_A_PAGE: Final = 500


async def list_pages(
    cluster: Cluster,
    resource: Resource,
    namespace: str | None = None,
    *,
    limit: int,
    params: Mapping[str, str] | None = None,
    metadata_only: bool = False,
) -> AsyncIterator[list[dict[str, Any]]]:
    """Yield the objects of a list, page by page; see ``list_typed_pages``."""
    pages = list_typed_pages(
        cluster, resource, DOCUMENTS, namespace, limit=limit, params=params, metadata_only=metadata_only
    )
    async for page in pages:
        yield page


async def list_typed_pages(
    cluster: Cluster,
    resource: Resource,
    decoder: msgspec.json.Decoder[ObjectList[_T]],
    namespace: str | None = None,
    *,
    limit: int,
    params: Mapping[str, str] | None = None,
    metadata_only: bool = False,
) -> AsyncIterator[list[_T]]:
    """Yield the objects of a list, page by page.

    Args:
        cluster: the API server; its retry policy applies to each page.
        resource: the resource of the objects.
        decoder: decodes one page.
        namespace: the namespace of the objects; None for all namespaces.
        limit: the number of objects per page.
        params: further parameters, such as selectors.
        metadata_only: whether to request only the metadata.

    Raises:
        KubeError: the API server refuses a request, or cannot be reached.
    """
    request = Request("list", resource, namespace=namespace, params=params, metadata_only=metadata_only)
    async for page in _pages(cluster, request, decoder, limit):
        yield page.items or []


async def list_names(cluster: Cluster, resource: Resource) -> list[str]:
    """Return the sorted names of all objects of a cluster-scoped resource.

    Raises:
        KubeError: the API server refuses a request, or cannot be reached.
    """
    pages = list_typed_pages(cluster, resource, _NAMES, limit=_NAMES_OF_A_PAGE, metadata_only=True)
    return sorted([each.metadata.name async for page in pages for each in page])


def list_tables(
    cluster: Cluster,
    resource: Resource,
    decoder: msgspec.json.Decoder[Table[_T]],
    *,
    limit: int,
    params: Mapping[str, str] | None = None,
) -> AsyncIterator[Table[_T]]:
    """Yield a list page by page as tables: the server sends only metadata and columns of large objects.

    Raises:
        KubeError: the API server refuses a request, or cannot be reached.
    """
    return _pages(cluster, Request("list", resource, params=params, as_table=True), decoder, limit)


async def _pages(
    cluster: Cluster, request: Request, decoder: msgspec.json.Decoder[_Page], limit: int
) -> AsyncIterator[_Page]:
    token = ""
    while True:
        reply, token = await _request_page(cluster, request, limit, token)
        page = reply.decode(decoder)
        check_next(token, page.metadata.continue_)
        yield page
        token = page.metadata.continue_
        if not token:
            return


def check_next(token: str, following: str) -> None:
    """Refuse a list that would never end; ``token`` is that of a page, and ``following`` that of the next one.

    Raises:
        BadReply: both are the same page.
    """
    if token and following == token:
        raise BadReply("the API server continues a page of a list with the same one")


async def request_list_page(cluster: Cluster, resource: Resource, *, limit: int, token: str = "") -> tuple[Reply, str]:
    """Request one page, for a caller that decodes it in more than one way.

    Args:
        cluster: the API server.
        resource: the resource of the objects.
        limit: the number of objects per page.
        token: the token of the page; empty for the first one.

    Returns:
        The reply, and the token of the page: the server's own in place of one that has expired.

    Raises:
        KubeError: the API server refuses the request, or cannot be reached.
    """
    return await _request_page(cluster, Request("list", resource), limit, token)


async def _request_page(cluster: Cluster, request: Request, limit: int, token: str) -> tuple[Reply, str]:
    expired = 0
    while True:
        params = {**(request.params or {}), "limit": str(limit)} | ({"continue": token} if token else {})
        try:
            return await cluster.send(msgspec.structs.replace(request, params=params)), token
        except Gone as error:
            expired += 1
            if not error.continue_token or expired == _EXPIRED:
                raise
            token = error.continue_token
