"""A script that ends a process group whose owner died; ``processes.ProcessGroup`` starts it with the servers.

A killed pytest run (SIGKILL, SIGTERM, a closed terminal, the OOM killer) runs no ``finally``, and a kube-apiserver
that is left behind costs memory until it is found. Linux's parent-death signal does not help: it fires when the
*thread* that started the child ends, and needs code between fork and exec.

This process leads the process group that every server joins, and holds the read end of a pipe; only the owner has the
write end. A byte on the pipe means that the owner has cleaned up. End of file without a byte means that the owner is
gone: a copy of this process then leaves the group, kills the whole group and removes the folder. No pid is stored, so
a reused pid cannot be hit.

Limits: the guardian does nothing if it is killed together with the owner (SIGKILL on a whole cgroup kills the servers
too, so only the temporary folder is left), or while a process that the owner *forked without exec* (multiprocessing's
fork method) lives, because that process holds the pipe open.

Invariant: this script uses only the standard library and no part of restow. It is started with ``-I -S`` to be ready
in milliseconds.
"""

import contextlib
import os
import shutil
import signal
import sys
import time

GROUP_ENDS_WITHIN = 5.0
"""Seconds to wait for the killed group; a container whose init reaps no children keeps it as zombies for ever."""


def main(*folders: str) -> None:
    """Wait for the owner's byte or its death; after its death kill the group and remove the folders."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if os.read(0, 1):
        return
    group = os.getpgrp()
    if os.fork() != 0:
        signal.pause()  # until the copy sends SIGKILL: the group must exist for as long as signals are sent to it
    os.setpgid(0, 0)
    _kill(group)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _kill(group: int) -> None:
    deadline = time.monotonic() + GROUP_ENDS_WITHIN
    with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS returns EPERM if only zombies are left
        while time.monotonic() < deadline:
            os.killpg(group, signal.SIGKILL)
            time.sleep(0.02)


if __name__ == "__main__":
    main(*sys.argv[1:])
