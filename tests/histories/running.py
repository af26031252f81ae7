"""restow's part in a history: its runs, through API servers of the history's choice, cut off and interfered with."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from restow.conversion.certificates import Url, WiringRefused, unwire
from restow.conversion.certificates.wiring.clientconfig import Address
from restow.conversion.operate.revisions import RevisionRecord
from restow.conversion.operate.wiring import WiringGate
from restow.crds import Crd
from restow.kube import connect
from restow.kube.client import HttpCluster
from restow.kube.errors import KubeError
from restow.kube.resources import CRDS
from restow.migrator import (
    CrdReport,
    ManagedFields,
    Migration,
    MigrationDetails,
    MigrationEvent,
    MigrationReport,
    Migrator,
    Options,
    Phase,
    Shard,
    may_be_stored,
)
from restow.migrator.model.report import MigrationResult
from tests.apiserver.proxy import Fault, Proxy, Reset, Seen, proxy_before
from tests.histories.drawing import Act, Route, Step
from tests.histories.world import GROUP, World

UNWIRED = "unwired"
_DISCOVERY = 3  # slashes in the path of a version's discovery document
_SETTLE_S = 2.0
_PATIENCE = 16
"""Looks at discovery in one run, after which it is one that waits for a server that lags."""


def _somewhere(path: str) -> Address:
    """Return an address, which no removal of a webhook needs."""
    return Url(f"https://127.0.0.1{path}")


class _Waits(random.Random):
    """Shortens every wait."""

    def uniform(self, a: float, _b: float) -> float:
        return a * 0.05


class _Meddler:
    """The proxy's hook for one run: what happens between its requests.

    Attributes:
        dead: the run is killed; no request of it arrives any more.
    """

    def __init__(
        self, step: Step, happens: Callable[[Step], Awaitable[None]], waited_enough: Callable[[Step], None]
    ) -> None:
        self._step = step
        self._happens = happens
        self._waited_enough = waited_enough
        self._event: asyncio.Future[None] | None = None
        self._requests = 0
        self._writes = 0
        self._looks = 0
        self.dead = asyncio.Event()

    async def __call__(self, seen: Seen) -> Fault | None:
        """Let happen what is due before a request."""
        step = self._step
        self._requests += 1
        self._writes += seen.is_write
        self._looks += seen.path.startswith(f"/apis/{GROUP}/") and seen.path.count("/") == _DISCOVERY
        if self._looks > _PATIENCE:
            self._waited_enough(step)
        if step.killed and self._requests >= step.killed:
            self.dead.set()
        if self.dead.is_set():
            return Reset()
        due = self._writes >= step.at_write if step.at_write else self._requests >= step.at
        if step.within is not None and self._event is None and due:
            self._event = asyncio.ensure_future(self._happens(step.within))
            await asyncio.wait((self._event,))
        return None

    async def finish(self) -> None:
        """Let happen what did not yet."""
        if self._step.within is not None:
            await (self._event or self._happens(self._step.within))


class Runner:
    """restow, as a history lets it run. Made by ``runner``.

    Attributes:
        cluster: a session by the route of the moment.
        route: which API server answers it.
        failed: the objects that the last run reports as failed.
    """

    def __init__(self, world: World, name: str, proxy: Proxy, cluster: HttpCluster, second: str) -> None:
        self.cluster = cluster
        self.route = Route.BALANCED
        self._world = world
        self._servers = (world.plane.server, world.late.server)
        self._name = name
        self._proxy = proxy
        self._peers: dict[int, int] = {}
        self._operator: Migrator | None = None
        self._operators_skip: tuple[str, ...] = ()
        self._told: list[str] = []
        self._stop = asyncio.Event()
        self._second = second
        proxy.route = self._server

    @property
    def api_servers(self) -> tuple[str, ...]:
        """What is named by ``--api-server``: the second one, where the route leads to the first one alone."""
        return (self._second,) if self.route is Route.FIRST else ()

    def _server(self, seen: Seen) -> str:
        """Where a request goes: as a load balancer does it, each new connection goes to the next server."""
        if self.route is Route.BALANCED:
            place = self._peers.setdefault(seen.peer, len(self._peers) % 2)
            return self._servers[place]
        return self._servers[self.route is Route.SECOND]

    async def run(self, step: Step, happens: Callable[[Step], Awaitable[None]]) -> str:
        """Run restow as a step says; return how it ended."""
        self.route, self.failed = step.route, set()
        self._stop = asyncio.Event()

        async def within(event: Step) -> None:
            if event.act is Act.MIGRATE:
                options = Options(settle_s=0.0, api_servers=self.api_servers)
                await migrate(self.cluster, self._name, options, self._stop)
            else:
                await happens(event)

        meddler = _Meddler(step, within, self._waited_enough)
        self._proxy.hook = meddler
        running = asyncio.ensure_future(self._run(step))
        killing = asyncio.ensure_future(meddler.dead.wait())
        try:
            await asyncio.wait((running, killing), return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                running.cancel()
                await asyncio.wait((running,))
            if running.cancelled() or meddler.dead.is_set():
                self._operator = None
                return "killed"
            await meddler.finish()
        finally:
            killing.cancel()
            running.cancel()
            await asyncio.wait((running,))
            self._proxy.hook = None
        return running.result()

    def _waited_enough(self, step: Step) -> None:
        """The run waits for the server that lags: let that one catch up, or end the run as SIGTERM does."""
        if self._world.holding and step.patient:
            self._world.release()
        elif self._world.holding:
            self._stop.set()

    async def unwire(self) -> str:
        """Take the webhook away: as the operator after a deletion of rules, or else as ``restow unwire``."""
        self.route = Route.BALANCED
        gate = WiringGate(self.cluster, _somewhere, may_be_stored)
        try:
            crd = Crd.from_document((await self.cluster.get(CRDS, self._name)).json())
            record = RevisionRecord(crd.name)
            if crd.strategy == "Webhook" and not await gate.needed((crd,), record, ""):
                await gate.undo(crd, record)
                return UNWIRED
            done = await unwire(self.cluster, self._name, may_be_stored)
        except (WiringRefused, KubeError) as refused:
            return f"refused: {refused}"
        return UNWIRED if done.changed else "nothing to do"

    async def _run(self, step: Step) -> str:
        if step.act is Act.RECONCILE:
            return await self._reconcile(step)
        ended = ""
        for options in _options(step):
            named = replace(options, api_servers=self.api_servers)
            ended, failed = await _migrate(self.cluster, self._name, named, self._stop)
            self.failed |= failed
        return ended

    async def _reconcile(self, step: Step) -> str:
        if self._operator is None or step.fresh or step.skip != self._operators_skip:
            skip = frozenset(map(Phase, step.skip))
            options = Options(settle_s=0.0, resume=True, skip=skip, api_servers=(self._second,))
            self._operator = Migrator(
                self.cluster, [self._name], options, hooks=(self._hear,), lease=None, chance=_Waits()
            )
            self._operators_skip = step.skip
        self._told = []
        await self._operator.reconcile(self._name, stop=self._stop)
        return "; ".join(self._told)

    def _hear(self, details: MigrationDetails) -> None:
        self.failed |= {each.name for each in details.failed}
        if details.event is not MigrationEvent.PROGRESS:
            self._told.append(f"{details.event.value}: {details.message}")


async def migrate(cluster: HttpCluster, name: str, options: Options, stop: asyncio.Event | None = None) -> str:
    """Run one process of restow to its end; return how it ended."""
    return (await _migrate(cluster, name, options, stop))[0]


async def _migrate(
    cluster: HttpCluster, name: str, options: Options, stop: asyncio.Event | None
) -> tuple[str, set[str]]:
    """Return also the objects that failed."""
    try:
        report = await Migration(cluster, options, stop=stop, chance=_Waits()).migrate(name)
    except KubeError as error:
        return f"an error: {error}", set()
    return _told(report, options), {each.name for each in report.failures}


def _told(report: CrdReport, options: Options) -> str:
    result = MigrationReport((report,), dry_run=options.dry_run).result
    if result is not MigrationResult.SUCCEEDED:
        why = report.refused or report.unfinished or next((each.message for each in report.failures), "")
        return f"{result.value}: {why}"
    counts, pruned = report.objects, "pruned" if report.pruned else report.pruned_reason
    return f"{result.value}: {counts.rewritten} rewritten, {counts.current} current, {pruned}"


def _options(step: Step) -> list[Options]:
    """What each process of a step is asked for, one after the other."""
    if step.act is Act.PRUNE:
        return [Options(settle_s=0.0, skip=frozenset({Phase.MANAGED_FIELDS}))]
    asked = Options(
        settle_s=_SETTLE_S if step.settles else 0.0,
        skip=frozenset(map(Phase, step.skip)),
        resume=step.resume,
        ignore_mark=step.flag == "--ignore-mark",
        dry_run=step.flag == "--dry-run",
        namespace="elsewhere" if step.flag.startswith("--namespace") else None,
        managed_fields=ManagedFields.KEEP if step.flag.startswith("--managed-fields") else ManagedFields.TRANSLATE,
    )
    return [replace(asked, shard=Shard(index, step.count)) for index in step.shards] or [asked]


@asynccontextmanager
async def runner(world: World, name: str) -> AsyncIterator[Runner]:
    """Open the way by which restow reaches the API servers."""
    folder = world.folder / name
    (folder / "second").mkdir(parents=True)
    async with (
        proxy_before(world.plane, folder) as proxy,
        proxy_before(world.plane, folder / "second") as second,
        connect(proxy.kubeconfig) as cluster,
    ):
        second.route = lambda _seen: world.late.server
        yield Runner(world, name, proxy, cluster, second.url)
