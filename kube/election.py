"""Who may lead: the rules of client-go's leader election as functions of what was seen and when. Pure.

A lease's holder keeps renewing it. Others take it over once it has not changed for its duration **since they first
saw it so, on their own monotonic clock**: no clock is ever compared with another machine's, so clocks may be wrong
as long as they run at about the same rate. A leader gives up ``renew_deadline`` after the moment before it sent its
last successful renewal, which is earlier than anyone else can have seen it; since the deadline is shorter than the
duration, two never lead at once. The source: client-go ``tools/leaderelection`` and its package comment.

============  ===========================================  ====================================================
leading       the lease                                    decision
============  ===========================================  ====================================================
yes           (renewed ``renew_deadline`` ago or longer)   LOST
yes           ours                                         RENEW
yes           someone else's, or released by force         LOST
no            ours: of a former life of this process       ACQUIRE
no            without a holder: released                   ACQUIRE
no            someone else's, changed within its duration  WAIT
no            someone else's, unchanged for its duration   ACQUIRE
either        there is none                                CREATE
============  ===========================================  ====================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum

import msgspec

from restow.kube.clock import micro_time

__all__ = ["Decision", "LeaseRecord", "LeaseTiming", "Observed", "decide", "observe", "release", "take"]

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
class Observed:
    """A lease as it was last read, and since when (own monotonic clock, seconds) it has been seen like this."""

    record: LeaseRecord
    since: float


class Decision(Enum):
    """What to do about a lease now."""

    CREATE = "create"
    ACQUIRE = "acquire"
    RENEW = "renew"
    WAIT = "wait"
    LOST = "lost"


def observe(before: Observed | None, record: LeaseRecord | None, now: float) -> Observed | None:
    """Return what is known after a read; None if there is no lease. An unchanged record keeps its age."""
    if record is None:
        return None
    return before if before is not None and before.record == record else Observed(record, now)


def decide(
    observed: Observed | None, *, identity: str, renewed_at: float | None, now: float, timing: LeaseTiming
) -> Decision:
    """Return what ``identity`` has to do; see the module's table.

    ``renewed_at`` is the time just before this process's last successful write was sent, or None if it does not
    lead. Times are seconds of this process's monotonic clock.
    """
    leading = renewed_at is not None
    if renewed_at is not None and now - renewed_at >= timing.renew_deadline:
        return Decision.LOST
    if observed is None:
        return Decision.CREATE
    record = observed.record
    if record.holder_identity == identity:
        return Decision.RENEW if leading else Decision.ACQUIRE
    if leading:
        return Decision.LOST
    if not record.holder_identity or now - observed.since >= (record.lease_duration_seconds or 0):
        return Decision.ACQUIRE
    return Decision.WAIT


def take(observed: Observed | None, *, identity: str, now: datetime, timing: LeaseTiming) -> LeaseRecord:
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


def release(held: LeaseRecord, now: datetime) -> LeaseRecord:
    """Return the record that lets anyone else take over at once."""
    time = micro_time(now)
    return LeaseRecord(
        holder_identity="",
        lease_duration_seconds=1,
        acquire_time=time,
        renew_time=time,
        lease_transitions=held.lease_transitions or 0,
    )
