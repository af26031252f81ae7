"""The writes of the managers: all databases at v1alpha1 before the migration, and changes during the migration.

Four clients write during the migration, each one write at a time: one applies, one sends merge patches, one creates,
one deletes. All are clients of v1alpha1, as is usual just after the introduction of a new version. (Until an object is
migrated, the API server may refuse an apply at v1beta1, and a plain update at v1beta1 empties managedFields; ``faults``
shows both.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from demo import fixtures
from demo.checks import ClientWrites
from demo.client import DatabaseClient, Response, all_of
from demo.fixtures import OLD, Database

__all__ = ["FIRST_CONNECTIONS", "ConcurrentClients", "WriteCounts", "databases_numbered", "populate", "writes_due"]

FIRST_CONNECTIONS = 200

_Write: TypeAlias = Callable[[], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class WriteCounts:
    """The numbers of writes of each manager."""

    platform: int
    backup: int
    controller: int
    editor: int
    deleting: int


def databases_numbered(count: int) -> list[Database]:
    """Return the initial databases."""
    return [Database(number) for number in range(count)]


def writes_due(databases: Sequence[Database]) -> int:
    """Return the number of writes that ``populate`` will make."""
    return sum(1 for database in databases for _ in _shares_of(database))


async def populate(client: DatabaseClient, databases: Sequence[Database], *, done: Callable[[], None]) -> WriteCounts:
    """Write every database as each of its managers; the order matters only within a database.

    Raises:
        DemoError: the API server refused a write.
    """

    async def write(database: Database) -> None:
        for request in _requests(client, database):
            (await request()).or_raise()
            done()

    await all_of(databases, write)
    return WriteCounts(
        platform=len(databases),
        backup=len(fixtures.BACKED_UP.of(databases)),
        controller=len(fixtures.WATCHED.of(databases)),
        editor=len(fixtures.EDITED.of(databases)),
        deleting=len(fixtures.DELETING.of(databases)),
    )


def _shares_of(database: Database) -> Iterator[fixtures.Share | None]:
    yield None  # the platform writes every database
    shares: Iterable[fixtures.Share] = (fixtures.BACKED_UP, fixtures.WATCHED, fixtures.EDITED, fixtures.DELETING)
    yield from (share for share in shares if database.number in share)


def _requests(client: DatabaseClient, database: Database) -> Iterator[_Write]:
    number = database.number
    yield partial(client.apply, fixtures.platform_manifest(database, OLD), fixtures.PLATFORM)
    if number in fixtures.BACKED_UP:
        yield partial(client.apply, fixtures.backup_manifest(database, OLD), fixtures.BACKUP)
    if number in fixtures.WATCHED:
        yield partial(client.apply, fixtures.status_manifest(database, OLD), fixtures.CONTROLLER, status=True)
    if number in fixtures.EDITED:
        patch = fixtures.edit_patch(FIRST_CONNECTIONS)
        yield partial(client.merge, database.namespace, database.name, OLD, patch, fixtures.EDITOR)
    if number in fixtures.DELETING:
        yield partial(client.delete, database.namespace, database.name, OLD)


_PAUSE = 0.1  # seconds between two writes of one client
_CREATED_EVERY = 10  # these numbers belong to no share but the platform's


class ConcurrentClients:
    """The clients that write during the migration, and the record of their writes."""

    def __init__(self, client: DatabaseClient, databases: Sequence[Database]) -> None:
        self._client = client
        self._databases = databases
        self.writes = ClientWrites()

    async def run(self, stop: asyncio.Event) -> None:
        """Write until stopped; every client writes at least once."""
        async with asyncio.TaskGroup() as group:
            for client in (self._resize, self._edit, self._create, self._delete):
                group.create_task(_repeat(client, stop))

    async def _resize(self, round_: int) -> None:
        database = _nth(fixtures.APPLIED_MEANWHILE.of(self._databases), round_)
        number = database.number
        storage = self.writes.storage.get(number, fixtures.storage_of(number)) + 5
        manifest = fixtures.platform_manifest(database, OLD, storage=storage)
        if self._succeeded(await self._client.apply(manifest, fixtures.PLATFORM)):
            self.writes.storage[number] = storage
            self.writes.spec_writes[number] += 1

    async def _edit(self, round_: int) -> None:
        database = _nth(fixtures.EDITED.of(self._databases), round_)
        number = database.number
        connections = self.writes.connections.get(number, FIRST_CONNECTIONS) + 10
        patch = fixtures.edit_patch(connections)
        if self._succeeded(await self._client.merge(database.namespace, database.name, OLD, patch, fixtures.EDITOR)):
            self.writes.connections[number] = connections
            self.writes.spec_writes[number] += 1

    async def _create(self, round_: int) -> None:
        database = Database(fixtures.CREATED_FROM + 1 + round_ * _CREATED_EVERY)
        if self._succeeded(await self._client.apply(fixtures.platform_manifest(database, OLD), fixtures.PLATFORM)):
            self.writes.created.append(database)

    async def _delete(self, round_: int) -> None:
        doomed = fixtures.DELETED_MEANWHILE.of(self._databases)
        if round_ < len(doomed):
            database = doomed[round_]
            if self._succeeded(await self._client.delete(database.namespace, database.name, OLD)):
                self.writes.deleted.append(database)

    def _succeeded(self, response: Response) -> bool:
        if response.refusal:
            self.writes.refusals.append(response.refusal)
        return not response.refusal


async def _repeat(client: Callable[[int], Awaitable[None]], stop: asyncio.Event) -> None:
    round_ = 0
    while True:
        await client(round_)
        round_ += 1
        try:
            async with asyncio.timeout(_PAUSE):
                await stop.wait()
            return
        except TimeoutError:
            continue


def _nth(databases: Sequence[Database], round_: int) -> Database:
    return databases[round_ % len(databases)]
