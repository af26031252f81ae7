"""Certificates that another tool keeps: mounted files with a certificate, its key and the CA, such as cert-manager's.

The served certificate has to verify against every bundle at every moment. A renewed Secret brings certificate and CA at
once, so the new certificate is not served until every CRD and webhook configuration has had the new CA for long enough
that API servers have seen it. The server therefore reads a copy, in a folder of its own. The former CA stays in the
bundles until no replica serves a certificate of it any more: another replica may see the change of the Secret two
minutes later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, Unpack

from restow.conversion.certificates.ca.authority import CertificateError, ends_at
from restow.conversion.certificates.ca.keeper import BACKOFF, CertificateKeeper, KeeperOptions
from restow.conversion.certificates.ca.rotation import ObservedBundle
from restow.conversion.certificates.ca.store import CERTIFICATE, KEY, install_files
from restow.conversion.certificates.wiring.clientconfig import Bundle, BundleError
from restow.kube import Cluster

_log = logging.getLogger(__name__)

_POLL: Final = 10.0  # seconds between two looks at the files
_SETTLE: Final = timedelta(seconds=5)  # until API servers use a bundle that was written
_MARGIN: Final = timedelta(hours=1)  # how long a former CA stays in the bundles


class MountedCertificates(CertificateKeeper):
    """The certificates of one webhook, from files that follow a Secret.

    Args:
        cluster: the API server with the CRDs and webhook configurations.
        name: the name of the webhook, for the log.
        certificate, key, authority: the files, PEM: the certificate with its chain, its key, and the CA bundle.
        folder: the folder for the certificate and key that the server reads, as ``tls.crt`` and ``tls.key``.
        settle: how long every object must have had a new CA before a certificate is served that may need it.
        margin: how long a former CA stays.
        options: see ``KeeperOptions``.
    """

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        *,
        certificate: Path,
        key: Path,
        authority: Path,
        folder: Path,
        settle: timedelta = _SETTLE,
        margin: timedelta = _MARGIN,
        **options: Unpack[KeeperOptions],
    ) -> None:
        options.setdefault("poll", _POLL)
        super().__init__(cluster, name, **options)
        self._files = (certificate, key, authority)
        self._folder = folder
        self._settle = settle
        self._margin = margin
        self._former: dict[bytes, datetime] = {}  # CA certificates, and the last time at which a file had them

    async def prepare(self) -> None:
        """Return once the folder holds a certificate; a server has to wait for this before it can listen.

        Raises:
            CertificateError: a file is missing or malformed.
            OSError: the folder cannot be written.
        """
        certificate, key, _ = await asyncio.to_thread(self._read)
        await asyncio.to_thread(install_files, self._folder, certificate, key)

    async def reconcile(self) -> float:
        """Do everything that is due now; return the seconds until more is due, unless the cluster changes.

        Raises:
            CertificateError: a file is missing or malformed.
            KubeError: the API server refuses a request, or cannot be reached.
            OSError: the folder cannot be written.
        """
        now = self._clock.now()
        certificate, key, bundle = await asyncio.to_thread(self._read)
        served = await asyncio.to_thread(self._served)
        renewed = served != (certificate, key)
        look = await self._places.look(fully=renewed)
        wired, problems, changed = await self._places.wire(look.usable, bundle, self._dropped(bundle, now))
        problems = (*look.problems, *problems)
        self._log_problems(each.said for each in problems)
        if renewed and not changed and (_has_ended(served, now) or self._settled(look.seen, bundle, now)):
            await asyncio.to_thread(install_files, self._folder, certificate, key)
            _log.info("%s: the certificate that ends %s is served", self._name, ends_at(certificate))
            renewed = False
        self._call_hook(wired, problems, leaf_ends=self._served_until())
        if changed:
            return 0.0
        return BACKOFF.first if problems or renewed else self._poll

    def _read(self) -> tuple[bytes, bytes, Bundle]:
        """Read the files.

        Raises:
            CertificateError: a file is missing or malformed.
        """
        try:
            certificate, key, authority = (file.read_bytes() for file in self._files)
            bundle = Bundle.from_pem(authority)
        except OSError as error:
            msg = f"{error.filename} cannot be read: {error.strerror}"
            raise CertificateError(msg) from error
        except BundleError as error:
            msg = f"{self._files[2]}: {error}"
            raise CertificateError(msg) from error
        if not bundle:
            msg = f"{self._files[2]} is empty: API servers need the CA that signed the certificate"
            raise CertificateError(msg)
        ends_at(certificate)
        return certificate, key, bundle

    def _served(self) -> tuple[bytes, bytes] | None:
        try:
            return (self._folder / CERTIFICATE).read_bytes(), (self._folder / KEY).read_bytes()
        except OSError:
            return None

    def _dropped(self, bundle: Bundle, now: datetime) -> Bundle:
        """Record the certificates in the file; return former ones that are old enough that no replica uses them."""
        self._former |= dict.fromkeys(bundle.certificates, now)
        return Bundle.of(der for der, last in self._former.items() if now - last >= self._margin)

    def _settled(self, seen: Iterable[ObservedBundle], bundle: Bundle, now: datetime) -> bool:
        """Whether every relevant object has had the CA for long enough; times are cut off to whole seconds."""
        settle = self._settle + timedelta(seconds=1)
        return all(each.bundle >= bundle and now - each.changed_at >= settle for each in seen)

    def _failed(self, error: Exception) -> None:
        problem = self._not_kept(error)
        self._log_problems((problem,))
        self._call_hook((), (), leaf_ends=self._served_until(), failure=problem)

    def _served_until(self) -> datetime | None:
        served = self._served()
        try:
            return None if served is None else ends_at(served[0])
        except CertificateError:
            return None


def _has_ended(served: tuple[bytes, bytes] | None, now: datetime) -> bool:
    try:
        return served is None or ends_at(served[0]) <= now
    except CertificateError:
        return True
