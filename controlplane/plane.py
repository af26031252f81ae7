"""The control plane: etcd, one or more API servers on it, and optionally a controller manager.

The plane starts its parts in order (binaries, folder, certificates, etcd, kube-apiserver, kube-controller-manager)
and stops them in the opposite order.

Invariants: several planes can run at the same time (each with its own folder and ports; if another process takes a
port, the start is repeated, up to five times). Whatever happens — an error, a cancellation, a killed owner — no
process and no folder stays. The processes are tied to no event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, NoReturn, Self

from restow.controlplane.binaries import find_binaries
from restow.controlplane.commands import (
    LOOPBACK,
    SERVICE_ADDRESS,
    Arguments,
    ServerFiles,
    apiserver_command,
    controller_manager_command,
    etcd_command,
    free_ports,
)
from restow.controlplane.errors import ControlPlaneError, PortTakenError
from restow.controlplane.etcd import Etcd
from restow.controlplane.processes import ProcessGroup
from restow.controlplane.readiness import (
    apiserver_probe,
    etcd_probe,
    http_probe,
    seconds_from_environment,
    wait_until_ready,
)
from restow.controlplane.users import (
    ClusterUser,
    ControlPlaneAuthority,
    create_user,
    public_key_pem,
    service_account_key,
    write_private,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from restow.controlplane.binaries import BinarySearch
    from restow.controlplane.processes import ManagedProcess
    from restow.controlplane.users import ClusterUser

_START_ATTEMPTS = 5
_WATCH_EVERY = 0.5  # seconds
_CONTROLLERS = ("garbage-collector-controller", "namespace-controller")
_MIGRATOR_GATE, _MIGRATOR = "StorageVersionMigrator", "storage-version-migrator-controller"
_NOTHING: Mapping[str, bool] = MappingProxyType({})
_NO_ARGUMENTS: Arguments = MappingProxyType({})


class ControlPlane:
    """A new control plane: ``async with ControlPlane() as plane: ...``."""

    def __init__(
        self,
        *,
        apiserver_args: Arguments = _NO_ARGUMENTS,
        etcd_args: Arguments = _NO_ARGUMENTS,
        controller_manager_args: Arguments = _NO_ARGUMENTS,
        feature_gates: Mapping[str, bool] = _NOTHING,
        runtime_config: Mapping[str, bool] = _NOTHING,
        controller_manager: bool = False,
        controllers: Sequence[str] = _CONTROLLERS,
        apiservers: int = 1,
        port: int | None = None,
        search: BinarySearch | None = None,
        start_timeout: float | None = None,
        stop_timeout: float | None = None,
        log_directory: Path | None = None,
    ) -> None:
        """Configure the plane; ``start`` (or ``async with``) runs it.

        ``*_args`` add or change flags of ``commands``: ``{"max-requests-inflight": "50"}``; None omits a default.
        ``feature_gates`` go to the API servers and the controller manager (put a gate that only some of them know into
        their ``*_args`` under "feature-gates"). ``runtime_config`` serves APIs that are off by default:
        ``{"storagemigration.k8s.io/v1beta1": True}``. ``controllers`` are those of the controller manager; with the
        gate StorageVersionMigrator the native migrator is one of them. ``port`` is the port of the first API server
        (default: a free one). ``search`` has the sources of binaries. The timeouts are seconds: for one process to be
        ready (default 60, or KUBEBUILDER_CONTROLPLANE_START_TIMEOUT) and to end before it is killed (default 20, or
        KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT). ``log_directory`` gets the processes' logs and keeps them.
        """
        self._apiserver_args = apiserver_args
        self._etcd_args = etcd_args
        self._controller_manager_args = controller_manager_args
        self._feature_gates = feature_gates
        self._runtime_config = runtime_config
        self._controller_manager = controller_manager
        self._controllers = tuple(controllers)
        if feature_gates.get(_MIGRATOR_GATE) and _MIGRATOR not in self._controllers:
            self._controllers += (_MIGRATOR,)
        self._apiserver_count = apiservers
        self._port = port
        self._search = search
        self._start_timeout = seconds_from_environment("START", 60.0) if start_timeout is None else start_timeout
        self._stop_timeout = seconds_from_environment("STOP", 20.0) if stop_timeout is None else stop_timeout
        self._log_directory = log_directory
        self._run: RunningPlane | None = None
        self.binaries: Mapping[str, Path] = {}

    async def __aenter__(self) -> Self:
        """Start the plane."""
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the plane."""
        await self.stop()

    async def start(self) -> Self:
        """Find the binaries and start all processes; return when the API server is ready.

        Raises:
            BinariesUnavailableError: a binary can neither be found nor downloaded nor built.
            ProcessError: a process does not start; all others are ended then.
        """
        if self._run is not None:
            message = "This control plane is running already; stop it before starting it again."
            raise ControlPlaneError(message)
        self.binaries = await find_binaries(self._binary_names(), self._search)
        for attempt in range(1, _START_ATTEMPTS + 1):
            try:
                await self._start_once()
            except PortTakenError:
                self._kill()
                if attempt == _START_ATTEMPTS or self._port is not None:
                    raise
            except BaseException:
                self._kill()
                raise
            else:
                break
        return self

    async def stop(self) -> None:
        """End every process (SIGTERM, then SIGKILL) and remove the folder; do nothing if the plane is not running."""
        run, self._run = self._run, None
        if run is not None:
            await run.group.close(self._stop_timeout)

    async def watch(self) -> NoReturn:
        """Watch the processes for ever; raise ``ProcessError`` when one ends without being stopped by this object."""
        while True:
            self._running.group.check()
            await asyncio.sleep(_WATCH_EVERY)

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig for the first API server."""
        return self.admin.kubeconfig

    @property
    def server(self) -> str:
        """The first API server's URL."""
        return self.admin.server

    @property
    def admin(self) -> ClusterUser:
        """The administrator (group system:masters)."""
        return self.apiservers[0].admin

    @property
    def ca_file(self) -> Path:
        """The certificate of the authority that signed the API servers' and all users' certificates (PEM)."""
        return self._running.files.ca

    @property
    def folder(self) -> Path:
        """The plane's temporary folder."""
        return self._running.group.folder

    @property
    def etcd(self) -> Etcd:
        """The reader of the plane's etcd."""
        return self._running.etcd

    @property
    def apiservers(self) -> Sequence[ApiServer]:
        """The API servers, in the order of their start."""
        return tuple(self._running.apiservers)

    @property
    def pids(self) -> dict[str, int]:
        """The ids of the running processes, by name (``etcd``, ``kube-apiserver``, ``kube-apiserver-2``, …)."""
        return {process.name: process.pid for process in self._running.processes()}

    def cpu_seconds(self) -> dict[str, float]:
        """Return the CPU time of each running process since its start, in seconds, by name (Linux only)."""
        return {process.name: process.cpu_seconds() for process in self._running.processes()}

    def user(
        self,
        name: str,
        groups: Iterable[str] = (),
        *,
        valid_for: timedelta = timedelta(days=7),
        apiserver: ApiServer | None = None,
    ) -> ClusterUser:
        """Create a user with a client certificate, at the first API server or the given one.

        A negative ``valid_for`` creates expired credentials (the server answers 401).
        """
        server = self.server if apiserver is None else apiserver.server
        return self._running.user(name, tuple(groups), server, datetime.now(UTC) + valid_for)

    async def another_apiserver(self) -> ApiServer:
        """Start one more API server on the same etcd, with the same flags; it stops with the plane."""
        for _ in range(_START_ATTEMPTS - 1):
            with contextlib.suppress(PortTakenError):
                return await self._start_apiserver(self._running, *free_ports(1))
        return await self._start_apiserver(self._running, *free_ports(1))

    async def restart_apiserver(self, apiserver: ApiServer | None = None) -> None:
        """Restart an API server (the first one by default) on the same etcd and port."""
        target = self.apiservers[0] if apiserver is None else apiserver
        await target.restart(grace=self._stop_timeout, timeout=self._start_timeout)

    @property
    def _running(self) -> RunningPlane:
        if self._run is None:
            message = "This control plane is not running: use it inside `async with`, or call start() first."
            raise ControlPlaneError(message)
        return self._run

    def _binary_names(self) -> tuple[str, ...]:
        return ("etcd", "kube-apiserver", *(("kube-controller-manager",) if self._controller_manager else ()))

    def _kill(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            run.group.kill()

    async def _start_once(self) -> None:
        etcd_port, peer_port, controllers_port, *apiserver_ports = free_ports(3 + self._apiserver_count)
        attach = os.environ.get("KUBEBUILDER_ATTACH_CONTROL_PLANE_OUTPUT") == "true"
        group = ProcessGroup(log_directory=self._log_directory, attach_output=attach)
        self._run = run = RunningPlane(group, f"http://{LOOPBACK}:{etcd_port}")
        run.write_files()
        await self._start_etcd(run, etcd_port, peer_port)
        for index, port in enumerate(apiserver_ports):
            await self._start_apiserver(run, self._port if index == 0 and self._port is not None else port)
        if self._controller_manager:
            await self._start_controller_manager(run, controllers_port)

    async def _start_etcd(self, run: RunningPlane, client_port: int, peer_port: int) -> None:
        member = run.group.folder.name  # unique, so that the probe can distinguish this plane's etcd from another one
        command = etcd_command(
            self.binaries["etcd"],
            run.group.folder / "etcd",
            member=member,
            client_port=client_port,
            peer_port=peer_port,
            extra=self._etcd_args,
        )
        run.etcd_process = run.group.start("etcd", command)
        await wait_until_ready(run.etcd_process, etcd_probe(run.etcd.url, member), self._start_timeout)

    async def _start_apiserver(self, run: RunningPlane, port: int) -> ApiServer:
        index = len(run.apiservers) + 1
        name = "kube-apiserver" if index == 1 else f"kube-apiserver-{index}"
        server = f"https://{LOOPBACK}:{port}"
        admin = run.user("admin", ("system:masters",), server, datetime.now(UTC) + timedelta(days=7))
        command = apiserver_command(
            self.binaries["kube-apiserver"],
            run.files,
            etcd=run.etcd.url,
            port=port,
            feature_gates=self._feature_gates,
            runtime_config=self._runtime_config,
            extra=self._apiserver_args,
        )
        apiserver = ApiServer(name, command, admin, run.group)
        await apiserver.start(self._start_timeout)
        run.apiservers.append(apiserver)
        return apiserver

    async def _start_controller_manager(self, run: RunningPlane, port: int) -> None:
        admin = run.apiservers[0].admin
        command = controller_manager_command(
            self.binaries["kube-controller-manager"],
            kubeconfig=admin.kubeconfig,
            files=run.files,
            port=port,
            controllers=self._controllers,
            feature_gates=self._feature_gates,
            extra=self._controller_manager_args,
        )
        run.controller_manager = run.group.start("kube-controller-manager", command)
        probe = http_probe(f"https://{LOOPBACK}:{port}/healthz", admin.ssl_context())
        await wait_until_ready(run.controller_manager, probe, self._start_timeout)


_SERVING_HOSTS = (
    LOOPBACK,
    "::1",
    "localhost",
    SERVICE_ADDRESS,
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)


class RunningPlane:
    """The folder, the authority and the processes of a started plane."""

    def __init__(self, group: ProcessGroup, etcd_url: str) -> None:
        """Create the authority; ``write_files`` and the caller fill in the rest."""
        self.group = group
        self.etcd = Etcd(etcd_url)
        self.etcd_process: ManagedProcess | None = None
        self.controller_manager: ManagedProcess | None = None
        self.apiservers: list[ApiServer] = []
        self._authority = ControlPlaneAuthority.create()
        self._users = 0
        folder = group.folder / "certificates"
        self.files = ServerFiles(
            ca=folder / "ca.crt",
            serving_certificate=folder / "apiserver.crt",
            serving_key=folder / "apiserver.key",
            service_account_key=folder / "service-account.key",
            service_account_public_key=folder / "service-account.pub",
        )

    def write_files(self) -> None:
        """Write the certificates and keys that the servers read."""
        files = self.files
        files.ca.parent.mkdir()
        serving = self._authority.issue_server(_SERVING_HOSTS, not_after=datetime.now(UTC) + timedelta(days=7))
        token_key = service_account_key()
        write_private(files.ca, self._authority.certificate)
        write_private(files.serving_certificate, serving.certificate)
        write_private(files.serving_key, serving.key)
        write_private(files.service_account_key, token_key)
        write_private(files.service_account_public_key, public_key_pem(token_key))

    def user(self, name: str, groups: tuple[str, ...], server: str, not_after: datetime) -> ClusterUser:
        """Sign a user's certificate and write the user's files."""
        self._users += 1
        folder = self.group.folder / "users" / str(self._users)
        folder.mkdir(parents=True)
        pair = self._authority.issue_client(name, groups, not_after=not_after)
        return create_user(folder, name=name, groups=groups, server=server, ca_file=self.files.ca, pair=pair)

    def processes(self) -> list[ManagedProcess]:
        """Return the running processes, in the order of their start."""
        servers = [apiserver.process for apiserver in self.apiservers]
        everything = [self.etcd_process, *servers, self.controller_manager]
        return [process for process in everything if process is not None and process.running]


class ApiServer:
    """One kube-apiserver of a plane, which can be restarted on the same etcd and port."""

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
