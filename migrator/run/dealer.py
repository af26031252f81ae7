"""Migrate with several processes: this one lists the objects and deals them to workers, which finish them.

The report, the prune and the proof stay with this process. A worker that dies is replaced, and what it had not answered
for is dealt again; that is safe, because every write names the resourceVersion that it is for. A worker whose event
loop stands still for a minute is killed, or the run would wait for it without end. The processes have their shares of
``Options.concurrency`` and ``Options.rate``, and all of them write less when one meets a 429.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from dataclasses import replace

from restow.crds import Crd
from restow.migrator.decide.dealing import Dealing, shares
from restow.migrator.model.options import Options
from restow.migrator.ownership.policy import EntryPolicies
from restow.migrator.requests import processwire
from restow.migrator.requests.lister import ListedPage
from restow.migrator.requests.reviewer import slices
from restow.migrator.requests.workers import WorkerPlan
from restow.migrator.run.context import GRACE, CrdRun

__all__ = ["Dealer"]


_log = logging.getLogger(__name__)

_LEAVE_S = 2.0  # seconds from a worker's last message to its end, before it is killed

BATCH = 100
"""Objects that are dealt together: the objects of one ConversionReview, where they need one."""

MOST_DEATHS = 3
"""Worker processes that are replaced in one pass; the next one that dies ends the run."""

MOST_SILENT_BEATS = 30
"""Beats (``processwire.BEAT_S``) without a message after which a worker is killed: a minute. This process counts its
own waits, not seconds: if the whole machine stood still, the workers get their time once it goes on."""

_START = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from restow.migrator.requests.processworker import main; main(int(sys.argv[1]))"
)
_LOGGERS = ("", "restow", "kubernetes_asyncio")


class Dealer:
    """The worker processes of one pass over the objects of a CRD.

    Args:
        run: the migration.
        crd: the CRD as read before the pass.
        rules: the policies by which objects are decided.
        plan: how many processes, and how each opens the cluster.
    """

    def __init__(self, run: CrdRun, crd: Crd, rules: EntryPolicies, plan: WorkerPlan) -> None:
        self._run = run
        self._crd = crd
        self._rules = rules
        self._plan = plan
        self._dealing = Dealing()
        self._objects: dict[int, bytes] = {}  # that were listed, and are not done
        self._again: list[int] = []  # of these, what died with a worker
        self._changed = asyncio.Event()
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._silent: dict[int, int] = {}  # beats since the last message of each worker
        self._ended = False
        self._deaths = 0

    async def deal(self, pages: AsyncIterator[ListedPage]) -> None:
        """Have the objects of these pages finished; counts, failures and the end of the run are in the report."""
        async with asyncio.TaskGroup() as group:
            workers = [group.create_task(self._attend(index, options)) for index, options in enumerate(self._options())]
            others = [group.create_task(self._feed(pages)), group.create_task(self._pass_stop_on())]
            await asyncio.wait(workers)
            for task in others:
                task.cancel()
        if self._deaths:
            # A dead worker may have written objects without an answer for them; a second write finds these current.
            self._run.report.unchanged = 0

    def _options(self) -> list[Options]:
        """Return what each worker does, with its share of the writes."""
        options, count = self._run.options, self._plan.count
        rate = None if options.rate is None else options.rate / count
        return [
            replace(options, processes=1, concurrency=share, rate=rate) for share in shares(options.concurrency, count)
        ]

    async def _feed(self, pages: AsyncIterator[ListedPage]) -> None:
        """Deal all pages, wait until everything is done, and end the workers."""
        number = 0
        async for page in pages:
            for part in slices([len(text) for text in page.texts], BATCH):
                texts = [bytes(text) for text in page.texts[part]]
                numbers = list(range(number, number + len(texts)))
                self._objects.update(zip(numbers, texts, strict=True))
                number += len(texts)
                await self._deal_batch(numbers)
        while self._objects and not self._run.stop:
            again, self._again = self._again, []
            await self._deal_batch(again)
            if self._objects and not self._again:
                await self._wait()
        self._end()

    async def _deal_batch(self, numbers: list[int]) -> None:
        """Deal objects to the worker with the smallest backlog, once one has room."""
        sizes = {number: len(self._objects[number]) for number in numbers}
        while sizes and not self._run.stop:
            worker = self._dealing.choose(len(sizes), sum(sizes.values()))
            if worker is None:
                await self._wait()
                continue
            self._dealing.deal(worker, sizes)
            objects = [self._objects[number] for number in numbers]
            self._send(worker, processwire.Batch(numbers, objects))
            return

    async def _wait(self) -> None:
        """Wait until a worker has answered, joined or left."""
        self._changed.clear()
        await self._changed.wait()

    async def _pass_stop_on(self) -> None:
        stop = self._run.stop
        await stop.wait()
        for worker in self._writers:
            self._send(worker, processwire.StopWork(stop.why, stop.final, stop.unreachable))
        self._end()

    def _end(self) -> None:
        self._ended = True
        for worker in self._writers:
            self._send(worker, processwire.AllDealt())
        self._changed.set()

    def _send(self, worker: int, message: processwire.ToWorker) -> None:
        writer = self._writers.get(worker)
        if writer is not None and not writer.is_closing():
            writer.write(processwire.frame(message))

    async def _attend(self, worker: int, options: Options) -> None:
        """Run one worker to its end, and replace it when it dies."""
        stop = self._run.stop
        while not self._ended and not stop:
            code, ended = await self._work(worker, options)
            self._again += self._dealing.leave(worker)
            self._changed.set()
            if ended or stop:
                return
            self._deaths += 1
            how = _HUNG if self._silent.get(worker, 0) >= MOST_SILENT_BEATS else _how_it_ended(code)
            if self._deaths > MOST_DEATHS:
                stop.because(_DIED.format(count=self._deaths, how=how))
                return
            _log.warning("%s: a worker process %s; its objects are dealt again", self._crd.name, how)

    async def _work(self, worker: int, options: Options) -> tuple[int, bool]:
        """Start a worker and take its messages; return its exit code and whether it came to its end."""
        mine, its = socket.socketpair()
        process: Process | None = None
        try:
            reader, writer = await asyncio.open_connection(sock=mine)
            with contextlib.closing(writer), its:
                process = await _start(its)
                its.close()
                writer.write(processwire.frame(self._setup(options)))
                self._join(worker, writer)
                async with asyncio.TaskGroup() as group:
                    listening = group.create_task(self._kill_if_silent(worker, process))
                    ended = await self._take_messages(worker, reader)
                    listening.cancel()
            with contextlib.suppress(TimeoutError):
                # Its end of the socket is closed, so it is about to end. To kill it at once would lose its exit code.
                async with asyncio.timeout(_LEAVE_S):
                    return await process.wait(), ended
            process.kill()
            return await process.wait(), ended
        except OSError as error:
            self._run.stop.because(f"a worker process cannot be started: {error.strerror}. {_WITHOUT}")
            return 1, False
        finally:
            self._writers.pop(worker, None)
            if process is not None and process.returncode is None:
                process.kill()
                await process.wait()

    def _join(self, worker: int, writer: asyncio.StreamWriter) -> None:
        """Let a worker take part, from now on or only to end at once."""
        self._writers[worker] = writer
        self._dealing.join(worker)
        self._changed.set()
        if stop := self._run.stop:
            self._send(worker, processwire.StopWork(stop.why, stop.final, stop.unreachable))
        if stop or self._ended:
            self._send(worker, processwire.AllDealt())

    def _setup(self, options: Options) -> processwire.WorkerSetup:
        named = self._plan.converters
        return processwire.WorkerSetup(
            crd=dict(self._crd.document),
            options=options,
            written_since=self._rules.written_since,
            connection=self._plan.connection,
            factory="" if named is None else named.factory,
            arguments=[] if named is None else list(named.arguments),
            levels={name: logging.getLogger(name or None).getEffectiveLevel() for name in _LOGGERS},
            seed=self._run.environment.random.getrandbits(48),
            grace_s=GRACE,
        )

    async def _kill_if_silent(self, worker: int, process: Process) -> None:
        """Kill a worker that sends nothing any more, not even that it waits; that ends its messages."""
        self._silent[worker] = 0
        while self._silent[worker] < MOST_SILENT_BEATS:
            await asyncio.sleep(processwire.BEAT_S)
            self._silent[worker] += 1
        with contextlib.suppress(ProcessLookupError):
            process.kill()

    async def _take_messages(self, worker: int, reader: asyncio.StreamReader) -> bool:
        """Take the messages of a worker; return whether it came to its end."""
        stop, report = self._run.stop, self._run.report
        with contextlib.suppress(processwire.FrameError):
            async for message in processwire.read_messages(reader, processwire.from_worker):
                self._silent[worker] = 0
                match message:
                    case processwire.Done():
                        self._dealing.answered(worker, message.numbers)
                        for number in message.numbers:
                            del self._objects[number]
                        processwire.add_counts(report, message.counts)
                        self._changed.set()
                    case processwire.SlowDown():
                        for other in self._writers.keys() - {worker}:
                            self._send(other, message)
                    case processwire.Stopped():
                        if message.callback:
                            self._run.callbacks.failed_elsewhere(message.why)
                        stop.because(message.why, final=message.final, unreachable=message.unreachable)
                    case processwire.LogLine():
                        _log_again(message)
                    case processwire.Ended():
                        return True
        return False


async def _start(channel: socket.socket) -> Process:
    """Start a worker process that has this socket and the import path of this process, and nothing else of it.

    Raises:
        OSError: there is no such interpreter, or the system starts no further process.
    """
    here = os.getcwd()  # noqa: PTH109 - a text, as the import path is made of
    path = [os.path.join(here, place) for place in sys.path]  # noqa: PTH118
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-c", _START, str(channel.fileno()), *path),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=sys.__stderr__.fileno() if sys.__stderr__ is not None else asyncio.subprocess.DEVNULL,
        pass_fds=(channel.fileno(),),
        start_new_session=True,  # Ctrl-C is for this process, which stops the others
    )


def _log_again(line: processwire.LogLine) -> None:
    """Log the record of a worker as one of this process."""
    logger = logging.getLogger(line.logger)
    if logger.isEnabledFor(line.level):
        record = logger.makeRecord(line.logger, line.level, "", 0, line.message, (), None)
        record.created = line.created
        logger.handle(record)


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


_HUNG = "did not answer for a minute and was killed"

_WITHOUT = "Run again, with --processes 1 if that happens again"

_DIED = (
    "{count} worker processes died, and the last one {how}. If it was SIGKILL, there was probably too little memory "
    f"for all of them. {_WITHOUT}"
)
