"""List pages of whole objects, and skip only the content of objects that are nested too deeply to decode.

A page is decoded as one text, so one such object would make the page, and the rest of the list, unreadable. If a page
fails for this reason, the module lists the metadata of its objects, which the API server sends separately, and reads
each object by itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Final

import msgspec

from restow.kube.cluster import Cluster
from restow.kube.errors import NotFound, TooDeep
from restow.kube.resources import Resource
from restow.migrator.model.report import Requests
from restow.migrator.requests.lister import FailedPage, ListedPage, ListFailed
from restow.migrator.requests.wire import Meta, object_decoder, page_decoder

__all__ = ["ListFrom", "readable_pages"]

ListFrom = Callable[[str], AsyncIterator[ListedPage]]
"""Lists the objects of a resource as text, from a continue token on (empty for the first page)."""

_NOTHING: Final = msgspec.Raw(b"{}")
"""The text of an object that cannot be decoded; its metadata is known."""


async def readable_pages(
    cluster: Cluster,
    resource: Resource,
    list_from: ListFrom,
    *,
    selector: str | None,
    requests: Requests,
    too_deep: Callable[[Meta], None],
) -> AsyncIterator[ListedPage]:
    """Yield the pages; an object that cannot be decoded has its metadata and an empty object as text.

    Args:
        cluster: the API server.
        resource: the resource to list.
        list_from: lists the resource.
        selector: the label selector of the list.
        requests: counts the requests.
        too_deep: called for each object that cannot be decoded.

    Raises:
        ListFailed: a page could not be read for another reason.
        KubeError: an object could not be read for another reason.
    """
    token = ""
    while True:
        try:
            async for page in list_from(token):
                yield page
            return
        except ListFailed as error:
            if error.page is None or not isinstance(error.__cause__, TooDeep):
                raise
            failed = error.page
        page, token = await _one_by_one(cluster, resource, failed, selector, requests, too_deep)
        yield page
        if not token:
            return


async def _one_by_one(
    cluster: Cluster,
    resource: Resource,
    failed: FailedPage,
    selector: str | None,
    requests: Requests,
    too_deep: Callable[[Meta], None],
) -> tuple[ListedPage, str]:
    """Read each object of a page separately; return them, and the token of the next page."""
    chosen = {"labelSelector": selector, "continue": failed.token}
    params = {"limit": str(failed.size)} | {name: value for name, value in chosen.items() if value}
    requests.list += 1
    named = (await cluster.list_page(resource, failed.namespace, params=params, metadata_only=True)).decode(
        page_decoder
    )
    found = ListedPage([], named.metadata.remaining, named.metadata.resource_version)
    for item in named.items or ():
        meta, text = item.metadata, _NOTHING
        requests.read += 1
        try:
            reply = await cluster.get(resource, meta.name, meta.namespace or None)
            meta, text = reply.decode(object_decoder).metadata, msgspec.Raw(reply.body)
        except NotFound:
            continue
        except TooDeep:
            too_deep(meta)
        found.items.append((meta, None))
        found.texts.append(text)
    return found, named.metadata.continue_
