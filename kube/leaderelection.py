"""Leader election on a Lease: one of several processes runs a body; another one takes over when that process is gone.

``next_lease_action`` decides what to do about the lease, without I/O; ``LeaderElector`` does it. Differences from
client-go:

- the body ends before the lease is released, and the lease is kept until then, so a successor never runs at the same
  time;
- each renewal extends two timers around the body, so a request that hangs cannot extend the leadership: at
  ``renew_deadline`` the body is cancelled, and once more when the lease expires for others;
- after a loss ``run`` waits for leadership again, instead of ending the process;
- ``run`` retries errors of the API server and of the network without limit, and never raises them.
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

_log = logging.getLogger(__name__)


def unique_identity() -> str:
    """Return a unique holder identity in client-go's format: the host (the pod's name) and a random part."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


@dataclass(frozen=True, slots=True)
class ElectionEvent:
    """A change of leadership as this process sees it, for metrics.

    Attributes:
        lease: ``namespace/name``.
        identity: this process.
        leading: whether this process leads now.
        transitions: ``spec.leaseTransitions``, the number of changes of the holder.
    """

    lease: str
    identity: str
    leading: bool
    transitions: int


def _ignore(_details: ElectionEvent) -> None:
    pass


class LeaderElector:
    """Runs a body while this process holds a Lease, and only then.

    Needs the verbs get, create and update on leases of the namespace.

    Args:
        cluster: the API server.
        name, namespace: the Lease, which is created if it does not exist. The namespace must exist; it defaults to the
            cluster's default namespace.
        identity: this process; must be unique.
        timing: client-go's by default.
        obstacle: returns why this process may not lead now, empty if it may. It is asked before each request about the
            lease. A leader with an obstacle ends its body and releases the lease.
        hook: called at each change of leadership; must not block, and what it raises is logged.
        clock: gives ``monotonic``, ``now`` and ``sleep``.
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
        obstacle: Callable[[], str] = str,
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
        self._obstacle = obstacle
        self._hook = hook
        self._clock = clock
        self._chance = chance
        self._observed: ObservedLease | None = None
        self._claimed = False

    async def run(self, body: Callable[[], Awaitable[None]]) -> None:
        """Wait for leadership, then run ``body``; return when ``body`` returns, and raise what it raises.

        When leadership is lost, ``body`` is cancelled, and called again once this process leads again. When ``run``
        is cancelled, ``body`` is cancelled first; the lease is kept until ``body`` has ended, then released.
        """
        self._notify(leading=False)  # a process that never leads is a replica in the metrics too
        try:
            while True:
                since = await self._acquire()
                if await self._lead(body, since):
                    return
                if self._obstacle():
                    await self._release()
        finally:
            await self._release()

    async def _acquire(self) -> float:
        """Try until this process holds the lease; return the time just before the write was sent."""
        while True:
            await self._wait_for_obstacle()
            attempt = await self._try(None, self._timing.renew_deadline)
            if attempt is not None and attempt.decision is not LeaseAction.WAIT:
                _log.info("%s: %s leads", self._lease, self._identity)
                self._notify(leading=True)
                return attempt.at
            await self._clock.sleep(self._timing.wait(self._chance()))

    async def _wait_for_obstacle(self) -> None:
        """Wait until this process may lead."""
        if why := self._obstacle():
            _log.warning("%s: %s does not try to lead: %s", self._lease, self._identity, why)
        while self._obstacle():
            await self._clock.sleep(self._timing.retry_period)

    async def _lead(self, body: Callable[[], Awaitable[None]], since: float) -> bool:
        """Run the body while leading; return False if leadership was lost."""
        failure: Exception | None = None
        deadline = LeadershipDeadline(self._timing, self._clock)
        try:
            async with asyncio.TaskGroup() as group:
                renewal = group.create_task(self._renew(deadline, since), name=f"{self._lease} renewal")
                try:
                    await deadline.run(body, since)
                except Exception as error:  # noqa: BLE001 - raised below, out of the group that would wrap it
                    failure = error
                finally:
                    renewal.cancel()
        finally:
            self._notify(leading=False)
        if deadline.lost:
            _log.warning("%s: %s lost the lead and its work was cancelled", self._lease, self._identity)
        if deadline.overrun:
            _log.error("%s: the work of %s did not end before others could lead", self._lease, self._identity)
        if failure is not None and not (deadline.lost and isinstance(failure, TimeoutError)):
            raise failure
        return not deadline.lost

    async def _renew(self, deadline: LeadershipDeadline, renewed_at: float) -> None:
        """Renew until cancelled; end the leadership immediately if another process holds the lease.

        A try has half of the deadline, as in controller-runtime: a request on a connection whose server has vanished
        must leave time for another one. The time that a failed try took counts as a part of the wait for the next.
        """
        wait = self._timing.retry_period
        while True:
            await self._clock.sleep(wait)
            if why := self._obstacle():
                _log.warning("%s: %s gives up the lead: %s", self._lease, self._identity, why)
                deadline.end()
                return
            begun = self._clock.monotonic()
            attempt = await self._try(renewed_at, self._timing.renew_deadline / 2)
            wait = self._timing.retry_period
            if attempt is None:
                wait = max(0.0, wait - (self._clock.monotonic() - begun))
                continue
            if attempt.decision is LeaseAction.LOST:
                deadline.end()
                return
            renewed_at = attempt.at
            deadline.extend(renewed_at)

    async def _try(self, renewed_at: float | None, seconds: float) -> _Attempt | None:
        """Read the lease and act on it; return what was done, or None if that failed or took too long."""
        try:
            async with asyncio.timeout(seconds):
                return await self._act(renewed_at)
        except (KubeError, TimeoutError) as error:
            _log.warning("%s: %s", self._lease, _reason(error))
            return None

    async def _act(self, renewed_at: float | None) -> _Attempt:
        # Our own last write need not be read: if another process wrote since, the server refuses the next write.
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
        """Release the lease if it is ours, so that others can lead immediately.

        It tries for half of the deadline: a process that was asked to end has other goodbyes to say, and may be killed.
        """
        if not self._claimed:
            return
        self._claimed = False
        try:
            async with asyncio.timeout(self._timing.renew_deadline / 2):
                while not await self._released():
                    pass
        except (KubeError, TimeoutError) as error:
            _log.warning("%s: not released, so it has to expire: %s", self._lease, _reason(error))
        self._lease.ours = False  # another process may hold it when this one leads again

    async def _released(self) -> bool:
        """Release the lease if it is ours; return False if it changed in between and has to be read again.

        A renewal that was cancelled may reach the server before the read, between the read and the write, or never.
        So only a read shows whether the lease is ours, and only the server knows whether it has changed since.
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

    def _notify(self, *, leading: bool) -> None:
        transitions = (self._observed.record.lease_transitions or 0) if self._observed is not None else 0
        try:
            self._hook(ElectionEvent(self._lease.key, self._identity, leading, transitions))
        except Exception as broken:  # noqa: BLE001 - foreign code
            _log.error("%s: the hook failed: %s", self._lease, describe_failure(broken))


@dataclass(frozen=True, slots=True)
class _Attempt:
    """What was done about the lease, and the monotonic time of the decision."""

    decision: LeaseAction
    at: float


def _reason(error: Exception) -> str:
    return describe_failure(error) if isinstance(error, KubeError) else "no answer in time"


_JITTER = 1.2  # client-go's JitterFactor: a waiting process tries every 1 to 2.2 periods


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """The three times of an election, in seconds; client-go's defaults.

    Attributes:
        lease_duration: how long other processes wait after the last renewal that they saw; whole seconds.
        renew_deadline: how long the leader continues without a successful renewal.
        retry_period: the time between two tries.

    Raises:
        ValueError: a leader could outlive its lease, or would have no time for a second try.
    """

    lease_duration: int = 15
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def __post_init__(self) -> None:
        if not (self.lease_duration > self.renew_deadline > _JITTER * self.retry_period > 0):
            msg = f"{self}: needs lease_duration > renew_deadline > {_JITTER} * retry_period > 0"
            raise ValueError(msg)

    def wait(self, chance: float) -> float:
        """Return the seconds until a waiting process tries again; ``chance`` is a random number from [0, 1)."""
        return self.retry_period * (1 + _JITTER * chance)


class LeaseRecord(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The fields of coordination.k8s.io/v1 ``LeaseSpec`` that elections use; times as written."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


@dataclass(frozen=True, slots=True)
class ObservedLease:
    """A lease as last read, and the monotonic time at which it was first seen in this state."""

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
    """Return the lease after a read, or None if there is none. An unchanged record keeps its age."""
    if record is None:
        return None
    return before if before is not None and before.record == record else ObservedLease(record, now)


def next_lease_action(
    observed: ObservedLease | None, *, identity: str, renewed_at: float | None, now: float, timing: LeaseTiming
) -> LeaseAction:
    """Return what ``identity`` has to do about the lease.

    A leader that has not renewed within ``renew_deadline``, or whose lease another process holds, has lost. Without a
    lease it is created. A lease that is released, or that has not changed for its duration, is acquired; all others
    wait. Expiry counts from when this process saw the last change, so that clocks need not agree.

    Args:
        observed: the lease as last read, or None if there is none.
        identity: this process.
        renewed_at: the time just before this process's last successful write was sent, or None if it does not lead.
        now: the time; all times are seconds of this process's monotonic clock.
        timing: the times of the election.
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
    """Return the record to write for CREATE, ACQUIRE and RENEW; ``now`` is the wall clock, for people only."""
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
    """Return the record that lets another process take over immediately."""
    time = micro_time(now)
    return LeaseRecord(
        holder_identity="",
        lease_duration_seconds=1,
        acquire_time=time,
        renew_time=time,
        lease_transitions=held.lease_transitions or 0,
    )


class Lease:
    """The Lease object. Fields that elections do not use (labels, owners, …) are written back as read."""

    def __init__(self, cluster: Cluster, name: str, namespace: str) -> None:
        self._cluster = cluster
        self._name = name
        self._namespace = namespace
        self._document: dict[str, Any] | None = None
        self.ours = False
        """Whether the document is the reply to our own last write."""

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return qualified_name(self._namespace, self._name)

    def __str__(self) -> str:
        return f"lease {self.key}"

    async def read(self) -> LeaseRecord | None:
        """Read the lease; return None if there is none."""
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
        """Create the lease, or update the last state that was read or written.

        Raises:
            Conflict: the lease has changed since, or another process has created it.
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
    """The time for which this process may lead: two timers around the body, extended by each renewal."""

    def __init__(self, timing: LeaseTiming, clock: Clock) -> None:
        self._timing = timing
        self._clock = clock
        self._leading = asyncio.timeout(None)
        self._protected = asyncio.timeout(None)

    @property
    def lost(self) -> bool:
        """Whether the body was cancelled because the lease was not renewed in time or another process holds it."""
        return self._leading.expired()

    @property
    def overrun(self) -> bool:
        """Whether the body still ran when other processes could take the lease, and was cancelled again."""
        return self._protected.expired()

    async def run(self, body: Callable[[], Awaitable[None]], since: float) -> None:
        """Run the body.

        Raises:
            TimeoutError: the body was cancelled because leadership was lost.
        """
        async with self._protected, self._leading:
            self.extend(since)
            await body()

    def extend(self, renewed_at: float) -> None:
        """Extend the timers after a renewal that was sent at ``renewed_at``."""
        if not self.lost:
            offset = asyncio.get_running_loop().time() - self._clock.monotonic()
            self._leading.reschedule(offset + renewed_at + self._timing.renew_deadline)
            self._protected.reschedule(offset + renewed_at + self._timing.lease_duration)

    def end(self) -> None:
        """Cancel the body now."""
        if not self.lost:
            self._leading.reschedule(asyncio.get_running_loop().time())
