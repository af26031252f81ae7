"""Worker processes: several of them accept from one socket that their parent bound and keeps open.

The socket is inherited rather than bound by each with SO_REUSEPORT: there a worker that closes its own listener resets
the connections that the kernel had queued for it. A worker is a process of its own from its first instruction, not a
fork: event loops, threads and TLS do not survive one. It is started with the parent's own command line.

The parent serves no requests. It answers probes, adds up its workers' numbers, starts a worker anew when it died, and
gives up when they die as soon as they live: then nothing but another start, with another configuration, can help.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
import socket
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from restow.conversion.server.counts import Counts, Snapshot, merged
from restow.conversion.server.limits import Limits
from restow.conversion.server.link import Inheritance, Link, Report
from restow.kube.backoff import Backoff
from restow.kube.clock import Clock

__all__ = ["Workers", "WorkersKeepDying"]

_log = logging.getLogger(__name__)

#: One that lived shorter than this many seconds died at once; so many in a row, and the parent gives up.
_AT_ONCE_SECONDS: Final = 10.0
_TOO_MANY: Final = 5

#: How many times a worker is asked for its numbers before its silence counts.
_QUESTIONS: Final = 12

#: How long a scrape waits for the workers' numbers; one that is slower counts with those it told before.
_ANSWER_SECONDS: Final = 0.5

#: A worker that starts imports and compiles conversions, which takes long where the CPU is throttled: it has so many
#: times the patience of one that has answered before.
_STARTING: Final = 5

_SPARE_SECONDS: Final = 5.0

#: The exit code of a process that never was one, as a shell has it.
_NOT_STARTED: Final = 127

_BACKOFF: Final = Backoff(first=0.5, most=10.0)


class WorkersKeepDying(Exception):
    """Workers died at once, again and again; a sentence."""


class _Worker:
    """A running worker, seen from its parent."""

    def __init__(self, process: Process, link: Link, heard: float) -> None:
        self.process = process
        self.link = link
        self.heard = heard
        self.report: Report | None = None
        self.answered = asyncio.Event()

    @property
    def is_ready(self) -> bool:
        """Whether it can take requests."""
        return self.report is not None and not self.report.unready

    async def listen(self, clock: Clock) -> None:
        """Take its reports, until it is gone."""
        while (report := await self.link.receive_report()) is not None:
            self.report, self.heard = report, clock.monotonic()
            self.answered.set()
        self.answered.set()

    def ask(self) -> None:
        """Ask for a report; `answered` is set when it has come."""
        self.answered.clear()
        self.link.send()

    def patience(self, silence_seconds: float) -> float:
        """Return how long it may be silent: one that runs, or one that starts."""
        return silence_seconds * (1 if self.report is not None else _STARTING)

    def signal(self, number: int) -> None:
        """Send a signal, unless it is gone."""
        with suppress(ProcessLookupError):
            self.process.send_signal(number)


class Workers:
    """Runs some processes of one command, which claim their sockets with `Inheritance.claimed`.

    The listening socket is closed when they have drained, and not before: connections that wait in it would be reset.
    """

    def __init__(
        self,
        command: Sequence[str],
        listener: socket.socket,
        number: int,
        *,
        limits: Limits,
        clock: Clock,
        chance: Callable[[], float] = random.random,
        backoff: Backoff = _BACKOFF,
    ) -> None:
        self._command = command
        self._listener = listener
        self._number = number
        self._silence_seconds = limits.silence_seconds
        self._drain_seconds = limits.drain_seconds
        self._finish_seconds = limits.finish_seconds + _SPARE_SECONDS
        self._clock = clock
        self._chance = chance
        self._backoff = backoff
        self._running: set[_Worker] = set()
        self._gone = Snapshot()
        self._died_at_once = 0
        self._given_up: WorkersKeepDying | None = None
        self._stopping = False
        self.counts = Counts()
        self.counts.gauge("restow_webhook_workers", lambda: sum(each.is_ready for each in self._running))

    @property
    def unready(self) -> str:
        """Why no requests should come now; empty if one worker is ready."""
        if self._stopping:
            return "draining"
        return "" if any(each.is_ready for each in self._running) else "starting"

    async def snapshot(self) -> Snapshot:
        """Return everybody's numbers, those of workers that are gone included."""
        asked = tuple(self._running)
        for worker in asked:
            worker.ask()
        with suppress(TimeoutError):
            async with asyncio.timeout(_ANSWER_SECONDS):
                for worker in asked:
                    await worker.answered.wait()
        told = (each.report.snapshot for each in asked if each.report is not None)
        return merged((self.counts.snapshot(), self._gone, *told))

    async def run(self, stop: asyncio.Event) -> None:
        """Keep the workers running until asked to stop, then have them drain. Cancelling kills them.

        Raises WorkersKeepDying, after it has set `stop` itself and the others have drained.
        """
        with self._listener:
            async with asyncio.TaskGroup() as group:
                asking = group.create_task(self._keep_asking())
                keepers = [group.create_task(self._keep(stop)) for _ in range(self._number)]
                await stop.wait()
                self._stopping = True
                self.signal(signal.SIGTERM)
                await asyncio.wait(keepers, timeout=self._drain_seconds)
                self._listener.close()
                await asyncio.wait(keepers, timeout=self._finish_seconds)
                self.signal(signal.SIGKILL)
                asking.cancel()
        if self._given_up is not None:
            raise self._given_up

    def signal(self, number: int) -> None:
        """Pass a signal on."""
        for worker in self._running:
            worker.signal(number)

    async def _keep(self, stop: asyncio.Event) -> None:
        """Run one worker after the other."""
        while not stop.is_set():
            started = self._clock.monotonic()
            code = await self._run_one(stop)
            if not stop.is_set():
                self._note_death(code, self._clock.monotonic() - started, stop)
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), self._backoff.delay(self._died_at_once, self._chance()))

    def _note_death(self, code: int, lived: float, stop: asyncio.Event) -> None:
        self.counts.add("restow_webhook_worker_deaths_total")
        _log.warning("a worker ended with code %d after %.0f s and is started anew", code, lived)
        self._died_at_once = self._died_at_once + 1 if lived < _AT_ONCE_SECONDS else 0
        if self._died_at_once >= _TOO_MANY:
            message = f"{_TOO_MANY} workers in a row ended at once, the last with code {code}; their log says why"
            self._given_up = WorkersKeepDying(message)
            stop.set()

    async def _run_one(self, stop: asyncio.Event) -> int:
        ours, theirs = socket.socketpair()
        link = await Link.over(ours)
        try:
            with theirs:
                process = await self._start(Inheritance(self._listener, theirs))
        except OSError as error:
            _log.warning("a worker could not be started: %s", error.strerror)
            await link.close()
            return _NOT_STARTED
        worker = _Worker(process, link, self._clock.monotonic())
        self._running.add(worker)
        if stop.is_set():
            worker.signal(signal.SIGTERM)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(worker.listen(self._clock))
                return await process.wait()
        finally:
            worker.signal(signal.SIGKILL)
            await process.wait()
            await worker.link.close()
            self._running.discard(worker)
            if worker.report is not None:
                self._gone = merged((self._gone, worker.report.snapshot.lasting()))

    async def _start(self, inheritance: Inheritance) -> Process:
        return await asyncio.create_subprocess_exec(
            *self._command,
            stdin=DEVNULL,
            pass_fds=inheritance.descriptors,
            env={**os.environ, **inheritance.environment},
            start_new_session=True,  # a Ctrl-C on a terminal is for the parent, which has them drain
        )

    async def _keep_asking(self) -> None:
        """Hear from every worker now and then: what a dead one had counted is not lost, and one that hangs is found."""
        while True:
            await self._clock.sleep(self._silence_seconds / _QUESTIONS)
            for worker in tuple(self._running):
                patience = worker.patience(self._silence_seconds)
                if self._clock.monotonic() - worker.heard > patience:
                    _log.warning("a worker has not answered for %g s and is killed", patience)
                    worker.signal(signal.SIGKILL)
                else:
                    worker.ask()
