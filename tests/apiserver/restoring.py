"""A control plane whose etcd is restored from a copy of its data folder, as from the backup of a disk.

etcd and API server stop for it, and start again on the same ports: what runs against them waits, and goes on.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from restow.controlplane.plane import ControlPlane
from restow.controlplane.readiness import etcd_probe, wait_until_ready

_TIMEOUT = 60.0


class Restorable:
    """The etcd and the API server of a plane, and the copies of what etcd held."""

    def __init__(self, plane: ControlPlane, copies: Path) -> None:
        self._plane = plane
        self._copies = copies

    async def back_up(self, name: str) -> None:
        """Keep what etcd holds."""
        await self._stop()
        shutil.copytree(self._data, self._copies / name)
        await self._start()

    async def restore(self, name: str) -> None:
        """Put back what etcd held, revisions included."""
        await self._stop()
        shutil.rmtree(self._data)
        shutil.copytree(self._copies / name, self._data)
        await self._start()

    @property
    def _data(self) -> Path:
        return self._plane.folder / "etcd"

    async def _stop(self) -> None:
        [apiserver], etcd = self._plane.apiservers, self._plane._running.etcd_process
        assert apiserver.process is not None and etcd is not None
        apiserver.process.kill()
        await etcd.stop(_TIMEOUT)  # in order, since it does not sync to disk

    async def _start(self) -> None:
        run = self._plane._running
        assert run.etcd_process is not None
        stopped: subprocess.Popen[bytes] = run.etcd_process._popen
        run.etcd_process = started = run.group.start("etcd", stopped.args)  # type: ignore[arg-type]
        await wait_until_ready(started, etcd_probe(run.etcd.url, run.group.folder.name), _TIMEOUT)
        await self._plane.apiservers[0].start(_TIMEOUT)
