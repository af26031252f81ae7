"""The common base of all keepers of a webhook's certificates: a loop that wires CRDs and reports the state.

The objects that name the webhook are read, watched and wired together, while CRDs come and go. The cost has to grow
with the number of changes, not with the number of CRDs:

- a few objects are watched one by one, which needs rights on these alone; more objects share one watch of all objects
  of their resource (``every``);
- objects whose state a watch has shown are not read again, except a few of them at each look, in case the watch has
  died unnoticed;
- an object is added or removed without touching the others.
"""

from __future__ import annotations

import asyncio
import logging
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from restow.conversion.certificates.apply import WiredConfiguration, WiredCrd, WiredObject, resource_of
from restow.conversion.certificates.ca.authority import CertificateError
from restow.conversion.certificates.ca.rotation import ObservedBundle, RotationStep
from restow.conversion.certificates.ca.targets import NewSentences, WiringTarget
from restow.conversion.certificates.probe import HookProbe, Probe, probe_hook
from restow.conversion.certificates.probe import probe as probe_crd
from restow.conversion.certificates.wiring.clientconfig import Address, Bundle
from restow.conversion.certificates.wiring.crd import resource_of_definition
from restow.conversion.model.errors import WiringError, WiringProblem
from restow.crds import CrdError
from restow.kube import Cluster, KubeError, Resource
from restow.kube.clock import SYSTEM_CLOCK, Clock
from restow.kube.errors import Forbidden, describe_failure
from restow.kube.listwatch import Selection, watch
from restow.kube.retry import Backoff
from restow.kube.watchevents import Added, Deleted, Listed, Modified, WatchEvent
from restow.kube.workqueue import WorkQueue

_log = logging.getLogger(__name__)

BACKOFF: Final = Backoff(first=1.0, most=30.0)
"""The back-off after failed looks."""

_LOOK: Final = "look"  # the only key of the queue
_WATCH_AGAIN: Final = 300.0  # seconds until a refused watch is retried
_SPREAD: Final = 0.2  # seconds over which the replicas react to a change: most find it repaired
_READ_AGAIN: Final = 16  # watched objects that are read again at each look


@dataclass(frozen=True, slots=True)
class CertificateDetails:
    """The state after one look, for metrics and readiness.

    Attributes:
        taken: the steps that this replica took.
        leaf_ends, authority_ends: the end of validity of the served certificate and of the signing CA; None if
            unknown.
        wired: CRDs, and webhook configurations (``<kind> <name>``), whose bundle is correct.
        problems: why objects could not be wired.
        unwired: CRDs and webhook configurations whose bundle is not known to be correct.
        in_conflict: those whose wiring another writer undoes repeatedly.
        writes: how often this replica has written one of them since it started.
        failure: why the certificates could not be kept, a sentence; empty if they could.
    """

    taken: tuple[RotationStep, ...]
    leaf_ends: datetime | None
    authority_ends: datetime | None
    wired: tuple[str, ...]
    problems: tuple[WiringProblem, ...]
    unwired: tuple[str, ...] = ()
    in_conflict: tuple[str, ...] = ()
    writes: int = 0
    failure: str = ""


def _ignore(_details: CertificateDetails) -> None:
    pass


@dataclass(slots=True)
class Look:
    """The result of one look, and of the wiring after it.

    Attributes:
        usable: the objects that could be read.
        seen: their bundles.
        problems: why the others could not be read, and why objects could not be wired.
        wired: the names of the correctly wired objects.
        changed: whether anything was written.
    """

    usable: list[WiringTarget] = field(default_factory=list)
    seen: list[ObservedBundle] = field(default_factory=list)
    problems: list[WiringProblem] = field(default_factory=list)
    wired: list[str] = field(default_factory=list)
    changed: bool = False

    def fails(self, target: WiringTarget, error: Exception) -> None:
        """Record that reading or writing an object raised an error."""
        lacks_right = isinstance(error, Forbidden) and error.by_authorizer
        self.problems.append(WiringProblem(target.wired.object_name, str(error), lacks_right))


@dataclass(slots=True, eq=False)
class Places:
    """The objects that name a webhook, by resource and name."""

    _targets: dict[tuple[str, str], WiringTarget] = field(default_factory=dict)
    _shown: set[Selection] = field(default_factory=set)  # what a watch shows now
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def targets(self) -> tuple[WiringTarget, ...]:
        """The objects."""
        return tuple(self._targets.values())

    @property
    def is_due(self) -> bool:
        """Whether an object has to be wired, as far as watches show."""
        return any(each.is_undone or not each.is_tried for each in self._targets.values())

    def add(self, target: WiringTarget) -> bool:
        """Add an object, and return True; if it is already there, the existing target stays."""
        if self._targets.setdefault(target.key, target) is not target:
            return False
        target.is_watched = target.selection in self._shown
        return True

    async def remove(self, resource: Resource, name: str) -> None:
        """Remove an object; return once no write to it is in progress."""
        if self._targets.pop((resource.plural, name), None) is not None:
            async with self._writing:
                pass  # waits for a write in progress

    def notice(self, selection: Selection, event: WatchEvent | None) -> bool:
        """Pass an event to the objects, None for the end of a watch; return whether one of them has to be wired."""
        match event:
            case Added(item=item) | Modified(item=item) | Deleted(item=item):
                target = self._targets.get((selection.resource.plural, item.metadata.name))
                document = None if isinstance(event, Deleted) or target is None else item.json()
                return target is not None and target.notice(document)
            case Listed(items=items):
                self._shown.add(selection)
                listed = {item.metadata.name: item for item in items}
                undone = []
                for each in self._watched_by(selection):
                    each.is_watched = True
                    found = listed.get(each.wired.object_name)
                    undone.append(each.notice(None if found is None else found.json()))
                return any(undone)
            case None:
                self._shown.discard(selection)
                for each in self._watched_by(selection):
                    each.is_watched = False
        return False

    def _watched_by(self, selection: Selection) -> list[WiringTarget]:
        return [each for each in self._targets.values() if each.selection == selection]

    async def look(self, *, fully: bool = False, tolerant: bool = False) -> Look:
        """Return the usable objects, their bundles, and the problems of the others.

        An object that a watch shows is not read, unless ``fully`` is set or it is the object's turn.

        Raises:
            KubeError: the API server refuses a request, or cannot be reached. ``tolerant``: that is a problem of the
                object, too.
        """
        found, turns = Look(), _READ_AGAIN
        for key, each in list(self._targets.items()):
            if key not in self._targets:
                continue  # removed meanwhile
            known = each.is_known and not fully
            if known and turns:
                self._targets[key] = self._targets.pop(key)  # to the end of the queue, so that each gets its turn
                turns, known = turns - 1, False
            try:
                found.seen += each.observed if known else await each.look()
            except (WiringError, CrdError, KubeError) as error:
                if isinstance(error, KubeError) and not tolerant:
                    raise
                found.fails(each, error)
            else:
                found.usable.append(each)
        return found

    async def wire(self, look: Look, wanted: Bundle, dropped: Bundle) -> None:
        """Wire the usable objects of a look."""
        for each in look.usable:
            if each.is_done(wanted, dropped):
                look.wired.append(each.name)
                continue
            async with self._writing:
                if each.key not in self._targets:
                    continue  # removed meanwhile
                try:
                    look.changed |= await each.wire(wanted, dropped)
                except (WiringError, CrdError, KubeError) as error:
                    look.fails(each, error)
                else:
                    look.wired.append(each.name)


@dataclass(eq=False)
class CertificateKeeper(ABC):
    """Keeps the certificates of one webhook, and wires its CRDs and webhook configurations.

    Args:
        cluster: the API server with the CRDs and webhook configurations.
        name: the name of the certificate, for the log.
        folder: the folder for the certificate and key that the server reads, as ``tls.crt`` and ``tls.key``.
        crds: the CRDs to wire, by name, each with the address of its webhook; None for the address that the CRD
            already has.
        configurations: the webhook configurations of admission to keep installed, as documents: each webhook with its
            address and without ``caBundle``.
        every: the resources of which all objects may be listed and watched (CRDs, or webhook configurations); for many
            objects this is far cheaper than one by one.
        poll: the most seconds between two looks.
        probe, hook_probe: probe the webhook before a CRD, or a webhook configuration, is written.
        hook: called after each look, also after failed ones; must not block or raise.
        clock: its ``now``, ``monotonic`` and ``sleep``.
        chance: random numbers from [0, 1), for back-off.
    """

    cluster: Cluster
    name: str
    _: KW_ONLY
    folder: Path
    crds: Mapping[str, Address | None] = field(default_factory=dict)
    configurations: Iterable[Mapping[str, Any]] = ()
    every: Collection[Resource] = ()
    poll: float = 30.0
    probe: Probe = probe_crd
    hook_probe: HookProbe = probe_hook
    hook: Callable[[CertificateDetails], None] = _ignore
    clock: Clock = SYSTEM_CLOCK
    chance: Callable[[], float] = random.random

    def __post_init__(self) -> None:
        self._places = Places()
        self._new_among = NewSentences()
        self._planned = 0.0  # when the next look is due by the clock alone
        self._queue: WorkQueue[str] | None = None
        self._group: asyncio.TaskGroup | None = None
        self._watching: dict[Selection, asyncio.Task[None]] = {}
        for name, address in self.crds.items():
            self.keep(name, address)
        for wanted in self.configurations:
            self.keep_configuration(wanted)

    @abstractmethod
    async def prepare(self) -> None:
        """Return once the folder holds a certificate; a server has to wait for this before it can listen."""

    @abstractmethod
    async def reconcile(self) -> float:
        """Do everything that is due now; return the seconds until more is due, unless the cluster changes."""

    @abstractmethod
    def _failed(self, error: Exception) -> None:
        """Report that ``reconcile`` raised an error."""

    async def run_forever(self) -> None:
        """Look, act and wait, until cancelled; look at once if a watch shows that an object has to be wired.

        Failures are reported and retried.
        """
        queue: WorkQueue[str] = WorkQueue(BACKOFF, clock=self.clock, chance=self.chance)
        queue.add(_LOOK)
        self._queue = queue
        async with asyncio.TaskGroup() as group:
            try:
                self._watch_in(group)
                while True:
                    await self._next_look(queue)
            finally:
                self._queue = self._group = None
                self._watching.clear()

    def _watch_in(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        for each in self._places.targets:
            self._begin_watch(each)

    async def _next_look(self, queue: WorkQueue[str]) -> None:
        await queue.get()
        now = self.clock.monotonic()
        if now < self._planned and not self._places.is_due:
            delay = self._planned - now  # what woke this replica is repaired by another one
        else:
            delay = await self._delay_after_look(queue)
            self._planned = self.clock.monotonic() + delay
        queue.add_after(_LOOK, delay)
        queue.done(_LOOK)

    async def _delay_after_look(self, queue: WorkQueue[str]) -> float:
        try:
            delay = await self.reconcile()
        except Exception as error:  # noqa: BLE001 - whatever it is, the next look may go well
            self._failed(error)
            delay = queue.retry(_LOOK)
        else:
            queue.forget(_LOOK)
        return min(delay, self.poll)

    def _begin_watch(self, target: WiringTarget) -> None:
        """Watch an object alone, or all of its resource, unless they are watched already."""
        if self._group is not None and target.selection not in self._watching:
            self._watching[target.selection] = self._group.create_task(self._watch(target.selection))

    async def _watch(self, selection: Selection) -> None:
        """Have the next look soon after a change of an object that has to be wired."""
        what = f"{selection.resource.plural} {selection.field_selector.partition('=')[2]}".rstrip()
        while True:
            try:
                async with watch(self.cluster, selection, clock=self.clock, chance=self.chance) as events:
                    async for event in events:
                        if self._places.notice(selection, event):
                            self._look_soon()
            except Exception as error:  # noqa: BLE001 - looking goes on without
                _log.warning(
                    "%s: %s cannot be watched, so that it takes up to %g s until a change of it is noticed: %s",
                    self.name,
                    what,
                    self.poll,
                    describe_failure(error),
                )
            finally:
                self._places.notice(selection, None)
            await self.clock.sleep(_WATCH_AGAIN)

    def _look_soon(self) -> None:
        if self._queue is not None:
            self._queue.add_after(_LOOK, _SPREAD * self.chance())

    def keep(
        self, crd: str, address: Address | None, composite: str = "", replaces: Mapping[str, Any] | None = None
    ) -> None:
        """Wire one more CRD from now on.

        ``composite`` is the apiVersion of the CompositeResourceDefinition from which Crossplane makes it, if it does.
        ``replaces`` is the ``spec.conversion`` with another project's webhook that may be replaced, whole.
        """
        now = self.clock.now
        self._add(WiredCrd(crd, address, composite=composite, replaces=replaces, probe=self.probe, now=now))

    def keep_configuration(self, wanted: Mapping[str, Any]) -> None:
        """Keep one more webhook configuration from now on; ``wanted`` is a document as in ``configurations``."""
        self._add(WiredConfiguration(wanted, probe=self.hook_probe))

    def _add(self, wired: WiredObject[Any]) -> None:
        selection = self._selection(wired.resource, wired.object_name)
        target = WiringTarget(self.cluster, wired, selection, self.clock.now)
        if self._places.add(target):
            self._begin_watch(target)
            self._look_soon()

    async def release(self, crd: str, composite: str = "") -> None:
        """Stop wiring a CRD; return once no write to it is in progress. Its current fields stay."""
        await self._remove(resource_of_definition(composite), crd)

    async def release_configuration(self, wanted: Mapping[str, Any]) -> None:
        """Stop keeping a configuration; return once no write to it is in progress. Its current fields stay."""
        await self._remove(resource_of(wanted["kind"]), wanted["metadata"]["name"])

    async def _remove(self, resource: Resource, name: str) -> None:
        selection = self._selection(resource, name)
        if resource not in self.every and (task := self._watching.pop(selection, None)) is not None:
            task.cancel()
        await self._places.remove(resource, name)

    def _selection(self, resource: Resource, name: str) -> Selection:
        """Return what to watch for an object: all objects of its resource, or it alone."""
        return Selection(resource, field_selector="" if resource in self.every else f"metadata.name={name}")

    def _not_kept(self, error: Exception) -> str:
        told = str(error) if isinstance(error, CertificateError | OSError) else describe_failure(error)
        return f"the certificate {self.name} cannot be kept: {told}"

    def _log_problems(self, sentences: Iterable[str]) -> None:
        for sentence in self._new_among(sentences):
            _log.warning("%s: %s", self.name, sentence)

    def _report(
        self,
        look: Look,
        *,
        leaf_ends: datetime | None,
        authority_ends: datetime | None = None,
        taken: tuple[RotationStep, ...] = (),
        failure: str = "",
    ) -> None:
        """Log the problems of a look, and call the hook."""
        self._log_problems((*([failure] if failure else []), *(each.said for each in look.problems)))
        targets, named = self._places.targets, frozenset(look.wired)
        details = CertificateDetails(
            taken,
            leaf_ends,
            authority_ends,
            tuple(look.wired),
            tuple(look.problems),
            unwired=tuple(each.name for each in targets if each.name not in named),
            in_conflict=tuple(each.name for each in targets if each.is_in_conflict),
            writes=sum(each.writes for each in targets),
            failure=failure,
        )
        self.hook(details)
