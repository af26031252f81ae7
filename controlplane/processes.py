"""The processes and the temporary folder of a control plane, which never outlive their owner.

The servers are plain child processes, tied to no event loop, so that one plane can be used from any number of loops
(pytest-asyncio makes one per test) and from synchronous code.

Invariants: every process writes its output to one log file; every process belongs to the group led by ``guardian``,
which ends the group and removes the folder when this Python process dies, however it dies. ``close`` leaves neither a
process nor the folder, and can be called at any time, more than once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from restow.controlplane import guardian
from restow.controlplane.errors import ControlPlaneError, PortTakenError, ProcessError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

_POLL = 0.02  # seconds between checks of a process that is ending
_STDERR = 2  # the file descriptor: pytest replaces sys.stderr by objects that have none
_TAIL_LINES = 25
_TAIL_BYTES = 16_384


class ManagedProcess:
    """One server process: its pid, its log, and its end."""

    def __init__(self, name: str, popen: subprocess.Popen[bytes], log: Path | None, log_start: int) -> None:
        """Wrap a process that ``ProcessGroup.start`` has started; its log begins at ``log_start`` bytes."""
        self.name = name
        self._log = log
        self._popen = popen
        self._log_start = log_start
        self._ended_here = False

    @property
    def pid(self) -> int:
        """The process id."""
        return self._popen.pid

    @property
    def running(self) -> bool:
        """Whether the process is still running."""
        return self._popen.poll() is None

    def cpu_seconds(self) -> float:
        """Return the CPU time, user and system, that the running process has used (Linux only)."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError as error:
            message = f"The CPU time of {self.name} cannot be read: it needs Linux and a running process ({error})."
            raise UnavailableError(message) from error
        ticks = int(fields[11]) + int(fields[12])  # utime and stime; the 14th and 15th of all in proc_pid_stat(5)
        return ticks / os.sysconf("SC_CLK_TCK")

    def log_tail(self) -> str:
        """Return the last lines of the process's output, for an error message."""
        if self._log is None:
            return "(its output went to this process's stderr)"
        with self._log.open("rb") as file:
            file.seek(max(self._log_start, self._log.stat().st_size - _TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
        return "\n".join(lines[-_TAIL_LINES:])

    def check(self) -> None:
        """Raise ``ProcessError`` (or ``PortTakenError``) with the log's tail if the process ended by itself."""
        status = self._popen.poll()
        if status is None or self._ended_here:
            return
        tail = self.log_tail()
        kind = PortTakenError if "address already in use" in tail else ProcessError
        message = f"{self.name} ended with status {status}. The last lines of its log:\n{tail}"
        raise kind(message)

    async def stop(self, grace: float) -> None:
        """Send SIGTERM, wait at most ``grace`` seconds, then SIGKILL. A cancellation kills at once."""
        self._ended_here = True
        try:
            self._popen.terminate()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    while self.running:  # noqa: ASYNC110 - tied to no loop, so no event can be set
                        await asyncio.sleep(_POLL)
        finally:
            self.kill()

    def kill(self) -> None:
        """End the process now and reap it; do nothing if it has ended."""
        self._ended_here = True
        self._popen.kill()
        self._popen.wait()


class ProcessGroup:
    """A temporary folder and the processes that work in it; both end at the latest when this Python process does."""

    def __init__(self, *, log_directory: Path | None = None, attach_output: bool = False) -> None:
        """Make the folder (mode 0700) and start the guardian.

        Logs go to ``log_directory`` (kept afterwards), else into the folder; ``attach_output`` sends them to this
        process's stderr instead.
        """
        self.folder = Path(tempfile.mkdtemp(prefix="restow-controlplane-"))
        self._logs = log_directory if log_directory is not None else self.folder / "logs"
        self._attach_output = attach_output
        self._processes: list[ManagedProcess] = []
        try:
            self._logs.mkdir(parents=True, exist_ok=True)
            self._guardian = subprocess.Popen(  # noqa: S603 - our own script, no shell
                [sys.executable, "-I", "-S", guardian.__file__, str(self.folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                process_group=0,
            )
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    def start(self, name: str, command: Sequence[str]) -> ManagedProcess:
        """Start a process in the group; ``name`` names its log file, to which a second start appends."""
        log = None if self._attach_output else self._logs / f"{name}.log"
        with contextlib.ExitStack() as stack:
            output = stack.enter_context(log.open("ab")) if log is not None else _STDERR
            log_start = log.stat().st_size if log is not None else 0
            try:
                popen = subprocess.Popen(  # noqa: S603 - a command built here, no shell
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    process_group=self._guardian.pid,
                )
            except OSError as error:
                message = f"{name} could not be started from {command[0]}: {error}"
                raise ControlPlaneError(message) from error
        process = ManagedProcess(name, popen, log, log_start)
        self._processes.append(process)
        return process

    def check(self) -> None:
        """Raise ``ProcessError`` if a process ended by itself."""
        for process in self._processes:
            process.check()

    async def close(self, grace: float) -> None:
        """Stop the processes, the newest first, each within ``grace`` seconds; remove the folder.

        If one of them died, the others are killed at once, because an API server would wait for a dead etcd in vain.
        """
        try:
            with contextlib.suppress(ProcessError):
                self.check()
                for process in reversed(self._processes):
                    await process.stop(grace)
        finally:
            self.kill()

    def kill(self) -> None:
        """End every process now, remove the folder, release the guardian."""
        for process in reversed(self._processes):
            process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        if self._guardian.stdin is not None and not self._guardian.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._guardian.stdin.fileno(), b".")
            self._guardian.stdin.close()
        self._guardian.wait()
