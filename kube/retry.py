"""Retries: ``RetryingCluster`` sends a request again while its error is temporary, within a budget of time.

- The wait grows with each failure (``Backoff``), is at least the server's ``Retry-After`` (``requested_wait``), and
  ends early when a ``Stop`` is requested.
- A write with a precondition whose outcome is unknown is not sent again: the caller gets ``OutcomeUnknown``, reads the
  object and decides.
- A 401 is retried once the credentials have worked. A 403 is retried while the API server may not have read its RBAC
  rules: after an outage, or if the same request was allowed before.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from restow.kube.cluster import Cluster, Reply, Request
from restow.kube.errors import (
    ApiError,
    ConfigError,
    CredentialsExpired,
    Forbidden,
    KubeError,
    OutcomeUnknown,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
    read_json,
)

LONGEST_RETRY_AFTER_S = 60.0
"""The longest ``Retry-After`` that is obeyed, in seconds. API servers ask for seconds; a proxy or a mistake that asks
for hours would hold a run or a controller without a trace, and one request a minute burdens no server."""

_MOST_DOUBLINGS = 63  # keeps the power finite after any number of failures


def requested_wait(error: BaseException | None) -> float:
    """Return the seconds for which a server asks to be left alone after an error: its ``Retry-After``, with a bound.

    It is 0 where the server does not ask. Every wait after an error is the longer one of this and of the caller's own
    back-off, as in client-go (``rest/with_retry.go``, ``WaitBeforeRetry``); the bound is ``LONGEST_RETRY_AFTER_S``.
    """
    asked = error.retry_after if isinstance(error, ApiError) else None
    return min(asked or 0.0, LONGEST_RETRY_AFTER_S)


def jittered(wait: float, chance: random.Random) -> float:
    """Return a wait with jitter, so that clients that failed together do not return together.

    The result lies between the wait and one and a half of it. It is never shorter, because the wait may be the server's
    ``Retry-After``.
    """
    return chance.uniform(wait, 1.5 * wait)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential back-off in seconds: ``first`` after one failure, ``factor`` times more after each, ``most`` at most.

    Raises:
        ValueError: ``first`` is not positive, exceeds ``most``, or ``factor`` is below 1.
    """

    first: float
    most: float
    factor: float = 2.0

    def __post_init__(self) -> None:
        if not (0 < self.first <= self.most and self.factor >= 1):
            msg = f"{self}: needs 0 < first <= most and factor >= 1"
            raise ValueError(msg)

    def delay(self, failures: int, chance: float, at_least: float = 0.0) -> float:
        """Return the seconds to wait after ``failures`` failures in a row; without a failure, ``at_least``.

        Args:
            failures: the number of failures in a row.
            chance: a random number from [0, 1): the back-off lies between half of the delay and all of it; 1 for all.
            at_least: what the server asked for; see ``requested_wait``.
        """
        if failures <= 0:
            return at_least
        whole = min(self.most, self.first * self.factor ** min(failures - 1, _MOST_DOUBLINGS))
        return max(at_least, whole * (0.5 + 0.5 * chance))


_log = logging.getLogger(__name__)

READ_PATIENCE_S = 30.0
"""The retry budget, in seconds, of reads for which a person or a caller waits and that lose nothing when they fail."""

_BACKOFF = Backoff(first=0.5, most=15.0)
_STARTING_S = 30.0  # after an outage, while a 403 may mean that the server has not read its RBAC rules yet
_FORBIDDEN = 6  # tries while the server starts
_ONCE = ("update", "patch")  # writes that have preconditions
_NOT_CARRIED_OUT = (TooManyRequests, Unauthorized, Forbidden, CredentialsExpired)
_SHORTEST_LOGGED = 2.0  # seconds; shorter waits are not logged
_is_json = msgspec.json.Decoder(msgspec.Raw)


class Stop(Protocol):
    """A request to stop: true once it is made, which also ends each ``sleep``."""

    def __bool__(self) -> bool: ...

    async def sleep(self, seconds: float, what: str = "") -> None:
        """Sleep; ``what`` ends a log sentence that begins with "waiting 8 s"."""
        ...


class _NeverStop:
    """Never stops; logs long waits."""

    def __bool__(self) -> bool:
        return False

    async def sleep(self, seconds: float, what: str = "") -> None:
        if seconds >= _SHORTEST_LOGGED:
            _log.warning("waiting %.0f s %s", seconds, what)
        await asyncio.sleep(seconds)


@dataclass(slots=True)
class _FailureStreak:
    """The failures of one request in a row, and how long they have lasted."""

    since: float
    failures: int = 0
    forbidden: int = 0
    slept: float = 0.0
    until: float = float("inf")  # the end of the last wait

    def lasted(self, now: float) -> float:
        return max(now - self.since, self.slept)


@dataclass(slots=True)
class _ServerState:
    """What all replies so far show about the server.

    Attributes:
        accepted: whether it has accepted the credentials.
        granted: the requests that it has allowed.
        starting_until: when a 403 counts as final again after an outage.
    """

    accepted: bool = False
    granted: set[str] = field(default_factory=set)
    starting_until: float = float("-inf")


class RetryingCluster(Cluster):
    """A ``Cluster`` that retries requests whose errors are temporary; see the module.

    Args:
        cluster: the API server; the state of a ``RetryingCluster`` is taken over.
        stop: ends every wait; the error is raised then.
        patience_s: the retry budget of one request, in seconds; 0 for no retries.
        clock: a monotonic clock, in seconds.
        chance: the jitter of the waits.

    Attributes:
        bare: the cluster without retries.
        patience_s: the retry budget.
    """

    def __init__(
        self,
        cluster: Cluster,
        stop: Stop | None = None,
        *,
        patience_s: float = READ_PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
        chance: random.Random | None = None,
    ) -> None:
        self._known: _ServerState = cluster._known if isinstance(cluster, RetryingCluster) else _ServerState()  # noqa: SLF001 - its own class
        self.bare: Cluster = cluster.bare if isinstance(cluster, RetryingCluster) else cluster
        self.patience_s = patience_s
        self._stop = stop if stop is not None else _NeverStop()
        self._clock = clock
        self._chance = chance or random.Random()
        self._write_failures: dict[str, _FailureStreak] = {}

    @property
    def host(self) -> str:
        return self.bare.host

    @property
    def default_namespace(self) -> str:
        return self.bare.default_namespace

    @property
    def may_be_starting(self) -> bool:
        """Whether the server was unreachable a moment ago, so that it may not have read its RBAC rules yet."""
        return self._clock() < self._known.starting_until

    @asynccontextmanager
    async def at(
        self, host: str = "", server_name: str = "", *, patience_s: float | None = None
    ) -> AsyncIterator[RetryingCluster]:
        """As ``Cluster.at``; ``patience_s`` is a smaller retry budget for another server, which may be unreachable."""
        patience_s = self.patience_s if patience_s is None else min(patience_s, self.patience_s)
        async with self.bare.at(host, server_name) as opened:
            there = RetryingCluster(opened, self._stop, patience_s=patience_s, clock=self._clock, chance=self._chance)
            # The credentials and rights are those of the cluster; an outage is that of a server.
            there._known = _ServerState(self._known.accepted, self._known.granted)
            yield there

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """As ``Cluster.stream``, without retries: ``restow.kube.listwatch`` reconnects by its own rules."""
        return self.bare.stream(request)

    async def send(self, request: Request) -> Reply:
        """Send until a reply is final; NotFound of a delete may be the reply to a retry after it was carried out.

        Raises:
            OutcomeUnknown: no reply shows whether an update or a patch was carried out.
        """
        what, once = str(request), request.verb in _ONCE
        streaks: dict[str, _FailureStreak] = self._write_failures if once else {}
        while True:
            known, begun = streaks.get(what), self._clock()
            if known is not None and begun - known.until > self.patience_s:
                del streaks[what]  # a caller that still needs this write would have sent it again
            try:
                reply = self._accepted(what, await self.bare.send(request))
            except KubeError as error:
                streak = streaks.setdefault(what, _FailureStreak(self._clock()))
                if not await self._wait(streak, error, what):
                    streaks.pop(what, None)
                    raise
                if once and not isinstance(error, _NOT_CARRIED_OUT):
                    message = f"no answer shows whether it was carried out ({error.said})"
                    raise OutcomeUnknown(
                        status=409, verb=request.verb, target=request.target, message=message
                    ) from error
            else:
                streaks.pop(what, None)
                return reply

    def _accepted(self, what: str, reply: Reply) -> Reply:
        read_json(_is_json, reply.body, what, f"{self.host} answered with success, but the body is not JSON")
        self._known.accepted = True
        self._known.granted.add(what)
        return reply

    async def _wait(self, streak: _FailureStreak, error: KubeError, what: str) -> bool:
        """Wait until a request can be retried; return whether to retry it."""
        now = self._clock()
        if isinstance(error, (Unreachable, ServerError)):
            self._known.starting_until = now + _STARTING_S
        if not self._is_temporary(streak, error, what):
            return False
        lasted = streak.lasted(now)
        left = self.patience_s - lasted
        if left <= 0 or self._stop:
            error.waited_s = lasted
            return False
        streak.failures += 1
        wait = min(left, _BACKOFF.delay(streak.failures, self._chance.random(), requested_wait(error)))
        await self._stop.sleep(
            wait, f"to {what} again (try {streak.failures + 1}, for {left:.0f} s more): {error.said}"
        )
        streak.slept += wait
        streak.until = self._clock()
        return not self._stop

    def _is_temporary(self, streak: _FailureStreak, error: KubeError, what: str) -> bool:
        if isinstance(error, (Unauthorized, ConfigError)):
            return self._known.accepted
        if isinstance(error, Forbidden):
            streak.forbidden += 1
            starting = self.may_be_starting or what in self._known.granted
            return error.by_authorizer and starting and streak.forbidden < _FORBIDDEN
        return error.may_pass


def with_retries(cluster: Cluster) -> RetryingCluster:
    """Return the cluster with retries: its own, or those of ``READ_PATIENCE_S``."""
    return cluster if isinstance(cluster, RetryingCluster) else RetryingCluster(cluster)


def without_retries(cluster: Cluster) -> Cluster:
    """Return the cluster without retries, for a caller that decides on each error itself."""
    return cluster.bare if isinstance(cluster, RetryingCluster) else cluster
