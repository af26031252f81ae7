"""Processes of ``restow`` that need not import it: a server has done so once, and forks.

Importing what a command needs takes most of the CPU time of a short run, and tests run hundreds. A forked process has
arguments, environment, folder, standard streams and an exit code of its own, and ends as any other Python process
does. It is not for tests of what is imported, or when.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["CLOCK", "MODULE", "fork", "run"]

MODULE = "tests.restow.forkserver"
CLOCK = "TESTS_CLOCK_AHEAD"
"""The environment variable with the file that says by how many seconds the clock of a process is ahead."""

_LARGEST = 1024 * 1024  # bytes of a request
_lock = threading.Lock()
_servers: dict[int, socket.socket] = {}


def run(
    arguments: Sequence[str], *, stdin: str, cwd: Path | None, env: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run ``restow`` to its end.

    Raises:
        subprocess.TimeoutExpired: it took too long, and was killed.
    """
    ours, theirs = socket.socketpair()
    with (
        ours,
        theirs,
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        given.write(stdin.encode())
        given.seek(0)
        fork(arguments, [each.fileno() for each in (given, out, err, theirs)], cwd=cwd, env=env)
        theirs.close()
        ours.settimeout(timeout)
        pid = _number(ours)
        try:
            code = _number(ours)
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(list(arguments), timeout) from None
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read().decode().replace("\r\n", "\n"))
    return subprocess.CompletedProcess(list(arguments), code, *texts)


def fork(arguments: Sequence[str], files: Sequence[int], *, cwd: Path | None, env: Mapping[str, str]) -> None:
    """Have the server fork ``restow``.

    ``files`` are the descriptors of its standard streams, and of a socket that gets the pid, and at the end the exit
    code, each as a line. The caller closes its own copies.
    """
    about = {"arguments": list(arguments), "cwd": str(cwd or Path.cwd()), "env": dict(env)}
    with _lock:
        socket.send_fds(_server(), [json.dumps(about).encode()], files)


def _number(connection: socket.socket) -> int:
    said = b""
    while not said.endswith(b"\n"):
        more = connection.recv(1)
        assert more, "the fork server has ended"
        said += more
    return int(said)


def _server() -> socket.socket:
    """Return the connection to the server of this process, which is started for the first run."""
    if os.getpid() not in _servers:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-c", f"from {MODULE} import main; main()", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                cwd=Path(__file__).parents[2],
            )
        _servers[os.getpid()] = ours
        atexit.register(_stop, ours, process)
    return _servers[os.getpid()]


def _stop(connection: socket.socket, process: subprocess.Popen[bytes]) -> None:
    connection.close()
    process.wait()


# What runs in the server.


def main() -> None:
    """Import what commands need, and fork for each request; a fork returns from ``_serve`` and is ``restow``."""
    from restow.main import COMMANDS
    from restow.main import main as restow

    for name in COMMANDS:
        import_module(f"restow.commands.{name}")
    gc.collect()
    gc.freeze()
    arguments = _serve(socket.socket(fileno=int(sys.argv[1])))
    if arguments is not None:
        sys.argv[1:] = arguments
        if clock := os.environ.get(CLOCK):
            _move_clock(Path(clock))
        restow()


def _move_clock(ahead: Path) -> None:
    """Have the clock of this process be ahead by the seconds in a file, which a test may change."""
    from restow.kube.clock import SYSTEM_CLOCK

    now = SYSTEM_CLOCK.now
    object.__setattr__(SYSTEM_CLOCK, "now", lambda: now() + timedelta(seconds=float(ahead.read_text())))


def _serve(control: socket.socket) -> list[str] | None:
    """Answer requests; return None once there are no more, and in a fork the arguments."""
    running: dict[int, socket.socket] = {}
    wakes, woken = socket.socketpair()
    for each in (wakes, woken):
        each.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.set_wakeup_fd(woken.fileno())
    while True:
        ready, _, _ = select.select([control, wakes], [], [])
        if wakes in ready:
            wakes.recv(4096)
            _reap(running)
        if control not in ready:
            continue
        text, files, _, _ = socket.recv_fds(control, _LARGEST, 4)
        if not text:
            return None
        pid = os.fork()
        if not pid:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for inherited in (control, wakes, woken, *running.values()):
                inherited.close()
            return _become(json.loads(text), files)
        for file in files[:3]:
            os.close(file)
        running[pid] = socket.socket(fileno=files[3])
        running[pid].sendall(b"%d\n" % pid)


def _reap(running: dict[int, socket.socket]) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with running.pop(pid) as connection:
            connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


def _become(about: dict[str, Any], files: list[int]) -> list[str]:
    """Take streams, environment and folder of a request; return its arguments."""
    for number, file in enumerate(files[:3]):
        os.dup2(file, number)
    for file in files:
        os.close(file)
    os.environ.clear()
    os.environ.update(about["env"])
    os.chdir(about["cwd"])
    arguments: list[str] = about["arguments"]
    return arguments
