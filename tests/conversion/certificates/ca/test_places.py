"""Many CRDs of one webhook: what a look costs, and what it costs to add one."""

from __future__ import annotations

import asyncio
import copy
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from restow.conversion.certificates import Bundle, Service
from restow.conversion.certificates.ca import Certificates
from restow.conversion.certificates.wiring.clientconfig import Address
from restow.crds import Crd
from restow.kube import Reply, Resource
from restow.kube.listwatch import Selection
from restow.kube.resources import CRDS
from restow.kube.watchevents import Deleted, Listed, Modified
from tests.conversion.certificates.world import World

ADDRESS = Service("system", "webhook")
NAMES = tuple(f"kind{number}s.example.com" for number in range(300))


@dataclass
class Seen:
    """An item of a watch."""

    document: Mapping[str, Any]

    @property
    def metadata(self) -> Any:
        """What a watch reads of it."""
        return SimpleNamespace(name=self.document["metadata"]["name"])

    def json(self) -> Mapping[str, Any]:
        """All of it."""
        return self.document


class Watched(World):
    """A world that counts the reads of CRDs, and whose watches show what the test says."""

    def __init__(self, *crds: str) -> None:
        super().__init__(*crds)
        self.reads: Counter[str] = Counter()
        self.watches: list[tuple[Selection, asyncio.Queue[Any]]] = []

    async def get(
        self, resource: Resource, name: str, namespace: str | None = None, *, metadata_only: bool = False
    ) -> Reply:
        self.reads[resource.plural] += 1
        return await super().get(resource, name, namespace, metadata_only=metadata_only)

    @asynccontextmanager
    async def watch(self, _cluster: object, selection: Selection, **_options: Any) -> AsyncIterator[AsyncIterator[Any]]:
        """In the place of ``restow.kube.listwatch.watch``."""
        events: asyncio.Queue[Any] = asyncio.Queue()
        self.watches.append((selection, events))

        async def shown() -> AsyncIterator[Any]:
            while True:
                yield await events.get()

        yield shown()

    def seen(self, name: str) -> Any:
        """A CRD as a watch shows it."""
        return Seen(copy.deepcopy(self.crd(name)))

    async def show(self, event: Any) -> None:
        """Have the watch of all CRDs show something."""
        (events,) = (events for selection, events in self.watches if selection == Selection(CRDS))
        events.put_nowait(event)
        while not events.empty():
            await asyncio.sleep(0)
        await asyncio.sleep(0)


async def answers(_crd: Crd, _address: Address, _bundle: Bundle) -> None:
    """A webhook that answers."""


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> Watched:
    """With all CRDs."""
    made = Watched(*NAMES)
    monkeypatch.setattr("restow.conversion.certificates.ca.keeper.watch", made.watch)
    return made


@pytest.fixture
async def certificates(world: Watched, tmp_path: Path) -> AsyncIterator[Certificates]:
    """Watching, with all CRDs wired; a watch has shown all of them."""
    made = Certificates(
        world,
        "webhook",
        hosts=["webhook.system.svc"],
        folder=tmp_path,
        crds=dict.fromkeys(NAMES, ADDRESS),
        every=(CRDS,),
        probe=answers,
        clock=world.clock,
    )
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(made._places.watch_forever())
        while not world.watches:
            await asyncio.sleep(0)
        await made.reconcile()
        await world.show(Listed(tuple(world.seen(name) for name in NAMES), "1"))
        await made.reconcile()
        world.reads.clear()
        yield made
        watching.cancel()


async def test_one_watch_shows_all(world: Watched, certificates: Certificates) -> None:
    """With a watch for each CRD a replica opened as many connections, and none was left to renew its Lease."""
    assert [selection for selection, _ in world.watches] == [Selection(CRDS)]


async def test_what_is_watched_is_read_in_turns(world: Watched, certificates: Certificates) -> None:
    """A look that reads everything costs each replica thousands of requests in a minute."""
    for _ in range(3):
        await certificates.reconcile()
    assert world.reads[CRDS.plural] <= 3 * 16
    writes = world.crd_writes
    for _ in range(len(NAMES) // 16 + 1):
        await certificates.reconcile()
    assert world.reads[CRDS.plural] >= len(NAMES), "each comes to its turn"
    assert world.crd_writes == writes


async def test_one_more_costs_as_much_as_the_first(world: Watched, certificates: Certificates) -> None:
    """Where each new CRD began the keeping of all others again, thousands of rules took the square of that."""
    for name in ("one.example.com", "two.example.com"):
        world.add(name)
        world.reads.clear()
        writes = world.crd_writes
        certificates.keep(name, ADDRESS)
        await certificates.reconcile()
        assert world.crd_writes == writes + 1
        assert world.crd(name)["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"]
        assert world.reads[CRDS.plural] <= 16 + 4
        await certificates.reconcile()
    await certificates.release("one.example.com")
    del world.crd("one.example.com")["spec"]["conversion"]
    writes = world.crd_writes
    await world.show(Modified(world.seen("one.example.com")))
    await certificates.reconcile()
    assert world.crd_writes == writes, "what was released is another one's"


async def test_what_is_undone_is_written_at_once(world: Watched, certificates: Certificates) -> None:
    """A remembered state must not hide that another client has taken the bundle away."""
    name = NAMES[200]
    del world.crd(name)["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"]
    await world.show(Modified(world.seen(name)))
    await certificates.reconcile()
    assert world.crd(name)["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"]
    assert world.reads[CRDS.plural] <= 16 + 4


async def test_a_watch_that_ended_is_not_trusted(world: Watched, certificates: Certificates) -> None:
    """Once the watch has ended, every object is read again; otherwise a CRD whose wiring was undone stays broken."""
    await world.show(Deleted(world.seen(NAMES[0])))
    certificates._places._tell_all(CRDS, None)
    world.reads.clear()
    await certificates.reconcile()
    assert world.reads[CRDS.plural] >= len(NAMES)
