"""What the requests of a run depend on (``Environment``), and its early end (``RunStop``).

A run stops early on a request from outside (SIGTERM), or because it can no longer succeed.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TypeAlias

from restow.crds import Crd
from restow.kube.cluster import Cluster
from restow.kube.retry import jittered
from restow.migrator.model.converter import Converter
from restow.migrator.model.report import Waits


class RunStop:
    """A flag with a reason, and sleeps that end when the flag is set.

    Attributes:
        waits: the current sleeps, for a progress display.
        now: the monotonic clock of the run.
        final: whether the run cannot continue at all.
        unreachable: what was unreachable for too long, if that is the reason; else empty.

    Args:
        requested: set from outside to end the run: it starts no further object and finishes writes in flight.
        clock: a monotonic clock, in seconds.
    """

    def __init__(self, requested: asyncio.Event | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.waits = Waits(clock)
        self._requested = requested or asyncio.Event()
        self._raised = asyncio.Event()
        self._why = ""
        self.final = False
        self.unreachable = ""
        self.now = clock

    def __bool__(self) -> bool:
        return self._raised.is_set() or self._requested.is_set()

    @property
    def why(self) -> str:
        """The reason, a sentence; empty while the flag is not set."""
        if self._why or not self._requested.is_set():
            return self._why
        return "the run was asked to stop"

    def because(self, why: str, *, final: bool = False, unreachable: str = "") -> None:
        """Set the flag; the first reason stays."""
        if not self._why:
            self._why, self.final, self.unreachable = why, final, unreachable
        self._raised.set()

    async def wait(self) -> None:
        """Return once the flag is set."""
        async with asyncio.TaskGroup() as group:
            waits = [group.create_task(event.wait()) for event in (self._raised, self._requested)]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for each in waits:
                each.cancel()

    @asynccontextmanager
    async def limit(self, grace_s: float) -> AsyncIterator[None]:
        """Cancel a block when the flag has been set for this many seconds.

        Raises:
            TimeoutError: the block was cancelled.
        """
        async with asyncio.timeout(None) as limit, asyncio.TaskGroup() as group:
            guard = group.create_task(self._reschedule(limit, grace_s))
            yield
            guard.cancel()

    async def _reschedule(self, limit: asyncio.Timeout, grace_s: float) -> None:
        await self.wait()
        limit.reschedule(asyncio.get_running_loop().time() + grace_s)

    async def sleep(self, seconds: float, what: str = "") -> None:
        """Sleep, or return immediately when the flag is set.

        Args:
            seconds: the duration.
            what: the purpose for ``waits``; see ``restow.migrator.model.report.again``.
        """
        if seconds <= 0 or self:
            return
        with self.waits.on(what, seconds) if what else nullcontext():
            try:
                async with asyncio.timeout(seconds):
                    await self.wait()
            except TimeoutError:
                return


Converters: TypeAlias = Callable[[Crd], Converter | None]
"""Gives the converter for a CRD, or None for its own webhook."""

LONGEST_WAIT = 2.0
"""Seconds between attempts, also where the server asks for more: a user waits for the answer, and giving up after the
few attempts loses nothing."""


def own_webhook(_crd: Crd) -> None:
    """Choose the CRD's own webhook, for every CRD."""


@dataclass(frozen=True, slots=True)
class Environment:
    """The dependencies of a run: API server, clock, chance and converters.

    Attributes:
        cluster: the API server.
        stop: requested to end the run early.
        clock: a monotonic clock, in seconds.
        random: spreads waits; seeded in tests.
        converters: choose the converter of a CRD with strategy Webhook.
        longest_wait: the longest wait, in seconds.
        longest_patience_s: the longest wait for the end of an outage, in seconds, after the usual attempts.
    """

    cluster: Cluster
    stop: RunStop
    clock: Callable[[], float]
    random: random.Random = field(default_factory=random.Random)
    converters: Converters = own_webhook
    longest_wait: float = math.inf
    longest_patience_s: float = math.inf

    @classmethod
    def brief(cls, cluster: Cluster) -> Environment:
        """Return the environment of a command whose user waits for the reply."""
        return cls(cluster, RunStop(), time.monotonic, longest_wait=LONGEST_WAIT, longest_patience_s=0.0)

    def jitter(self, seconds: float) -> float:
        """Return a wait with jitter, cut to ``longest_wait``."""
        return min(self.longest_wait, jittered(seconds, self.random))

    def converter(self, crd: Crd) -> Converter | None:
        """Return the converter of a CRD's objects; None for its own webhook.

        Raises:
            MigrationRefused: the embedder's converter does not fit the CRD.
        """
        return self.converters(crd) if crd.strategy != "None" else None
