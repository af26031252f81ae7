"""Leader election on a Lease: one of several processes runs a body, another one takes over when it is gone.

What to do is decided by ``restow.kube.leaderelection``. Where this differs from client-go's shell:

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
from datetime import datetime
from enum import Enum
from typing import Any

import msgspec

from restow.kube.clock import SYSTEM_CLOCK, Clock, micro_time
from restow.kube.cluster import Cluster
from restow.kube.errors import Conflict, KubeError, NotFound, describe_failure
from restow.kube.resources import LEASES, qualified_name

__all__ = [
    "ElectionEvent",
    "LeaderElector",
    "LeadershipDeadline",
    "Lease",
    "LeaseAction",
    "LeaseRecord",
    "LeaseTiming",
    "ObservedLease",
    "held_record",
    "next_lease_action",
    "observe_lease",
    "released_record",
    "unique_identity",
]


_log = logging.getLogger(__name__)


def unique_identity() -> str:
    """Return a holder identity that no other process has: host (the pod's name) and a random part, as client-go."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


@dataclass(frozen=True, slots=True)
class ElectionEvent:
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


def _ignore(_details: ElectionEvent) -> None:
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
        hook: Callable[[ElectionEvent], None] = _ignore,
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
        self._observed: ObservedLease | None = None
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
            if turn is not None and turn.decision is not LeaseAction.WAIT:
                _log.info("%s: %s leads", self._lease, self._identity)
                self._tell(leading=True)
                return turn.at
            await self._clock.sleep(self._timing.wait(self._chance()))

    async def _lead(self, body: Callable[[], Awaitable[None]], since: float) -> bool:
        """Run the body while leading; return whether it ended by itself, and not because leadership was lost."""
        failure: Exception | None = None
        tenure = LeadershipDeadline(self._timing, self._clock)
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

    async def _keep(self, tenure: LeadershipDeadline, renewed_at: float) -> None:
        """Renew until cancelled; end the tenure at once if the lease is someone else's."""
        while True:
            await self._clock.sleep(self._timing.retry_period)
            turn = await self._try(renewed_at)
            if turn is None:
                continue
            if turn.decision is LeaseAction.LOST:
                tenure.end()
                return
            renewed_at = turn.at
            tenure.prolong(renewed_at)

    async def _try(self, renewed_at: float | None) -> _Attempt | None:
        """Look at the lease and do what is to be done; return it, or None where that failed."""
        try:
            async with asyncio.timeout(self._timing.renew_deadline):
                return await self._turn(renewed_at)
        except (KubeError, TimeoutError) as error:
            _log.warning("%s: %s", self._lease, _reason(error))
            return None

    async def _turn(self, renewed_at: float | None) -> _Attempt:
        # What was written last needs no reading: if anyone wrote since, the server refuses the next write.
        if not self._lease.ours:
            self._observed = observe_lease(self._observed, await self._lease.read(), self._clock.monotonic())
        identity, timing, now = self._identity, self._timing, self._clock.monotonic()
        decision = next_lease_action(self._observed, identity=identity, renewed_at=renewed_at, now=now, timing=timing)
        if decision not in (LeaseAction.WAIT, LeaseAction.LOST):
            record = held_record(self._observed, identity=identity, now=self._clock.now(), timing=timing)
            self._claimed = True
            await self._lease.write(record)
            self._observed = ObservedLease(record, now)
        return _Attempt(decision, now)

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
            await self._lease.write(released_record(record, self._clock.now()))
        except Conflict:
            return False
        _log.info("%s: released by %s", self._lease, self._identity)
        return True

    def _tell(self, *, leading: bool) -> None:
        transitions = (self._observed.record.lease_transitions or 0) if self._observed is not None else 0
        try:
            self._hook(ElectionEvent(self._lease.key, self._identity, leading, transitions))
        except Exception as broken:  # noqa: BLE001 - foreign code
            _log.error("%s: the hook failed: %s", self._lease, describe_failure(broken))


@dataclass(frozen=True, slots=True)
class _Attempt:
    """What was done about the lease, and when it was decided, on the monotonic clock."""

    decision: LeaseAction
    at: float


def _reason(error: Exception) -> str:
    return describe_failure(error) if isinstance(error, KubeError) else "no answer in time"


_JITTER = 1.2  # client-go's JitterFactor: those who wait ask every 1 to 2.2 periods


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """The three times of an election, in seconds; client-go's defaults.

    Attributes:
        lease_duration: how long others wait after the last renewal that they saw; whole seconds on the wire.
        renew_deadline: how long the leader goes on without a successful renewal.
        retry_period: between two tries.

    Raises:
        ValueError: a leader could outlive its lease, or would have no second try.
    """

    lease_duration: int = 15
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def __post_init__(self) -> None:
        if not (self.lease_duration > self.renew_deadline > _JITTER * self.retry_period > 0):
            msg = f"{self}: needs lease_duration > renew_deadline > {_JITTER} * retry_period > 0"
            raise ValueError(msg)

    def wait(self, chance: float) -> float:
        """Return the seconds until one who waits tries again; ``chance`` is a random number from [0, 1)."""
        return self.retry_period * (1 + _JITTER * chance)


class LeaseRecord(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """``LeaseSpec`` of coordination.k8s.io/v1, as far as elections use it; times as written."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


@dataclass(frozen=True, slots=True)
class ObservedLease:
    """A lease as it was last read, and since when (own monotonic clock, seconds) it has been seen like this."""

    record: LeaseRecord
    since: float


class LeaseAction(Enum):
    """What to do about a lease now."""

    CREATE = "create"
    ACQUIRE = "acquire"
    RENEW = "renew"
    WAIT = "wait"
    LOST = "lost"


def observe_lease(before: ObservedLease | None, record: LeaseRecord | None, now: float) -> ObservedLease | None:
    """Return what is known after a read; None if there is no lease. An unchanged record keeps its age."""
    if record is None:
        return None
    return before if before is not None and before.record == record else ObservedLease(record, now)


def next_lease_action(
    observed: ObservedLease | None, *, identity: str, renewed_at: float | None, now: float, timing: LeaseTiming
) -> LeaseAction:
    """Return what ``identity`` has to do; see the module's table.

    ``renewed_at`` is the time just before this process's last successful write was sent, or None if it does not
    lead. Times are seconds of this process's monotonic clock.
    """
    leading = renewed_at is not None
    if renewed_at is not None and now - renewed_at >= timing.renew_deadline:
        return LeaseAction.LOST
    if observed is None:
        return LeaseAction.CREATE
    record = observed.record
    if record.holder_identity == identity:
        return LeaseAction.RENEW if leading else LeaseAction.ACQUIRE
    if leading:
        return LeaseAction.LOST
    if not record.holder_identity or now - observed.since >= (record.lease_duration_seconds or 0):
        return LeaseAction.ACQUIRE
    return LeaseAction.WAIT


def held_record(observed: ObservedLease | None, *, identity: str, now: datetime, timing: LeaseTiming) -> LeaseRecord:
    """Return the record to write for CREATE, ACQUIRE and RENEW; ``now`` is the wall clock, for readers only."""
    before = observed.record if observed is not None else LeaseRecord(holder_identity=identity)
    ours = before.holder_identity == identity
    time = micro_time(now)
    return LeaseRecord(
        holder_identity=identity,
        lease_duration_seconds=timing.lease_duration,
        acquire_time=(before.acquire_time if ours else None) or time,
        renew_time=time,
        lease_transitions=(before.lease_transitions or 0) + (not ours),
    )


def released_record(held: LeaseRecord, now: datetime) -> LeaseRecord:
    """Return the record that lets anyone else take over at once."""
    time = micro_time(now)
    return LeaseRecord(
        holder_identity="",
        lease_duration_seconds=1,
        acquire_time=time,
        renew_time=time,
        lease_transitions=held.lease_transitions or 0,
    )


class Lease:
    """The Lease object. What elections do not use of it (labels, owners, …) is written back as it was read."""

    def __init__(self, cluster: Cluster, name: str, namespace: str) -> None:
        self._cluster = cluster
        self._name = name
        self._namespace = namespace
        self._document: dict[str, Any] | None = None
        self.ours = False
        """Whether the document is the answer to our own last write."""

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return qualified_name(self._namespace, self._name)

    def __str__(self) -> str:
        return f"lease {self.key}"

    async def read(self) -> LeaseRecord | None:
        """Return what the lease says, or None if there is none."""
        self.ours = False
        try:
            reply = await self._cluster.get(LEASES, self._name, self._namespace)
        except NotFound:
            self._document = None
            return None
        lease = reply.decode(_lease)
        self._document = reply.decode(_document)
        return lease.spec

    async def write(self, record: LeaseRecord) -> None:
        """Create the lease, or update it as it was last read or written.

        Raises:
            Conflict: it is not so any more.
        """
        self.ours = False
        spec = msgspec.to_builtins(record)
        if self._document is None:
            new = {
                "apiVersion": LEASES.api_version,
                "kind": "Lease",
                "metadata": {"name": self._name, "namespace": self._namespace},
                "spec": spec,
            }
            reply = await self._cluster.create(LEASES, msgspec.json.encode(new), self._namespace)
        else:
            changed = self._document | {"spec": (self._document.get("spec") or {}) | spec}
            reply = await self._cluster.replace(LEASES, self._name, msgspec.json.encode(changed), self._namespace)
        self._document = reply.decode(_document)
        self.ours = True


class _LeaseObject(msgspec.Struct, frozen=True):
    spec: LeaseRecord = msgspec.field(default_factory=LeaseRecord)


_lease = msgspec.json.Decoder(_LeaseObject)
_document = msgspec.json.Decoder(dict[str, Any])


class LeadershipDeadline:
    """The time for which this process may lead: two timers around the body, pushed out by each renewal."""

    def __init__(self, timing: LeaseTiming, clock: Clock) -> None:
        self._timing = timing
        self._clock = clock
        self._leading = asyncio.timeout(None)
        self._protected = asyncio.timeout(None)

    @property
    def lost(self) -> bool:
        """Whether the body was cancelled because the lease was not renewed in time, or is someone else's."""
        return self._leading.expired()

    @property
    def overrun(self) -> bool:
        """Whether the body still ran when others could take the lease, and was cancelled once more."""
        return self._protected.expired()

    async def run(self, body: Callable[[], Awaitable[None]], since: float) -> None:
        """Run the body.

        Raises:
            TimeoutError: it was cancelled for the loss.
        """
        async with self._protected, self._leading:
            self.prolong(since)
            await body()

    def prolong(self, renewed_at: float) -> None:
        """Push the timers out after a renewal that was sent at ``renewed_at``."""
        if not self.lost:
            offset = asyncio.get_running_loop().time() - self._clock.monotonic()
            self._leading.reschedule(offset + renewed_at + self._timing.renew_deadline)
            self._protected.reschedule(offset + renewed_at + self._timing.lease_duration)

    def end(self) -> None:
        """Cancel the body now."""
        if not self.lost:
            self._leading.reschedule(asyncio.get_running_loop().time())
