"""The cache folder of one version: lookup, the lock between processes, and installing in one step.

Invariants: a file under its final name is complete; a reader needs no lock. The lock ends with the process that holds
it (flock), so a killed build does not block others.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

_POLL = 0.2  # seconds between attempts to get the lock, whose holder needs seconds to minutes


def executable(path: Path) -> bool:
    """Return whether the path is a file that can be run."""
    return path.is_file() and os.access(path, os.X_OK)


def install(source: Path, folder: Path, name: str) -> Path:
    """Move a finished file (on the same file system) into the cache folder, executable, in one step."""
    source.chmod(0o755)
    return source.replace(folder / name)


@asynccontextmanager
async def locked(folder: Path, waiting: Callable[[], None]) -> AsyncIterator[None]:
    """Hold the folder's lock; call ``waiting`` once if another process has it."""
    with _lock_file(folder) as file:
        told = False
        while not _try_lock(file.fileno()):
            if not told:
                waiting()
                told = True
            await asyncio.sleep(_POLL)
        _remove_remains(folder)
        yield


def scratch(folder: Path) -> Path:
    """Make an empty work folder in the cache; after a crash the next holder of the lock removes it."""
    path = folder / f".work-{os.getpid()}"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    return path


def _lock_file(folder: Path) -> TextIO:
    folder.mkdir(parents=True, exist_ok=True)
    return (folder / ".lock").open("w")


def _try_lock(descriptor: int) -> bool:
    import fcntl  # Windows has no such module, and find_binaries refuses to run there

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove_remains(folder: Path) -> None:
    for path in folder.glob(".work-*"):
        shutil.rmtree(path, ignore_errors=True)
