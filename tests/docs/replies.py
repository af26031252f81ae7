"""A child process that is told what to do on stdin, and answers each request with a line on a pipe of its own.

Its stdout and stderr are left to what it runs.

The process and all that it starts are a process group, which ends with the process of the tests: a page that has
started a control plane in the background would leave it behind. That plane's own guardian does not help, because its
owner, ``restow.controlplane up``, lives.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from restow.controlplane import guardian

__all__ = ["Child", "NoAnswer"]


class NoAnswer(Exception):
    """The process ended, or did not answer in time."""


class Child:
    """The process. ``{fd}`` in its command is the number of the pipe for its answers."""

    def __init__(
        self, command: Sequence[str], folder: Path, environment: Mapping[str, str], output: IO[bytes] | None = None
    ) -> None:
        self._answers, theirs = os.pipe()
        self.fd = theirs  # the same number in the process
        self._guardian = subprocess.Popen(
            [sys.executable, "-I", "-S", guardian.__file__], stdin=subprocess.PIPE, process_group=0
        )
        self.group = self._guardian.pid
        self.process = subprocess.Popen(
            [part.replace("{fd}", str(theirs)) for part in command],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT if output else None,
            pass_fds=[theirs],
            process_group=self.group,
        )
        os.close(theirs)
        self._read = b""

    def tell(self, request: str) -> None:
        """Send a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{request}\n".encode())
        self.process.stdin.flush()

    def answer(self, seconds: float) -> str:
        """Wait for the next line; raises NoAnswer."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self._read:
            ready, _, _ = select.select([self._answers], [], [], 0.2)
            if ready and (more := os.read(self._answers, 1 << 16)):
                self._read += more
            elif self.process.poll() is not None:
                raise NoAnswer(f"the shell or interpreter itself ended, with {self.process.returncode}")
            elif time.monotonic() > deadline:
                raise NoAnswer(f"not done after {seconds:.0f} s")
        line, _, self._read = self._read.partition(b"\n")
        return line.decode()

    def close(self) -> None:
        """Let it end: its stdin ends."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        os.close(self._answers)

    def living(self) -> list[str]:
        """The processes of its group that have not ended."""
        command = ["ps", "-A", "-o", "pid=,pgid=,stat=,args="]
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        rows = [line.split(maxsplit=3) for line in listed.splitlines()]
        return [
            " ".join(args)
            for pid, group, stat, *args in rows
            if int(group) == self.group and int(pid) != self.group and not stat.startswith("Z")
        ]

    def released(self) -> None:
        """Have nothing ended any more when the process of the tests ends."""
        assert self._guardian.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            os.write(self._guardian.stdin.fileno(), b".")
        self._guardian.stdin.close()
        self._guardian.wait()
