"""List all objects of a CRD, page by page, with retries, and name the objects that fail a list.

Memory is bounded by a page. When etcd has compacted the history of a continue token (410), the API server's answer has
an inconsistent token, and the list continues with that one: it skips no key, and objects created meanwhile are stored
at the storage version.

``list_objects`` is the list; ``readable_pages`` makes one of whole objects skip only the content of an object that is
nested too deeply to decode.

``explain_list_failure`` names the objects that cannot be converted. From Kubernetes 1.37 on, the API server names them.
Before, a list stops at the first object that cannot be converted to the requested version. The search halves the page
that failed until a page of one object fails, and continues the same list at another served version to read that
object's name. The number of requests is bounded, and so is the time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from restow.crds import Crd
from restow.kube.cluster import Cluster
from restow.kube.errors import ApiError, BadReply, KubeError, NotFound, TooDeep, one_line, read_json
from restow.kube.resources import Resource, qualified_name
from restow.kube.retry import without_retries
from restow.migrator.decide.errortable import ATTEMPTS, Attempts, ErrorAction, is_transient, of_list_error
from restow.migrator.model.options import Options
from restow.migrator.model.report import Requests, again, few
from restow.migrator.requests.environment import Environment, RunStop
from restow.migrator.requests.wire import (
    Meta,
    ObjectPage,
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


def object_pages(
    environment: Environment,
    crd: Crd,
    options: Options,
    requests: Requests,
    page_size: int,
    *,
    version: str = "",
    whole: bool = False,
    patience_s: float = 0.0,
) -> AsyncIterator[ListedPage]:
    """List the objects of a CRD, or the part of them that the options choose; see ``list_objects``.

    Args:
        version: the version to list at; empty for the storage version.
    """
    return list_objects(
        environment.cluster,
        crd.resource_at(version or crd.storage.name),
        page_size=page_size,
        requests=requests,
        stop=environment.stop,
        jitter=environment.jitter,
        namespace=options.namespace,
        selector=options.selector,
        whole=whole,
        patience_s=patience_s,
    )


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


MOST_REQUESTS = 40
"""The most requests: halving a page of 500 objects takes ten, and the name of the object one or two more."""
MOST_UNREADABLE = 3
_TIME = 30.0  # seconds; a webhook may take as long to fail on one object
_LONGEST = 300  # characters of an API server's message


async def explain_list_failure(
    cluster: Cluster, crd: Crd, failure: ListFailed, requests: Requests | None = None
) -> ListFailed:
    """Return the failure of a list with the objects that cannot be converted, and the next step.

    Args:
        cluster: the API server.
        crd: the CRD whose objects could not be listed at the storage version.
        failure: the failure of the list.
        requests: counts the requests of the search.
    """
    if not conversion_failed(failure) or failure.page is None:
        return failure
    named, is_away = "", any(text in str(failure) for text in CONVERTER_OUT_OF_REACH)
    if not is_away and isinstance(failure.__cause__, ApiError) and failure.__cause__.unreadable:
        named = _named(crd, failure.__cause__.unreadable, str(failure))
    elif not is_away:
        search = _FailureSearch(without_retries(cluster), crd, failure.page, requests or Requests())
        with contextlib.suppress(TimeoutError, KubeError, _EnoughError):
            async with asyncio.timeout(_TIME):
                await search.run()
        named = search.sentence(str(failure))
    return help_to_list(crd, failure, named)


def _named(crd: Crd, unreadable: Mapping[str, str], failure: str) -> str:
    """Return a sentence with the objects that an API server named as unreadable, a few by name."""
    names = [qualified_name(*crd.named_by(key)) for key in unreadable]
    because = _because(next(iter(unreadable.values())), failure)
    return f"{few(names, MOST_UNREADABLE)} cannot be converted to {crd.storage.name}{because}"


def _because(said: str, failure: str) -> str:
    """Return an API server's message in parentheses, unless the failure already has it."""
    said = one_line(said, _LONGEST)
    return f" ({said})" if said and said.removesuffix("…") not in failure else ""


class _EnoughError(Exception):
    """The limit of requests is reached."""


@dataclass(slots=True)
class _FailureSearch:
    """The search within one page, and what it found."""

    cluster: Cluster
    crd: Crd
    page: FailedPage
    requests: Requests
    sent: int = 0
    names: list[str] = field(default_factory=list)
    said: str = ""
    before: str = ""
    ended: bool = False

    async def run(self) -> None:
        """Find the first few objects of the page that cannot be converted.

        Raises:
            KubeError: a request failed for another reason.
            _EnoughError: the limit of requests is reached.
        """
        token, size = self.page.token, self.page.size
        while size > 0 and len(self.names) < MOST_UNREADABLE:
            position, token = await self._first(token, size)
            if position is None:
                break
            name, token = await self._name(token)
            self.names.append(name)
            size -= position
            if not name or not token:
                break
        self.ended = True

    async def _first(self, token: str, size: int) -> tuple[int | None, str]:
        """Return the position (from 1) of the first object that fails from a token on, and the token before it.

        The position is None if these objects can all be converted (by now).
        """
        good, bad = 0, size + 1
        while bad - good > 1:
            # Read the whole page first: its last read was earlier, or after another object there was none yet.
            limit = size if bad > size else (bad - good) // 2
            try:
                page = await self._list(self.crd.storage.name, token, limit)
            except ApiError as error:
                if not conversion_failed(error):
                    raise
                bad = good + limit
                self.said = error.said
                if limit == 1:
                    break
                continue
            if page.items:
                self.before = page.items[-1].metadata.key
            good, token = good + limit, page.metadata.continue_
            if not token:
                return None, ""
        return (bad, token) if bad <= size else (None, token)

    async def _name(self, token: str) -> tuple[str, str]:
        """Return the name of the object after a token, read at a version that works, and the next token."""
        for version in self.crd.served:
            if version == self.crd.storage.name:
                continue
            try:
                page = await self._list(version, token, 1)
            except ApiError as error:
                if not conversion_failed(error):
                    raise
                continue
            for item in page.items or ():
                return item.metadata.key, page.metadata.continue_
        return "", ""

    async def _list(self, version: str, token: str, limit: int) -> ObjectPage:
        if self.sent >= MOST_REQUESTS:
            raise _EnoughError
        self.sent += 1
        self.requests.list += 1
        params = {"limit": str(limit)} | ({"continue": token} if token else {})
        resource = self.crd.resource_at(version)
        reply = await self.cluster.list_page(resource, self.page.namespace, params=params, metadata_only=True)
        return reply.decode(page_decoder)

    def sentence(self, failure: str) -> str:
        """Return a sentence that names the objects."""
        storage = self.crd.storage.name
        because = _because(self.said, failure)
        names = [name for name in self.names if name]
        bound = "" if self.ended else f"; the search ended after {self.sent} requests"
        if names:
            more = " and perhaps more" if len(names) == MOST_UNREADABLE or not self.ended else ""
            return f"{', '.join(names)}{more} cannot be converted to {storage}{because}{bound}"
        if self.names:
            after = f"the object after {self.before}" if self.before else "the first object"
            return (
                f"{after} in the list cannot be converted to {storage}{because}, and no served version shows its name"
            )
        if self.ended:
            return "by now all objects of the page that failed can be converted: run again"
        return f"which object cannot be converted to {storage} was not found within {self.sent} requests"


def conversion_failed(failure: Exception) -> bool:
    """Return whether a list failed because of a conversion."""
    return any(text in str(failure) for text in _CONVERSION_FAILED)


def help_to_list(crd: Crd, failure: ListFailed, named: str = "") -> ListFailed:
    """Add advice to the failure of a list if the CRD's conversion is the cause.

    Args:
        crd: the CRD whose objects could not be listed.
        failure: the failure of the list.
        named: a sentence with the objects that cannot be converted, if they are known.
    """
    if not conversion_failed(failure):
        return failure
    said = str(failure).rstrip(".")
    said = f"{said}: {named}" if named else said
    cause = failure.__cause__
    if isinstance(cause, ApiError) and cause.left_version:
        left = cause.left_version.split("/")[-1]
        return ListFailed(
            f"{said}. {crd.name} does not have the version {left} any more, so API servers cannot read what is stored "
            f"at it: put {left} back into spec.versions (served: false is enough) and run again with --ignore-mark, or "
            f"delete these objects. restow doctor {crd.name} prints both commands",
            failure.page,
        )
    if crd.strategy != "Webhook":
        return ListFailed(said, failure.page, unreachable=failure.unreachable)
    return ListFailed(
        f"{said}. The API server converts every listed object to {crd.storage.name}, and one object that fails "
        f"fails the list: check that the conversion webhook of {crd.name} runs, that its certificate fits the CRD's "
        f"caBundle, and that it converts {', '.join(version.name for version in crd.versions)}. An object that the "
        "webhook refuses can still be read and edited at the version that it is stored at",
        failure.page,
        unreachable=failure.unreachable,
    )


_CONVERSION_FAILED = ("conversion webhook", "conversion for", "request to convert CR", "(re)initializing")
