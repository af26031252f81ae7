"""The process of ``restow operator --conversions``: every replica serves the rules in the cluster, one of them leads.

The order is that of ``restow.operator.process``: a replica first serves, then its certificates are kept and CRDs are
wired, and then it takes part in leader election. It joins the replicas, and loads what is active, before it is ready.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from restow.conversion.certificates import Address, Service, client_config
from restow.conversion.certificates.ca import CertificateDetails, Certificates
from restow.conversion.certificates.ca.metrics import CertificateMetrics
from restow.conversion.certificates.ca.store import CERTIFICATE, KEY
from restow.conversion.operate.admission import STEP, admit_rules, configuration
from restow.conversion.operate.members import Membership, unique_replica
from restow.conversion.operate.reconciler import RulesReconciler
from restow.conversion.operate.replica import Replica
from restow.conversion.server import ServerPhase, ServingCertificate, WebhookServer, run_alone
from restow.crds import conversionrules
from restow.kube import Cluster, LeaderElector, connect, unique_identity
from restow.operator.metrics import OperatorMetrics
from restow.operator.process import Settings, install_crds
from restow.webhook.authority import OwnAuthority, at
from restow.webhook.supervise import keep_running, run_alongside

__all__ = ["run"]

_log = logging.getLogger(__name__)

_LEASE_SUFFIX: Final = "-conversions"


async def run(settings: Settings, stop: asyncio.Event) -> None:
    """Run until asked to stop, then drain. Only the start can fail: it logs later errors and tries again.

    ``settings.identity`` is an address; the settings of controllers and migrator are not looked at.

    Raises:
        KubeError: the API server refuses a request, or cannot be reached.
        CertificateError: a Secret of the own CA belongs to another owner, or the CA in it is malformed.
        BadCertificate: the certificate and its key cannot be read or do not match, or the client CA is malformed.
        OSError: a file cannot be read or written, or a port not be bound, as ``listen`` raises it.
    """
    address = settings.identity
    assert isinstance(address, Address)
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(connect(settings.kubeconfig, settings.context))
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="restow-")))
        await _Conversions(settings, cluster, address, folder).run(stop)


class _Conversions:
    """One process."""

    def __init__(self, settings: Settings, cluster: Cluster, address: Address, folder: Path) -> None:
        self._settings = settings
        self._cluster = cluster
        self._folder = folder
        self._identity = unique_identity()
        self._metrics = OperatorMetrics()
        configurations = [configuration(client_config(at(address, f"/admit/{STEP}")))]
        self._authority = OwnAuthority(address, folder, (), configurations)
        own = address.namespace if isinstance(address, Service) else None
        self._namespace = settings.lease[1] or own or cluster.default_namespace
        self._keeper = _Keeper(self._keep)
        self._webhook = WebhookServer(
            {},
            validating={STEP: admit_rules},
            clients=settings.clients,
            limits=settings.limits,
            clock=settings.clock,
        )
        self._told: Callable[[CertificateDetails], None] = lambda _details: None

    async def run(self, stop: asyncio.Event) -> None:
        """Begin, serve until asked to stop, end."""
        settings = self._settings
        if settings.installs_crds:
            await install_crds(self._cluster, [conversionrules.document()])
        member = Membership(self._cluster, self._namespace, unique_replica(), settings.clock)
        replica = Replica(
            self._cluster,
            self._namespace,
            member.replica,
            self._webhook,
            wires=self._keeper.keep,
            controller_hook=self._metrics.controller,
            clock=settings.clock,
        )
        await member.join()
        try:
            await replica.load()
            # With the CRDs: a rotation of the CA must not go on before all of them have the new one.
            await self._certificates(replica.wired).prepare()
            await self._serve(replica, member, stop)
        finally:
            await member.leave()

    async def _serve(self, replica: Replica, member: Membership, stop: asyncio.Event) -> None:
        settings, webhook = self._settings, self._webhook
        serving = ServingCertificate(
            self._folder / CERTIFICATE,
            self._folder / KEY,
            client_ca=settings.client_ca,
            counts=webhook.counts,
            clock=settings.clock,
        )
        listener, probes = settings.listen(webhook, serving)
        webhook.phase = ServerPhase.SERVING
        count = CertificateMetrics(self._metrics.registry, now=settings.clock.now)

        def told(details: CertificateDetails) -> None:
            count(details)
            serving.reload()

        self._told = told
        ended, clock = self._metrics.ended, settings.clock
        async with run_alongside(self._lead_until(stop)) as (leading,):
            async with run_alongside(
                self._keeper.run(replica.wired),
                keep_running("replica", replica.run, ended=ended, clock=clock),
                member.renew_forever(),
            ):
                await run_alone(webhook, serving, listener, probes, stop, further_metrics=self._metrics.text)
            await asyncio.wait([leading])  # which releases the lease

    async def _keep(self, crds: frozenset[str]) -> None:
        """Keep certificates, the webhook configuration, and the wiring of CRDs, until cancelled."""
        certificates = self._certificates(crds, hook=self._told)
        await keep_running(
            "certificates", certificates.run_forever, ended=self._metrics.ended, clock=self._settings.clock
        )

    def _certificates(self, crds: frozenset[str], **more: Any) -> Certificates:
        authority, settings = replace(self._authority, crds=sorted(crds)), self._settings
        return authority.certificates(self._cluster, lifetimes=settings.lifetimes, clock=settings.clock, **more)

    async def _lead_until(self, stop: asyncio.Event) -> None:
        """Reconcile while this replica leads; when asked to stop, release the lease at once."""
        settings = self._settings
        name, _ = settings.lease
        reconciler = RulesReconciler(
            self._cluster,
            self._namespace,
            self._authority.at,
            instance=self._identity,
            hook=self._metrics.controller,
            told=self._metrics.rules,
            clock=settings.clock,
        )
        elector = LeaderElector(
            self._cluster,
            f"{name}{_LEASE_SUFFIX}",
            self._namespace,
            identity=self._identity,
            timing=settings.timing,
            hook=self._metrics.election,
            clock=settings.clock,
        )
        running = asyncio.create_task(
            keep_running(
                "conversions",
                lambda: elector.run(reconciler.run),
                ended=self._metrics.ended,
                clock=settings.clock,
            )
        )
        await stop.wait()
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


class _Keeper:
    """Runs the keeping of certificates for one set of CRDs, and begins again for another one."""

    def __init__(self, work: Callable[[frozenset[str]], Coroutine[Any, Any, None]]) -> None:
        self._work = work
        self._task: asyncio.Task[None] | None = None
        self._over = False

    async def run(self, crds: frozenset[str]) -> None:
        """Keep these CRDs, or those of a later ``keep``, until cancelled."""
        self._start(crds)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._over = True
            await self._end()

    async def keep(self, crds: frozenset[str]) -> None:
        """Keep other CRDs; return once the former ones are not written any more."""
        await self._end()
        if not self._over:
            self._start(crds)

    def _start(self, crds: frozenset[str]) -> None:
        self._task = asyncio.create_task(self._work(crds))

    async def _end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
