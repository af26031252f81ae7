"""The operator process: its concurrent tasks, and the order in which they start and stop.

An API server needs the conversion webhook to read stored objects, and controllers read all objects. Therefore the
process first serves, then wires the CRDs and webhook configurations, and then takes part in leader election. Readiness
depends only on the first step, because a Service reaches no replica, and nothing can be wired, before one is ready.

At the end the process first releases the lease, so that another replica leads immediately. Meanwhile it drains the
server.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec

from restow.cli.addresses import at
from restow.cli.registries import graph_converters
from restow.cloudprofile.controllers import ControllerOptions
from restow.cloudprofile.controllers import run as run_controllers
from restow.conversion.certificates.ca import CertificateDetails, Certificates, Lifetimes
from restow.conversion.certificates.ca.metrics import CertificateMetrics
from restow.conversion.certificates.ca.store import CERTIFICATE, KEY
from restow.conversion.certificates.wiring.clientconfig import Address
from restow.conversion.operate.wiring import RulesStep
from restow.conversion.server import Clients, Limits, ServerPhase, ServingCertificate, WebhookServer, run_alone
from restow.crds import Crd
from restow.crds.aggregation import API_SERVICES, check_groups
from restow.kube import Cluster, LeaderElector, LeaseTiming, PatchType, connect, unique_identity
from restow.kube.clock import SYSTEM_CLOCK, Clock
from restow.kube.clockcheck import ClockCheck
from restow.kube.errors import Forbidden, NotFound
from restow.kube.resources import CRDS
from restow.migrator import Events, Migrator, log_details
from restow.migrator import Options as MigrationOptions
from restow.migrator.model.options import SETTLE_S
from restow.migrator.operate.reconciler import Targets
from restow.migrator.requests.environment import Converters, own_webhook
from restow.operator import family
from restow.operator.metrics import OperatorMetrics
from restow.webhook.authority import Connect, OwnAuthority
from restow.webhook.supervise import StartStopped, keep_running, run_alongside, start_patiently

Listen = Callable[[WebhookServer, ServingCertificate], tuple[socket.socket, socket.socket]]


@dataclass(frozen=True, slots=True)
class Files:
    """A certificate and its key from another source, PEM.

    ``authority`` is the CA bundle, ``address`` the webhook's address for API servers; only the wiring uses them.
    """

    certificate: Path
    key: Path
    authority: Path | None = None
    address: Address | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of the process.

    Attributes:
        identity: the serving certificate: files, or an address for which the process's own CA issues one; with an
            address the process wires CRDs and webhook configurations too. None for a process that only migrates.
        listen: called once there is a certificate; returns the sockets, already bound, for API servers and for probes.
        connect: opens a client of the API server.
        lease: the name and namespace of the controllers' Lease; None means the client's default namespace. The name of
            the migrator's Lease has the suffix ``-migrator``.
        timing: the timing of the election.
        clients: who may call the webhook; ``client_ca`` is the file that verifies their certificates.
        limits: the limits of the webhook.
        controllers: the settings of the controllers; None for no controllers.
        migrate: the CRDs that the process keeps migrated; None for none.
        settle_s: seconds after a change of a CRD before its objects are migrated.
        references_s: seconds between two searches for references to versions of these CRDs that can be removed; None
            for no search.
        installs_crds: whether the process first applies the CRDs.
        rules_steps: the admission steps that API servers call for kinds with rules (``--conversions`` only).
        lifetimes: the lifetimes of the certificates of its own CA.
        clock: the clock of the whole process.
    """

    identity: Files | Address | None
    listen: Listen | None
    connect: Connect = connect
    lease: tuple[str, str | None] = ("restow-operator", None)
    timing: LeaseTiming = field(default_factory=LeaseTiming)
    clients: Clients = field(default_factory=Clients)
    client_ca: Path | None = None
    limits: Limits = field(default_factory=Limits)
    controllers: ControllerOptions | None = field(default_factory=ControllerOptions)
    migrate: Targets | None = None
    settle_s: float = SETTLE_S
    references_s: float | None = None
    installs_crds: bool = False
    rules_steps: tuple[RulesStep, ...] = ()
    lifetimes: Lifetimes = field(default_factory=Lifetimes)
    clock: Clock = SYSTEM_CLOCK


async def run(settings: Settings, stop: asyncio.Event) -> None:
    """Run until asked to stop, then drain. Only the start can fail: later errors are logged and retried.

    Raises:
        KubeError: the API server refuses a request, or cannot be reached.
        GroupServedElsewhere: another API server serves the group of the family; nothing was installed.
        CertificateError: a Secret of the own CA belongs to another owner, or the CA in it is malformed.
        BadCertificate: the certificate and its key cannot be read or do not match, or the client CA is malformed.
        OSError: a file cannot be read or written, or ``listen`` cannot bind a port.
    """
    async with AsyncExitStack() as stack:
        stack.enter_context(suppress(StartStopped))
        cluster = await stack.enter_async_context(settings.connect())
        identity = settings.identity
        assert identity is not None
        if isinstance(identity, Files):
            await _Operator(settings, cluster, identity).run(stop)
        else:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="restow-")))
            configurations = family.configurations(lambda path: at(identity, path))
            authority = OwnAuthority(identity, folder, [crd.name for crd in family.crds()], configurations)
            await _Operator(settings, cluster, Files(folder / CERTIFICATE, folder / KEY), authority).run(stop)


class _Operator:
    """One process."""

    def __init__(
        self, settings: Settings, cluster: Cluster, files: Files, authority: OwnAuthority | None = None
    ) -> None:
        self._settings = settings
        self._cluster = cluster
        self._files = files
        self._authority = authority
        self._identity = unique_identity()
        self._clocks = ClockCheck(cluster, settings.clock)
        self._metrics = OperatorMetrics(self._clocks)
        self._wiring_tried = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        """Start, serve until asked to stop, and shut down."""
        settings, authority = self._settings, self._authority
        crds = family.manifests(None if authority is None else authority.at)
        if settings.installs_crds:
            await start_patiently(lambda: install_crds(self._cluster, crds), stop, clock=settings.clock)
        elif authority is not None:
            await start_patiently(lambda: check_served_here(self._cluster, crds), stop, clock=settings.clock)
        if authority is not None:
            await start_patiently(self._certificates(authority).prepare, stop, clock=settings.clock)
        webhook = family.webhook(self._cluster, settings.clock.now, settings.limits, settings.clients)
        serving = ServingCertificate(
            self._files.certificate,
            self._files.key,
            client_ca=settings.client_ca,
            counts=webhook.counts,
            clock=settings.clock,
        )
        assert settings.listen is not None
        listener, probes = settings.listen(webhook, serving)
        webhook.phase = ServerPhase.SERVING
        # Not in one TaskGroup, because no failure of this work may end the serving.
        async with run_alongside(self._work_until(stop)) as (working,):
            comparing = keep_running("clock", self._clocks.run, ended=self._metrics.ended, clock=settings.clock)
            async with run_alongside(self._keep(serving), comparing):
                await run_alone(webhook, serving, listener, probes, stop, further_metrics=self._metrics.text)
            if self._wiring_tried.is_set():
                await asyncio.wait([working])  # the end of the task releases the leases

    async def _keep(self, serving: ServingCertificate) -> None:
        """Keep certificates and wiring up to date, if this process is responsible for them."""

        def told(details: CertificateDetails) -> None:
            count(details)
            if not (details.failure and details.unwired):
                self._wiring_tried.set()
            serving.reload()

        def ended(name: str) -> None:
            self._metrics.ended(name)
            self._wiring_tried.set()

        if self._authority is None:
            self._wiring_tried.set()
            return
        count = CertificateMetrics(self._metrics.registry, now=self._settings.clock.now)
        certificates = self._certificates(self._authority, told)
        await keep_running("certificates", certificates.run_forever, ended=ended, clock=self._settings.clock)

    def _certificates(
        self, authority: OwnAuthority, hook: Callable[[CertificateDetails], None] | None = None
    ) -> Certificates:
        return authority.certificates(
            self._cluster,
            lifetimes=self._settings.lifetimes,
            clock=self._settings.clock,
            **({} if hook is None else {"hook": hook}),
        )

    async def _work_until(self, stop: asyncio.Event) -> None:
        """Do the work of a leader; when asked to stop, end it and release the leases immediately."""
        settings = self._settings
        asked = {"controllers": settings.controllers is not None, "migrator": settings.migrate is not None}
        works = {"controllers": self._control, "migrator": self._migrate}
        await self._wiring_tried.wait()
        async with asyncio.TaskGroup() as group:
            running = [
                group.create_task(
                    keep_running(name, works[name], ended=self._metrics.ended, clock=settings.clock), name=name
                )
                for name in works
                if asked[name]
            ]
            await stop.wait()
            for task in running:
                task.cancel()

    async def _control(self) -> None:
        """Run the controllers while leading. With a wrong clock they would write statuses too early or too late."""
        settings = self._settings
        assert settings.controllers is not None
        options = replace(settings.controllers, identity=self._identity, hook=self._metrics.controller)
        options = replace(options, refused=self._metrics.managed)
        name, namespace = settings.lease
        elector = LeaderElector(
            self._cluster,
            name,
            namespace,
            identity=self._identity,
            timing=settings.timing,
            obstacle=lambda: self._clocks.obstacle,
            hook=self._metrics.election,
            clock=settings.clock,
        )
        await self._clocks.asked.wait()
        await elector.run(lambda: run_controllers(self._cluster, settings.clock, options))

    async def _migrate(self) -> None:
        """Keep CRDs migrated while leading; this process converts the family's objects itself."""
        converters = graph_converters(family.conversions())
        await migrator(
            self._cluster, self._settings, self._metrics, self._identity, converters=converters
        ).run_forever()


def migrator(
    cluster: Cluster,
    settings: Settings,
    metrics: OperatorMetrics,
    identity: str,
    *,
    suffix: str = "",
    converters: Converters = own_webhook,
) -> Migrator:
    """Return what keeps the CRDs of ``settings.migrate`` migrated while it leads.

    ``suffix`` tells its Lease from those of other operators.
    """
    assert settings.migrate is not None
    name, namespace = settings.lease
    return Migrator(
        cluster,
        settings.migrate,
        MigrationOptions(resume=True, settle_s=settings.settle_s),
        hooks=(log_details, Events(cluster), metrics.migration),
        converters=converters,
        lease=f"{name}{suffix}-migrator",
        lease_namespace=namespace,
        identity=identity,
        timing=settings.timing,
        condition=True,
        references_s=settings.references_s,
        controller_hook=metrics.controller,
        election_hook=metrics.election,
        clock=settings.clock,
    )


_log = logging.getLogger(__name__)

_MANAGER: Final = "restow-operator"
_LOOK_EVERY: Final = 0.2  # seconds
_PATIENCE: Final = 30.0  # seconds


async def install_crds(cluster: Cluster, manifests: Sequence[Mapping[str, Any]]) -> None:
    """Apply CRDs (server-side, not forced) and wait until the API server serves them.

    Raises:
        GroupServedElsewhere: another API server serves the group of a CRD; no CRD was applied.
        Conflict: another field manager applies a CRD with other values; the message names the fields.
        KubeError: the API server refuses a request, or cannot be reached.
        TimeoutError: the API server does not serve all of them in time.
    """
    await check_served_here(cluster, manifests)
    names = []
    for manifest in manifests:
        name = manifest["metadata"]["name"]
        body, params = msgspec.json.encode(manifest), {"fieldManager": _MANAGER}
        await cluster.patch(CRDS, name, body, patch_type=PatchType.APPLY, params=params)
        names.append(name)
    try:
        async with asyncio.timeout(_PATIENCE):
            for name in names:
                await _established(cluster, name)
    except TimeoutError as error:
        told = (
            f"the CRDs {', '.join(names)} were applied, but not all are served after {_PATIENCE:g} s: see their status"
        )
        raise TimeoutError(told) from error
    _log.info("applied the CRDs %s", ", ".join(names))


async def check_served_here(cluster: Cluster, manifests: Sequence[Mapping[str, Any]]) -> None:
    """Check that no other API server serves the group of a CRD.

    Raises:
        GroupServedElsewhere: another API server serves it.
        KubeError: the API server refuses the request, or cannot be reached.
    """
    try:
        check_groups(manifests, (await cluster.list_page(API_SERVICES)).json()["items"])
    except NotFound:
        return  # this API server serves every group itself
    except Forbidden as error:
        error.message += ". By this right the operator sees whether another API server serves the group of the CRDs"
        raise


async def _established(cluster: Cluster, name: str) -> None:
    """Wait until the API server serves a CRD."""
    while True:
        condition = Crd.from_document((await cluster.get(CRDS, name)).json()).conditions.get("Established")
        if condition is not None and condition.status is True:
            return
        await asyncio.sleep(_LOOK_EVERY)
