"""Everybody's writes at v1alpha1, before there is another version."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from demo import cast
from demo.answers import Answer
from demo.cast import Database
from demo.crd import OLD
from demo.writing import Writer, all_of

__all__ = ["FIRST_CONNECTIONS", "Populated", "members", "populate", "writes_due"]

FIRST_CONNECTIONS = 200

_Write: TypeAlias = Callable[[], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Populated:
    """How many writes each manager made."""

    platform: int
    backup: int
    controller: int
    editor: int
    deleting: int


def members(count: int) -> list[Database]:
    """Return the databases that the demo begins with."""
    return [Database(number) for number in range(count)]


def writes_due(databases: Sequence[Database]) -> int:
    """How many writes ``populate`` will make."""
    return sum(1 for database in databases for _ in _shares_of(database))


async def populate(writer: Writer, databases: Sequence[Database], *, done: Callable[[], None]) -> Populated:
    """Write every database as each of its managers, in this order; databases are independent of each other.

    Raises:
        DemoError: a write was refused.
    """

    async def write(database: Database) -> None:
        for request in _requests(writer, database):
            (await request()).accepted()
            done()

    await all_of(databases, write)
    return Populated(
        platform=len(databases),
        backup=len(cast.BACKED_UP.of(databases)),
        controller=len(cast.WATCHED.of(databases)),
        editor=len(cast.EDITED.of(databases)),
        deleting=len(cast.DELETING.of(databases)),
    )


def _shares_of(database: Database) -> Iterator[cast.Share | None]:
    yield None  # the platform has a hand in all of them
    shares: Iterable[cast.Share] = (cast.BACKED_UP, cast.WATCHED, cast.EDITED, cast.DELETING)
    yield from (share for share in shares if database.number in share)


def _requests(writer: Writer, database: Database) -> Iterator[_Write]:
    number = database.number
    yield partial(writer.apply, cast.platform_manifest(database, OLD), cast.PLATFORM)
    if number in cast.BACKED_UP:
        yield partial(writer.apply, cast.backup_manifest(database, OLD), cast.BACKUP)
    if number in cast.WATCHED:
        yield partial(writer.apply, cast.status_manifest(database, OLD), cast.CONTROLLER, status=True)
    if number in cast.EDITED:
        patch = cast.edit_patch(FIRST_CONNECTIONS)
        yield partial(writer.merge, database.namespace, database.name, OLD, patch, cast.EDITOR)
    if number in cast.DELETING:
        yield partial(writer.delete, database.namespace, database.name, OLD)
