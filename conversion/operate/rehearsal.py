"""Rehearses a revision: every live object of a CRD is converted to every version and back.

No object is written. Objects are listed page by page at the storage version, and one page is in memory at a time.
Between two objects other tasks run, so that serving continues. A rehearsal runs in steps, each of which examines a
bounded number of objects. It starts over after a restart, or when the API server has dropped the list.

A revision that may be costly is rehearsed in a worker (``workers``), and marked in the record of its CRD meanwhile. If
it ends the worker, or ends the whole process several times, no leader tries it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from msgspec import to_builtins

from restow.conversion.compile.graph import Graph
from restow.conversion.operate.gates import REHEARSED, Gate, counted
from restow.conversion.operate.records import Records
from restow.conversion.operate.revisions import Revision, RevisionRecord
from restow.conversion.operate.trial import tried
from restow.conversion.operate.turns import QueueOfKindFull
from restow.conversion.operate.workers import Workers, is_costly, servable
from restow.conversion.server.conversion import GaveUp
from restow.crds import Crd
from restow.kube import Cluster
from restow.kube.clock import Clock
from restow.kube.errors import Forbidden, Gone, KubeError, NotFound, ServerError, TooDeep
from restow.kube.pager import DOCUMENTS, check_next, request_list_page
from restow.kube.resources import Resource, qualified_name
from restow.kube.watchevents import read_page

#: The most failures that are named.
_NAMED: Final = 20

_TOO_DEEP: Final = "it is nested too deeply to be read here; make it flatter, or delete it"

_LATER: Final = 30.0  # seconds until the next attempt if objects cannot be listed
_AGAIN: Final = (30.0, 900.0)  # seconds after a failed rehearsal: the first delay, and the longest
_BUSY: Final = 5.0  # seconds until the next attempt if the workers are busy with the kind
_LEAVE_S: Final = 2.0
#: How often a rehearsal may start and not end: at every start of a leader that did not end in good order. A leader that
#: lost its lease because no API server answered cannot take its mark away, so a few such starts must not count.
_STARTS: Final = 5

Tried = Callable[[Sequence[dict[str, Any]]], Awaitable[Sequence[str]]]
"""Returns for each object why it does not convert to every version and back; empty if it does. May raise GaveUp."""


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

    def __init__(self, cluster: Cluster, clock: Clock, records: Records, workers: Workers) -> None:
        self._cluster = cluster
        self._clock = clock
        self._records = records
        self._workers = workers
        self._known: dict[str, _Rehearsed] = {}

    async def pass_(
        self, name: str, revision: Revision, crds: Sequence[Crd], record: RevisionRecord
    ) -> tuple[Gate, float, RevisionRecord]:
        """Run the next step of a revision's rehearsal; return the gate's state, when to look again, and the record.

        Raises:
            KubeError: the API server cannot be reached.
        """
        known = self._known.get(name)
        now = self._clock.monotonic()
        if (fatal := record.fatal_for(revision.name)) is not None:
            return Gate(REHEARSED, False, "TooCostly", fatal), _LATER, record
        if known is None or known.revision != revision.name:
            known = self._known[name] = _Rehearsed(revision.name)
        elif known.rehearsal is None and known.failures and now < known.again:
            return Gate(REHEARSED, False, "ObjectsFail", known.said), known.again - now, record
        if known.rehearsal is None:
            known.rehearsal = await self._begun(revision, crds)
            if known.rehearsal.is_marked:
                starts = record.starts_of(revision.name) + 1
                if starts > _STARTS:
                    said = f"its rehearsal ended the operator {_STARTS} times; change the rules"
                    return await self._fatal(known, revision, record, said)
                record = await self._records.write(record, rules=name, rehearsing=f"{revision.name} {starts}")
        try:
            return await self._step(known, known.rehearsal, record)
        except (Forbidden, NotFound, ServerError) as error:
            said = f"the objects of {' or '.join(each.name for each in crds)} cannot be listed: {error}"
            return Gate(REHEARSED, None, "CannotList", said), _LATER, record
        except QueueOfKindFull:
            return Gate(REHEARSED, None, "InProgress", known.said), _BUSY, record
        except GaveUp as gave_up:
            if gave_up.index is None:
                return Gate(REHEARSED, None, "InProgress", str(gave_up)), _BUSY, record
            return await self._fatal(known, revision, record, f"{gave_up}; change the rules")

    async def _begun(self, revision: Revision, crds: Sequence[Crd]) -> Rehearsal:
        graph = await asyncio.to_thread(servable, revision)
        if not is_costly(graph):
            return Rehearsal(partial(_tried_here, graph), crds)
        text = await asyncio.to_thread(lambda: revision.body)
        workers = self._workers.of(crds[0].name, revision.name, text)
        return Rehearsal(workers.tried, crds, is_marked=True)

    async def _fatal(
        self, known: _Rehearsed, revision: Revision, record: RevisionRecord, said: str
    ) -> tuple[Gate, float, RevisionRecord]:
        """Record that no leader may try the revision again."""
        known.rehearsal = None
        record = await self._records.write(record, rehearsing="", fatal=f"{revision.name} {said}")
        return Gate(REHEARSED, False, "TooCostly", said), _LATER, record

    async def _step(
        self, known: _Rehearsed, rehearsal: Rehearsal, record: RevisionRecord
    ) -> tuple[Gate, float, RevisionRecord]:
        await rehearsal.step(self._cluster)
        known.said = rehearsal.message
        if not rehearsal.done:
            return Gate(REHEARSED, None, "InProgress", known.said), 0.0, record
        known.rehearsal = None  # otherwise thousands of compiled conversions would stay in memory
        if rehearsal.is_marked:
            record = await self._records.write(record, rehearsing="")
        if rehearsal.failed:
            first, most = _AGAIN
            delay = min(first * 2**known.failures, most)
            known.failures += 1
            known.again = self._clock.monotonic() + delay
            return Gate(REHEARSED, False, "ObjectsFail", known.said), delay, record
        return Gate(REHEARSED, True, "Converted", known.said), 0.0, record

    def said_of(self, name: str, revision: str) -> str:
        """Return the result of a revision's rehearsal; one that an earlier process finished found no failure."""
        known = self._known.get(name)
        if known is not None and known.revision == revision and known.rehearsal is None:
            return known.said
        return "every object converted to every version and back"

    async def leave(self) -> None:
        """Take away the marks of the rehearsals that are not finished, because this leader ends in good order."""
        running = [known.rehearsal for known in self._known.values() if known.rehearsal is not None]
        marked = [each.crds[0].name for each in running if each.is_marked]
        with suppress(KubeError, TimeoutError):
            async with asyncio.timeout(_LEAVE_S):
                for crd in marked:
                    await self._records.write(await self._records.read(crd), rehearsing="")

    def forget(self, name: str) -> None:
        """Forget the rehearsal of a deleted object."""
        self._known.pop(name, None)


@dataclass(slots=True)
class Rehearsal:
    """The rehearsal of one revision.

    Attributes:
        tried: tries objects by the revision.
        crds: the CRDs whose objects are rehearsed, one after the other.
        is_marked: whether the record has a mark while the rehearsal runs.
        page_size: the number of objects of a page.
        pages: the number of pages of one step.
        done: whether every object was examined.
        objects, failed: how many objects were examined, and how many of them failed.
        failures: the first failures, each ``namespace/name: what``; never with values.
    """

    tried: Tried
    crds: Sequence[Crd]
    is_marked: bool = False
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
            GaveUp, QueueOfKindFull: as ``tried``; the message of GaveUp begins with the name of the object, if known.
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
            await self._try([{"apiVersion": resource.api_version, "kind": crd.kind, **item} for item in items])
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

    async def _try(self, objects: Sequence[dict[str, Any]]) -> None:
        try:
            found = await self.tried(objects)
        except GaveUp as error:
            if error.index is None:
                raise
            raise GaveUp(f"{_name(objects[error.index])}: {error}", error.index) from error
        self.objects += len(objects)
        for obj, what in zip(objects, found, strict=True):
            if what:
                self._fail(obj, what)

    def _fail(self, obj: dict[str, Any], what: str) -> None:
        self.failed += 1
        if len(self.failures) < _NAMED:
            self.failures.append(f"{_name(obj)}: {what}")

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


def _name(obj: dict[str, Any]) -> str:
    metadata = obj.get("metadata") or {}
    return qualified_name(metadata.get("namespace"), metadata.get("name"))


async def _tried_here(graph: Graph, objects: Sequence[dict[str, Any]]) -> list[str]:
    found = []
    for obj in objects:
        found.append(tried(graph, obj))
        await asyncio.sleep(0)
    return found
