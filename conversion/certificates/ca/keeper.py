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
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Final, TypedDict

from restow.conversion.certificates.apply import resource_of
from restow.conversion.certificates.ca.authority import CertificateError
from restow.conversion.certificates.ca.rotation import ObservedBundle, RotationStep
from restow.conversion.certificates.ca.targets import ConfigurationTarget, CrdTarget, NewSentences, WiringTarget
from restow.conversion.certificates.probe import HookProbe, Probe, probe, probe_hook
from restow.conversion.certificates.wiring.clientconfig import Address, Bundle
from restow.conversion.certificates.wiring.crd import resource_of_definition
from restow.conversion.model.errors import WiringError, WiringProblem
from restow.crds import CrdError
from restow.kube import Cluster, KubeError, Resource
from restow.kube.clock import SYSTEM_CLOCK, Clock
from restow.kube.errors import Forbidden, describe_failure
from restow.kube.listwatch import Selection, watch
from restow.kube.retry import Backoff
from restow.kube.watchevents import Added, Deleted, Item, Listed, Modified, WatchEvent

_log = logging.getLogger(__name__)

BACKOFF: Final = Backoff(first=1.0, most=30.0)
"""The back-off after failed looks."""


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


class KeeperOptions(TypedDict, total=False):
    """What both keepers take.

    Attributes:
        crds: the CRDs to wire, by name, each with the address of its webhook; None for the address that the CRD
            already has.
        configurations: the webhook configurations of admission to keep installed, as documents: each webhook with its
            address and without ``caBundle``.
        former_names: the names that an earlier release gave to configurations, by their names now; these old
            configurations are removed.
        every: the resources of which all objects may be listed and watched (CRDs, or webhook configurations); for many
            objects this is far cheaper than one by one.
        poll: the most seconds between two looks.
        probe, hook_probe: probe the webhook before a CRD, or a webhook configuration, is written.
        hook: called after each look, also after failed ones; must not block or raise.
        clock: its ``now`` and ``sleep``.
        chance: random numbers from [0, 1), for back-off.
    """

    crds: Mapping[str, Address | None]
    configurations: Iterable[Mapping[str, Any]]
    former_names: Mapping[str, str]
    every: Collection[Resource]
    poll: float
    probe: Probe
    hook_probe: HookProbe
    hook: Callable[[CertificateDetails], None]
    clock: Clock
    chance: Callable[[], float]


_WATCH_AGAIN: Final = 300.0  # seconds until a refused watch is retried
_SPREAD: Final = 0.2  # seconds over which the replicas react to a change: most find it repaired
_READ_AGAIN: Final = 16  # watched objects that are read again at each look


def problem_of(target: WiringTarget, error: Exception) -> WiringProblem:
    """Return the problem of an object whose look or write raised an error."""
    lacks_right = isinstance(error, Forbidden) and error.by_authorizer
    return WiringProblem(target.object_name, str(error), lacks_right)


@dataclass(slots=True)
class Look:
    """The result of one look: usable objects, their bundles, and the problems of the others."""

    usable: list[WiringTarget] = field(default_factory=list)
    seen: list[ObservedBundle] = field(default_factory=list)
    problems: list[WiringProblem] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Places:
    """The objects that name a webhook, by resource and name; the other attributes are those of the keeper."""

    cluster: Cluster
    name: str
    every: Collection[Resource]
    poll: float
    clock: Clock
    chance: Callable[[], float]
    _targets: dict[tuple[str, str], WiringTarget]
    _woken: asyncio.Event = field(default_factory=asyncio.Event)
    _group: asyncio.TaskGroup | None = None
    _watching: dict[tuple[str, str], asyncio.Task[None]] = field(default_factory=dict)
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock)
    _seen: set[Resource] = field(default_factory=set)  # resources that a common watch shows now

    @property
    def targets(self) -> tuple[WiringTarget, ...]:
        """The objects."""
        return tuple(self._targets.values())

    def add(self, target: WiringTarget) -> None:
        """Add an object; if it is already there, the existing target stays."""
        key = _key(target)
        if key in self._targets:
            return
        self._targets[key] = target
        target.is_watched = target.selection.resource in self._seen
        self._begin_watch(target)
        self._woken.set()

    async def remove(self, resource: Resource, name: str) -> None:
        """Remove an object; return once no write to it is in progress."""
        if self._targets.pop((resource.plural, name), None) is None:
            return
        if (task := self._watching.pop((resource.plural, name), None)) is not None:
            task.cancel()
        async with self._writing:
            pass  # waits for a write in progress

    async def watch_forever(self) -> None:
        """Watch the objects until cancelled, so that ``pause`` ends as soon as one has to be wired."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                for each in self.targets:
                    self._begin_watch(each)
                await asyncio.get_running_loop().create_future()
            finally:
                self._group = None
                self._watching.clear()

    def _begin_watch(self, target: WiringTarget) -> None:
        """Watch an object alone, or all of its resource, unless they are watched already."""
        if self._group is None:
            return
        resource = target.selection.resource
        key, selection, what = _key(target), target.selection, target.name
        tell = partial(_tell, lambda: (target,), lambda _name: target)
        if resource in self.every:
            key, selection, what = (resource.plural, ""), Selection(resource), resource.plural
            tell = partial(self._tell_all, resource)
        if key not in self._watching:
            self._watching[key] = self._group.create_task(self._watch(selection, tell, what))

    def _tell_all(self, resource: Resource, event: WatchEvent | None) -> bool:
        (self._seen.discard if event is None else self._seen.add)(resource)
        plural = resource.plural

        def every() -> Iterable[WiringTarget]:
            return [each for (of, _), each in self._targets.items() if of == plural]

        return _tell(every, lambda name: self._targets.get((plural, name)), event)

    async def look(self, *, fully: bool = False) -> Look:
        """Return the usable objects, their bundles, and the problems of the others.

        An object that a watch shows is not read, unless ``fully`` is set or it is the object's turn.

        Raises:
            KubeError: the API server refuses a request, or cannot be reached.
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
            except (WiringError, CrdError) as error:
                found.problems.append(problem_of(each, error))
            else:
                found.usable.append(each)
        return found

    async def wire(
        self, targets: Iterable[WiringTarget], wanted: Bundle, dropped: Bundle
    ) -> tuple[tuple[str, ...], tuple[WiringProblem, ...], bool]:
        """Wire objects; return the correctly wired ones, the problems, and whether anything was written."""
        wired: list[str] = []
        problems: list[WiringProblem] = []
        changed = False
        for each in targets:
            if each.is_done(wanted, dropped):
                wired.append(each.name)
                continue
            async with self._writing:
                if _key(each) not in self._targets:
                    continue  # removed meanwhile
                try:
                    changed |= await each.wire(wanted, dropped)
                except (WiringError, CrdError, KubeError) as error:
                    problems.append(problem_of(each, error))
                else:
                    wired.append(each.name)
        return tuple(wired), tuple(problems), changed

    async def pause(self, seconds: float) -> None:
        """Wait, but not after an object has to be wired."""
        ends = self.clock.monotonic() + seconds
        while (left := ends - self.clock.monotonic()) > 0 and await self._woken_within(left):
            await self.clock.sleep(_SPREAD * self.chance())
            self._woken.clear()
            if any(each.is_undone or not each.is_tried for each in self._targets.values()):
                return

    async def _woken_within(self, seconds: float) -> bool:
        async def passes() -> None:
            await self.clock.sleep(seconds)

        async with asyncio.TaskGroup() as group:
            woken, passed = group.create_task(self._woken.wait()), group.create_task(passes())
            await asyncio.wait((woken, passed), return_when=asyncio.FIRST_COMPLETED)
            woken.cancel()
            passed.cancel()
        return self._woken.is_set()

    async def _watch(self, selection: Selection, tell: Callable[[WatchEvent | None], bool], what: str) -> None:
        """Wake ``pause`` after a change of an object that has to be wired."""
        while True:
            try:
                stream = watch(self.cluster, selection, clock=self.clock, chance=self.chance)
                async with stream as events:
                    async for event in events:
                        if tell(event):
                            self._woken.set()
            except Exception as error:  # noqa: BLE001 - looking goes on without
                _log.warning(
                    "%s: %s cannot be watched, so that it takes up to %g s until a change of it is noticed: %s",
                    self.name,
                    what,
                    self.poll,
                    describe_failure(error),
                )
            finally:
                tell(None)
            await self.clock.sleep(_WATCH_AGAIN)


def _tell(
    every: Callable[[], Iterable[WiringTarget]],
    named: Callable[[str], WiringTarget | None],
    event: WatchEvent | None,
) -> bool:
    """Pass an event to the targets, None for the end of the watch; return whether one of them has to be wired."""
    match event:
        case None:
            for each in every():
                each.is_watched = False
        case Listed(items=items):
            found = {item.metadata.name: item for item in items}
            undone = []
            for each in every():
                each.is_watched = True
                undone.append(each.notice(_document(found.get(each.object_name))))
            return any(undone)
        case Added(item=item) | Modified(item=item) | Deleted(item=item):
            target = named(item.metadata.name)
            return target is not None and target.notice(None if isinstance(event, Deleted) else _document(item))
    return False


def _document(item: Item | None) -> Mapping[str, object] | None:
    return None if item is None else item.json()


def _key(target: WiringTarget) -> tuple[str, str]:
    return target.selection.resource.plural, target.object_name


class CertificateKeeper(ABC):
    """Keeps the certificates of one webhook, and wires its CRDs and webhook configurations.

    ``name`` is the name of the certificate, for the log; the other arguments are ``KeeperOptions``.
    """

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        *,
        poll: float,
        crds: Mapping[str, Address | None] = {},
        configurations: Iterable[Mapping[str, Any]] = (),
        former_names: Mapping[str, str] = {},
        every: Collection[Resource] = (),
        probe: Probe = probe,
        hook_probe: HookProbe = probe_hook,
        hook: Callable[[CertificateDetails], None] = _ignore,
        clock: Clock = SYSTEM_CLOCK,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._cluster = cluster
        self._name = name
        self._poll = poll
        self._probe = probe
        self._hook_probe = hook_probe
        self._hook = hook
        self._clock = clock
        self._chance = chance
        targets: list[WiringTarget] = [self._crd(crd, address) for crd, address in crds.items()]
        targets += [self._configuration(each, former_names) for each in configurations]
        by_key = {_key(each): each for each in targets}
        self._places = Places(cluster, name, frozenset(every), poll, clock, chance, by_key)
        self._new_among = NewSentences()

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
        """Look, act and wait, until cancelled. Failures are reported and retried."""
        failures = 0
        async with asyncio.TaskGroup() as group:
            group.create_task(self._places.watch_forever(), name="watch what is wired")
            while True:
                try:
                    delay = await self.reconcile()
                    failures = 0
                except Exception as error:  # noqa: BLE001 - whatever it is, the next look may go well
                    failures += 1
                    delay = BACKOFF.delay(failures, self._chance())
                    self._failed(error)
                await self._places.pause(min(delay, self._poll))

    def keep(
        self, crd: str, address: Address | None, composite: str = "", replaces: Mapping[str, Any] | None = None
    ) -> None:
        """Wire one more CRD from now on.

        ``composite`` is the apiVersion of the CompositeResourceDefinition from which Crossplane makes it, if it does.
        ``replaces`` is the ``spec.conversion`` with another project's webhook that may be replaced, whole.
        """
        self._places.add(self._crd(crd, address, composite=composite, replaces=replaces))

    async def release(self, crd: str, composite: str = "") -> None:
        """Stop wiring a CRD; return once no write to it is in progress. Its current fields stay."""
        await self._places.remove(resource_of_definition(composite), crd)

    def keep_configuration(self, wanted: Mapping[str, Any]) -> None:
        """Keep one more webhook configuration from now on; ``wanted`` is a document as in ``configurations``."""
        self._places.add(self._configuration(wanted))

    async def release_configuration(self, wanted: Mapping[str, Any]) -> None:
        """Stop keeping a configuration; return once no write to it is in progress. Its current fields stay."""
        await self._places.remove(resource_of(wanted["kind"]), wanted["metadata"]["name"])

    def _crd(self, name: str, address: Address | None, **more: Any) -> CrdTarget:
        return CrdTarget(self._cluster, name, address, probe=self._probe, now=self._clock.now, **more)

    def _configuration(self, wanted: Mapping[str, Any], former_names: Mapping[str, str] = {}) -> ConfigurationTarget:
        former = former_names.get(wanted["metadata"]["name"], "")
        return ConfigurationTarget(self._cluster, wanted, former=former, probe=self._hook_probe, now=self._clock.now)

    def _not_kept(self, error: Exception) -> str:
        told = str(error) if isinstance(error, CertificateError | OSError) else describe_failure(error)
        return f"the certificate {self._name} cannot be kept: {told}"

    def _log_problems(self, sentences: Iterable[str]) -> None:
        for sentence in self._new_among(sentences):
            _log.warning("%s: %s", self._name, sentence)

    def _call_hook(
        self,
        wired: tuple[str, ...],
        problems: tuple[WiringProblem, ...],
        *,
        leaf_ends: datetime | None,
        authority_ends: datetime | None = None,
        taken: tuple[RotationStep, ...] = (),
        failure: str = "",
    ) -> None:
        """Call the hook with the state after a look."""
        targets, named = self._places.targets, frozenset(wired)
        details = CertificateDetails(
            taken,
            leaf_ends,
            authority_ends,
            wired,
            problems,
            unwired=tuple(each.name for each in targets if each.name not in named),
            in_conflict=tuple(each.name for each in targets if each.is_in_conflict),
            writes=sum(each.writes for each in targets),
            failure=failure,
        )
        self._hook(details)
