"""The endpoints of admission steps: AdmissionReviews in, decisions out, and a queue for the memory that they take.

`WeightedSemaphore` admits work by its memory, first come, first served; beyond a number of waiting bytes a request is
refused at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable
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

__all__ = [
    "AdmissionEndpoint",
    "AdmissionStep",
    "QueueFull",
    "RefuseKept",
    "RestoreStash",
    "ReviewQueues",
    "WeightedSemaphore",
]


class QueueFull(Exception):
    """There is no place, and too many wait for one."""


class WeightedSemaphore:
    """Memory that may be taken at once; first come, first served.

    Args:
        most: bytes of memory; work that takes more goes alone.
        waiting: bytes of those who wait, as they came; beyond, one is sent away at once.
    """

    def __init__(self, most: int, waiting: int) -> None:
        self._most = self._free = most
        self._may_wait = waiting
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def place(self, cost: int, size: int) -> AsyncIterator[None]:
        """Wait for a place, and keep it until the end of the block.

        ``cost`` is the memory that is taken, ``size`` what is held while waiting, both in bytes.

        Raises:
            Full: there is no room for it.
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

#: The most commas and brackets of a review: there are about as many values. What an API server stores, twice, has
#: fewer.
_MOST_VALUES: Final = 600_000
_STRUCTURE: Final = (b",", b"{", b"[")

#: What a value takes at most, decoded: an object of one member.
_BYTES_EACH: Final = 240

#: Reviews that take no more memory share the queue of small ones. The queue of large ones has room for one of the
#: largest.
_SMALL: Final = 8 * _MIB
_SMALL_AT_ONCE: Final = 64 * _MIB
_LARGE_AT_ONCE: Final = 160 * _MIB

#: How many bytes of reviews may wait in a queue. Further requests get 429.
_MOST_WAITING: Final = 64 * _MIB


class AdmissionStep(Protocol):
    """Decides about a request. Mounted at ``/admit/<name>`` it may not patch, at ``/mutate/<name>`` it may."""

    async def __call__(self, request: AdmissionRequest, /) -> AdmissionResponse:
        """Return the verdict; whatever is raised refuses the request."""
        ...


class RestoreStash:
    """The mutating step that restores a stash that a client dropped; see ``restow.conversion.reviews.admission``.

    The CRDs say where status is a subresource; without its CRD, a kind's status is taken for a plain field.
    """

    def __init__(self, graph: Graph, crds: Iterable[Crd] = ()) -> None:
        self._graph = graph
        self._stored_status = frozenset(
            (crd.group, version.name, crd.kind)
            for crd in crds
            for version in crd.versions
            if version.has_status_subresource
        )

    async def __call__(self, request: AdmissionRequest, /) -> AdmissionResponse:
        """Return the patch that restores it."""
        asked = request.request_kind or request.kind
        stored = (asked.group, asked.version, asked.kind) in self._stored_status
        return await offload(request.size, restore_stash, self._graph, request, stored_status=stored)


class RefuseKept:
    """The validating step that refuses values which rules cannot convert; see ``reviews.admissionsteps``."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    async def __call__(self, request: AdmissionRequest, /) -> AdmissionResponse:
        """Return the verdict."""
        return await offload(request.size, refuse_kept, self._graph, request)


class ReviewQueues:
    """The reviews at work in a process, over all steps."""

    def __init__(self) -> None:
        self._small = WeightedSemaphore(_SMALL_AT_ONCE, _MOST_WAITING)
        self._large = WeightedSemaphore(_LARGE_AT_ONCE, _MOST_WAITING)

    def place(self, size: int, values: int) -> AbstractAsyncContextManager[None]:
        """Wait for a place for a review of so many bytes and values, and keep it.

        Raises:
            Full: there is no room for it.
        """
        cost = size + _BYTES_EACH * values
        return (self._small if cost <= _SMALL else self._large).place(cost, size)


class AdmissionEndpoint:
    """Asks one step. ``most`` is the largest body, in bytes."""

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
        for result in ("allowed", "denied", "failed"):  # from 0 on, or an alert misses the first
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
