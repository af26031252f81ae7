"""What a worker and its parent tell each other, over a pair of connected sockets.

The parent asks (an empty message), the worker answers with a `Report`; it sends one unasked when it begins, and when it
ends. If either end closes, the other process is gone.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self

import msgspec

from restow.conversion.server.counts import Snapshot

__all__ = ["Inheritance", "Link", "Report", "report_to_parent"]

_VARIABLE: Final = "RESTOW_WORKER"
_LENGTH: Final = struct.Struct("!I")


class Report(msgspec.Struct, array_like=True):
    """How a worker is: why it is not ready (empty if it is), and its numbers."""

    unready: str
    snapshot: Snapshot


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Report).decode


@dataclass(frozen=True, slots=True)
class Inheritance:
    """The sockets that a parent hands to its worker."""

    listener: socket.socket
    parent: socket.socket

    @classmethod
    def claimed(cls, environment: MutableMapping[str, str]) -> Self | None:
        """Return what this process inherited, None if it is no worker. Its own children shall inherit nothing."""
        numbers = environment.pop(_VARIABLE, "")
        if not numbers:
            return None
        listener, parent = (socket.socket(fileno=int(number)) for number in numbers.split(","))
        return cls(listener, parent)

    @property
    def descriptors(self) -> tuple[int, int]:
        """What has to stay open in the new process."""
        return self.listener.fileno(), self.parent.fileno()

    @property
    def environment(self) -> Mapping[str, str]:
        """What tells the new process of them."""
        return {_VARIABLE: ",".join(map(str, self.descriptors))}


class Link:
    """One end: messages in, messages out."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def over(cls, end: socket.socket) -> Self:
        """Take one end of the pair."""
        return cls(*await asyncio.open_connection(sock=end))

    def send(self, message: bytes = b"") -> None:
        """Send a message, unless the other process is gone."""
        if not self._writer.is_closing():
            self._writer.write(_LENGTH.pack(len(message)) + message)

    async def receive(self) -> bytes | None:
        """Return the next message; None once the other process is gone."""
        try:
            (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
            return await self._reader.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    def send_report(self, report: Report) -> None:
        """Send a report."""
        self.send(_encode(report))

    async def receive_report(self) -> Report | None:
        """Return the next report; None once the worker is gone."""
        message = await self.receive()
        return None if message is None else _decode(message)

    async def close(self) -> None:
        """Close this end once all is sent."""
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()


async def report_to_parent(link: Link, report: Callable[[], Report]) -> None:
    """Answer the parent until it is gone."""
    link.send_report(report())
    while await link.receive() is not None:
        link.send_report(report())
