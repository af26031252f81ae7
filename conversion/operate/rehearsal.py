"""Rehearses a revision: every live object of a CRD is converted to every version and back, in this process.

Nothing is written. Objects are listed page by page at the storage version, and one page is in memory at a time.
Between two objects other tasks run, so that serving continues. A rehearsal runs in steps, each of which examines a
bounded number of objects. It starts over after a restart, or when the API server has dropped the list.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec import to_builtins

from restow.conversion.compile.graph import Graph
from restow.conversion.explain.model import leaves
from restow.conversion.explain.roundtrip import BrokenLaw, round_trips
from restow.conversion.model.errors import ObjectError
from restow.conversion.model.fieldpath import pointer
from restow.conversion.model.values import same
from restow.conversion.operate.gates import REHEARSED, Gate, counted
from restow.conversion.operate.revisions import Revision
from restow.crds import Crd
from restow.kube import Cluster
from restow.kube.clock import Clock
from restow.kube.errors import Forbidden, Gone, NotFound, ServerError, TooDeep
from restow.kube.pager import DOCUMENTS, check_next, request_list_page
from restow.kube.resources import Resource, qualified_name
from restow.kube.watchevents import read_page

__all__ = ["Rehearsal", "Rehearsals"]

#: The most failures and differing fields that are named.
_NAMED: Final = 20
_FIELDS: Final = 3

_TOO_DEEP: Final = "it is nested too deeply to be read here; make it flatter, or delete it"

_LATER: Final = 30.0  # seconds until the next attempt if objects cannot be listed
_AGAIN: Final = (30.0, 900.0)  # seconds after a failed rehearsal: the first delay, and the longest


@dataclass(slots=True)
class _Rehearsed:
    """A rehearsal in this process: its revision, its result, and when a failed one may be repeated."""

    revision: str
    rehearsal: Rehearsal | None = None
    said: str = ""
    failures: int = 0
    again: float = 0.0


class Rehearsals:
    """The gate Rehearsed: one rehearsal for each ``ConversionRules`` object, of its newest revision."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._known: dict[str, _Rehearsed] = {}

    async def pass_(self, name: str, revision: Revision, crds: Sequence[Crd]) -> tuple[Gate, float]:
        """Run the next step of a revision's rehearsal; return the gate's state, and when to look again.

        Raises:
            KubeError: the API server cannot be reached.
        """
        known = self._known.get(name)
        now = self._clock.monotonic()
        if known is None or known.revision != revision.name:
            known = self._known[name] = _Rehearsed(revision.name)
        elif known.rehearsal is None and known.failures and now < known.again:
            return Gate(REHEARSED, False, "ObjectsFail", known.said), known.again - now
        if known.rehearsal is None:
            known.rehearsal = Rehearsal(await asyncio.to_thread(revision.graph), crds)
        rehearsal = known.rehearsal
        try:
            await rehearsal.step(self._cluster)
        except (Forbidden, NotFound, ServerError) as error:
            said = f"the objects of {' or '.join(each.name for each in crds)} cannot be listed: {error}"
            return Gate(REHEARSED, None, "CannotList", said), _LATER
        known.said = rehearsal.message
        if not rehearsal.done:
            return Gate(REHEARSED, None, "InProgress", known.said), 0.0
        known.rehearsal = None  # otherwise thousands of compiled conversions would stay in memory
        if rehearsal.failed:
            first, most = _AGAIN
            delay = min(first * 2**known.failures, most)
            known.failures += 1
            known.again = self._clock.monotonic() + delay
            return Gate(REHEARSED, False, "ObjectsFail", known.said), delay
        return Gate(REHEARSED, True, "Converted", known.said), 0.0

    def said_of(self, name: str, revision: str) -> str:
        """Return the result of a revision's rehearsal; one that an earlier process finished found no failure."""
        known = self._known.get(name)
        if known is not None and known.revision == revision and known.rehearsal is None:
            return known.said
        return "every object converted to every version and back"

    def forget(self, name: str) -> None:
        """Forget the rehearsal of a deleted object."""
        self._known.pop(name, None)


@dataclass(slots=True)
class Rehearsal:
    """The rehearsal of one revision.

    Attributes:
        graph: the compiled revision.
        crds: the CRDs whose objects are rehearsed, one after the other.
        page_size: the number of objects of a page.
        pages: the number of pages of one step.
        done: whether every object was examined.
        objects, failed: how many objects were examined, and how many of them failed.
        failures: the first failures, each ``namespace/name: what``; never with values.
    """

    graph: Graph
    crds: Sequence[Crd]
    page_size: int = 100
    pages: int = 10
    done: bool = False
    objects: int = 0
    failed: int = 0
    remaining: int = 0
    failures: list[str] = field(default_factory=list)
    _at: int = 0
    _continue: str = ""

    async def step(self, cluster: Cluster) -> None:
        """Examine the next objects.

        Raises:
            KubeError: the API server refuses a request, or cannot be reached; the next step continues from there.
        """
        for _ in range(self.pages):
            crd = self.crds[self._at]
            resource = crd.resource_at(crd.storage.name)
            try:
                items, token = await self._next_page(cluster, resource)
            except Gone:
                self.objects = self.failed = self.remaining = self._at = 0
                self.failures.clear()
                self._continue = ""
                return
            for item in items:
                self._look({"apiVersion": resource.api_version, "kind": crd.kind, **item})
                await asyncio.sleep(0)
            self._continue = token
            if not self._continue:
                self._at += 1
                self.done = self._at == len(self.crds)
            if self.done:
                return

    async def _next_page(self, cluster: Cluster, resource: Resource) -> tuple[list[dict[str, Any]], str]:
        """Return the readable objects of the next page, and the token of the one after it."""
        reply, token = await request_list_page(cluster, resource, limit=self.page_size, token=self._continue)
        try:
            page = reply.decode(DOCUMENTS)
        except TooDeep:
            items, following = await asyncio.to_thread(self._readable, reply.body, resource)
        else:
            items, following = page.items or [], page.metadata.continue_
            self.remaining = page.metadata.remaining_item_count or 0
        check_next(token, following)
        return items, following

    def _readable(self, body: bytes, resource: Resource) -> tuple[list[dict[str, Any]], str]:
        """Read a page with objects that are nested too deeply, which fail; return the others, and the next token."""
        page = read_page(body, resource.full_name)
        items = []
        for item in page.items:
            try:
                items.append(item.json())
            except TooDeep:
                self.objects += 1
                self._fail({"metadata": to_builtins(item.metadata)}, _TOO_DEEP)
        return items, page.continue_token

    def _look(self, obj: dict[str, Any]) -> None:
        self.objects += 1
        try:
            broken = round_trips(self.graph, obj).broken
        except ObjectError as error:
            self._fail(obj, str(error))
            return
        if broken:
            self._fail(obj, _told(broken[0]))

    def _fail(self, obj: dict[str, Any], what: str) -> None:
        self.failed += 1
        if len(self.failures) < _NAMED:
            metadata = obj.get("metadata") or {}
            self.failures.append(f"{qualified_name(metadata.get('namespace'), metadata.get('name'))}: {what}")

    @property
    def message(self) -> str:
        """The result, or the progress."""
        if not self.done:
            of = f", about {self.remaining} remain" if self.remaining else ""
            return f"{counted(self.objects, 'object')} converted so far{of}"
        if not self.failed:
            return f"{counted(self.objects, 'object')} converted to every version and back"
        more = f"; and {self.failed - len(self.failures)} more" if self.failed > len(self.failures) else ""
        return f"{self.failed} of {counted(self.objects, 'object')} failed: " + "; ".join(self.failures) + more


def _told(broken: BrokenLaw) -> str:
    way = " -> ".join(broken.way)
    places = ", ".join(_differing(broken))
    what = broken.message or (f"{places} would change" if places else "it would change")
    return f"{broken.law.value}, {way}: {what}"


def _differing(broken: BrokenLaw) -> Iterator[str]:
    """Yield the first differing fields."""
    left, right = dict(leaves(broken.before)), dict(leaves(broken.after))
    found = 0
    for place in dict.fromkeys((*left, *right)):
        if place in broken.forgiven or (place in left and place in right and same(left[place], right[place])):
            continue
        yield pointer(tuple(place))
        found += 1
        if found >= _FIELDS:
            return
