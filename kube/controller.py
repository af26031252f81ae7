"""A level-triggered controller: watches → work queue → workers that call the reconciler.

Invariants:

- one worker at a time reconciles a key, and again after every event that came meanwhile;
- the reconciler gets the key of an object, never the event: it reads what it needs, so a lost, repeated or merged event
  makes no difference;
- a failure is retried with back-off and never stops the controller; a source that cannot be watched does;
- when ``run`` is cancelled, no reconcile starts, running ones may finish within ``grace``, and no task is left.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import TypeAlias

from restow.kube.clock import SYSTEM_CLOCK, Clock
from restow.kube.cluster import Cluster
from restow.kube.errors import KubeError, describe_failure, first_error
from restow.kube.listwatch import Interruption, Key, Selection, key_of, watch
from restow.kube.resources import Resource
from restow.kube.retry import Backoff, requested_wait
from restow.kube.watchevents import Added, Bookmark, Deleted, Item, Listed, Modified, WatchEvent
from restow.kube.workqueue import RETRY_BACKOFF, QueueClosed, WorkQueue

_log = logging.getLogger(__name__)

_WALL_CLOCK_EVERY = 60.0  # seconds between two looks at the wall clock
_WALL_CLOCK_STEP = 2.0  # seconds; NTP slews what is less, and a resync costs a reconcile of every object


@dataclass(frozen=True, slots=True)
class ReconcileResult:
    """The result of a successful reconcile; ``requeue_after`` are the seconds until the next one without an event."""

    requeue_after: float | None = None


class ControllerEventType(StrEnum):
    """The type of a ``ControllerEvent``."""

    RECONCILED = "reconciled"
    FAILED = "failed"
    LISTED = "listed"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class ControllerEvent:
    """An event of a controller, for metrics and readiness.

    Attributes:
        controller: the controller's name.
        type: the type of the event.
        queued: the number of waiting keys, due or not.
        running: the number of keys that are being reconciled, with the one that just ended.
        key: RECONCILED, FAILED: the key of the object.
        seconds: RECONCILED, FAILED: how long it took.
        requeue_after: RECONCILED: the reconciler's result; FAILED, INTERRUPTED: the seconds until the next try.
        failures: FAILED, INTERRUPTED: the number of failures in a row.
        error: FAILED, INTERRUPTED: the error; None if a watch was closed as soon as it was opened.
        source: LISTED, INTERRUPTED: the watched objects. After its first LISTED a source is in sync.
    """

    controller: str
    type: ControllerEventType
    queued: int = 0
    running: int = 0
    key: Key | None = None
    seconds: float = 0.0
    requeue_after: float | None = None
    failures: int = 0
    error: BaseException | None = None
    source: Selection | None = None


def _ignore(_details: ControllerEvent) -> None:
    pass


class Controller:
    """Reconciles the objects of one resource. ``run`` can be called again after it has ended.

    Args:
        cluster: the API server, or an informer.
        resource: the resource whose objects are reconciled; only their metadata is watched.
        reconcile: reconciles the object of a key, which may be gone. Any exception is a failure: it is logged and
            retried with back-off, not before a server's ``Retry-After`` (``requested_wait``).
        name: for logs and metrics; the resource's name by default.
        namespace, label_selector, field_selector: select the objects of ``resource``.
        sources: other objects whose events enqueue keys.
        workers: the number of keys that are reconciled at once.
        resync: the seconds after which every key is reconciled again without an event; None for never. Either way,
            all keys are reconciled within a minute after the wall clock was set, or a virtual machine was resumed.
        grace: the seconds that running reconciles get when ``run`` is cancelled. With a leader elector keep it below
            the lease duration minus the renew deadline (5 with client-go's defaults).
        backoff: the delays after failures.
        hook: called with every event; must not block, and what it raises is logged.
        clock: gives all times.
        chance: random numbers from [0, 1).
    """

    def __init__(
        self,
        cluster: Cluster,
        resource: Resource,
        reconcile: Callable[[Key], Awaitable[ReconcileResult]],
        *,
        name: str = "",
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        sources: Sequence[Source] = (),
        workers: int = 1,
        resync: float | None = None,
        grace: float = 4.0,
        backoff: Backoff = RETRY_BACKOFF,
        hook: Callable[[ControllerEvent], None] = _ignore,
        clock: Clock = SYSTEM_CLOCK,
        chance: Callable[[], float] = random.random,
    ) -> None:
        if workers < 1 or (resync is not None and resync <= 0):
            msg = f"a controller needs at least one worker and a positive resync, not {workers} and {resync}"
            raise ValueError(msg)
        self.name = name or resource.full_name
        own = Selection(resource, namespace, label_selector, field_selector, metadata_only=True)
        self._sources = (Source(own, lambda item: (key_of(item),)), *sources)
        self._cluster = cluster
        self._reconcile = reconcile
        self._workers = workers
        self._resync = resync
        self._grace = grace
        self._backoff = backoff
        self._hook = hook
        self._clock = clock
        self._chance = chance

    async def run(self) -> None:
        """Run until cancelled. A second cancellation while reconciles finish cancels them at once.

        Raises:
            KubeError: a source cannot be watched: its resource is not served (404), RBAC (403), credentials (401);
                see ``watch`` for when.
        """
        queue: WorkQueue[Key] = WorkQueue(self._backoff, clock=self._clock, chance=self._chance)
        try:
            async with asyncio.TaskGroup() as workers:
                for number in range(self._workers):
                    workers.create_task(self._work(queue), name=f"{self.name} worker {number}")
                await self._feed_and_drain(queue)
        except BaseExceptionGroup as group:
            raise first_error(group) from None

    async def _feed_and_drain(self, queue: WorkQueue[Key]) -> None:
        asked = _cancellations()
        try:
            async with asyncio.TaskGroup() as sources:
                sources.create_task(_hold_open(queue), name=f"{self.name} queue")
                indexes = [KeyIndex(partial(self._keys_of, source)) for source in self._sources]
                for source, index in zip(self._sources, indexes, strict=True):
                    sources.create_task(self._follow(source, index, queue), name=f"{self.name} {source.selection}")
                sources.create_task(self._resync_forever(indexes[0], queue), name=f"{self.name} resync")
        finally:
            if _cancellations() - asked < 2:
                await self._drain(queue)

    async def _drain(self, queue: WorkQueue[Key]) -> None:
        """Let running reconciles finish; the workers' task group cancels those that do not."""
        try:
            async with asyncio.timeout(self._grace):
                await queue.idle()
        except TimeoutError:
            _log.warning("%s: %d reconciles did not end in %g s and are cancelled", self.name, queue.busy, self._grace)

    async def _follow(self, source: Source, index: KeyIndex, queue: WorkQueue[Key]) -> None:
        def interrupted(interruption: Interruption) -> None:
            details = ControllerEvent(
                self.name,
                ControllerEventType.INTERRUPTED,
                requeue_after=interruption.delay,
                failures=interruption.failures,
                error=interruption.error,
                source=source.selection,
            )
            self._notify(queue, details)

        stream = watch(
            self._cluster,
            source.selection,
            on_interruption=interrupted,
            clock=self._clock,
            chance=self._chance,
        )
        async with stream as events:
            async for event in events:
                for key in index.apply(event):
                    queue.add(key)
                if isinstance(event, Listed):
                    self._notify(queue, ControllerEvent(self.name, ControllerEventType.LISTED, source=source.selection))

    def _keys_of(self, source: Source, item: Item) -> list[Key]:
        """Return the keys of an object; an error of the source's function does not stop the controller."""
        try:
            return list(source.keys_of(item))
        except Exception as error:  # noqa: BLE001 - foreign code
            reason = describe_failure(error)
            _log.error("%s: %s of %s concerns no key: %s", self.name, key_of(item), source.selection, reason)
            return []

    async def _resync_forever(self, index: KeyIndex, queue: WorkQueue[Key]) -> None:
        while True:
            await self._wait_for_resync()
            for key in index.known_keys():
                queue.add(key)

    async def _wait_for_resync(self) -> None:
        """Return when the next resync is due, or once the wall clock was set.

        A reconciler that waits for a time of day asked for a number of seconds, which are wrong after that.
        """
        left = math.inf if self._resync is None else self._resync * (0.9 + 0.2 * self._chance())
        ahead = self._wall_clock_ahead()
        while left > 0:
            part = min(left, _WALL_CLOCK_EVERY)
            await self._clock.sleep(part)
            left -= part
            moved = self._wall_clock_ahead() - ahead
            if abs(moved) > _WALL_CLOCK_STEP:
                _log.info("%s: the clock was set by %+.0f s, so every object is reconciled now", self.name, moved)
                return

    def _wall_clock_ahead(self) -> float:
        """Return by how many seconds the wall clock is ahead of the monotonic one, which nobody sets."""
        return self._clock.now().timestamp() - self._clock.monotonic()

    async def _work(self, queue: WorkQueue[Key]) -> None:
        while True:
            try:
                key = await queue.get()
            except QueueClosed:
                return
            try:
                await self._reconcile_one(key, queue)
            finally:
                queue.done(key)

    async def _reconcile_one(self, key: Key, queue: WorkQueue[Key]) -> None:
        started = self._clock.monotonic()
        try:
            after = (await self._reconcile(key)).requeue_after
        except asyncio.CancelledError as error:
            # A reconciler also raises this if something that it awaited was cancelled.
            if _cancellations():
                raise
            self._failed(key, queue, error, started)
        except Exception as error:  # noqa: BLE001 - foreign code; every error is a failure of this key
            self._failed(key, queue, error, started)
        else:
            queue.forget(key)
            if after is not None:
                queue.add_after(key, after)
            seconds = self._clock.monotonic() - started
            details = ControllerEvent(
                self.name, ControllerEventType.RECONCILED, key=key, seconds=seconds, requeue_after=after
            )
            self._notify(queue, details)

    def _failed(self, key: Key, queue: WorkQueue[Key], error: BaseException, started: float) -> None:
        delay = queue.retry(key, at_least=requested_wait(error))
        failures = queue.failures(key)
        level = logging.WARNING if isinstance(error, KubeError) else logging.ERROR
        reason = describe_failure(error)
        _log.log(level, "%s: %s failed (%d in a row), again in %.1f s: %s", self.name, key, failures, delay, reason)
        details = ControllerEvent(
            self.name,
            ControllerEventType.FAILED,
            key=key,
            seconds=self._clock.monotonic() - started,
            requeue_after=delay,
            failures=failures,
            error=error,
        )
        self._notify(queue, details)

    def _notify(self, queue: WorkQueue[Key], details: ControllerEvent) -> None:
        try:
            self._hook(replace(details, queued=len(queue), running=queue.busy))
        except Exception as broken:  # noqa: BLE001 - foreign code
            _log.error("%s: its hook failed: %s", self.name, describe_failure(broken))


async def _hold_open(queue: WorkQueue[Key]) -> None:
    """Close the queue as soon as the sources are cancelled, so that no worker starts a reconcile meanwhile."""
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        queue.close()


def _cancellations() -> int:
    """Return how often the cancellation of this task was requested."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


KeysOf: TypeAlias = Callable[[Item], Iterable[Key]]


@dataclass(frozen=True, slots=True)
class Source:
    """Other objects whose events enqueue a controller's keys.

    Attributes:
        selection: the objects to watch.
        keys_of: returns the keys to enqueue for an object; a function of the object alone.
    """

    selection: Selection
    keys_of: KeysOf


class KeyIndex:
    """The keys that each object of one source enqueues."""

    def __init__(self, keys_of: KeysOf) -> None:
        self._keys_of = keys_of
        self._known: dict[Key, tuple[Key, ...]] = {}

    def known_keys(self) -> list[Key]:
        """Return all keys of all objects."""
        return _unique(key for keys in self._known.values() for key in keys)

    def apply(self, event: WatchEvent) -> list[Key]:
        """Apply an event; return the keys to enqueue, each once."""
        match event:
            case Listed(items=items):
                before, self._known = (
                    self._known,
                    {key_of(item): tuple(self._keys_of(item)) for item in items},
                )
                return _unique(key for known in (self._known, before) for keys in known.values() for key in keys)
            case Added(item=item) | Modified(item=item):
                own, now = key_of(item), tuple(self._keys_of(item))
                before_it = self._known.get(own, ())
                self._known[own] = now
                return _unique((*now, *before_it))
            case Deleted(item=item):
                return _unique((*self._known.pop(key_of(item), ()), *self._keys_of(item)))
            case Bookmark():
                return []


def _unique(keys: Iterable[Key]) -> list[Key]:
    return list(dict.fromkeys(keys))
