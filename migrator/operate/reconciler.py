"""The reconciler that an operator embeds: it watches CRDs and starts the phases that are due.

An operator names its CRDs, if needed with options for each, or passes a function that chooses them (``Targets``).

``Migrator.reconcile`` reconciles one CRD, and returns when to reconcile again. Unless work is due, it reads only the
CRD. A complete run writes a proof, and only work that the proof does not cover is due (``due_phases``), so a reconciler
without work reads no object. ``Migrator.run_forever`` watches the CRDs and reconciles each one that changes, in one
process at a time.

The reconciler's memory (``Memory``) may be lost: the proofs are on the CRDs too, and a reconciler that forgets to wait
only checks once more.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from restow.crds import Crd, CrdError
from restow.kube.clock import SYSTEM_CLOCK, Clock
from restow.kube.cluster import Cluster
from restow.kube.controller import Controller, ControllerEvent, ReconcileResult
from restow.kube.errors import Conflict, KubeError, NotFound, describe_failure
from restow.kube.leaderelection import ElectionEvent, LeaderElector, LeaseTiming, unique_identity
from restow.kube.listwatch import Key
from restow.kube.resources import CRDS
from restow.kube.retry import Backoff, RetryingCluster, requested_wait
from restow.migrator.decide.premise import Followers
from restow.migrator.decide.proof import ANNOTATION, extended, touches_managed_fields, what_is_proved
from restow.migrator.model.callbacks import CallbackFailed, MigrationRefused
from restow.migrator.model.options import Options, Phase
from restow.migrator.model.report import CrdReport
from restow.migrator.operate.hooks import Hook, Hooks, MigrationEvent, RunHooks, finding, outcome
from restow.migrator.operate.log import Events, log_details
from restow.migrator.operate.references import ReferenceSearches, condition, write_condition
from restow.migrator.references.reference import standing
from restow.migrator.requests.apiservers import ApiServers
from restow.migrator.requests.crdaccess import annotate, read_crd
from restow.migrator.requests.environment import Converters, own_webhook
from restow.migrator.requests.preflight import refusal
from restow.migrator.run.run import Migration
from restow.migrator.run.settle import LAG_PATIENCE_S, remaining

Targets: TypeAlias = Iterable[str] | Mapping[str, Options] | Callable[[Crd], Options | bool | None]
"""Names (``<plural>.<group>``), options by name, or a function that returns a CRD's options or whether it is one."""


def in_group(group: str) -> Callable[[Crd], bool]:
    """Return targets: the CRDs of an API group, and of its subgroups (``example.com``: ``infra.example.com`` too)."""
    return lambda crd: crd.group == group or crd.group.endswith(f".{group}")


def labelled(key: str, value: str | None = None) -> Callable[[Crd], bool]:
    """Return targets: the CRDs with a label, of any value unless one is given."""

    def has(crd: Crd) -> bool:
        labels = crd.document["metadata"].get("labels") or {}
        return key in labels and value in (None, labels[key])

    return has


@dataclass(frozen=True, slots=True)
class Choice:
    """The meaning of ``Targets``; ``choice`` creates it.

    Attributes:
        names: the only names that can be targets, or None if a function decides from the CRD.
        options_of: returns the options for a CRD, or None if it is not a target.
    """

    names: frozenset[str] | None
    options_of: Callable[[Crd], Options | None]

    def excludes(self, name: str) -> bool:
        """Return whether no CRD of this name can be a target."""
        return self.names is not None and name not in self.names


def choice(targets: Targets, default: Options) -> Choice:
    """Return the choice for targets.

    Raises:
        ValueError: no target is given, a name is not ``<plural>.<group>``, or the options do not finish a CRD.
    """
    _check(default)
    if callable(targets):
        choose = targets
        return Choice(None, lambda crd: _options(choose(crd), default))
    if isinstance(targets, str):
        msg = f"targets are several names, a mapping or a function: write [{targets!r}]"
        raise ValueError(msg)  # noqa: TRY004 - a string is an iterable of names by its type
    by_name = dict(targets) if isinstance(targets, Mapping) else dict.fromkeys(targets, default)
    for name, options in by_name.items():
        if "." not in name:
            msg = f"{name!r} is no name of a CRD: give <plural>.<group> (kubectl get crds)"
            raise ValueError(msg)
        _check(options)
    if not by_name:
        msg = "a migrator without targets has nothing to do: name CRDs, or give a function that chooses them"
        raise ValueError(msg)
    return Choice(frozenset(by_name), lambda crd: by_name.get(crd.name))


def _options(chosen: Options | bool | None, default: Options) -> Options | None:
    if isinstance(chosen, Options):
        _check(chosen)
        return chosen
    return default if chosen else None


def _check(options: Options) -> None:
    """Refuse options with which a run cannot finish a CRD, because the reconciler would repeat it forever."""
    unfit = {
        "namespace or selector": options.partial,
        "shard": options.shard is not None,
        "dry_run": options.dry_run,
        "ignore_mark": options.ignore_mark,
    }
    for name, given in unfit.items():
        if given:
            msg = (
                f"a reconciler finishes CRDs, and knows by a mark that it did, so its options cannot have {name}: use "
            )
            msg += "Migration for such a run"
            raise ValueError(msg)


def due_phases(crd: Crd, options: Options, remembered: str = "") -> tuple[Phase, ...]:
    """Return the phases that are due, in the order of their execution.

    Args:
        crd: the current CRD.
        options: the options of the migration.
        remembered: the proof of this process's own last run, which it may not have been allowed to write on the CRD.
    """
    proven = what_is_proved(crd, remembered)
    due = {
        Phase.STORAGE: options.does(Phase.STORAGE) and bool(proven.doubt),
        Phase.MANAGED_FIELDS: touches_managed_fields(options) and not proven.managed_fields_done(options),
        Phase.PRUNE: options.prunes and crd.stored_versions != (crd.storage.name,),
    }
    return tuple(phase for phase, is_due in due.items() if is_due)


State = tuple[str, int]
"""A CRD's uid and generation."""


@dataclass(slots=True)
class _Remembered:
    proof: str = ""
    failures: int = 0
    failed: State | None = None
    until: float = 0.0
    behind_since: float | None = None


@dataclass(slots=True)
class Memory:
    """The reconciler's memory, by name of the CRD; times are seconds of a monotonic clock.

    The reconciler backs off from a CRD whose run failed, even if clients write its status or annotations meanwhile. A
    change of its spec ends the back-off, because it may be the fix.
    """

    backoff: Backoff
    _crds: dict[str, _Remembered] = field(default_factory=dict)

    def proof(self, name: str) -> str:
        """Return the proof of this process's own last run; empty if there is none."""
        return self._crds[name].proof if name in self._crds else ""

    def finished(self, name: str, proof: str) -> None:
        """Remember a finished run."""
        self._crds[name] = _Remembered(proof=proof)

    def calm(self, name: str) -> None:
        """Forget failures, because nothing is due."""
        known = self._crds.get(name)
        self._crds[name] = _Remembered(proof=known.proof if known is not None else "")

    def failed(self, crd: Crd, now: float, chance: float) -> float:
        """Count a failure; return the seconds until the next try."""
        known = self._crds.setdefault(crd.name, _Remembered())
        delay = self._count(known, chance)
        known.failed = (crd.uid, crd.generation)
        known.until = now + delay
        return delay

    def refused(self, name: str, chance: float, at_least: float = 0.0) -> float:
        """Count an attempt that was refused before any work; return the seconds until the next one."""
        return self._count(self._crds.setdefault(name, _Remembered()), chance, at_least)

    def failures(self, name: str) -> int:
        """Return the number of failures or refusals in a row."""
        return self._crds[name].failures if name in self._crds else 0

    def wait(self, crd: Crd, now: float) -> float:
        """Return the remaining seconds of the back-off for the current CRD."""
        known = self._crds.get(crd.name)
        if known is None or known.failed != (crd.uid, crd.generation):
            return 0.0
        return max(0.0, known.until - now)

    def behind_for(self, name: str, now: float, *, behind: bool) -> float:
        """Note whether an API server does not follow the CRD; return the seconds since it was first seen not to."""
        known = self._crds.setdefault(name, _Remembered())
        if not behind:
            known.behind_since = None
            return 0.0
        known.behind_since = now if known.behind_since is None else known.behind_since
        return now - known.behind_since

    def forget(self, name: str) -> bool:
        """Forget a CRD; return whether there was anything to forget."""
        return self._crds.pop(name, None) is not None

    def _count(self, known: _Remembered, chance: float, at_least: float = 0.0) -> float:
        known.failures += 1
        return self.backoff.delay(known.failures, chance, at_least)


_log = logging.getLogger(__name__)

_BACKOFF = Backoff(first=5.0, most=600.0)
_LOOK_S = 5.0
_NEVER = ReconcileResult()


def _ignore(_details: object) -> None:
    pass


class Migrator:
    """Keeps CRDs migrated.

    Args:
        cluster: the API server.
        targets: the CRDs: their names, options by name, or a function of the CRD (``in_group``, ``labelled``).
        options: the options for targets without their own; see ``Options.skip`` for its phases. The default is
            everything, with resuming the work of other processes.
        hooks: called for every event, in this order; by default ``log_details`` and ``Events``.
        converters: the converters for CRDs with strategy Webhook, by CRD; by default each CRD's own webhook.
        workers: the number of CRDs that ``run_forever`` migrates concurrently; ``options.rate`` applies to each.
        lease: the Lease that elects one of several processes; None if the embedder has already elected this one.
            Operators with different targets need different leases.
        lease_namespace: the namespace of the Lease; by default the cluster's (the pod's) namespace.
        identity: the identity of this process in the election.
        timing: the timing of the election.
        grace: seconds for writes in flight when ``run_forever`` is cancelled or leadership is lost; less than the time
            between the deadline and the duration in ``timing``.
        progress_s: seconds between two ``progress`` events of a run; the first ones come sooner.
        backoff: the delays after failures and refusals.
        references_s: seconds between two searches for references to versions that can be removed
            (``restow.migrator.references``), with the result in a condition of each CRD; None for no search. One search
            covers all targets. It lists all resources, which needs more rights than a migration.
        controller_hook, election_hook: called for events of the watch and the election, for readiness; must not block.
        clock: gives ``monotonic``, ``now`` and ``sleep``.
        chance: spreads waits; a seeded one makes a run repeatable.

    Raises:
        ValueError: there are no targets, or the options cannot finish a CRD (a dry run, a part of the objects).
    """

    def __init__(
        self,
        cluster: Cluster,
        targets: Targets,
        options: Options | None = None,
        *,
        hooks: Sequence[Hook] | None = None,
        converters: Converters = own_webhook,
        workers: int = 1,
        lease: str | None = "restow-migrator",
        lease_namespace: str | None = None,
        identity: str | None = None,
        timing: LeaseTiming | None = None,
        grace: float = 4.0,
        progress_s: float = 10.0,
        backoff: Backoff = _BACKOFF,
        references_s: float | None = None,
        controller_hook: Callable[[ControllerEvent], None] = _ignore,
        election_hook: Callable[[ElectionEvent], None] = _ignore,
        clock: Clock = SYSTEM_CLOCK,
        chance: random.Random | None = None,
    ) -> None:
        if references_s is not None and not references_s > 0:
            msg = f"references_s is the period of a search in seconds, or None, not {references_s!r}"
            raise ValueError(msg)
        self._cluster = cluster
        # Reads are retried only for a moment, because the next reconcile reads again without blocking a worker.
        self._looking = RetryingCluster(cluster, patience_s=_LOOK_S)
        default = options or Options(resume=True)
        self._choice = choice(targets, default)
        self._hooks = Hooks((log_details, Events(cluster)) if hooks is None else hooks, clock, progress_s)
        self._converters = converters
        self._workers = workers
        self._lease = lease
        self._lease_namespace = lease_namespace
        self._identity = identity or unique_identity()
        self._timing = timing or LeaseTiming()
        self._grace = grace
        self._controller_hook = controller_hook
        self._election_hook = election_hook
        self._clock = clock
        self._chance = chance or random.Random()
        self._memory = Memory(backoff)
        self._searches = None if references_s is None else ReferenceSearches(cluster, references_s, clock)
        self._followers = Followers()
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def run_forever(self) -> None:
        """Watch the CRDs and reconcile the targets, while this process leads; until cancelled.

        On cancellation the migrator starts no further object, finishes writes in flight within ``grace``, and then
        releases the lease, so that another process continues immediately. A loss of leadership has the same effect,
        before another process can lead; this process then stands for election again. The embedder handles signals.

        Raises:
            KubeError: CRDs cannot be watched: RBAC (403), credentials (401).
        """
        if self._lease is None:
            await self._lead()
            return
        elector = LeaderElector(
            self._cluster,
            self._lease,
            self._lease_namespace,
            identity=self._identity,
            timing=self._timing,
            hook=self._election_hook,
            clock=self._clock,
            chance=self._chance.random,
        )
        await elector.run(self._lead)

    async def _lead(self) -> None:
        """Reconcile until cancelled; then end the current runs by ``stop``, long before they are cancelled."""
        stop = asyncio.Event()

        async def reconcile(key: Key) -> ReconcileResult:
            return await self.reconcile(key.name, stop=stop)

        controller = Controller(
            self._cluster,
            CRDS,
            reconcile,
            name="migrator",
            workers=self._workers,
            grace=self._grace,
            hook=self._controller_hook,
            clock=self._clock,
            chance=self._chance.random,
        )
        # Not in a TaskGroup, which would not pass on a second cancellation. This method still awaits its end.
        running = asyncio.ensure_future(controller.run())
        cancelled: asyncio.CancelledError | None = None
        while not running.done():
            try:
                await asyncio.wait((running,))
            except asyncio.CancelledError as error:
                cancelled = error
                stop.set()
                running.cancel()  # it drains; on the second cancellation, when others may lead, it ends immediately
        if cancelled is not None:
            raise cancelled from (None if running.cancelled() else running.exception())
        await running

    async def reconcile(self, crd_name: str, *, stop: asyncio.Event | None = None) -> ReconcileResult:
        """Reconcile one CRD: do the work that is due. Safe to call at any time and any number of times.

        If nothing is due, this costs one read of the CRD, or none if no target has its name. The method raises no error
        of the API server: hooks receive failures, and a later reconcile retries.

        Args:
            crd_name: ``<plural>.<group>``.
            stop: when it is set, the run starts no further object, finishes writes in flight, and returns. A
                cancellation aborts these writes instead, which also loses nothing, but gives no report of the rest.

        Returns:
            When to reconcile again without an event: ``requeue_after`` in seconds, or None.
        """
        if self._choice.excludes(crd_name):
            return _NEVER
        async with self._turns[crd_name]:
            try:
                return await self._reconcile(crd_name, stop or asyncio.Event())
            except (KubeError, CrdError, MigrationRefused) as error:
                return await self._unread(crd_name, error)

    async def _reconcile(self, name: str, stop: asyncio.Event) -> ReconcileResult:
        crd = await self._read(name)
        options = self._choice.options_of(crd) if crd is not None else None
        if crd is None or options is None:
            return await self._forget(name)
        due = due_phases(crd, options, self._memory.proof(name))
        if not due:
            self._memory.calm(name)
            self._followers.forget(crd.uid)
            await self._extend_proof(crd)
            await self._hooks.call(MigrationEvent.IDLE, crd, message="nothing is due")
            return _NEVER if self._searches is None else await self._look(self._searches, crd, stop)
        if (wait := self._memory.wait(crd, self._clock.monotonic())) > 0:
            return ReconcileResult(wait)
        behind, wait = await self._settling(crd, options, due)
        if self._memory.behind_for(name, self._clock.monotonic(), behind=bool(behind)) >= LAG_PATIENCE_S:
            after = self._memory.failed(crd, self._clock.monotonic(), self._chance.random())
            failures = self._memory.failures(name)
            await self._hooks.call(
                MigrationEvent.FAILED, crd, due=due, message=behind, failures=failures, requeue_after=after
            )
            return ReconcileResult(after)
        if wait > 0:
            message = behind or _SETTLING
            await self._hooks.call(MigrationEvent.SETTLING, crd, due=due, message=message, requeue_after=wait)
            return ReconcileResult(wait)
        result = await self._run(crd, options, due, stop)
        if result.requeue_after is None and self._searches is not None:
            return ReconcileResult(self._searches.wait(crd))
        return result

    async def _look(self, searches: ReferenceSearches, crd: Crd, stop: asyncio.Event) -> ReconcileResult:
        """Report the references to the versions of a CRD, once per period."""
        if (wait := searches.wait(crd)) > 0:
            return ReconcileResult(wait)
        found = await searches.take(crd, stop)
        if found is None:
            return ReconcileResult(0.0)
        told = condition(crd, found, self._clock.now())
        if told is not None:
            await write_condition(self._looking, crd, told)
        message = ". ".join(map(standing, found)) or "it has one version"
        wait = searches.wait(crd)
        await self._hooks.call(MigrationEvent.REFERENCES, crd, message=message, references=found, requeue_after=wait)
        return ReconcileResult(wait)

    async def _read(self, name: str) -> Crd | None:
        """Read the CRD; return None if it does not exist."""
        try:
            return await read_crd(self._looking, name)
        except MigrationRefused as error:
            if isinstance(error.__cause__, NotFound):
                return None
            raise

    async def _settling(self, crd: Crd, options: Options, due: tuple[Phase, ...]) -> tuple[str, float]:
        """Return what ``settle.remaining`` says, so that no worker is blocked while requests end."""
        if Phase.STORAGE not in due or not options.settle_s or refusal(crd, options.namespace):
            return "", 0.0
        async with ApiServers(self._looking, options.api_servers) as servers:
            return await remaining(
                servers, self._followers, crd, settle_s=options.settle_s, clock=self._clock.monotonic
            )

    async def _run(self, crd: Crd, options: Options, due: tuple[Phase, ...], stop: asyncio.Event) -> ReconcileResult:
        report = await self._migrate(crd, options, due, stop)
        name, chance = crd.name, self._chance.random()
        after: float | None
        if report.refused:
            after = self._memory.refused(name, chance)
            event, message = MigrationEvent.REFUSED, report.refused
        elif report.complete and _as_asked(report, options):
            after = await self._remember(crd, options, report.proof)
            event, message = MigrationEvent.FINISHED, finding(report)
        elif stop.is_set():
            after = 0.0
            event, message = MigrationEvent.STOPPED, outcome(report)
        else:
            after = self._memory.failed(crd, self._clock.monotonic(), chance)
            event, message = MigrationEvent.FAILED, outcome(report)
        failures = self._memory.failures(name)
        await self._hooks.call(event, crd, report, due=due, message=message, failures=failures, requeue_after=after)
        return ReconcileResult(after)

    async def _migrate(self, crd: Crd, options: Options, due: tuple[Phase, ...], stop: asyncio.Event) -> CrdReport:
        """Run the migration, and meanwhile report its progress to the hooks."""
        run = RunHooks(crd, due)
        migration = Migration(
            self._cluster,
            options,
            observer=run,
            stop=stop,
            converters=self._converters,
            clock=self._clock.monotonic,
            chance=self._chance,
            followers=self._followers,
        )
        error: KubeError | None = None
        async with asyncio.TaskGroup() as group:
            group.create_task(self._hooks.follow(run, self._memory.failures(crd.name)))
            try:
                return await migration.migrate(crd.name)
            except CallbackFailed as broken:
                cause = broken.__cause__
                _log.error("%s: %s: %s", crd.name, broken, describe_failure(cause) if cause is not None else "")
                return broken.reports[-1]
            except KubeError as caught:
                error = caught  # raised below, outside of the group, which would wrap it
            finally:
                run.end()
        raise error

    async def _remember(self, start: Crd, options: Options, proof: str) -> float | None:
        """Remember the proof of a run if nothing is due with it; return when to reconcile again."""
        crd = await self._read(start.name)
        if crd is None or not proof or due_phases(crd, options, proof):
            return 0.0  # the CRD changed, or a run of another process failed, so work may be due
        await self._leave(crd, proof)
        return None

    async def _extend_proof(self, crd: Crd) -> None:
        """Write the proof for the CRD's present generation, because a proof that is two changes old is invalid."""
        proof = extended(what_is_proved(crd, self._memory.proof(crd.name)))
        if proof is not None:
            await self._leave(crd, proof.encode())

    async def _leave(self, crd: Crd, proof: str) -> None:
        """Write a proof on the CRD; without the right, remember it.

        A proof on the CRD is not remembered, so that a restore of etcd removes it together with the objects.
        """
        said = ""
        try:
            said = await annotate(self._looking, crd, {ANNOTATION: proof}, unchanged=True)
        except Conflict:
            _log.debug("%s was written at the same moment: its event comes, and with it the next look", crd.name)
        self._memory.finished(crd.name, proof if said else "")
        if said:
            _log.warning("the proof could not be left on %s (%s): the next process looks again", crd.name, said)

    async def _unread(self, name: str, error: Exception) -> ReconcileResult:
        """Handle a CRD that could not be read, or is malformed."""
        after = self._memory.refused(name, self._chance.random(), at_least=requested_wait(error))
        said = describe_failure(error) if isinstance(error, KubeError) else str(error)
        event = MigrationEvent.FAILED if isinstance(error, KubeError) else MigrationEvent.REFUSED
        failures = self._memory.failures(name)
        await self._hooks.call(event, name, message=said, failures=failures, requeue_after=after)
        return ReconcileResult(after)

    async def _forget(self, name: str) -> ReconcileResult:
        if self._searches is not None:
            self._searches.forget(name)
        if self._memory.forget(name):
            await self._hooks.call(MigrationEvent.FORGOTTEN, name, message="it is gone, or no target any more")
        return _NEVER


def _as_asked(report: CrdReport, options: Options) -> bool:
    """Return whether a complete run also pruned, if the options ask for it."""
    return not options.prunes or report.stored_after == (report.storage_version,)


_SETTLING = "requests that began before the API servers followed the CRD may still be under way"
