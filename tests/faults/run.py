"""One seed: make its objects, migrate them under its faults, once more without if need be, and have it judged."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from restow.controlplane.plane import ApiServer
from restow.kube import connect
from restow.kube.client import HttpCluster
from restow.kube.errors import ApiError, KubeError, NotFound, TooManyRequests, first_error
from restow.kube.leaderelection import LeaseTiming
from restow.kube.resources import CRDS, LEASES
from restow.kube.retry import Backoff
from restow.migrator import ManagedFields, Migration, MigrationReport, Migrator, Options, Shard
from restow.migrator.decide.proof import ANNOTATION
from restow.migrator.model.report import MigrationResult
from tests.apiserver.kind import until
from tests.apiserver.proxy import Proxy, Seen, proxy_before
from tests.faults.afterwards import applies_on
from tests.faults.conversion import InProcess
from tests.faults.injection import Injector
from tests.faults.judge import Judge
from tests.faults.scenario import Ending, Scenario, draw
from tests.faults.widgets import NEW, OLD, Users, Widgets
from tests.faults.world import Late, World
from tests.restow.forked import Forked

_WAITS = 0.1  # of their length, in the run under faults; a rerun waits as long as it wants
_LIMIT = 360.0  # seconds: a seed that takes longer hangs, even on a slow machine
_LIMIT_OF_RESTARTS = 720.0
_PATIENCE = 60.0  # longer than any trouble lasts
_PATIENCE_OF_RESTARTS = 180.0  # a machine with other work takes long to start an API server
_PATIENCE_OF_STUBBORN = 5.0  # for what will never pass
_SETTLE_BEYOND_LAG = 0.3
_QUICK = LeaseTiming(lease_duration=3, renew_deadline=2.4, retry_period=0.2)
_LOOK_S = 0.1
_GRACE = 0.4  # less than the election leaves between the deadline and the end of a Lease
_BACKOFF = Backoff(first=0.1, most=1.0)


@dataclass(slots=True)
class Outcome:
    """What came of one seed.

    Attributes:
        injected: faults and events, by kind.
        log: each of them, with the number of the request it came at.
        wrong: the judge's findings; empty if all is well.
        runs: 1, or 2 where it took a rerun.
        first: how the run under faults ended.
        prunes: how often status.storedVersions was pruned.
    """

    seed: int
    scenario: Scenario
    injected: Counter[str] = field(default_factory=Counter)
    log: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    runs: int = 0
    first: str = ""
    prunes: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        faults = " ".join(f"{kind.replace(' ', '-')}×{count}" for kind, count in sorted(self.injected.items()))
        verdict = "FAILED" if self.wrong else "ok" if self.runs == 1 else "ok after a rerun"
        return f"seed {self.seed:5}  {faults or 'no faults'}  {verdict}  {self.seconds:.2f} s"


class Waits(random.Random):
    """Shortens every wait."""

    def uniform(self, a: float, _b: float) -> float:
        return a * _WAITS


async def run_seed(world: World, seed: int) -> Outcome:
    """Run one seed to its verdict."""
    begun = time.monotonic()
    outcome = Outcome(seed, draw(seed))
    limit = _LIMIT if outcome.scenario.restart is None else _LIMIT_OF_RESTARTS
    try:
        async with asyncio.timeout(limit):
            await _Run(world, outcome).carry_out()
    except TimeoutError:
        outcome.wrong.append(f"it took more than {limit:.0f} s")
    except Exception as error:  # noqa: BLE001 - one seed that cannot be judged must not end the others
        outcome.wrong.append(f"it could not be judged: {first_error(error)!r}")
    outcome.seconds = time.monotonic() - begun
    return outcome


class _Run:
    def __init__(self, world: World, outcome: Outcome) -> None:
        self._world = world
        self._outcome = outcome
        self._scenario = outcome.scenario
        self._widgets = Widgets(world.cluster, world.plane.etcd, next(world.numbers), outcome.scenario, world.webhook)
        self._users = Users(self._widgets)
        self._restarted: ApiServer | None = None

    async def carry_out(self) -> None:
        """Make the objects, run, have it judged, and leave nothing."""
        if self._scenario.restart is not None:
            async with self._world.restart_turn:
                self._restarted = await self._world.restarted()
                await self._judged(None)
            return
        if not self._scenario.lag:
            await self._judged(None)
            return
        async with self._world.late_turn:  # how late the second API server is, is for one run at a time to say
            late = await self._world.late()
            try:
                await self._judged(late)
            finally:
                late.line.late = 0.0

    async def _judged(self, late: Late | None) -> None:
        widgets, scenario = self._widgets, self._scenario
        try:
            revision, stored = await widgets.prepare()
            judge = Judge(
                self._users.revisions,
                self._users.tried,
                self._users.deleted,
                may_lose=_may_lose(scenario),
                keeps=scenario.mode is ManagedFields.KEEP,
            )
            judge.begin(stored)
            if late is not None:
                await self._listens(late)
                late.line.late = scenario.lag
            await widgets.flip(NEW)
            for name in scenario.names[: scenario.rewritten]:
                await self._users.apply(NEW, name)
            folder = self._world.folder / widgets.plural
            folder.mkdir()
            async with proxy_before(self._world.plane, folder) as proxy:
                await self._migrate(proxy, late)
            judge.read(await widgets.history.since(revision))
            judge.end()
            self._outcome.prunes = judge.prunes
            self._outcome.wrong += judge.wrong
            if not judge.wrong:
                self._outcome.wrong += await applies_on(widgets)
        finally:
            await self._remove()

    async def _listens(self, late: Late) -> None:
        async def listed() -> bool:
            try:
                await late.cluster.list_page(self._widgets.at(NEW), params={"limit": "1"})
            except (NotFound, TooManyRequests):
                return False
            return True

        await until(listed, "the second API server does not serve the kind")

    async def _migrate(self, proxy: Proxy, late: Late | None) -> None:
        """Run under faults, and once more without them unless that succeeded."""
        outcome = self._outcome
        async with connect(proxy.kubeconfig) as cluster, asyncio.TaskGroup() as group:
            ending = asyncio.Event()
            injector = Injector(
                self._scenario,
                proxy,
                self._widgets,
                self._users,
                self._world.webhook,
                spawn=group.create_task,
                end=ending.set,
                restart=self._restart,
            )
            proxy.hook = injector
            if late is not None:
                proxy.route = _every_other(late)
            if (restarted := self._restarted) is not None:
                proxy.route = lambda _seen: restarted.server
            async with self._writers(late):
                outcome.runs, outcome.first = 1, await self._first(proxy, cluster, ending)
            proxy.hook = proxy.route = None
            self._world.webhook.down.pop(self._widgets.plural, None)
            outcome.injected, outcome.log = injector.injected, injector.log
        if outcome.first != MigrationResult.SUCCEEDED.value:
            if self._scenario.finishes:
                outcome.wrong.append(f"it ended as {outcome.first}, although waiting would have finished it")
            outcome.runs = 2
            again = Options(settle_s=self._settle, managed_fields=self._scenario.mode, resume=self._scenario.resume)
            said = await self._each_shard(self._world.cluster, again)
            if said != MigrationResult.SUCCEEDED.value:
                outcome.wrong.append(f"the rerun without faults ended as {said}")

    @asynccontextmanager
    async def _writers(self, late: Late | None) -> AsyncIterator[None]:
        """Users at work through the second API server, for as long as it is late and a bit longer."""
        if late is None:
            yield
            return
        async with asyncio.TaskGroup() as group:
            writing = group.create_task(self._write(late))
            try:
                yield
            finally:
                await writing

    async def _write(self, late: Late) -> None:
        chance = random.Random(f"late {self._scenario.seed}")
        clock = asyncio.get_running_loop().time
        end = clock() + self._scenario.lag + _SETTLE_BEYOND_LAG
        while clock() < end:
            await self._users.apply(OLD, chance.choice(self._scenario.names), cluster=late.cluster)
            await asyncio.sleep(0.02)

    @property
    def _settle(self) -> float:
        return self._scenario.lag + _SETTLE_BEYOND_LAG if self._scenario.lag else 0.0

    def _options(self) -> Options:
        scenario = self._scenario
        return Options(
            settle_s=self._settle,
            managed_fields=scenario.mode,
            resume=scenario.resume,
            concurrency=scenario.concurrency,
            page_size=scenario.page_size,
            patience_s=_PATIENCE_OF_STUBBORN
            if scenario.stubborn
            else _PATIENCE_OF_RESTARTS
            if scenario.restart is not None
            else _PATIENCE,
        )

    async def _first(self, proxy: Proxy, cluster: HttpCluster, ending: asyncio.Event) -> str:
        """The run under faults; return how it ended."""
        scenario = self._scenario
        if scenario.ending is Ending.KILLED:
            return await self._killed(proxy, ending)
        if scenario.elected:
            return await self._elected(cluster)
        async with asyncio.TaskGroup() as group:
            run = group.create_task(self._each_shard(cluster, self._options(), Waits()))
            ended = group.create_task(ending.wait())
            await asyncio.wait((run, ended), return_when=asyncio.FIRST_COMPLETED)
            if scenario.ending is Ending.TWO_LEADERS and ended.done():
                await self._once(self._world.cluster, self._options(), Waits())
            elif scenario.ending is Ending.CANCELLED and ended.done() and not run.done():
                run.cancel()
                await asyncio.wait((run,))
            await asyncio.wait((run,))
            ended.cancel()
        return "cancelled" if run.cancelled() else run.result()

    async def _each_shard(self, cluster: HttpCluster, options: Options, chance: random.Random | None = None) -> str:
        """Run every shard, one after the other, or all at once where there is none; return how the last one ended."""
        said = ""
        for index in range(self._scenario.shards or 1):
            shard = Shard(index, self._scenario.shards) if self._scenario.shards else None
            said = await self._once(cluster, replace(options, shard=shard), chance)
            if said != MigrationResult.SUCCEEDED.value:
                break
        return said

    async def _once(self, cluster: HttpCluster, options: Options, chance: random.Random | None = None) -> str:
        converters = (lambda _crd: InProcess()) if self._scenario.in_process else (lambda _crd: None)
        migration = Migration(cluster, options, converters=converters, chance=chance)
        try:
            report = await migration.migrate(self._widgets.name)
        except KubeError as error:
            return f"an error: {error}"
        result = MigrationReport((report,)).result
        why = report.refused or report.unfinished or next((each.message for each in report.failures), "")
        return result.value if result is MigrationResult.SUCCEEDED else f"{result.value}: {why}"

    async def _elected(self, cluster: HttpCluster) -> str:
        """Run two migrators until one of them has pruned and left its proof; return that it did."""
        name = self._widgets.plural
        converters = (lambda _crd: InProcess()) if self._scenario.in_process else (lambda _crd: None)
        migrators = [
            Migrator(
                cluster,
                [self._widgets.name],
                self._options(),
                hooks=(),
                converters=converters,
                lease=name,
                lease_namespace="default",
                identity=identity,
                timing=_QUICK,
                grace=_GRACE,
                backoff=_BACKOFF,
                chance=Waits(f"{identity} {self._scenario.seed}"),
            )
            for identity in ("one", "two")
        ]
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(migrator.run_forever()) for migrator in migrators]
            while not await self._is_finished():
                await asyncio.sleep(_LOOK_S)
            for each in running:
                each.cancel()
        with contextlib.suppress(NotFound):
            await self._world.cluster.delete(LEASES, name, "default")
        return MigrationResult.SUCCEEDED.value

    async def _is_finished(self) -> bool:
        found = (await self._world.cluster.get(CRDS, self._widgets.name)).json()
        proved = ANNOTATION in (found["metadata"].get("annotations") or {})
        return proved and found["status"]["storedVersions"] == [NEW]

    async def _restart(self) -> None:
        """Kill the API server of this run, and start it again."""
        assert self._restarted is not None
        await self._restarted.restart(grace=0.0, timeout=_LIMIT_OF_RESTARTS)

    async def _killed(self, proxy: Proxy, ending: asyncio.Event) -> str:
        scenario = self._scenario
        options = ["--settle", "0", "--managed-fields", scenario.mode.value, "-o", "json"]
        options += ["--concurrency", str(scenario.concurrency), "--page-size", str(scenario.page_size)]
        options += ["--resume"] if scenario.resume else []
        process = await Forked.start("migrate", self._widgets.name, "--kubeconfig", str(proxy.kubeconfig), *options)
        try:
            async with asyncio.TaskGroup() as group:
                over = group.create_task(process.wait())
                ended = group.create_task(ending.wait())
                await asyncio.wait((over, ended), return_when=asyncio.FIRST_COMPLETED)
                if not over.done():
                    process.kill()
                await over
                ended.cancel()
        finally:
            if process.returncode is None:
                process.kill()
        return MigrationResult.SUCCEEDED.value if process.returncode == 0 else f"exit code {process.returncode}"

    async def _remove(self) -> None:
        await self._widgets.history.forget()
        with contextlib.suppress(ApiError):
            await self._world.cluster.delete(CRDS, self._widgets.name)


def _every_other(late: Late) -> Any:
    """Send every other request for an object to the second API server, as a load balancer would."""

    def route(seen: Seen) -> str | None:
        return late.server.server if not seen.of_crd and seen.number % 2 and seen.method != "POST" else None

    return route


def _may_lose(scenario: Scenario) -> frozenset[str]:
    """Dora's version is gone: nothing can convert what she owns, and strip drops it."""
    lost = scenario.removed and (scenario.webhook or scenario.mode is ManagedFields.STRIP)
    return frozenset({"dora"}) if lost else frozenset()
