"""Clients that keep writing while the migration runs, and the record of what they did.

Four of them, one write at a time each: one applies, one sends merge patches, one creates, one deletes. All of them are
still clients of v1alpha1, as they are when a new version has just arrived. (At v1beta1 the API server would refuse some of
these applies and answer plain updates by emptying managedFields, until the objects are migrated; ``trouble`` shows both.)
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from restow.demo import cast
from restow.demo.cast import Database
from restow.demo.crd import OLD
from restow.demo.population import FIRST_CONNECTIONS
from restow.demo.writing import Answer, Writer

__all__ = ["Deeds", "Traffic"]

_PAUSE = 0.05  # seconds between two writes of one client
_CREATED_EVERY = 10  # numbers in which no share of ``cast`` falls but the platform's


@dataclass(slots=True)
class Deeds:
    """What the clients did.

    Attributes:
        storage: GiB of each database that the platform resized, by number.
        connections: what the editor set last, by number.
        spec_writes: how often each database's spec was changed, by number.
        created, deleted: databases that came and went.
        refusals: answers that were no success.
    """

    storage: dict[int, int] = field(default_factory=dict)
    connections: dict[int, int] = field(default_factory=dict)
    spec_writes: Counter[int] = field(default_factory=Counter)
    created: list[Database] = field(default_factory=list)
    deleted: list[Database] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)

    @property
    def written(self) -> set[str]:
        """Keys of the databases that clients wrote and that are still there."""
        return {Database(number).key for number in self.spec_writes} | {each.key for each in self.created}

    @property
    def writes(self) -> int:
        """All writes that succeeded."""
        return self.spec_writes.total() + len(self.created) + len(self.deleted)


class Traffic:
    """The clients."""

    def __init__(self, writer: Writer, databases: Sequence[Database]) -> None:
        self._writer = writer
        self._databases = databases
        self.deeds = Deeds()

    async def run(self, stop: asyncio.Event) -> None:
        """Write until stopped; every client writes once at least."""
        async with asyncio.TaskGroup() as group:
            for client in (self._resize, self._edit, self._create, self._delete):
                group.create_task(_repeat(client, stop))

    async def _resize(self, turn: int) -> None:
        database = _nth(cast.APPLIED_MEANWHILE.of(self._databases), turn)
        number = database.number
        storage = self.deeds.storage.get(number, cast.storage_of(number)) + 5
        manifest = cast.platform_manifest(database, OLD, storage=storage)
        if self._succeeded(await self._writer.apply(manifest, cast.PLATFORM)):
            self.deeds.storage[number] = storage
            self.deeds.spec_writes[number] += 1

    async def _edit(self, turn: int) -> None:
        database = _nth(cast.EDITED.of(self._databases), turn)
        number = database.number
        connections = self.deeds.connections.get(number, FIRST_CONNECTIONS) + 10
        patch = cast.edit_patch(connections)
        if self._succeeded(await self._writer.merge(database.namespace, database.name, OLD, patch, cast.EDITOR)):
            self.deeds.connections[number] = connections
            self.deeds.spec_writes[number] += 1

    async def _create(self, turn: int) -> None:
        database = Database(cast.CREATED_FROM + 1 + turn * _CREATED_EVERY)
        if self._succeeded(await self._writer.apply(cast.platform_manifest(database, OLD), cast.PLATFORM)):
            self.deeds.created.append(database)

    async def _delete(self, turn: int) -> None:
        doomed = cast.DELETED_MEANWHILE.of(self._databases)
        if turn < len(doomed):
            database = doomed[turn]
            if self._succeeded(await self._writer.delete(database.namespace, database.name, OLD)):
                self.deeds.deleted.append(database)

    def _succeeded(self, answer: Answer) -> bool:
        if answer.refusal:
            self.deeds.refusals.append(answer.refusal)
        return not answer.refusal


async def _repeat(client: Callable[[int], Awaitable[None]], stop: asyncio.Event) -> None:
    turn = 0
    while True:
        await client(turn)
        turn += 1
        try:
            async with asyncio.timeout(_PAUSE):
                await stop.wait()
            return
        except TimeoutError:
            continue


def _nth(databases: Sequence[Database], turn: int) -> Database:
    return databases[turn % len(databases)]
