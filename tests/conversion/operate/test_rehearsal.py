"""Rehearsals: of a page that a decoder does not take, and of a revision that ends the process."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, cast

from restow.conversion.compile.graph import Graph
from restow.conversion.operate.records import Records
from restow.conversion.operate.rehearsal import _STARTS, Rehearsal, Rehearsals, _tried_here
from restow.conversion.operate.revisions import RevisionRecord
from restow.conversion.operate.workers import Workers
from restow.crds import Crd
from restow.kube import Cluster
from restow.kube.clock import SYSTEM_CLOCK
from restow.kube.cluster import Reply, Request
from tests.conversion.operate.test_workers import revision
from tests.memory.stub import StubCluster
from tests.migrator import builders as b

DEEP = b'{"metadata":{"name":"deep","namespace":"default"},"spec":' + b'{"a":' * 2_000 + b"1" + b"}" * 2_001


class OnePage(StubCluster):
    """An API server with one page; counts the requests."""

    def __init__(self) -> None:
        self.asked = 0

    async def send(self, request: Request) -> Reply:
        """The page."""
        self.asked += 1
        return Reply(b'{"kind":"List","metadata":{"resourceVersion":"1"},"items":[' + DEEP + b"]}")


async def test_a_page_with_a_deep_object_is_requested_once() -> None:
    """Each such page, of up to a hundred objects, would be read and converted by the API server twice."""
    cluster = OnePage()
    rehearsal = Rehearsal(partial(_tried_here, Graph({})), [Crd.from_document(b.crd_document())])
    await rehearsal.step(cluster)
    assert cluster.asked == 1
    assert rehearsal.done and rehearsal.message.startswith(
        "1 of 1 object failed: default/deep: it is nested too deeply"
    )


class Kept(Records):
    """Records without an API server: the last one that was written."""

    async def read(self, crd: str) -> RevisionRecord:
        """The record."""
        return self.__dict__.get("kept", RevisionRecord(crd))

    async def write(self, record: RevisionRecord, *, live: Any = None, **changes: Any) -> RevisionRecord:
        """Remember the changed record."""
        self.__dict__["kept"] = replace(record, **changes)
        return self.__dict__["kept"]


class Killed(BaseException):
    """The process ended in the middle of the rehearsal."""


class Killing(StubCluster):
    """An API server at whose first page the process ends."""

    async def send(self, request: Request) -> Reply:
        """End the process."""
        raise Killed


async def test_a_revision_that_ends_the_process_several_times_is_not_tried_again() -> None:
    """Each next leader would rehearse it, and end in the same way, so that nobody leads any more."""
    cluster, found, records = Killing(), revision("widget"), Kept(cast("Cluster", None), "default")
    crds = found.targets()

    def leader() -> Rehearsals:
        return Rehearsals(cluster, SYSTEM_CLOCK, records, Workers())

    for start in range(1, _STARTS + 1):
        with suppress(Killed):
            await leader().pass_("rules", found, crds, await records.read(crds[0].name))
        assert (await records.read(crds[0].name)).starts_of(found.name) == start
    gate, _, record = await leader().pass_("rules", found, crds, await records.read(crds[0].name))
    assert (gate.state, gate.reason) == (False, "TooCostly")
    assert record.fatal_for(found.name)
    assert RevisionRecord.read({"metadata": {"name": "x"}, **record.patch()}).fatal_for(found.name)
    gate, _, _ = await leader().pass_("rules", found, crds, record)
    assert gate.reason == "TooCostly"
    assert record.fatal_for("another") is None


async def test_a_leader_that_ends_in_good_order_takes_its_marks_away() -> None:
    """Three rollouts in the middle of one long rehearsal would count as three deaths, and condemn good rules."""
    cluster, found, records = Killing(), revision("widget"), Kept(cast("Cluster", None), "default")
    crds = found.targets()
    leader = Rehearsals(cluster, SYSTEM_CLOCK, records, Workers())
    with suppress(Killed):
        await leader.pass_("rules", found, crds, await records.read(crds[0].name))
    await leader.leave()
    assert (await records.read(crds[0].name)).starts_of(found.name) == 0
