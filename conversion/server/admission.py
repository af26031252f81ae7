"""The endpoints of admission steps: AdmissionReviews in, decisions out, and a queue that bounds their memory.

`WeightedSemaphore` admits work by the memory that it needs, first come, first served. It refuses a request at once if
more than a given number of bytes would wait.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from http import HTTPStatus
from typing import Final, Protocol

from restow.conversion.compile.graph import Graph
from restow.conversion.model.errors import ConversionError
from restow.conversion.reviews.admission import AdmissionError, AdmissionRequest, AdmissionResponse, AdmissionReview
from restow.conversion.reviews.admissionsteps import refuse_kept, restore_stash
from restow.conversion.server.failures import RateLimitedLog
from restow.conversion.server.limits import Limits, Refusal
from restow.conversion.server.metrics import ServerMetrics
from restow.conversion.server.timeslices import offload
from restow.crds import Crd
from restow.kube.clock import Clock


class QueueFull(Exception):
    """The work does not fit now, and the queue has no room for it."""


class WeightedSemaphore:
    """Bounds the memory of concurrent work; first come, first served.

    Args:
        most: bytes of memory in use at once; work that needs more runs alone.
        waiting: bytes of the waiting requests, as received; a request beyond this limit is refused at once.
    """

    def __init__(self, most: int, waiting: int) -> None:
        self._most = self._free = most
        self._may_wait = waiting
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def place(self, cost: int, size: int) -> AsyncIterator[None]:
        """Wait until the work fits, and hold its memory until the end of the block.

        ``cost`` is the memory that the work needs, ``size`` the memory that it holds while it waits, both in bytes.

        Raises:
            QueueFull: the queue has no room for another request of this size.
        """
        cost = min(cost, self._most)
        if self._waiting or cost > self._free:
            await self._wait(cost, size)
        else:
            self._free -= cost
        try:
            yield
        finally:
            self._give(cost)

    async def _wait(self, cost: int, size: int) -> None:
        if size > self._may_wait:
            raise QueueFull
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((cost, ready))
        self._may_wait -= size
        try:
            await ready
        except asyncio.CancelledError:
            if ready.cancelled():
                self._admit()
            else:
                self._give(cost)
            raise
        finally:
            self._may_wait += size

    def _give(self, cost: int) -> None:
        self._free += cost
        self._admit()

    def _admit(self) -> None:
        while self._waiting:
            cost, ready = self._waiting[0]
            if not ready.cancelled():
                if cost > self._free:
                    return
                self._free -= cost
                ready.set_result(None)
            self._waiting.popleft()


_MIB: Final = 1024 * 1024

#: The highest accepted number of commas and brackets in a review, which approximates its number of values. Twice the
#: largest object that an API server stores has fewer.
_MOST_VALUES: Final = 600_000
_STRUCTURE: Final = (b",", b"{", b"[")

#: The most memory that one value takes after decoding, in bytes: an object with one member.
_BYTES_EACH: Final = 240

#: Reviews that need no more memory than this share the queue of small reviews. The queue of large reviews has room for
#: one of the largest size.
_SMALL: Final = 8 * _MIB
_SMALL_AT_ONCE: Final = 64 * _MIB
_LARGE_AT_ONCE: Final = 160 * _MIB

#: How many bytes of reviews may wait in one queue. Further requests get 429.
_MOST_WAITING: Final = 64 * _MIB


class AdmissionStep(Protocol):
    """Decides about a request. A step at ``/admit/<name>`` may not patch; a step at ``/mutate/<name>`` may."""

    async def __call__(self, request: AdmissionRequest, /) -> AdmissionResponse:
        """Return the verdict. If the step raises anything, the request is refused."""
        ...


class RestoreStash:
    """The mutating step that restores a stash that a client dropped; see ``reviews.admissionsteps``.

    ``crds`` show in which versions status is a subresource. The status of a kind without its CRD counts as a plain
    field. ``elsewhere`` decides by the same graph in another process.
    """

    def __init__(
        self,
        graph: Graph,
        crds: Iterable[Crd] = (),
        elsewhere: Callable[..., Awaitable[AdmissionResponse]] | None = None,
    ) -> None:
        self._graph = graph
        self._elsewhere = elsewhere
        self._stored_status = frozenset(
            (crd.group, version.name, crd.kind)
            for crd in crds
            for version in crd.versions
            if version.has_status_subresource
        )

    async def __call__(self, request: AdmissionRequest, /) -> AdmissionResponse:
        """Return the patch that restores the stash."""
        asked = request.request_kind or request.kind
        stored = (asked.group, asked.version, asked.kind) in self._stored_status
        if self._elsewhere is not None:
            return await self._elsewhere(request, stored_status=stored)
        return await offload(request.size, restore_stash, self._graph, request, stored_status=stored)


class RefuseKept:
    """The validating step that refuses values which rules cannot convert; see ``reviews.admissionsteps``."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    async def __call__(self, request: AdmissionRequest, /) -> AdmissionResponse:
        """Return the verdict."""
        return await offload(request.size, refuse_kept, self._graph, request)


class ReviewQueues:
    """The queues of all admission reviews of a process, over all steps."""

    def __init__(self) -> None:
        self._small = WeightedSemaphore(_SMALL_AT_ONCE, _MOST_WAITING)
        self._large = WeightedSemaphore(_LARGE_AT_ONCE, _MOST_WAITING)

    def place(self, size: int, values: int) -> AbstractAsyncContextManager[None]:
        """Wait until a review of this many bytes and values fits, and hold its memory until the end of the block.

        Raises:
            QueueFull: the queue has no room for another request of this size.
        """
        cost = size + _BYTES_EACH * values
        return (self._small if cost <= _SMALL else self._large).place(cost, size)


class AdmissionEndpoint:
    """Calls one admission step. ``most`` is the largest body, in bytes."""

    def __init__(
        self,
        name: str,
        step: AdmissionStep,
        *,
        patches: bool,
        limits: Limits,
        queues: ReviewQueues,
        counts: ServerMetrics,
        request_log: RateLimitedLog,
        clock: Clock,
    ) -> None:
        self.most = limits.admission
        self._queues = queues
        self._name = name
        self._step = step
        self._patches = patches
        self._seconds = limits.admission_seconds
        self._counts = counts
        self._request_log = request_log
        self._clock = clock
        for result in ("allowed", "denied", "failed"):  # start at 0: an alert would miss the first increase of a series
            counts.add("restow_admission_reviews_total", name, result, amount=0)

    async def answer(self, body: bytes | bytearray) -> bytes:
        """Answer one review.

        Raises:
            Refusal: the body is no AdmissionReview or has too many values, or the webhook is overloaded.
        """
        started = self._clock.monotonic()
        values = sum(map(body.count, _STRUCTURE))
        if values > _MOST_VALUES:
            message = f"the review has more than {_MOST_VALUES} commas and brackets, the most that is accepted"
            raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large", message)
        try:
            async with asyncio.timeout(self._seconds) as limit, self._queues.place(len(body), values):
                limit.reschedule(None)  # from here on the error names the step
                return await self._answer(body, started)
        except (QueueFull, TimeoutError) as error:
            message = "the webhook is busy with as many AdmissionReviews as it may decode; try again in a second"
            raise Refusal(HTTPStatus.TOO_MANY_REQUESTS, "overload", message) from error

    async def _answer(self, body: bytes | bytearray, started: float) -> bytes:
        try:
            review = await offload(len(body), AdmissionReview.of, bytes(body))
        except AdmissionError as error:
            raise Refusal(HTTPStatus.BAD_REQUEST, "no-review", str(error)) from error
        result, verdict = await self._verdict(review.request, self._seconds - (self._clock.monotonic() - started))
        self._counts.add("restow_admission_reviews_total", self._name, result)
        self._counts.observe(self._clock.monotonic() - started, "restow_admission_seconds", self._name)
        return review.answer(verdict)

    async def _verdict(self, request: AdmissionRequest, seconds: float) -> tuple[str, AdmissionResponse]:
        try:
            async with asyncio.timeout(seconds):
                verdict = await self._step(request)
        except TimeoutError:
            return self._failed(request, f"did not decide within {self._seconds:g} seconds")
        except ConversionError as error:
            return self._failed(request, f"cannot read the object: {error}", HTTPStatus.UNPROCESSABLE_ENTITY)
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not admit
            return self._failed(request, f"failed with {type(error).__name__}")
        if verdict.patch and not self._patches:
            return self._failed(request, "wants to patch, which a validating step cannot")
        return "allowed" if verdict.allowed else "denied", verdict

    def _failed(
        self, request: AdmissionRequest, what: str, code: int = HTTPStatus.INTERNAL_SERVER_ERROR
    ) -> tuple[str, AdmissionResponse]:
        self._request_log.add(
            "admission failed", step=self._name, operation=request.operation, kind=request.kind.kind, what=what
        )
        advice = ", try again later" if code == HTTPStatus.INTERNAL_SERVER_ERROR else ""
        message = f"the admission step {self._name} {what}; the request is refused{advice}"
        return "failed", AdmissionResponse(allowed=False, message=message, code=code)
