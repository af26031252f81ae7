"""``restow`` as a process that a test talks to while it runs: its signals, streams and end, without its imports.

A server that has imported restow forks it (``forkserver``). A test that measures what a process holds in memory starts
a process of its own, because a fork holds what the server has imported.
"""

from __future__ import annotations

import asyncio
import os
import socket
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from tests.restow import forkserver
from tests.restow.commandline import RESTOW

__all__ = ["Forked", "start_unforked"]


async def start_unforked(
    *arguments: str | Path, stdout: int = DEVNULL, stderr: int = DEVNULL, cwd: Path | None = None
) -> asyncio.subprocess.Process:
    """Start ``restow`` as ``Forked.start`` does, in a process that imports no more than it needs."""
    return await asyncio.create_subprocess_exec(*RESTOW, *map(str, arguments), stdout=stdout, stderr=stderr, cwd=cwd)


class Forked:
    """One process. It has what tests use of ``asyncio.subprocess.Process``, with the same meaning.

    Attributes:
        stdout: what it prints, if this was asked for by ``PIPE``.
        stderr: its messages, if these were asked for by ``PIPE``.
        returncode: its exit code, the negative number of the signal that ended it, or None while it runs.
    """

    def __init__(
        self, pid: int, stdout: asyncio.StreamReader | None, stderr: asyncio.StreamReader | None, told: _Status
    ) -> None:
        self.pid = pid
        self.stdout = stdout
        self.stderr = stderr
        self.returncode: int | None = None
        self._ending = asyncio.create_task(self._ended(*told))

    @classmethod
    async def start(
        cls,
        *arguments: str | Path,
        stdout: int = DEVNULL,
        stderr: int = DEVNULL,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Self:
        """Start ``restow`` with these arguments; the streams are ``PIPE`` or ``DEVNULL``, stdin is empty."""
        ours, theirs = socket.socketpair()
        with ExitStack() as stack:
            stack.enter_context(theirs)
            nothing = os.open(os.devnull, os.O_RDWR)
            stack.callback(os.close, nothing)
            files = [nothing]
            readers: list[asyncio.StreamReader | None] = []
            for wanted in (stdout, stderr):
                if wanted == PIPE:
                    reader, file = await _pipe()
                    stack.callback(os.close, file)
                else:
                    reader, file = None, nothing
                readers.append(reader)
                files.append(file)
            forkserver.fork(
                [str(each) for each in arguments], [*files, theirs.fileno()], cwd=cwd, env=os.environ | dict(env or {})
            )
        told = await asyncio.open_unix_connection(sock=ours)
        return cls(await _number(told[0]), *readers, told)

    async def wait(self) -> int:
        """Wait for its end; return the exit code."""
        return await asyncio.shield(self._ending)

    async def communicate(self) -> tuple[bytes, bytes]:
        """Read its streams until it has ended."""
        read = [each.read() if each is not None else _nothing() for each in (self.stdout, self.stderr)]
        out, err, _ = await asyncio.gather(*read, self.wait())
        return out, err

    def send_signal(self, number: int) -> None:
        """Send it a signal.

        Raises:
            ProcessLookupError: it has ended.
        """
        if self.returncode is not None:
            raise ProcessLookupError
        os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(15)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(9)

    async def _ended(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
        try:
            self.returncode = await _number(reader)
        finally:
            writer.close()
        return self.returncode


_Status = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _pipe() -> tuple[asyncio.StreamReader, int]:
    """Return a reader, and the descriptor that writes to it."""
    ours, theirs = os.pipe()
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(ours, "rb", 0))
    return reader, theirs


async def _number(told: asyncio.StreamReader) -> int:
    line = await told.readline()
    assert line, "the fork server has ended"
    return int(line)


async def _nothing() -> bytes:
    return b""
