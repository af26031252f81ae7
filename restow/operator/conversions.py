"""The process of ``restow operator --conversions``: every replica serves the cluster's rules, one of them leads.

The order is that of ``restow.operator.process``. A replica first serves. Then it maintains certificates and wires CRDs.
Then it takes part in leader election. Before it is ready, it joins the other replicas and loads the active rules.

A wrong clock is reported and does not prevent leading, as in the migrator: a leader here writes no decision about the
time, Leases are compared by monotonic clocks, and certificates are valid from an hour before they are issued.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from restow.cli.addresses import at
from restow.conversion.certificates import Service
from restow.conversion.certificates.apply import resource_of
from restow.conversion.certificates.ca import CertificateDetails, CertificateKeeper, MountedCertificates
from restow.conversion.certificates.ca.metrics import CertificateMetrics
from restow.conversion.certificates.ca.store import CERTIFICATE, KEY
from restow.conversion.certificates.wiring.clientconfig import Address, client_config
from restow.conversion.model.errors import WiringProblem
from restow.conversion.operate.admission import STEP, AdmitRules, configuration
from restow.conversion.operate.members import Membership, unique_replica
from restow.conversion.operate.reconciler import RulesReconciler
from restow.conversion.operate.replica import Replica
from restow.conversion.operate.wiring import REFUSING, RESTORING, STEPS, KindsStep
from restow.conversion.operate.workers import Workers
from restow.conversion.server import KeptEvents, ServerPhase, ServingCertificate, WebhookServer, run_alone
from restow.crds import conversionrules
from restow.kube import Cluster, LeaderElector, unique_identity
from restow.kube.clockcheck import ClockCheck
from restow.kube.resources import CRDS
from restow.migrator import may_be_stored
from restow.operator.metrics import OperatorMetrics
from restow.operator.process import Files, Settings, install_crds
from restow.webhook.authority import OwnAuthority
from restow.webhook.supervise import StartStopped, keep_running, run_alongside, start_patiently

_LEASE_SUFFIX: Final = "-conversions"


async def run(settings: Settings, stop: asyncio.Event) -> None:
    """Run until asked to stop, then drain. Only the start can fail: later errors are logged and retried.

    ``settings.identity`` is an address, or files with an address and a CA. The function ignores the settings of
    controllers and migrator.

    Raises:
        KubeError: the API server refuses a request, or cannot be reached.
        CertificateError: a Secret of the own CA belongs to another owner, or a CA is malformed.
        BadCertificate: the certificate and its key cannot be read or do not match, or the client CA is malformed.
        OSError: a file cannot be read or written, or ``listen`` cannot bind a port.
    """
    identity = settings.identity
    address = identity.address if isinstance(identity, Files) else identity
    assert address is not None
    async with AsyncExitStack() as stack:
        stack.enter_context(suppress(StartStopped))
        cluster = await stack.enter_async_context(settings.connect())
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="restow-")))
        await _Conversions(settings, cluster, address, folder).run(stop)


class _Conversions:
    """One process."""

    def __init__(self, settings: Settings, cluster: Cluster, address: Address, folder: Path) -> None:
        self._settings = settings
        self._cluster = cluster
        self._folder = folder
        self._identity = unique_identity()
        self._clocks = ClockCheck(cluster, settings.clock)
        self._metrics = OperatorMetrics(self._clocks)
        configurations = [configuration(client_config(at(address, f"/admit/{STEP}")))]
        self._authority = OwnAuthority(address, folder, (), configurations)
        own = address.namespace if isinstance(address, Service) else None
        self._namespace = settings.lease[1] or own or cluster.default_namespace
        self._certificates = self._keeper()
        self._kept = KeptEvents(clock=settings.clock, instance=self._identity)
        self._steps = tuple(map(KindsStep, STEPS))
        restoring, refusing = self._steps
        self._webhook = WebhookServer(
            {},
            validating={STEP: AdmitRules(cluster, self._namespace, settings.clock), REFUSING.name: refusing},
            mutating={RESTORING.name: restoring},
            clients=settings.clients,
            limits=settings.limits,
            clock=settings.clock,
            kept=self._kept.note,
        )
        self._workers = Workers(settings.clock)
        self._told: Callable[[CertificateDetails], None] = lambda _details: None
        self._obstacles: dict[str, WiringProblem] = {}

    def _keeper(self) -> CertificateKeeper:
        """Return what keeps certificate and wiring."""
        identity, authority, clock = self._settings.identity, self._authority, self._settings.clock
        # Each object of these resources may be wired, so one watch per resource covers all of them.
        watched = [CRDS, *(resource_of(step.configuration) for step in self._settings.rules_steps)]
        if not isinstance(identity, Files):
            lifetimes = self._settings.lifetimes
            return authority.certificates(
                self._cluster, lifetimes=lifetimes, every=watched, hook=self._tell, clock=clock
            )
        assert identity.authority is not None
        return MountedCertificates(
            self._cluster,
            "webhook",
            certificate=identity.certificate,
            key=identity.key,
            authority=identity.authority,
            folder=self._folder,
            configurations=authority.configurations,
            every=watched,
            hook=self._tell,
            clock=clock,
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Start, serve until asked to stop, and shut down."""
        settings = self._settings
        if settings.installs_crds:
            crds = [conversionrules.document()]
            await start_patiently(lambda: install_crds(self._cluster, crds), stop, clock=settings.clock)
        member = Membership(self._cluster, self._namespace, unique_replica(), settings.clock)
        replica = Replica(
            self._cluster,
            self._namespace,
            member.replica,
            self._webhook,
            workers=self._workers,
            steps=self._steps,
            keeper=self._certificates,
            at=self._authority.at,
            controller_hook=self._metrics.controller,
            clock=settings.clock,
        )
        await start_patiently(member.join, stop, clock=settings.clock)
        try:
            # Loading thousands of revisions takes longer than the Lease lasts, and the leader must not go on without
            # this replica: it would serve what it has loaded.
            async with run_alongside(member.renew_forever()):
                await start_patiently(replica.load, stop, clock=settings.clock)
                # With the CRDs: a rotation of the CA must not continue before all of them have the new one.
                await start_patiently(self._certificates.prepare, stop, clock=settings.clock)
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
                keep_running("workers", self._workers.run, ended=ended, clock=clock),
                keep_running("certificates", self._certificates.run_forever, ended=ended, clock=clock),
                keep_running("replica", replica.run, ended=ended, clock=clock),
                keep_running("peers", replica.watch_peers, ended=ended, clock=clock),
                _stop(member, stop),
                keep_running("clock", self._clocks.run, ended=ended, clock=clock),
                keep_running("events", lambda: self._kept.run(self._cluster), ended=ended, clock=clock),
            ):
                await run_alone(
                    webhook,
                    serving,
                    listener,
                    probes,
                    stop,
                    further_metrics=self._metrics.text,
                    unready=lambda: replica.unready,
                )
            await asyncio.wait([leading])  # the end of the task releases the lease

    def _tell(self, details: CertificateDetails) -> None:
        self._obstacles = {each.name: each for each in details.problems}
        self._told(details)

    def _obstacle(self, name: str) -> WiringProblem | None:
        return self._obstacles.get(name)

    async def _lead_until(self, stop: asyncio.Event) -> None:
        """Reconcile while this replica leads; when asked to stop, release the lease immediately."""
        settings = self._settings
        name, _ = settings.lease
        reconciler = RulesReconciler(
            self._cluster,
            self._namespace,
            self._authority.at,
            may_be_stored,
            instance=self._identity,
            hook=self._metrics.controller,
            told=self._metrics.rules,
            clock=settings.clock,
            processes=self._workers,
            steps=settings.rules_steps,
            obstacle=self._obstacle,
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


async def _stop(member: Membership, stop: asyncio.Event) -> None:
    """Tell the other replicas as soon as this one is asked to stop: one that lacks a kind must not rely on it."""
    await stop.wait()
    await member.stop()
