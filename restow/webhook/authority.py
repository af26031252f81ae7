"""``--own-ca`` of the commands that serve: the webhook's own certificate authority, maintained while it serves."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from restow.cli.exits import InputError
from restow.cli.session import sentence
from restow.conversion.certificates import Address, Service, Url
from restow.conversion.certificates.ca import CertificateDetails, CertificateError, Certificates, service_hosts
from restow.kube import Cluster, KubeError, connect
from restow.webhook.supervise import keep_running, run_alongside

__all__ = [
    "OwnAuthority",
    "at",
    "keep",
    "prepare",
    "read_address",
]


_NAME = "restow-webhook"
_SERVICE = re.compile(r"(?P<namespace>[a-z0-9-]+)/(?P<name>[a-z0-9-]+)(:(?P<port>\d{1,5}))?", re.ASCII)


def read_address(text: str, flag: str = "--own-ca") -> Address:
    """Return the webhook's address that a flag names: ``NAMESPACE/SERVICE[:PORT]`` or ``https://HOST[:PORT]``.

    Raises:
        click.UsageError: the text is no such address.
    """
    found = _SERVICE.fullmatch(text)
    try:
        if text.startswith("https://"):
            return Url(text.rstrip("/"))
        if found is not None:
            return Service(found["namespace"], found["name"], port=int(found["port"] or 443))
    except ValueError as error:
        msg = f"{flag} {text!r}: {error}"
        raise click.UsageError(msg) from error
    msg = f"{flag} takes NAMESPACE/SERVICE[:PORT] or https://HOST[:PORT], not {text!r}"
    raise click.UsageError(msg)


def at(address: Address, path: str) -> Address:
    """Return the address of a path of the webhook."""
    if isinstance(address, Service):
        return Service(address.namespace, address.name, path, address.port)
    return Url(address.url + path)


@dataclass(frozen=True, slots=True)
class OwnAuthority:
    """The certificates of this webhook: where they are kept, for whom, and which CRDs name them.

    Attributes:
        address: where API servers find the webhook, without a path.
        folder: where tls.crt and tls.key are put.
        crds: the names of the CRDs to wire.
        configurations: the webhook configurations of admission to keep installed.
        former_names: what an earlier release called them, by name.
    """

    address: Address
    folder: Path
    crds: Sequence[str]
    configurations: Sequence[Mapping[str, Any]] = ()
    former_names: Mapping[str, str] = field(default_factory=dict)

    def at(self, path: str) -> Address:
        """Return where API servers find a path of the webhook."""
        return at(self.address, path)

    def certificates(self, cluster: Cluster, **more: Any) -> Certificates:
        """Return what keeps them: Secrets in the Service's namespace, else in the client's default one.

        ``more`` are further arguments of ``Certificates``.
        """
        service = self.address if isinstance(self.address, Service) else None
        return Certificates(
            cluster,
            _NAME if service is None else service.name,
            None if service is None else service.namespace,
            hosts={self.address.host} if service is None else service_hosts(service),
            folder=self.folder,
            crds={name: self.at(f"/convert/{name}") for name in self.crds},
            configurations=self.configurations,
            former_names=self.former_names,
            **more,
        )


def prepare(authority: OwnAuthority, kubeconfig: str | None, context: str | None) -> None:
    """Get a certificate into the folder.

    Raises:
        InputError: the API server refuses a request or cannot be reached, a Secret belongs to another owner or holds a
            malformed CA, or the folder cannot be written.
    """

    async def prepare() -> None:
        async with connect(kubeconfig, context) as cluster:
            await authority.certificates(cluster).prepare()

    try:
        asyncio.run(prepare())
    except (KubeError, CertificateError, OSError) as error:
        raise InputError(sentence(error)) from error


async def keep(
    authority: OwnAuthority,
    kubeconfig: str | None,
    context: str | None,
    serving: Coroutine[Any, Any, None],
    hook: Callable[[CertificateDetails], None],
) -> None:
    """Serve, and keep certificate and CRDs meanwhile; serving goes on whatever happens to the keeping.

    ``hook`` is called after each look.
    """
    async with connect(kubeconfig, context) as cluster:
        certificates = authority.certificates(cluster, hook=hook)
        async with run_alongside(keep_running("certificates", certificates.run_forever, ended=lambda _name: None)):
            await serving
