"""Ends a control plane whose owner died: a script that ``processes.ProcessGroup`` starts with the servers.

A killed pytest run (SIGKILL, SIGTERM, a closed terminal, the OOM killer) runs no ``finally``,
and a kube-apiserver that stays behind costs memory until it is found. Linux's parent-death signal is
not used: it fires when the *thread* that started the child ends, and needs code between fork and exec.

How: this process leads the process group that every server joins, and holds the read end of a pipe whose
write end only the owner has. A byte on the pipe means "all is cleaned up"; end of file without one means that
the owner is gone: a copy of this process leaves the group, kills the whole group and removes the folder. No
pid is remembered, so a reused pid cannot be hit.

Limits: if this process itself is killed with the owner (SIGKILL on a whole cgroup kills the
servers too, so nothing stays but the temporary folder), and while a process that the owner *forked without
exec* (multiprocessing's fork method) still lives, because it holds the pipe open.

Invariant: standard library only, and nothing of restow: it is started with ``-I -S`` to be ready in
milliseconds.
"""

import contextlib
import os
import shutil
import signal
import sys
import time

GROUP_ENDS_WITHIN = 5.0
"""Seconds to wait for the killed group; a container whose init reaps nothing keeps it for ever as zombies."""


def main(folder: str) -> None:
    """Wait for the owner's word or its death; in the second case kill the group and remove the folder."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if os.read(0, 1):
        return
    group = os.getpgrp()
    if os.fork() != 0:
        signal.pause()  # until the copy's SIGKILL: the group must exist for as long as it is to be signalled
    os.setpgid(0, 0)
    _kill(group)
    shutil.rmtree(folder, ignore_errors=True)


def _kill(group: int) -> None:
    deadline = time.monotonic() + GROUP_ENDS_WITHIN
    with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS says EPERM where only zombies are left
        while time.monotonic() < deadline:
            os.killpg(group, signal.SIGKILL)
            time.sleep(0.02)


if __name__ == "__main__":
    main(sys.argv[1])
