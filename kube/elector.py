"""Leader election on a Lease: one of several processes runs a body, another one takes over when it is gone.

What to do is decided by ``restow.kube.election``. Where this differs from client-go's shell:

- the body ends before the lease is released, so a successor never meets it; meanwhile the lease is kept;
- leadership is a pair of timers that each renewal pushes out, so even a request that hangs cannot prolong it: at
  ``renew_deadline`` the body is cancelled, and once more, harder, when others may take the lease;
- after a loss ``run`` stands for election again, instead of ending the process;
- errors of the API server and of the network are retried for ever and never leave ``run``.
"""

from __future__ import annotations

import asyncio
import logging
import random
import socket
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from restow.kube.clock import SYSTEM_CLOCK, Clock
from restow.kube.cluster import Cluster
from restow.kube.election import Decision, LeaseTiming, Observed, decide, observe, release, take
from restow.kube.errors import Conflict, KubeError
from restow.kube.failures import describe_failure
from restow.kube.lease import Lease
from restow.kube.tenure import Tenure

__all__ = ["ElectionDetails", "LeaderElector", "unique_identity"]

_log = logging.getLogger(__name__)


def unique_identity() -> str:
    """Return a holder identity that no other process has: host (the pod's name) and a random part, as client-go."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


@dataclass(frozen=True, slots=True)
class ElectionDetails:
    """A change of leadership as this process sees it, for metrics.

    Attributes:
        lease: ``namespace/name``.
        identity: this process.
        leading: whether it leads now.
        transitions: ``spec.leaseTransitions``: how often the lease went from one holder to another.
    """

    lease: str
    identity: str
    leading: bool
    transitions: int


def _ignore(_details: ElectionDetails) -> None:
    pass


class LeaderElector:
    """Runs a body for as long as, and only while, this process holds a Lease.

    Needs the verbs get, create and update on leases of the namespace.

    Args:
        cluster: where.
        name, namespace: the Lease; created where it does not exist. The namespace is the cluster's default one
            unless given, and must exist.
        identity: who we are; no two processes may have the same.
        timing: client-go's by default.
        hook: told of each change; must not block, and what it raises is logged.
        clock: its ``monotonic``, ``now`` and ``sleep``.
        chance: random numbers from [0, 1).
    """

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        namespace: str | None = None,
        *,
        identity: str,
        timing: LeaseTiming | None = None,
        hook: Callable[[ElectionDetails], None] = _ignore,
        clock: Clock = SYSTEM_CLOCK,
        chance: Callable[[], float] = random.random,
    ) -> None:
        if not identity:
            msg = "a leader needs an identity that no other process has; see unique_identity()"
            raise ValueError(msg)
        self._lease = Lease(cluster, name, namespace or cluster.default_namespace)
        self._identity = identity
        self._timing = timing or LeaseTiming()
        self._hook = hook
        self._clock = clock
        self._chance = chance
        self._observed: Observed | None = None
        self._claimed = False

    async def run(self, body: Callable[[], Awaitable[None]]) -> None:
        """Wait for leadership, then run ``body``; return when it ends by itself, raise what it raises.

        On loss of leadership ``body`` is cancelled, and called anew once this process leads again. When ``run``
        itself is cancelled, ``body`` is cancelled first, the lease is kept until it has ended, then released.
        """
        self._tell(leading=False)  # who never led counts too, when somebody asks whether any replica does
        try:
            while True:
                since = await self._stand()
                if await self._lead(body, since):
                    return
        finally:
            await self._release()

    async def _stand(self) -> float:
        """Try until this process holds the lease; return since when (just before the write was sent)."""
        while True:
            turn = await self._try(None)
            if turn is not None and turn.decision is not Decision.WAIT:
                _log.info("%s: %s leads", self._lease, self._identity)
                self._tell(leading=True)
                return turn.at
            await self._clock.sleep(self._timing.wait(self._chance()))

    async def _lead(self, body: Callable[[], Awaitable[None]], since: float) -> bool:
        """Run the body while leading; return whether it ended by itself, and not because leadership was lost."""
        failure: Exception | None = None
        tenure = Tenure(self._timing, self._clock)
        try:
            async with asyncio.TaskGroup() as group:
                keeper = group.create_task(self._keep(tenure, since), name=f"{self._lease} renewal")
                try:
                    await tenure.run(body, since)
                except Exception as error:  # noqa: BLE001 - raised below, out of the group that would wrap it
                    failure = error
                finally:
                    keeper.cancel()
        finally:
            self._tell(leading=False)
        if tenure.lost:
            _log.warning("%s: %s lost the lead and its work was cancelled", self._lease, self._identity)
        if tenure.overrun:
            _log.error("%s: the work of %s did not end before others could lead", self._lease, self._identity)
        if failure is not None and not (tenure.lost and isinstance(failure, TimeoutError)):
            raise failure
        return not tenure.lost

    async def _keep(self, tenure: Tenure, renewed_at: float) -> None:
        """Renew until cancelled; end the tenure at once if the lease is someone else's."""
        while True:
            await self._clock.sleep(self._timing.retry_period)
            turn = await self._try(renewed_at)
            if turn is None:
                continue
            if turn.decision is Decision.LOST:
                tenure.end()
                return
            renewed_at = turn.at
            tenure.prolong(renewed_at)

    async def _try(self, renewed_at: float | None) -> _Turn | None:
        """Look at the lease and do what is to be done; return it, or None where that failed."""
        try:
            async with asyncio.timeout(self._timing.renew_deadline):
                return await self._turn(renewed_at)
        except (KubeError, TimeoutError) as error:
            _log.warning("%s: %s", self._lease, _reason(error))
            return None

    async def _turn(self, renewed_at: float | None) -> _Turn:
        # What was written last needs no reading: if anyone wrote since, the server refuses the next write.
        if not self._lease.ours:
            self._observed = observe(self._observed, await self._lease.read(), self._clock.monotonic())
        identity, timing, now = self._identity, self._timing, self._clock.monotonic()
        decision = decide(self._observed, identity=identity, renewed_at=renewed_at, now=now, timing=timing)
        if decision not in (Decision.WAIT, Decision.LOST):
            record = take(self._observed, identity=identity, now=self._clock.now(), timing=timing)
            self._claimed = True
            await self._lease.write(record)
            self._observed = Observed(record, now)
        return _Turn(decision, now)

    async def _release(self) -> None:
        """Let others lead at once, if the lease is ours; best effort, with the patience of a renewal."""
        if not self._claimed:
            return
        self._claimed = False
        try:
            async with asyncio.timeout(self._timing.renew_deadline):
                while not await self._released():
                    pass
        except (KubeError, TimeoutError) as error:
            _log.warning("%s: not released, so it has to expire: %s", self._lease, _reason(error))

    async def _released(self) -> bool:
        """Give the lease up if it is ours; return False where it changed in between, so that it has to be read again.

        A renewal that was cut off half-way may reach the server before the read, between the read and the write, or
        never: only a read tells whether the lease is ours, and only the server whether it still is as it was read.
        """
        record = await self._lease.read()
        if record is None or record.holder_identity != self._identity:
            return True
        try:
            await self._lease.write(release(record, self._clock.now()))
        except Conflict:
            return False
        _log.info("%s: released by %s", self._lease, self._identity)
        return True

    def _tell(self, *, leading: bool) -> None:
        transitions = (self._observed.record.lease_transitions or 0) if self._observed is not None else 0
        try:
            self._hook(ElectionDetails(self._lease.key, self._identity, leading, transitions))
        except Exception as broken:  # noqa: BLE001 - foreign code
            _log.error("%s: the hook failed: %s", self._lease, describe_failure(broken))


@dataclass(frozen=True, slots=True)
class _Turn:
    """What was done about the lease, and when it was decided, on the monotonic clock."""

    decision: Decision
    at: float


def _reason(error: Exception) -> str:
    return describe_failure(error) if isinstance(error, KubeError) else "no answer in time"
