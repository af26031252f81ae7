"""Whether this process's clock agrees with the clocks of the API servers, by the ``Date`` of their answers.

An API server writes ``Date`` (whole seconds) between the moments at which the request was sent and the answer arrived.
So an answer gives bounds of the server's clock, and the latency is their error. Only a difference beyond the bounds
counts. The bounds relate to the monotonic clock, so a wall clock that is set differs from all former answers at once.

Each answer comes over a connection of its own, because a load balancer may send it to any API server, and one of
several API servers may have a wrong clock. The rule: a clock is as wrong as the recent answer that is closest to it
says. An API server with a wrong clock does not make this clock wrong while another one agrees with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from restow.kube.clock import SYSTEM_CLOCK, Clock
from restow.kube.cluster import Cluster
from restow.kube.errors import ApiError, KubeError, describe_failure

_log = logging.getLogger(__name__)

_PATH: Final = "/version"
_ANSWERS: Final = 20
_EVERY: Final = 30.0  # seconds between two answers
_SOON: Final = 1.0  # seconds, while an answer differs
_SLOWEST: Final = 5.0  # seconds; a slower answer says too little
_WARN: Final = 2.0  # seconds; clocks that NTP keeps differ by milliseconds
_MOST: Final = 10.0  # seconds


@dataclass(frozen=True, slots=True)
class ServerClock:
    """The bounds of a server's clock, as seconds that it is ahead of this process's monotonic clock."""

    least: float
    most: float

    @classmethod
    def read(cls, date: datetime, sent: float, received: float) -> ServerClock:
        """Return the bounds by an answer with this ``Date``, sent and received at these monotonic times."""
        return cls(date.timestamp() - received, date.timestamp() + 1.0 - sent)

    def difference(self, clock: Clock) -> float:
        """Return by how many seconds a clock is ahead of the server's for certain; negative if it is behind."""
        ahead = clock.now().timestamp() - clock.monotonic()
        return ahead - min(max(ahead, self.least), self.most)


class ClockCheck:
    """Compares a clock with those of the API servers for as long as ``run`` runs.

    Args:
        cluster: the API servers. The check reads ``/version``; a refusal has a ``Date`` too.
        clock: the clock to check.
    """

    def __init__(self, cluster: Cluster, clock: Clock = SYSTEM_CLOCK) -> None:
        self._cluster = cluster
        self._clock = clock
        self._answers: deque[ServerClock] = deque(maxlen=_ANSWERS)
        self._reported = ""
        self.asked = asyncio.Event()
        """Set after the first request, whether or not it was answered."""

    @property
    def closest(self) -> float:
        """The difference by the recent answer that is closest to the clock, in seconds; negative if it is behind."""
        return min(self._differences(), key=abs, default=0.0)

    @property
    def farthest(self) -> float:
        """The difference by the recent answer that is farthest from the clock."""
        return max(self._differences(), key=abs, default=0.0)

    @property
    def obstacle(self) -> str:
        """Why this process must not do what depends on the time; empty if its clock is right, as far as is known."""
        if abs(self.closest) <= _MOST:
            return ""
        return f"{_described(self.closest)} every API server that answered, and {_MOST:g} s are the most: correct it"

    async def run(self) -> None:
        """Compare until cancelled; a request that fails is repeated."""
        while True:
            await self._ask()
            self.asked.set()
            self._report()
            newest = self._answers[-1].difference(self._clock) if self._answers else 0.0
            await self._clock.sleep(_SOON if max(abs(newest), abs(self.closest)) > _WARN else _EVERY)

    async def _ask(self) -> None:
        """Ask for the time over a new connection, and keep the answer."""
        try:
            async with self._cluster.at() as cluster:
                sent = self._clock.monotonic()
                try:
                    date = (await cluster.discover(_PATH)).date
                except ApiError as refusal:
                    date = refusal.date
                received = self._clock.monotonic()
        except KubeError as error:
            _log.debug("the clock was not compared: %s", describe_failure(error))
            return
        if date is not None and received - sent <= _SLOWEST:
            self._answers.append(ServerClock.read(date, sent, received))

    def _differences(self) -> list[float]:
        return [answer.difference(self._clock) for answer in self._answers]

    def _report(self) -> None:
        """Log a state of the clock when it begins."""
        if abs(self.closest) > _WARN:
            state, report = "differs", f"{_described(self.closest)} every API server that answered: correct it"
        elif abs(self.farthest) > _WARN:
            state = "one of several"
            report = f"{_described(self.farthest)} one API server and agrees with another: correct that server's"
        else:
            state, report = "", "the clock of this machine agrees with the API servers"
        if state != self._reported:
            self._reported = state
            _log.log(logging.WARNING if state else logging.INFO, "%s", report)


def _described(difference: float) -> str:
    way = "ahead of" if difference > 0 else "behind"
    return f"the clock of this machine is at least {int(abs(difference))} s {way}"
