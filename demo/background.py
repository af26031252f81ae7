"""A command that returns when its work is done, while the process that has done it goes on in the background.

The work runs in a child with a session of its own, so that neither Ctrl-C nor the end of the terminal ends what it
keeps. Until its release the parent passes signals on, and ends with the child's exit code.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import click

__all__ = ["Background", "in_background"]


class Background:
    """The child's side. Its files are in a folder, and are removed when it ends."""

    def __init__(self, folder: Path, released: int) -> None:
        self._folder = folder
        self._released = released
        self._files: list[Path] = []

    def file(self, name: str, text: str) -> Path:
        """Write a file that only its user can read."""
        path = self._folder / name
        path.unlink(missing_ok=True)
        self._files.append(path)
        with open(path, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(text)
        return path

    def release(self) -> None:
        """Let the command return; what this process prints from now on is not shown."""
        sys.stdout.flush()
        with Path(os.devnull).open("r+b") as nothing:
            for stream in (0, 1, 2):
                os.dup2(nothing.fileno(), stream)
        os.write(self._released, b".")
        os.close(self._released)

    def close(self) -> None:
        """Remove the files."""
        for path in self._files:
            path.unlink(missing_ok=True)


@contextmanager
def in_background(folder: Path) -> Iterator[Background]:
    """Run the body in a child; this process ends when the child is released, or ends.

    Raises:
        click.ClickException: another child runs with the same folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "pid").open("a+", encoding="utf-8") as lock:  # the child inherits the lock, and keeps it
        _lock(lock.fileno(), folder)
        reading, writing = os.pipe()
        if child := os.fork():
            os.close(writing)
            _wait(child, reading)
        os.close(reading)
        os.setsid()
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        background = Background(folder, writing)
        try:
            yield background
        finally:
            background.close()


def _lock(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        message = f"the control plane of another run is still there: kill {(folder / 'pid').read_text().strip()}"
        raise click.ClickException(message) from None


def _wait(child: int, released: int) -> NoReturn:
    """End as the child ends, or with 0 when it is released; pass signals on meanwhile."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: os.kill(child, number))
    if os.read(released, 1):
        os._exit(0)
    _, status = os.waitpid(child, 0)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
