"""Clients that keep writing while the migration runs, and the record of what they did.

Four of them, one write at a time each: one applies, one sends merge patches, one creates, one deletes. All of them are
still clients of v1alpha1, as they are when a new version has just arrived. (Until an object is migrated, the API server
may refuse an apply at v1beta1 and answers a plain update at it by emptying managedFields; ``trouble`` shows both.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from demo import cast
from demo.answers import Answer
from demo.cast import Database
from demo.crd import OLD
from demo.deeds import Deeds
from demo.population import FIRST_CONNECTIONS
from demo.writing import Writer

__all__ = ["Traffic"]

_PAUSE = 0.1  # seconds between two writes of one client
_CREATED_EVERY = 10  # numbers in which no share of ``cast`` falls but the platform's


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
