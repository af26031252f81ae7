"""Running a build tool: its output line by line, its end with a reason, and no remains when cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import deque
from typing import TYPE_CHECKING

from restow.controlplane.errors import BinariesUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

__all__ = ["run"]

_TAIL_LINES = 15


async def run(
    command: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    on_line: Callable[[str], None] | None = None,
) -> str:
    """Run a command and return its stdout; ``on_line`` gets each line of its stderr.

    Cancellation ends the command and its children (a compiler runs many).

    Raises:
        BinariesUnavailableError: a binary cannot be had; the error has the last lines of stderr if it fails.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=cwd,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        message = f"{command[0]} could not be run: {error}."
        raise BinariesUnavailableError(message) from error
    tail: deque[str] = deque(maxlen=_TAIL_LINES)
    try:
        async with asyncio.TaskGroup() as tasks:
            output = tasks.create_task(_read_all(process.stdout))
            tasks.create_task(_read_lines(process.stderr, tail, on_line))
        status = await process.wait()
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    if status != 0:
        message = f"`{' '.join(command[:3])} …` ended with status {status}: {' / '.join(tail) or 'no output'}"
        raise BinariesUnavailableError(message)
    return output.result()


async def _read_all(stream: asyncio.StreamReader | None) -> str:
    return "" if stream is None else (await stream.read()).decode(errors="replace")


async def _read_lines(
    stream: asyncio.StreamReader | None, tail: deque[str], on_line: Callable[[str], None] | None
) -> None:
    if stream is None:
        return
    async for raw in stream:
        line = raw.decode(errors="replace").rstrip()
        tail.append(line)
        if on_line is not None:
            on_line(line)
