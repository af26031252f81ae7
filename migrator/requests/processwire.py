"""The messages between a run and its worker processes: their types, their frames, and counts on their way.

A frame is the length of a message, four bytes in network order, and the message in MessagePack. Objects travel as the
JSON bytes that the API server sent. Neither credentials nor converters travel: ``WorkerSetup`` has their names.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import msgspec

from restow.kube.credentials import ConnectArguments
from restow.migrator.model.options import Options
from restow.migrator.model.report import MOST_FAILURES, CrdReport, ObjectCounts, ObjectFailure, Requests

__all__ = [
    "BEAT_S",
    "Alive",
    "AllDealt",
    "Batch",
    "Done",
    "Ended",
    "FrameError",
    "FromWorker",
    "LogLine",
    "SlowDown",
    "StopWork",
    "Stopped",
    "ToWorker",
    "WorkerCounts",
    "WorkerSetup",
    "add_counts",
    "frame",
    "from_worker",
    "read_messages",
    "take_counts",
    "to_worker",
]


LONGEST = 2**30
"""Bytes of one message. A batch has at most one object beyond its own bound, and etcd takes none of this size."""

_HEADER = 4

BEAT_S = 2.0
"""Seconds between two ``Alive`` of a worker."""


class FrameError(Exception):
    """The other process sent what is no message."""


class WorkerSetup(msgspec.Struct, frozen=True, tag=True):
    """The first message to a worker: what all its objects have in common.

    Attributes:
        crd: the document of the CRD as the run read it.
        options: of the run, with this worker's share of ``concurrency`` and ``rate``.
        written_since: the resourceVersion after which objects are at the storage version; empty for none.
        connection: how to open the cluster.
        factory, arguments: of ``NamedConverters``; empty for the CRD's own webhook.
        levels: the levels of loggers, by name.
        seed: spreads waits.
        grace_s: seconds for the requests in flight once the run is asked to stop.
    """

    crd: dict[str, Any]
    options: Options
    written_since: str
    connection: ConnectArguments
    factory: str
    arguments: list[Any]
    levels: dict[str, int]
    seed: int
    grace_s: float


class Batch(msgspec.Struct, frozen=True, tag=True):
    """Objects to finish: the number by which each is answered for, and its JSON."""

    numbers: list[int]
    objects: list[bytes]


class SlowDown(msgspec.Struct, frozen=True, tag=True):
    """The API server asked for less load; to every other process."""


class StopWork(msgspec.Struct, frozen=True, tag=True):
    """Begin no object any more; the fields are those of ``RunStop.because``."""

    why: str
    final: bool
    unreachable: str


class AllDealt(msgspec.Struct, frozen=True, tag=True):
    """Nothing more is dealt."""


class WorkerCounts(msgspec.Struct, frozen=True):
    """What a worker did since its last message: the fields of a ``CrdReport`` that grow with objects."""

    objects: ObjectCounts
    requests: Requests
    failures: list[ObjectFailure]
    owners_lost: list[str]
    stripped_owners: list[tuple[str, str, int]]
    kept_owners: list[tuple[str, str, int]]
    hazards: list[tuple[str, str, int]]
    conversions: int
    unchanged: int


class Done(msgspec.Struct, frozen=True, tag=True):
    """These objects are done with, one way or another, and this is what came of them and of others under way."""

    numbers: list[int]
    counts: WorkerCounts


class Stopped(msgspec.Struct, frozen=True, tag=True):
    """A worker found that the run cannot succeed; the fields are those of ``RunStop.because``.

    ``callback`` says that a converter raised an error, and ``why`` is the sentence of ``CallbackFailed``.
    """

    why: str
    final: bool
    unreachable: str
    callback: bool


class LogLine(msgspec.Struct, frozen=True, tag=True):
    """A record of a worker's log."""

    logger: str
    level: int
    message: str
    created: float


class Alive(msgspec.Struct, frozen=True, tag=True):
    """A worker's event loop still runs, however long the API server takes to answer it."""


class Ended(msgspec.Struct, frozen=True, tag=True):
    """The last message of a worker: nothing is in flight any more."""


ToWorker: TypeAlias = WorkerSetup | Batch | SlowDown | StopWork | AllDealt
FromWorker: TypeAlias = Done | SlowDown | Stopped | LogLine | Alive | Ended

to_worker: msgspec.msgpack.Decoder[ToWorker] = msgspec.msgpack.Decoder(ToWorker)
from_worker: msgspec.msgpack.Decoder[FromWorker] = msgspec.msgpack.Decoder(FromWorker)
_encoder = msgspec.msgpack.Encoder()


def frame(message: ToWorker | FromWorker) -> bytes:
    """Return a message as it travels."""
    body = _encoder.encode(message)
    return len(body).to_bytes(_HEADER) + body


async def read_messages(
    reader: asyncio.StreamReader, decoder: msgspec.msgpack.Decoder[Any]
) -> AsyncIterator[ToWorker | FromWorker]:
    """Yield the messages of a stream until it ends; a message that breaks off is dropped, its sender has died.

    Raises:
        FrameError: a frame is too long, or is no message.
    """
    while True:
        try:
            length = int.from_bytes(await reader.readexactly(_HEADER))
            if length > LONGEST:
                raise FrameError(f"a message of {length} bytes was announced")
            body = await reader.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        try:
            message = decoder.decode(body)
        except msgspec.MsgspecError as error:
            raise FrameError("a message cannot be read") from error
        yield message


def take_counts(report: CrdReport) -> WorkerCounts:
    """Return what a worker's report has counted, and have it count from zero again."""
    counts = WorkerCounts(
        objects=replace(report.objects),
        requests=replace(report.requests),
        failures=list(report.failures),
        owners_lost=list(report.owners_lost),
        stripped_owners=_rows(report.stripped_owners),
        kept_owners=_rows(report.kept_owners),
        hazards=_rows(report.hazards),
        conversions=report.conversions,
        unchanged=report.unchanged,
    )
    for counted in (report.objects, report.requests):  # in place: a converter holds on to the latter
        for name in counted.__slots__:
            setattr(counted, name, 0)
    for kept in (report.failures, report.owners_lost, report.stripped_owners, report.kept_owners, report.hazards):
        kept.clear()
    report.conversions = report.unchanged = 0
    return counts


def add_counts(report: CrdReport, counts: WorkerCounts) -> None:
    """Add what a worker did to the report of the run."""
    for mine, more in ((report.objects, counts.objects), (report.requests, counts.requests)):
        for name in mine.__slots__:
            setattr(mine, name, getattr(mine, name) + getattr(more, name))
    report.failures += counts.failures[: max(0, MOST_FAILURES - len(report.failures))]
    report.owners_lost += counts.owners_lost[: max(0, MOST_FAILURES - len(report.owners_lost))]
    for owners, rows in (
        (report.stripped_owners, counts.stripped_owners),
        (report.kept_owners, counts.kept_owners),
        (report.hazards, counts.hazards),
    ):
        for manager, version, count in rows:
            owners[manager, version] = owners.get((manager, version), 0) + count
    report.conversions += counts.conversions
    report.unchanged += counts.unchanged


def _rows(owners: Mapping[tuple[str, str], int]) -> list[tuple[str, str, int]]:
    return [(manager, version, count) for (manager, version), count in owners.items()]
