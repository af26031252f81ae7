"""``restow serve --own-ca``: a certificate authority of one's own, kept while serving."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from restow.conversion.certificates import CertificateError, Certificates, service_hosts
from restow.conversion.wiring import Address, Service, Url
from restow.crds import Crd
from restow.kube import KubeError, connect
from restow.options import InputError
from restow.session import sentence

__all__ = ["OwnAuthority", "read_address"]

_NAME = "restow-webhook"


def read_address(text: str) -> Address:
    """Return the webhook's address that --own-ca names: ``NAMESPACE/SERVICE[:PORT]`` or ``https://HOST[:PORT]``.

    Raises click.UsageError.
    """
    try:
        if text.startswith("https://"):
            return Url(text.rstrip("/"))
        namespace, _, rest = text.partition("/")
        name, _, port = rest.partition(":")
        return Service(namespace, name, port=int(port or 443))
    except ValueError as error:
        msg = f"--own-ca takes NAMESPACE/SERVICE[:PORT] or https://HOST[:PORT], not {text!r}"
        raise click.UsageError(msg) from error


@dataclass(frozen=True, slots=True)
class OwnAuthority:
    """The certificates of this webhook: where they are kept, for whom, and which CRDs name them.

    Attributes:
        address: where API servers find the webhook, without a path.
        folder: where tls.crt and tls.key are put.
        namespace: of the Secrets; the Service's own, or the client's default one.
    """

    address: Address
    folder: Path
    crds: Sequence[Crd]
    namespace: str | None
    kubeconfig: str | None
    context: str | None

    def prepare(self) -> None:
        """Get a certificate into the folder. Raises InputError."""

        async def prepare() -> None:
            async with self._certificates() as certificates:
                await certificates.prepare()

        try:
            asyncio.run(prepare())
        except (KubeError, CertificateError, OSError) as error:
            raise InputError(sentence(error)) from error

    async def keep(self, serving: Coroutine[Any, Any, None]) -> None:
        """Serve, and keep certificate and CRDs meanwhile."""
        async with self._certificates() as certificates, asyncio.TaskGroup() as group:
            keeping = group.create_task(certificates.run_forever())
            try:
                await serving
            finally:
                keeping.cancel()

    @asynccontextmanager
    async def _certificates(self) -> AsyncIterator[Certificates]:
        logging.getLogger("kubernetes_asyncio").setLevel(logging.CRITICAL)  # what it logs as an error it raises as well
        async with connect(self.kubeconfig, self.context) as cluster:
            yield Certificates(
                cluster,
                self.address.name if isinstance(self.address, Service) else _NAME,
                self.namespace,
                hosts=service_hosts(self.address) if isinstance(self.address, Service) else {self.address.host},
                folder=self.folder,
                crds={crd.name: self._address(f"/convert/{crd.name}") for crd in self.crds},
            )

    def _address(self, path: str) -> Address:
        if isinstance(self.address, Service):
            return Service(self.address.namespace, self.address.name, path, self.address.port)
        return Url(self.address.url + path)
