"""What the nodes take of this machine: what has to be there, namespaces of their own, and that nothing stays behind.

Everything runs in new PID, mount, network, IPC and UTS namespaces, whose end takes all processes, mounts, links and
rules along. Control groups belong to no namespace: this module removes them. What a kubelet would set for the whole
machine, it sets in copies.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

__all__ = ["hierarchies", "missing", "run_apart"]

_HIERARCHIES: Final = Path("/sys/fs/cgroup")
_PROGRAMS: Final = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "nft": "nftables",
    "ip": "iproute2",
    "busybox": "busybox-static",
}
_CNI: Final = Path("/usr/lib/cni/ptp")
_ENDS_WITHIN: Final = 30.0
"""Seconds that killed processes have to end."""
_SETTINGS: Final = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
"""What every kubelet sets, for the whole machine: copies stand in their place."""


def missing() -> str:
    """Return what this machine lacks, in one sentence; empty if it lacks nothing."""
    if sys.platform != "linux":
        return "Nodes need Linux."
    if os.geteuid() != 0:
        return "Nodes need root: they make namespaces, mounts and control groups."
    packages = {package for program, package in _PROGRAMS.items() if shutil.which(program) is None}
    packages |= set() if _CNI.exists() else {"containernetworking-plugins"}
    if packages:
        return f"Nodes need programs of these Debian packages: {', '.join(sorted(packages))}."
    if not (_HIERARCHIES / "memory").is_dir():
        return (
            "Nodes need the control groups of version 1, with the controller memory: those of version 2 were not tried."
        )
    if subprocess.run([*_unshare(), "true"], capture_output=True, check=False).returncode:
        return "Nodes need new namespaces, and `unshare` may not make them here."
    return ""


def run_apart(command: Sequence[str | Path], environment: dict[str, str]) -> int:
    """Run a command in namespaces of its own; return its exit code. Its end, or this process's, ends all that it ran.

    The command finds a folder for its files in ``RESTOW_NODES``, and each hierarchy has a control group of that name.
    """
    with (
        tempfile.TemporaryDirectory(prefix="restow-nodes-", ignore_cleanup_errors=True) as folder,
        _as_it_was(Path(folder).name),
    ):
        own = {"RESTOW_NODES": folder, "TMPDIR": folder}
        inside = [sys.executable, "-c", _INIT, " ".join(_SETTINGS), *map(str, command)]
        with subprocess.Popen([*_unshare(), *inside], env=environment | own) as process:
            try:
                return process.wait()
            finally:
                process.kill()


_INIT: Final = """
import os, pathlib, subprocess, sys
for number, name in enumerate(sys.argv.pop(1).split()):
    copy, setting = pathlib.Path(os.environ["RESTOW_NODES"], f"setting-{number}"), pathlib.Path("/proc/sys", name)
    copy.write_text(setting.read_text())
    subprocess.run(["mount", "--bind", copy, setting], check=True)
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
child = subprocess.Popen(sys.argv[1:])
while True:
    pid, status = os.wait()
    if pid == child.pid:
        os._exit(os.waitstatus_to_exitcode(status) & 255)
"""
"""The first process of the PID namespace: it reaps what loses its parent."""


def _unshare() -> list[str]:
    apart = ("--pid", "--mount", "--net", "--ipc", "--uts", "--propagation", "private")
    return ["unshare", *apart, "--fork", "--kill-child", "--mount-proc"]


@contextlib.contextmanager
def _as_it_was(group: str) -> Iterator[None]:
    """Make the control groups of the nodes; remove them in the end."""
    try:
        for hierarchy in hierarchies():
            (hierarchy / group).mkdir()
            for name in ("cpuset.cpus", "cpuset.mems"):
                if (hierarchy / name).exists():
                    (hierarchy / group / name).write_text((hierarchy / name).read_text())
        yield
    finally:
        for hierarchy in hierarchies():
            _remove(hierarchy / group)


def hierarchies() -> list[Path]:
    """Return the folders of the hierarchies of control groups."""
    return [path for path in sorted(_HIERARCHIES.iterdir()) if path.is_dir() and not path.is_symlink()]


def _remove(group: Path) -> None:
    """Remove a control group and those below it, once their killed processes have ended."""
    deadline = time.monotonic() + _ENDS_WITHIN
    for folder, _, _ in os.walk(group, topdown=False):
        while True:
            try:
                Path(folder).rmdir()
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
