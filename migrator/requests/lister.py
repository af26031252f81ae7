"""List all objects of a CRD, page by page, with retries.

Memory is bounded by a page. When etcd has compacted the history of a continue token (410), the API server's answer has
an inconsistent token, and the list continues with that one: it skips no key, and objects created meanwhile are stored
at the storage version.

``list_objects`` is the list; ``readable_pages`` makes one of whole objects skip only the content of an object that is
nested too deeply to decode.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from restow.kube.cluster import Cluster
from restow.kube.errors import BadReply, KubeError, NotFound, TooDeep, read_json
from restow.kube.resources import Resource
from restow.kube.retry import without_retries
from restow.migrator.decide.errortable import ATTEMPTS, Attempts, ErrorAction, is_transient, of_list_error
from restow.migrator.model.report import Requests, again
from restow.migrator.requests.stop import RunStop
from restow.migrator.requests.wire import (
    Meta,
    object_decoder,
    page_decoder,
    whole_object_decoder,
    whole_page_decoder,
)

Item = tuple[Meta, dict[str, Any] | None]


@dataclass(frozen=True, slots=True)
class FailedPage:
    """The page that could not be read: ``size`` objects from ``token`` on (empty for the first page)."""

    namespace: str | None
    token: str
    size: int


class ListFailed(Exception):
    """A page could not be read; the message says why and what to do.

    Attributes:
        page: which one.
        unreachable: the server that was unreachable all the time; empty for a permanent failure.
    """

    def __init__(self, message: str, page: FailedPage | None = None, *, unreachable: str = "") -> None:
        super().__init__(message)
        self.page = page
        self.unreachable = unreachable


_FIRST_PAGE = 20
"""Objects of a first page whose objects may be large."""

CONVERTER_OUT_OF_REACH = ("dial tcp", "x509: ", "tls: ", "no endpoints available", "no service port")
"""What an API server says of a conversion webhook that it does not reach; no object is to blame."""

_CONVERTER = ("conversion webhook for", "conversion for")


def refused_by_converter(error: KubeError) -> bool:
    """Return whether a converter refused an object: it will refuse that object again."""
    asked = any(text in error.said for text in _CONVERTER)
    return asked and not any(text in error.said for text in CONVERTER_OUT_OF_REACH)


def _out_of_reach(error: KubeError, host: str, crd: str) -> str:
    if not is_transient(error) or refused_by_converter(error):
        return ""
    return f"the conversion webhook of {crd}" if any(text in error.said for text in _CONVERTER) else host


@dataclass(frozen=True, slots=True)
class ListedPage:
    """One page.

    Attributes:
        items: its objects, whole ones with their content.
        remaining: how many objects follow, if the server says so.
        resource_version: of the list; it changes when the list continues inconsistently.
        texts: the objects as the server sent them, if requested; in the order of ``items``.
        size: bytes of the answer.
    """

    items: list[Item]
    remaining: int | None
    resource_version: str = ""
    texts: list[msgspec.Raw] = field(default_factory=list)
    size: int = 0


async def list_objects(
    cluster: Cluster,
    resource: Resource,
    *,
    page_size: int,
    requests: Requests,
    stop: RunStop,
    jitter: Callable[[float], float],
    namespace: str | None = None,
    selector: str | None = None,
    start: str = "",
    whole: bool = False,
    texts: bool = False,
    page_bytes: int = 0,
    attempts: int = ATTEMPTS,
    patience_s: float = 0.0,
    stored: bool = True,
) -> AsyncIterator[ListedPage]:
    """Yield the pages until the end, or until ``stop`` is requested.

    Args:
        page_size: ``limit`` of each request.
        requests: counts requests and retries.
        jitter: adds jitter to a wait, ``seconds -> seconds``.
        start: the continue token to begin with; empty for the first page.
        whole: read whole objects, not metadata only.
        texts: read whole objects, and also yield them as the server sent them.
        page_bytes: the approximate size limit of a reply; 0 for none. The first page has few objects, and shows how
            large they are.
        attempts: attempts for one page; fewer if the caller can do without this list.
        patience_s: seconds to wait for the end of an outage, after the usual attempts.
        stored: whether the objects are stored, so that a page without a resourceVersion is not one of an API server. A
            list that proves something needs this; a resource of an aggregated API may have none.

    Raises:
        ListFailed: no attempt could read a page of the objects.
    """
    cluster = without_retries(cluster)  # each error is a page's, and has a row in a table
    token, limit = start, min(page_size, _FIRST_PAGE) if page_bytes else page_size
    while not stop:
        params = {"limit": str(limit)}
        if selector:
            params["labelSelector"] = selector
        if token:
            params["continue"] = token
        counted, failures = Attempts(patience_s), 0
        while True:
            requests.list += 1
            try:
                page, token = await _page(cluster, resource, namespace, params, whole=whole, texts=texts)
                _check(page, token, resource, params, stored=stored)
                break
            except KubeError as error:
                failures += 1
                attempt = failures if refused_by_converter(error) else counted.failed(error, stop.now(), 0.0)
                outcome = of_list_error(error, attempt=attempt)
                if outcome.action is ErrorAction.FAIL or (attempts < ATTEMPTS and failures >= attempts):
                    said = outcome.message or error.said
                    msg = f"the objects of {resource.full_name} could not all be listed: {said}"
                    where = FailedPage(namespace, params.get("continue", ""), limit)
                    unreachable = _out_of_reach(error, cluster.host, resource.full_name)
                    raise ListFailed(msg, where, unreachable=unreachable) from error
                requests.retried += 1
                if outcome.action is ErrorAction.CONTINUE:
                    params["continue"] = outcome.token
                what = again("list the objects", attempt, outcome.attempts, error.said)
                await stop.sleep(jitter(outcome.wait), what)
                if stop:
                    return
        yield page
        if not token:
            return
        if page_bytes and page.items:
            limit = max(1, min(page_size, page_bytes * len(page.items) // page.size))


async def _page(
    cluster: Cluster,
    resource: Resource,
    namespace: str | None,
    params: dict[str, str],
    *,
    whole: bool,
    texts: bool,
) -> tuple[ListedPage, str]:
    reply = await cluster.list_page(resource, namespace, params=params, metadata_only=not (whole or texts))
    size = len(reply.body)
    if not (whole or texts):
        page = reply.decode(page_decoder)
        items: list[Item] = [(item.metadata, None) for item in page.items or ()]
        about = page.metadata
        return ListedPage(items, about.remaining, about.resource_version, size=size), about.continue_
    raw = reply.decode(whole_page_decoder)
    found, about = raw.items or [], raw.metadata
    items = _read_items(found, resource, whole=whole)
    return ListedPage(items, about.remaining, about.resource_version, found if texts else [], size), about.continue_


def _check(page: ListedPage, token: str, resource: Resource, params: Mapping[str, str], *, stored: bool) -> None:
    """Check that a page can be a part of a whole list.

    Raises:
        BadReply: the page is not of an API server's list, or the list would never end, or ends too early.
    """
    wrong = ""
    if stored and not page.resource_version:
        wrong = "it has no resourceVersion, so it is no list of stored objects"
    elif token and token == params.get("continue"):
        wrong = "it continues with itself"
    elif page.remaining and not token:
        wrong = "more objects follow, and it does not say where"
    if wrong:
        raise BadReply(f"list {resource.full_name}: the answer is not a page of the list: {wrong}")


def _read_items(texts: Sequence[msgspec.Raw], resource: Resource, *, whole: bool) -> list[Item]:
    """Decode the objects of a page, and their content if whole objects are requested.

    Raises:
        BadReply: an object does not have the shape of one.
    """
    what, otherwise = f"list {resource.full_name}", "an object does not have the shape of one"
    return [
        (
            read_json(object_decoder, text, what, otherwise).metadata,
            read_json(whole_object_decoder, text, what, otherwise) if whole else None,
        )
        for text in texts
    ]


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

    A page is decoded as one text, so an object that is nested too deeply would make the page, and the rest of the list,
    unreadable. If a page fails for this reason, the function lists the metadata of its objects, which the API server
    sends separately, and reads each object by itself.

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
