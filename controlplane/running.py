"""What exists only while a control plane runs: its folder, its authority and users, its processes.

Invariant: all of it lies in the group's folder or belongs to the group, and goes with it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from restow.controlplane.certificates import CertificateAuthority, public_key_pem, service_account_key
from restow.controlplane.commands import LOOPBACK, SERVICE_ADDRESS, ServerFiles
from restow.controlplane.etcd import Etcd
from restow.controlplane.users import User, create_user, write_private

if TYPE_CHECKING:
    from restow.controlplane.apiserver import ApiServer
    from restow.controlplane.processes import ManagedProcess, ProcessGroup

__all__ = ["RunningPlane"]

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
    """The folder, the authority, the processes."""

    def __init__(self, group: ProcessGroup, etcd_url: str) -> None:
        """Make an authority; ``write_files`` and the caller fill the rest."""
        self.group = group
        self.etcd = Etcd(etcd_url)
        self.etcd_process: ManagedProcess | None = None
        self.controller_manager: ManagedProcess | None = None
        self.apiservers: list[ApiServer] = []
        self._authority = CertificateAuthority.create()
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

    def user(self, name: str, groups: tuple[str, ...], server: str, not_after: datetime) -> User:
        """Sign a user's certificate and write the user's files."""
        self._users += 1
        folder = self.group.folder / "users" / str(self._users)
        folder.mkdir(parents=True)
        pair = self._authority.issue_client(name, groups, not_after=not_after)
        return create_user(folder, name=name, groups=groups, server=server, ca_file=self.files.ca, pair=pair)

    def processes(self) -> list[ManagedProcess]:
        """Return what runs now, in the order of its start."""
        servers = [apiserver.process for apiserver in self.apiservers]
        everything = [self.etcd_process, *servers, self.controller_manager]
        return [process for process in everything if process is not None and process.running]
