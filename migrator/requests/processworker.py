"""A worker process of a run: it finishes the objects that it is dealt, as the run itself would.

``main`` is the whole process. It reads its ``WorkerSetup``, opens the cluster, and passes what it is dealt to a
``Finisher``.
It reports many times a second what became of the objects, and sends its log along. It ignores SIGTERM and SIGINT,
because the run says when to stop. When the run has died, it finishes the writes in flight and ends.
"""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace

from restow.crds import Crd
from restow.kube.client import connect
from restow.kube.cluster import Cluster
from restow.kube.errors import KubeError
from restow.kube.retry import RetryingCluster
from restow.migrator.decide.policies import entry_policies
from restow.migrator.decide.proof import what_is_proved
from restow.migrator.model.callbacks import Callbacks, MigrationRefused, Silent
from restow.migrator.model.report import CrdReport
from restow.migrator.requests import processwire
from restow.migrator.requests.lister import Item, read_items
from restow.migrator.requests.pace import Limiter
from restow.migrator.requests.passes import CrdDeleted, Environment, Finisher, open_converter, own_webhook, reads_whole
from restow.migrator.requests.stop import RunStop
from restow.migrator.requests.workers import NamedConverters

__all__ = ["main"]


_REPORT_S = 0.02
"""Seconds from the end of an object to the report of it: short against the time that a backlog lasts."""

_ORPHANED = "the run that started this process has ended"
_OTHER_SERVER = "the configuration names the server {found} now, and this run works with {wanted}: start again"

_Tell = Callable[[processwire.FromWorker], None]


def main(fd: int) -> None:
    """Work for the run at the other end of this socket until it has nothing more to deal."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    sys.exit(asyncio.run(_serve(socket.socket(fileno=fd))))


async def _serve(channel: socket.socket) -> int:
    """Return the exit code."""
    reader, writer = await asyncio.open_connection(sock=channel)

    def tell(message: processwire.FromWorker) -> None:
        if not writer.is_closing():  # the run has died
            writer.write(processwire.frame(message))

    messages = processwire.read_messages(reader, processwire.to_worker)
    try:
        setup = await anext(messages, None)
        if not isinstance(setup, processwire.WorkerSetup):
            return 1
        _log_through(tell, setup.levels)
        async with asyncio.TaskGroup() as group:
            beating = group.create_task(_beat(tell))
            await _Worker(setup, messages, tell).run()
            beating.cancel()
        tell(processwire.Ended())
    except Exception:
        logging.getLogger(__name__).exception("a worker process failed")
        return 1
    else:
        return 0
    finally:
        writer.close()


async def _beat(tell: _Tell) -> None:
    while True:
        tell(processwire.Alive())
        await asyncio.sleep(processwire.BEAT_S)


class _Worker:
    """The process, once it knows what to do."""

    def __init__(
        self,
        setup: processwire.WorkerSetup,
        messages: AsyncIterator[processwire.ToWorker | processwire.FromWorker],
        tell: _Tell,
    ) -> None:
        self._setup = setup
        self._messages = messages
        self._tell = tell
        self._crd = crd = Crd.from_document(setup.crd)
        rules = entry_policies(crd, setup.options, completed=what_is_proved(crd).managed_fields_done(setup.options))
        self._rules = replace(rules, written_since=setup.written_since)
        self._report = CrdReport(name=crd.name)
        self._stop, self._stopped_by_run = RunStop(), False
        named = NamedConverters(setup.factory, setup.arguments) if setup.factory else own_webhook
        self._callbacks = Callbacks(Silent(), named, self._stop.because)
        self._limiter = _SharedLimiter(setup, tell)
        self._dealt: asyncio.Queue[processwire.Batch | None] = asyncio.Queue()
        self._numbers: dict[int, int] = {}  # of objects that are not done yet, by their place
        self._places = 0
        self._done: list[int] = []
        self._something_done = asyncio.Event()

    async def run(self) -> None:
        """Finish what is dealt; whatever ends that early is told to the run."""
        opening = self._setup.connection
        try:
            async with (
                self._stop.limit(self._setup.grace_s),
                connect(
                    opening.kubeconfig,
                    opening.context,
                    cluster=opening.cluster,
                    user=opening.user,
                    impersonate=opening.impersonate,
                    request_timeout=opening.request_timeout,
                ) as cluster,
            ):
                if cluster.host != opening.host:
                    self._stop.because(_OTHER_SERVER.format(found=cluster.host, wanted=opening.host))
                await self._work(cluster)
        except TimeoutError:
            pass  # the requests in flight took longer than the run waits for them
        except KubeError as error:  # no request has been sent: the configuration cannot be used any more
            self._stop.because(f"a worker process cannot open the cluster: {error}")
        self._tell_done()
        self._tell_stopped()

    async def _work(self, cluster: Cluster) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each()) for each in (self._receive, self._tell_regularly, self._watch_stop)]
            try:
                await self._finish(cluster)
            except MigrationRefused as refused:  # the converters cannot be made, or do not fit the CRD
                self._stop.because(str(refused))
            for task in tasks:
                task.cancel()

    async def _finish(self, cluster: Cluster) -> None:
        setup, stop, chance = self._setup, self._stop, random.Random(self._setup.seed)
        retrying = RetryingCluster(cluster, stop, patience_s=setup.options.patience_s, chance=chance)
        environment = Environment(retrying, stop, time.monotonic, chance, self._callbacks.converter)
        chosen = environment.converter(self._crd)
        async with open_converter(chosen, environment, self._crd, setup.options, self._report.requests) as converter:
            finisher = Finisher(
                environment,
                self._crd,
                self._rules,
                setup.options,
                self._report,
                converter,
                CrdDeleted(environment, self._crd),
                limiter=self._limiter,
            )
            await finisher.run(self._batches(), self._note_done)

    async def _receive(self) -> None:
        async for message in self._messages:
            match message:
                case processwire.Batch():
                    self._dealt.put_nowait(message)
                case processwire.SlowDown():
                    self._limiter.follow()
                case processwire.StopWork():
                    self._stopped_by_run = True
                    self._stop.because(message.why, final=message.final, unreachable=message.unreachable)
                case processwire.AllDealt():
                    self._dealt.put_nowait(None)
        self._stopped_by_run = True
        self._stop.because(_ORPHANED)
        self._dealt.put_nowait(None)

    async def _batches(self) -> AsyncIterator[Sequence[Item]]:
        resource = self._crd.resource_at(self._crd.storage.name)
        while (dealt := await self._dealt.get()) is not None and not self._stop:
            self._numbers.update(enumerate(dealt.numbers, self._places))
            self._places += len(dealt.numbers)
            yield read_items(dealt.objects, resource, whole=reads_whole(self._rules))

    def _note_done(self, place: int) -> None:
        self._done.append(self._numbers.pop(place))
        self._something_done.set()

    async def _tell_regularly(self) -> None:
        while True:
            await self._something_done.wait()
            await asyncio.sleep(_REPORT_S)
            self._tell_done()

    def _tell_done(self) -> None:
        self._something_done.clear()
        numbers, self._done = self._done, []
        self._tell(processwire.Done(numbers, processwire.take_counts(self._report)))

    async def _watch_stop(self) -> None:
        """Tell the run at once that it cannot succeed, so that the other processes stop too."""
        await self._stop.wait()
        self._tell_stopped()
        self._dealt.put_nowait(None)

    def _tell_stopped(self) -> None:
        stop = self._stop
        if stop and not self._stopped_by_run:
            callback = self._callbacks.failure is not None
            self._tell(processwire.Stopped(stop.why, stop.final, stop.unreachable, callback))


class _SharedLimiter(Limiter):
    """This process's share of the writes; all processes write less when the API server asks one of them to."""

    def __init__(self, setup: processwire.WorkerSetup, tell: _Tell) -> None:
        super().__init__(concurrency=setup.options.concurrency, rate=setup.options.rate, clock=time.monotonic)
        self._tell = tell

    def slow_down(self) -> None:
        super().slow_down()
        self._tell(processwire.SlowDown())

    def follow(self) -> None:
        """Write less because another process was asked to."""
        super().slow_down()


def _log_through(tell: _Tell, levels: dict[str, int]) -> None:
    """Send log records to the run, which logs them in its own format."""
    logging.basicConfig(handlers=[_Forward(tell)], force=True)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    logging.captureWarnings(capture=True)


class _Forward(logging.Handler):
    def __init__(self, tell: _Tell) -> None:
        super().__init__()
        self._tell = tell
        self.setFormatter(logging.Formatter("%(message)s"))  # and the traceback below it

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._tell(processwire.LogLine(record.name, record.levelno, self.format(record), record.created))
        except Exception:  # noqa: BLE001 - what logging asks of a handler
            self.handleError(record)
