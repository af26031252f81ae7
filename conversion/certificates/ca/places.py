"""All objects that name one webhook: read, watched and wired together, while CRDs come and go.

The cost has to grow with the number of changes, not with the number of CRDs:

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
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from restow.conversion.certificates.ca.rotation import ObservedBundle
from restow.conversion.certificates.ca.targets import WiringTarget
from restow.conversion.certificates.wiring.clientconfig import Bundle
from restow.conversion.model.errors import WiringError, WiringProblem
from restow.crds import CrdError
from restow.kube import Cluster, KubeError, Resource
from restow.kube.clock import SYSTEM_CLOCK, Clock
from restow.kube.errors import Forbidden, describe_failure
from restow.kube.listwatch import Selection, watch
from restow.kube.watchevents import Added, Deleted, Item, Listed, Modified, WatchEvent

_log = logging.getLogger(__name__)

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


class Places:
    """The objects that name a webhook.

    Args:
        cluster: the API server.
        name: the name of the webhook, for the log.
        targets: the objects from the start on.
        every: the resources of which all objects may be listed and watched.
        poll: the most seconds until a change of an object that cannot be watched is noticed, for the log.
        clock: the clock for all waiting.
        chance: random numbers from [0, 1).
    """

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        targets: Iterable[WiringTarget],
        *,
        every: Collection[Resource] = (),
        poll: float,
        clock: Clock = SYSTEM_CLOCK,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._cluster = cluster
        self._name = name
        self._targets: dict[tuple[str, str], WiringTarget] = {_key(each): each for each in targets}
        self._every = frozenset(every)
        self._poll = poll
        self._clock = clock
        self._chance = chance
        self._woken = asyncio.Event()
        self._group: asyncio.TaskGroup | None = None
        self._watching: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._writing = asyncio.Lock()
        self._seen: set[Resource] = set()  # resources that a common watch shows now

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
        if resource in self._every:
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
        ends = self._clock.monotonic() + seconds
        while (left := ends - self._clock.monotonic()) > 0 and await self._woken_within(left):
            await self._clock.sleep(_SPREAD * self._chance())
            self._woken.clear()
            if any(each.is_undone or not each.is_tried for each in self._targets.values()):
                return

    async def _woken_within(self, seconds: float) -> bool:
        async def passes() -> None:
            await self._clock.sleep(seconds)

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
                stream = watch(self._cluster, selection, clock=self._clock, chance=self._chance)
                async with stream as events:
                    async for event in events:
                        if tell(event):
                            self._woken.set()
            except Exception as error:  # noqa: BLE001 - looking goes on without
                _log.warning(
                    "%s: %s cannot be watched, so that it takes up to %g s until a change of it is noticed: %s",
                    self._name,
                    what,
                    self._poll,
                    describe_failure(error),
                )
            finally:
                tell(None)
            await self._clock.sleep(_WATCH_AGAIN)


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
