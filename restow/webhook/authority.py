"""The flag ``--own-ca``: the webhook's own certificate authority, maintained while the webhook serves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from restow.cli.addresses import KEPT_IN, at
from restow.cli.exits import InputError
from restow.cli.session import sentence
from restow.conversion.certificates import Service
from restow.conversion.certificates.ca import CertificateDetails, CertificateError, Certificates
from restow.conversion.certificates.wiring.clientconfig import Address
from restow.conversion.server import KeptEvents
from restow.kube import Cluster, KubeError
from restow.webhook.supervise import keep_running, run_alongside

Connect: TypeAlias = Callable[[], AbstractAsyncContextManager[Cluster]]
"""Opens a client of the cluster."""


@dataclass(frozen=True, slots=True)
class OwnAuthority:
    """The certificates of this webhook: their place, the address that they are for, and the CRDs to wire.

    Attributes:
        address: the address of the webhook for API servers, without a path.
        folder: the folder for tls.crt and tls.key.
        crds: the names of the CRDs to wire.
        configurations: the webhook configurations of admission to keep installed.
    """

    address: Address
    folder: Path
    crds: Sequence[str]
    configurations: Sequence[Mapping[str, Any]] = ()

    def at(self, path: str) -> Address:
        """Return the address of a path of the webhook."""
        return at(self.address, path)

    def certificates(self, cluster: Cluster, **more: Any) -> Certificates:
        """Return the keeper of the certificates, whose Secrets are in the Service's or the client's default namespace.

        ``more`` are further arguments of ``Certificates``.
        """
        service = self.address if isinstance(self.address, Service) else None
        return Certificates(
            cluster,
            KEPT_IN if service is None else service.name,
            None if service is None else service.namespace,
            hosts=self.address.hosts,
            folder=self.folder,
            crds={name: self.at(f"/convert/{name}") for name in self.crds},
            configurations=self.configurations,
            **more,
        )


def prepare(authority: OwnAuthority, connect: Connect) -> None:
    """Write a certificate into the folder.

    Raises:
        InputError: the API server refuses a request or cannot be reached, a Secret belongs to another owner or holds a
            malformed CA, or the folder cannot be written.
    """

    async def prepare() -> None:
        async with connect() as cluster:
            await authority.certificates(cluster).prepare()

    try:
        asyncio.run(prepare())
    except (KubeError, CertificateError, OSError) as error:
        raise InputError(sentence(error)) from error


async def keep(
    authority: OwnAuthority,
    connect: Connect,
    serving: Coroutine[Any, Any, None],
    hook: Callable[[CertificateDetails], None],
    events: KeptEvents,
) -> None:
    """Serve, and keep certificate and CRDs up to date meanwhile; an error of the upkeep does not end the serving.

    The upkeep calls ``hook`` after each check; ``events`` are written meanwhile.
    """
    async with connect() as cluster:
        certificates = authority.certificates(cluster, hook=hook)
        async with run_alongside(
            keep_running("certificates", certificates.run_forever, ended=lambda _name: None),
            keep_running("events", lambda: events.run(cluster), ended=lambda _name: None),
        ):
            await serving
