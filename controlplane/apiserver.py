"""One kube-apiserver of a control plane, which can be restarted on the same etcd and port."""

from __future__ import annotations

from typing import TYPE_CHECKING

from restow.controlplane.readiness import apiserver_probe, wait_until_ready

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from restow.controlplane.processes import ManagedProcess, ProcessGroup
    from restow.controlplane.users import ClusterUser

__all__ = ["ApiServer"]


class ApiServer:
    """An API server of a control plane, with its URL and its administrator."""

    def __init__(self, name: str, command: Sequence[str], admin: ClusterUser, group: ProcessGroup) -> None:
        """Configure the server; ``start`` runs it."""
        self.name = name
        self.admin = admin
        self._command = command
        self._group = group
        self._process: ManagedProcess | None = None

    @property
    def server(self) -> str:
        """The server's URL."""
        return self.admin.server

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig for this server."""
        return self.admin.kubeconfig

    @property
    def process(self) -> ManagedProcess | None:
        """The running process, or None."""
        return self._process if self._process is not None and self._process.running else None

    async def start(self, timeout: float) -> None:
        """Run the process and wait until it is ready, at most ``timeout`` seconds."""
        process = self._group.start(self.name, self._command)
        try:
            await wait_until_ready(process, apiserver_probe(self.server, self.admin.ssl_context()), timeout)
        except BaseException:
            process.kill()
            raise
        self._process = process

    async def stop(self, grace: float) -> None:
        """End the process; pending requests have ``grace`` seconds."""
        if self._process is not None:
            await self._process.stop(grace)

    async def restart(self, *, grace: float, timeout: float) -> None:
        """Stop the server and start it again on the same port, so that kubeconfigs stay valid."""
        await self.stop(grace)
        await self.start(timeout)
