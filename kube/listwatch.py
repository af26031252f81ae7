"""List, then watch: all changes of a selection of objects, as client-go's reflector delivers them.

``watch`` sends the requests; ``WatchPosition`` decides, without I/O, from which resourceVersion to continue, whether to
list again, and how long to wait. The consumer sees every gap as a new ``Listed``. Between two ``Listed`` events no
change is missing, however often the connection breaks.

kubernetes-asyncio's Watch is not used: it reconnects without back-off, repeats an expired resourceVersion, and never
lists again.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass, replace

from restow.kube.clock import SYSTEM_CLOCK, Clock
from restow.kube.cluster import Cluster
from restow.kube.errors import (
    BadReply,
    Forbidden,
    Gone,
    KubeError,
    NotFound,
    ServerError,
    TimedOut,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from restow.kube.resources import Resource, qualified_name
from restow.kube.retry import Backoff, requested_wait
from restow.kube.watchevents import Bookmark, Item, Listed, ListedPart, Page, WatchEvent, read_event, read_page

_log = logging.getLogger(__name__)

_PAGE_SIZE = 500
_FIRST_PART, _FEWEST = 10, 5  # objects of a page; an object is up to 1.5 MiB, in etcd
_PART_BYTES = 8 * 1024 * 1024  # of a page, once its objects are known to be large
_SHORTEST, _LONGEST = 300.0, 600.0  # seconds of one watch request; random, so that clients do not reopen together
_GRACE = 30.0  # seconds that the server may be late in ending a watch before the connection counts as dead


@dataclass(frozen=True, slots=True)
class Selection:
    """The objects to list and watch.

    Attributes:
        resource: the resource, at the version to read.
        namespace: one namespace, or None for all of them.
        label_selector, field_selector: in the API's syntax; empty for everything.
        metadata_only: ask for apiVersion, kind and metadata only (``PartialObjectMetadata``).
    """

    resource: Resource
    namespace: str | None = None
    label_selector: str = ""
    field_selector: str = ""
    metadata_only: bool = False

    def params(self) -> dict[str, str]:
        """Return the query parameters of the selectors."""
        selectors = {"labelSelector": self.label_selector, "fieldSelector": self.field_selector}
        return {name: value for name, value in selectors.items() if value}

    def __str__(self) -> str:
        return self.resource.describe(self.namespace)


@dataclass(frozen=True, slots=True)
class Key:
    """The namespace and name of an object; ``namespace`` is None for cluster-scoped resources."""

    namespace: str | None
    name: str

    def __str__(self) -> str:
        return qualified_name(self.namespace, self.name)


def key_of(item: Item) -> Key:
    """Return the key of an object."""
    return Key(item.metadata.namespace or None, item.metadata.name)


@dataclass(frozen=True, slots=True)
class Interruption:
    """A list or watch that failed, for metrics.

    Attributes:
        selection: the objects that are watched.
        error: the error, or None if the server closed a watch as soon as it was opened.
        relist: whether the history is lost, so that a Listed follows.
        failures: the number of failures in a row.
        delay: the seconds until the next request.
    """

    selection: Selection
    error: KubeError | None
    relist: bool
    failures: int
    delay: float


def _ignore(_interruption: Interruption) -> None:
    pass


@asynccontextmanager
async def watch(
    cluster: Cluster,
    selection: Selection,
    *,
    on_interruption: Callable[[Interruption], None] = _ignore,
    clock: Clock = SYSTEM_CLOCK,
    chance: Callable[[], float] = random.random,
) -> AsyncIterator[AsyncGenerator[WatchEvent, None]]:
    """Watch a selection of objects until the caller ends it.

    ::

        async with watch(cluster, Selection(CRDS)) as events:
            async for event in events:
                ...

    The first event is a ``Listed``; another one follows whenever the history is lost. A request that fails for a
    temporary reason is repeated with back-off; the log and ``on_interruption`` report it.

    Args:
        cluster: the API server.
        selection: the objects to watch.
        on_interruption: called before each wait; must not block or raise.
        clock: gives ``monotonic`` and ``sleep``.
        chance: random numbers from [0, 1).

    Raises:
        ApiError: from the iteration: 401, 403, 404 (the resource or its version is not served), or another 4xx than
            410 and 429. Before the first list has succeeded, 401, 403 and 404 are raised at once; later only if they
            last, because a restarting API server returns them for some moments.
    """
    list_watch = _ListWatch(cluster, selection, on_interruption, clock, chance, lambda _page: _PAGE_SIZE)
    async with aclosing(list_watch.events()) as parts, aclosing(_whole_lists(parts)) as events:
        yield events


def watch_parts(
    cluster: Cluster, selection: Selection, *, clock: Clock = SYSTEM_CLOCK, chance: Callable[[], float] = random.random
) -> AbstractAsyncContextManager[AsyncGenerator[WatchEvent | ListedPart, None]]:
    """Watch as ``watch`` does, but yield each list in parts, for a consumer that keeps less than it receives.

    The first page is small. The following ones have as many objects as fit into a few megabytes.

    Raises:
        ApiError: from the iteration; see ``watch``.
    """
    return aclosing(_ListWatch(cluster, selection, _ignore, clock, chance, _limit_after).events())


async def _whole_lists(events: AsyncIterator[WatchEvent | ListedPart]) -> AsyncGenerator[WatchEvent, None]:
    items: list[Item] = []
    async for event in events:
        if not isinstance(event, ListedPart):
            yield event
            continue
        if event.first:
            items = []
        items += event.items
        if event.last:
            yield Listed(tuple(items), event.resource_version)
            items = []


def _limit_after(page: Page | None) -> int:
    """Return the number of objects to request after a page; None means before the first page."""
    if page is None:
        return _FIRST_PART
    size = sum(memoryview(item.raw).nbytes for item in page.items) or 1
    return min(max(_PART_BYTES * len(page.items) // size, _FEWEST), _PAGE_SIZE)


class _ListWatch:
    def __init__(
        self,
        cluster: Cluster,
        selection: Selection,
        on_interruption: Callable[[Interruption], None],
        clock: Clock,
        chance: Callable[[], float],
        limit_after: Callable[[Page | None], int],
    ) -> None:
        self._cluster = cluster
        self._selection = selection
        self._limit_after = limit_after
        self._on_interruption = on_interruption
        self._clock = clock
        self._chance = chance

    async def events(self) -> AsyncGenerator[WatchEvent | ListedPart, None]:
        position = WatchPosition()
        while True:
            opened: float | None = None
            error: KubeError | None = None
            try:
                if position.version is None:
                    async with aclosing(self._list()) as parts:
                        async for part in parts:
                            if part.last:
                                position = position.seen(part.resource_version)
                            yield part
                    del part  # otherwise its objects stay in memory as long as the watch
                seconds = int(_SHORTEST + (_LONGEST - _SHORTEST) * self._chance())
                async with self._open(position, seconds) as lines:
                    opened = self._clock.monotonic()
                    deadline = asyncio.get_running_loop().time() + seconds + _GRACE
                    while (event := await self._next(lines, deadline)) is not None:
                        position = position.seen(_version(event))
                        yield event
                position = position.closed(self._since(opened))
            except KubeError as caught:
                error = caught
                position = position.failed(error, self._since(opened))
            await self._pause(position, error)

    async def _list(self) -> AsyncGenerator[ListedPart, None]:
        page: Page | None = None
        while page is None or page.continue_token:
            token = "" if page is None else page.continue_token
            limit = {"limit": str(self._limit_after(page))} | ({"continue": token} if token else {})
            try:
                page = await self._page(limit)
            except Gone:
                # Reading the pages took longer than the server keeps history. Its inconsistent token does not help,
                # because a watch needs one resourceVersion for all pages. So request everything in one page.
                token, page = "", await self._page({})
            if token and page.continue_token == token:
                msg = f"list {self._selection}: the server continues every page with the same one"
                raise BadReply(msg)
            yield ListedPart(page.items, page.resource_version, first=not token, last=not page.continue_token)

    async def _page(self, params: dict[str, str]) -> Page:
        selection = self._selection
        reply = await self._cluster.list_page(
            selection.resource,
            selection.namespace,
            params=selection.params() | params,
            metadata_only=selection.metadata_only,
        )
        return read_page(reply.body, str(selection))

    def _open(self, position: WatchPosition, seconds: int) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        selection = self._selection
        params = selection.params() | {
            "resourceVersion": position.version or "",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
        }
        return self._cluster.watch(
            selection.resource, selection.namespace, params=params, metadata_only=selection.metadata_only
        )

    async def _next(self, lines: AsyncIterator[bytes], deadline: float) -> WatchEvent | None:
        """Return the next event, or None when the server closes the stream."""
        try:
            async with asyncio.timeout_at(deadline):
                line = await anext(lines, None)
        except TimeoutError as error:
            msg = f"watch {self._selection}: the server did not end the request in time"
            raise TimedOut(msg) from error
        return None if line is None else read_event(line, str(self._selection))

    def _since(self, opened: float | None) -> float:
        return 0.0 if opened is None else self._clock.monotonic() - opened

    async def _pause(self, position: WatchPosition, error: KubeError | None) -> None:
        delay = position.delay(self._chance())
        if delay <= 0:
            return
        relist = position.version is None
        # One broken connection needs no warning: servers restart, and load balancers drop idle connections.
        level = logging.WARNING if error is not None and position.failures > 1 else logging.INFO
        what = error or "the watch was closed as soon as it was opened"
        _log.log(
            level,
            "%s: %s; %s in %.1f s",
            self._selection,
            what,
            "listing again" if relist else "watching again",
            delay,
        )
        self._on_interruption(Interruption(self._selection, error, relist, position.failures, delay))
        await self._clock.sleep(delay)


def _version(event: WatchEvent) -> str:
    return event.resource_version if isinstance(event, Listed | Bookmark) else event.item.metadata.resource_version


HEALTHY_S = 10.0  # seconds
WATCH_BACKOFF = Backoff(first=0.8, most=30.0)  # client-go's reflector
_SERVER_ERRORS_BEFORE_RELIST = 5
_REFUSALS_BEFORE_RAISE = 6  # with their back-off 12 to 25 seconds


@dataclass(frozen=True, slots=True)
class WatchPosition:
    """The state of a list-watch, and what to do next; no I/O.

    Attributes:
        version: the resourceVersion to watch from, or None if a list is needed.
        failures: the number of failed lists and watches in a row.
        server_errors: the number of 5xx in a row while watching from ``version``.
        worked: whether a list has succeeded.
        refusals: the number of 401, 403 and 404 since the last success.
        at_least: the seconds that the server asked for before the next request; see ``requested_wait``.
    """

    version: str | None = None
    failures: int = 0
    server_errors: int = 0
    worked: bool = False
    refusals: int = 0
    at_least: float = 0.0

    def seen(self, version: str) -> WatchPosition:
        """Return the position after a list or an event at ``version``."""
        return replace(self, version=version, server_errors=0, worked=True, refusals=0)

    def closed(self, lived: float) -> WatchPosition:
        """Return the position after the server closed a watch that was open for ``lived`` seconds."""
        return replace(self, failures=0 if lived >= HEALTHY_S else self.failures + 1, refusals=0, at_least=0.0)

    def failed(self, error: KubeError, lived: float) -> WatchPosition:
        """Return the position after a list or watch failed; ``lived`` is 0 if no watch was open.

        Raises:
            KubeError: ``error`` itself, if a retry cannot help.
        """
        refusals = self.refusals + isinstance(error, (Unauthorized, Forbidden, NotFound))
        may_pass = isinstance(error, (Gone, TooManyRequests, ServerError, Unreachable, BadReply))
        if not may_pass and not (self.worked and self.refusals < refusals < _REFUSALS_BEFORE_RAISE):
            raise error
        server_errors = self.server_errors + isinstance(error, ServerError)
        lost = isinstance(error, Gone) or server_errors >= _SERVER_ERRORS_BEFORE_RELIST
        return WatchPosition(
            version=None if lost else self.version,
            failures=1 if lived >= HEALTHY_S else self.failures + 1,
            server_errors=0 if lost else server_errors,
            worked=self.worked,
            refusals=refusals,
            at_least=requested_wait(error),
        )

    def delay(self, chance: float) -> float:
        """Return the seconds to wait before the next request; ``chance`` is a random number from [0, 1)."""
        return WATCH_BACKOFF.delay(self.failures, chance, self.at_least)
