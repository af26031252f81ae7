"""restow's part in a history: its runs, through API servers of the history's choice, cut off and interfered with."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from restow.kube import connect
from restow.kube.client import HttpCluster
from restow.kube.errors import KubeError
from restow.migrator import Happening, Migration, MigrationDetails, Migrator, Options, Phase, Report, Result, Shard
from tests.apiserver.proxy import Fault, Proxy, Reset, Seen, proxy_before
from tests.histories.drawing import Act, Route, Step
from tests.histories.world import World


class _Waits(random.Random):
    """Shortens every wait."""

    def uniform(self, _a: float, _b: float) -> float:
        return 0.05


class Runner:
    """restow, as a history lets it run. Made by ``runner``.

    Attributes:
        cluster: a session by the route of the moment.
        route: which API server answers it.
    """

    def __init__(self, world: World, name: str, proxy: Proxy, cluster: HttpCluster) -> None:
        self.cluster = cluster
        self.route = Route.BALANCED
        self._servers = (world.plane.server, world.late.server)
        self._name = name
        self._proxy = proxy
        self._peers: dict[int, int] = {}
        self._operator: Migrator | None = None
        self._operators_skip: tuple[str, ...] = ()
        self._told: list[str] = []
        proxy.route = self._server

    def _server(self, seen: Seen) -> str:
        """Where a request goes: as a load balancer does it, each new connection goes to the next server."""
        if self.route is Route.BALANCED:
            place = self._peers.setdefault(seen.peer, len(self._peers) % 2)
            return self._servers[place]
        return self._servers[self.route is Route.SECOND]

    async def run(self, step: Step, happens: Callable[[Step], Awaitable[None]]) -> str:
        """Run restow as a step says; return how it ended."""
        self.route = step.route
        due = [step.within] if step.within is not None else []
        number = 0
        dead = asyncio.Event()

        async def hook(_seen: Seen) -> Fault | None:
            nonlocal number
            number += 1
            if step.killed and number >= step.killed:
                dead.set()
            if dead.is_set():
                return Reset()
            if due and number >= step.at:
                await asyncio.shield(asyncio.ensure_future(happens(due.pop())))
            return None

        self._proxy.hook = hook
        running = asyncio.ensure_future(self._run(step))
        killing = asyncio.ensure_future(dead.wait())
        try:
            await asyncio.wait((running, killing), return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                running.cancel()
                await asyncio.wait((running,))
        finally:
            killing.cancel()
            self._proxy.hook = None
        if running.cancelled() or dead.is_set():
            self._operator = None
            return "killed"
        for each in due:
            await happens(each)
        return running.result()

    async def _run(self, step: Step) -> str:
        if step.act is Act.RECONCILE:
            return await self._reconcile(step)
        options = Options(settle_s=0.0, skip=frozenset(map(Phase, step.skip)), resume=step.resume)
        if step.act is Act.PRUNE:
            options = Options(settle_s=0.0, skip=frozenset({Phase.MANAGED_FIELDS}))
        shards = [Shard(index, step.count) for index in step.shards] or [None]
        ended = ""
        for shard in shards:
            ended = await self._migrate(_sharded(options, shard))
        return ended

    async def _migrate(self, options: Options) -> str:
        try:
            report = await Migration(self.cluster, options, chance=_Waits()).migrate(self._name)
        except KubeError as error:
            return f"an error: {error}"
        result = Report((report,)).result
        if result is Result.SUCCEEDED:
            counts = report.objects
            return (
                f"{result.value}: {counts.rewritten} rewritten, {counts.current} current, "
                f"{'pruned' if report.pruned else report.pruned_reason}"
            )
        why = report.refused or report.unfinished or next((each.message for each in report.failures), "")
        return f"{result.value}: {why}"

    async def _reconcile(self, step: Step) -> str:
        if self._operator is None or step.fresh or step.skip != self._operators_skip:
            options = Options(settle_s=0.0, resume=True, skip=frozenset(map(Phase, step.skip)))
            self._operator = Migrator(
                self.cluster, [self._name], options, hooks=(self._hear,), lease=None, chance=_Waits()
            )
            self._operators_skip = step.skip
        self._told = []
        await self._operator.reconcile(self._name)
        return "; ".join(self._told)

    def _hear(self, details: MigrationDetails) -> None:
        if details.happening is not Happening.PROGRESS:
            self._told.append(f"{details.happening.value}: {details.message}")


def _sharded(options: Options, shard: Shard | None) -> Options:
    return Options(settle_s=options.settle_s, skip=options.skip, resume=options.resume, shard=shard)


@asynccontextmanager
async def runner(world: World, name: str) -> AsyncIterator[Runner]:
    """Open the way by which restow reaches the API servers."""
    folder = world.folder / name
    folder.mkdir()
    async with proxy_before(world.plane, folder) as proxy, connect(proxy.kubeconfig) as cluster:
        yield Runner(world, name, proxy, cluster)
