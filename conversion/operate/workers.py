"""Processes in which the rules of teams compute, so that none of them takes time or memory from the operator.

An expression or a pattern can take long, or much memory, for one small object, and cannot be interrupted. So kinds
whose rules have some are converted in processes (``worker``), whose memory is limited and which are ended when a
request takes too long. ``turns`` decides whose request is next.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from tempfile import TemporaryFile
from typing import Any, Final

import msgspec

from restow.conversion.compile.graph import Graph
from restow.conversion.model.errors import ObjectError, ReviewError
from restow.conversion.operate.revisions import Revision
from restow.conversion.operate.turns import FIRST_S, MOST_S, Job, QueueOfKindFull, Turns
from restow.conversion.operate.worker import HEAD, Task, TaskReply
from restow.conversion.reviews.admission import AdmissionRequest, AdmissionResponse
from restow.conversion.reviews.conversion import KeptValue, ReviewTooLarge
from restow.conversion.reviews.tally import Tally
from restow.conversion.rules.functions import may_be_costly
from restow.conversion.server.conversion import GaveUp
from restow.conversion.server.limits import Refusal
from restow.kube.clock import SYSTEM_CLOCK, Clock

_log = logging.getLogger(__name__)

_MODULE: Final = "restow.conversion.operate.worker"
_START_S: Final = 60.0
_REVISIONS: Final = 32  # that a process keeps compiled
_TRIED: Final = 1024 * 1024  # bytes of objects that are tried in one task
_BUFFER: Final = 1024 * 1024
_PART: Final = 4 * _BUFFER
#: An API server gives up after 30 seconds.
_WAIT_S: Final = 25.0
_STALLED_S: Final = 20.0  # on the wall, for one object: other processes may have the cores
_AGAIN_S: Final = 1.0
_ENDS: Final = 3  # of processes, for one request: then it fails, whatever ended them
_COMPILE_S: Final = 0.5  # of CPU time, to compile a revision that the process does not have
_LOOKS: Final = 8  # at the progress of a task, in ``MOST_S``
_NEARLY: Final = 0.8  # of a core is what a process has that is never idle
_NICE: Final = 19  # with 10, the other kinds' slowest reads took twice as long (benchmarks.tenants)
_OF_PROCESS: Final = 2  # CPUCLOCK_SCHED of Linux

_WHILE_REFUSED: Final = (
    "a conversion of this kind took too much time or memory, so the kind is not converted for some seconds"
)


def servable(revision: Revision) -> Graph:
    """Return the conversions of a revision; only routes that this process converts by are compiled."""
    graph = revision.checked()
    return graph if is_costly(graph) else graph.compile()


def is_costly(graph: Graph) -> bool:
    """Return whether the conversion of one small object may take long, so that it has to happen in a process here."""
    spokes = (spoke for kind in graph.kinds.values() for spoke in kind.spokes.values())
    return any(may_be_costly(spoke.rules) for spoke in spokes)


class _Ended(Exception):
    """The process ended by itself, or was killed."""


class _ReviewTooLong(Exception):
    """A review takes longer than an API server waits, although no object of it does."""


@dataclass(slots=True)
class _Process:
    """A process, and the revisions that it has compiled."""

    process: asyncio.subprocess.Process
    progress: int
    revisions: OrderedDict[str, None] = field(default_factory=OrderedDict)

    @property
    def index(self) -> int:
        """The index of the object at work."""
        return int.from_bytes(os.pread(self.progress, 4, 0), sys.byteorder)

    async def greeting(self) -> None:
        """Wait until the process can serve.

        Raises:
            _Ended: the process ended.
        """
        await self._reply()

    @property
    def cpu_s(self) -> float:
        """The CPU time that the process has used. On a busy machine the time on the wall says little."""
        with suppress(OSError):
            return time.clock_gettime(~self.process.pid << 3 | _OF_PROCESS)
        return 0.0

    async def at_first(self, task: Task, body: bytes, text: str) -> tuple[TaskReply, bytes]:
        """Return the reply to a task that takes ``FIRST_S`` at most; ``text`` is the stored form of its revision.

        Raises:
            TimeoutError: the task takes longer.
            _Ended: the process ended.
        """
        now = asyncio.get_running_loop().time
        last, most = now() + MOST_S, FIRST_S * _NEARLY + (0.0 if task.revision in self.revisions else _COMPILE_S)
        began = self.cpu_s

        def is_over() -> bool:
            return self.cpu_s - began > most or now() > last

        return await self._unless(is_over, FIRST_S, task, body, text)

    async def at_last(self, task: Task, body: bytes, text: str) -> tuple[TaskReply, bytes]:
        """Return the reply to a task that takes ``MOST_S`` at most for each object; raises as above.

        Raises:
            _ReviewTooLong: it is no rehearsal, and the objects together take longer than an API server waits.
        """
        now = asyncio.get_running_loop().time
        index, since, used, last = 0, now(), self.cpu_s, now() + _WAIT_S

        def is_over() -> bool:
            nonlocal index, since, used
            before, index = index, self.index
            if index != before:
                since, used = now(), self.cpu_s
            if task.does != "try" and now() > last:
                raise _ReviewTooLong
            return self.cpu_s - used >= MOST_S * _NEARLY or now() - since >= _STALLED_S

        return await self._unless(is_over, MOST_S / _LOOKS, task, body, text)

    async def _unless(
        self, is_over: Callable[[], bool], seconds: float, task: Task, body: bytes, text: str
    ) -> tuple[TaskReply, bytes]:
        asking = asyncio.ensure_future(self._ask(task, body, text))
        try:
            while not (await asyncio.wait([asking], timeout=seconds))[0]:
                if is_over():
                    raise TimeoutError
            return await asking
        finally:
            asking.cancel()

    async def _ask(self, task: Task, body: bytes, text: str) -> tuple[TaskReply, bytes]:
        if task.revision not in self.revisions:
            forgets = [self.revisions.popitem(last=False)[0] for _ in range(len(self.revisions) + 1 - _REVISIONS)]
            task = msgspec.structs.replace(task, text=text, forgets=tuple(forgets))
        sink = self.process.stdin
        assert sink is not None
        head = msgspec.msgpack.encode(task)
        os.pwrite(self.progress, bytes(4), 0)
        try:
            sink.write(HEAD.pack(len(head), len(body)) + head)
            for start in range(0, len(body), _PART):
                sink.write(body[start : start + _PART])
                await sink.drain()
        except ConnectionError as error:
            raise _Ended from error
        reply, answer = await self._reply()
        if not (task.text and reply.failed):  # otherwise it may not have compiled the revision
            self.revisions[task.revision] = None
            self.revisions.move_to_end(task.revision)
        return reply, answer

    async def _reply(self) -> tuple[TaskReply, bytes]:
        source = self.process.stdout
        assert source is not None
        try:
            lengths = HEAD.unpack(await source.readexactly(HEAD.size))
            reply, answer = [await source.readexactly(length) for length in lengths]
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise _Ended from error
        return msgspec.msgpack.decode(reply, type=TaskReply), answer


class Workers:
    """The processes. ``run`` keeps two of them once a kind needs them; one is only for kinds with short requests."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._turns = Turns(clock)
        self._clock = clock
        self._changed = asyncio.Condition()
        self._needed = asyncio.Event()

    def of(self, crd: str, revision: str, text: str) -> KindsWorkers:
        """Return the conversions of a CRD by a revision, given its stored form."""
        self._needed.set()
        return KindsWorkers(self, crd, revision, text)

    async def run(self) -> None:
        """Keep the processes until cancelled."""
        await self._needed.wait()
        async with asyncio.TaskGroup() as group:
            for slow in (False, True):
                group.create_task(self._keep(slow=slow))

    async def ask(
        self, kind: str, task: Task, body: bytes, text: str, *, waits_s: float | None
    ) -> tuple[TaskReply, bytes]:
        """Return the reply to a task about a kind.

        Raises:
            GaveUp: the task took too much.
            QueueOfKindFull: too many tasks of the kind wait.
            TimeoutError: its turn did not come in time.
        """
        if self._turns.is_refused(kind):
            raise GaveUp(_WHILE_REFUSED)
        job = Job(kind, (task, text), body, asyncio.get_running_loop().create_future())
        self._turns.add(job)
        await self._notify()
        try:
            async with asyncio.timeout(waits_s):
                found: tuple[TaskReply, bytes] = await job.result
                return found
        finally:
            job.result.cancel()

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _keep(self, *, slow: bool) -> None:
        """Keep one process, and have it do what is next."""
        while True:
            try:
                async with _started(slow=slow) as process:
                    while await self._serve(process, slow=slow):
                        pass
            except (OSError, TimeoutError, _Ended) as error:
                _log.error("a process for conversions cannot be started: %s", type(error).__name__)
                await self._clock.sleep(_AGAIN_S)

    async def _serve(self, process: _Process, *, slow: bool) -> bool:
        """Have the process do the next task; return whether it can do another one."""
        async with self._changed:
            while (job := self._turns.take(slow=slow)) is None:
                await self._changed.wait()
        task, text = job.task
        may_last = self._turns.is_slow(job.kind)
        began, lives = process.cpu_s, False
        try:
            if process.process.returncode is None:  # otherwise something else ended it
                ask = process.at_last if may_last else process.at_first
                found = await ask(task, job.body, text)
                lives = True
                if not job.result.done():
                    job.result.set_result(found)
        except (_Ended, TimeoutError) as error:
            self._turns.ended(job, MOST_S)
            if may_last:
                self._count(job, process.index, error)
        except _ReviewTooLong:
            self._turns.ended(job, MOST_S)
            if not job.result.done():
                job.result.set_exception(TimeoutError())
        except BaseException:  # this process stops, or has a defect: the kind must not count as at work for ever
            self._turns.ended(job, 0.0)
            if not job.result.done():
                job.result.set_exception(TimeoutError())
            raise
        else:
            self._turns.ended(job, process.cpu_s - began)
        if not lives and not job.result.done():
            self._turns.add(job, again=True)
        await self._notify()
        return lives

    def _count(self, job: Job, index: int, error: Exception) -> None:
        """Give up, unless something from outside may have ended the process: then the request is tried again."""
        if isinstance(error, TimeoutError) or index in job.ends:
            self._give_up(job, index, error)
            return
        job.ends.append(index)
        _log.warning("%s: a process ended during a conversion", job.kind)
        if len(job.ends) >= _ENDS and not job.result.done():
            job.result.set_exception(GaveUp("processes ended during the conversion; try again"))

    def _give_up(self, job: Job, index: int, error: Exception) -> None:
        why = "ends its process" if isinstance(error, _Ended) else f"takes longer than {MOST_S:g} s"
        _log.error("%s: ended a process, because a conversion %s", job.kind, why)
        said = f"its conversion {why}"
        if not job.result.done():
            job.result.set_exception(GaveUp(said, index))
        for each in self._turns.gave_up(job.kind):
            if not each.result.done():
                each.result.set_exception(GaveUp(_WHILE_REFUSED))


@asynccontextmanager
async def _started(*, slow: bool) -> AsyncIterator[_Process]:
    """Start a process, and end it; the slow one leaves the cores to others.

    Raises:
        OSError: it cannot be started.
        TimeoutError, _Ended: it does not begin to serve.
    """
    with TemporaryFile() as progress:
        progress.truncate(4)
        number = progress.fileno()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            _MODULE,
            str(os.getpid()),
            str(number),
            str(_NICE if slow else 0),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            pass_fds=(number,),
            limit=_BUFFER,
            start_new_session=True,  # a signal to the operator's group is not for it
        )
        try:
            found = _Process(process, number)
            async with asyncio.timeout(_START_S):
                await found.greeting()
            yield found
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            ending = asyncio.ensure_future(process.wait())
            try:
                await asyncio.shield(ending)
            except asyncio.CancelledError:
                await ending  # it was killed
                raise


@dataclass(frozen=True, slots=True)
class KindsWorkers:
    """The conversions of a CRD by one revision."""

    workers: Workers
    crd: str
    revision: str
    text: str

    async def review(self, body: bytes, most: int) -> tuple[bytes, Tally, Sequence[KeptValue]]:
        """Answer a ConversionReview; see ``restow.conversion.server.conversion.Elsewhere``."""
        reply, answer = await self._answered(Task("review", self.revision, most=most), body)
        assert reply.tally is not None
        return answer, reply.tally, [each.value() for each in reply.kept]

    async def restore(self, request: AdmissionRequest, *, stored_status: bool) -> AdmissionResponse:
        """Decide as ``restore_stash`` does."""
        return await self._decided(Task("restore", self.revision, stored_status=stored_status), request)

    async def refuse(self, request: AdmissionRequest) -> AdmissionResponse:
        """Decide as ``refuse_kept`` does."""
        return await self._decided(Task("refuse", self.revision), request)

    async def tried(self, objects: Sequence[dict[str, Any]]) -> Sequence[str]:
        """Return for each object why it does not convert to every version and back; empty if it does.

        Raises:
            GaveUp: an object takes too much.
            QueueOfKindFull: too many requests about the kind wait.
        """
        found: list[str] = []
        # Without objects too, the process has to compile the revision, because this one does not.
        for texts in [*_parts([msgspec.json.encode(obj) for obj in objects])] or [[]]:
            body = b"[" + b",".join(texts) + b"]"
            task = Task("try", self.revision)
            try:
                # Under a name of its own, because rules that serve must not be refused for rules that are rehearsed.
                reply, _ = await self.workers.ask(f"{self.crd}, in rehearsal", task, body, self.text, waits_s=None)
            except GaveUp as error:
                raise error if error.index is None else GaveUp(str(error), len(found) + error.index) from error
            _raise_failure(reply)
            found += reply.failures
        return found

    async def _decided(self, task: Task, request: AdmissionRequest) -> AdmissionResponse:
        try:
            _, answer = await self._answered(task, request.sent)
        except GaveUp as error:
            return AdmissionResponse(
                allowed=False, message=f"{self.crd}: {error}", code=HTTPStatus.UNPROCESSABLE_ENTITY
            )
        return msgspec.json.decode(answer, type=AdmissionResponse)

    async def _answered(self, task: Task, body: bytes) -> tuple[TaskReply, bytes]:
        try:
            reply, answer = await self.workers.ask(self.crd, task, body, self.text, waits_s=_WAIT_S)
        except (QueueOfKindFull, TimeoutError) as error:
            message = f"too many conversions of {self.crd} wait, or the objects are too many; try again in a second"
            raise Refusal(HTTPStatus.TOO_MANY_REQUESTS, "overload", message) from error
        _raise_failure(reply)
        return reply, answer


def _parts(texts: Sequence[bytes]) -> Iterator[list[bytes]]:
    """Yield the texts in parts that have no more bytes than one task should, unless there is only one."""
    part: list[bytes] = []
    size = 0
    for text in texts:
        if part and size + len(text) > _TRIED:
            yield part
            part, size = [], 0
        part.append(text)
        size += len(text)
    if part:
        yield part


def _raise_failure(reply: TaskReply) -> None:
    """Raise what was raised in the process."""
    match reply.failed:
        case "":
            return
        case "too-large":
            raise ReviewTooLarge(reply.message)
        case "review":
            raise ReviewError(reply.message)
        case "object":
            raise ObjectError(reply.message)
        case "memory":
            raise GaveUp("the conversion needs too much memory")
        case _:
            msg = f"a process for conversions failed with {reply.message}"
            raise RuntimeError(msg)
