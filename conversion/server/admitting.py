"""The endpoints of admission steps: AdmissionReviews in, verdicts out.

A step that raises, or takes too long, refuses the request: failing open would admit what nobody has looked at. What a
failure policy of the webhook's configuration says about unanswered calls never comes into play.

An object takes up to forty times its bytes while a step has it decoded. So a review waits for its share of memory
before it is read, in one of two lanes: what API servers usually send has one that large reviews cannot fill.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus
from typing import Final, Protocol

from restow.conversion.admission import AdmissionError, AdmissionRequest, AdmissionReview, Verdict, restore_stash
from restow.conversion.errors import ConversionError
from restow.conversion.graph import Graph
from restow.conversion.server.complaints import Complaints
from restow.conversion.server.counts import Counts
from restow.conversion.server.lanes import Full, Lane
from restow.conversion.server.limits import Limits
from restow.conversion.server.refusals import Refusal
from restow.conversion.server.turns import aside
from restow.crds import Crd
from restow.kube.clock import Clock

__all__ = ["AdmissionEndpoint", "AdmissionStep", "Lanes", "RestoreStash"]

_MIB: Final = 1024 * 1024

#: The most commas and brackets of a review: there are about as many values. What an API server stores, twice, has
#: fewer.
_MOST_VALUES: Final = 600_000
_STRUCTURE: Final = (b",", b"{", b"[")

#: What a value takes at most, decoded: an object of one member.
_BYTES_EACH: Final = 240

#: Reviews that take no more memory go in the lane of small ones; such a lane, and that of large ones: one of the
#: largest at once.
_SMALL: Final = 8 * _MIB
_SMALL_AT_ONCE: Final = 64 * _MIB
_LARGE_AT_ONCE: Final = 160 * _MIB

#: How many bytes of reviews may wait in a lane; more are told to come again.
_MOST_WAITING: Final = 64 * _MIB


class AdmissionStep(Protocol):
    """Decides about a request. Mounted at ``/admit/<name>`` it may not patch, at ``/mutate/<name>`` it may."""

    async def __call__(self, request: AdmissionRequest, /) -> Verdict:
        """Return the verdict; whatever is raised refuses the request."""
        ...


class RestoreStash:
    """The mutating step that gives objects the stash back that a client dropped; see ``restow.conversion.admission``.

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

    async def __call__(self, request: AdmissionRequest, /) -> Verdict:
        """Return the patch that restores it."""
        asked = request.request_kind or request.kind
        stored = (asked.group, asked.version, asked.kind) in self._stored_status
        return await aside(request.size, restore_stash, self._graph, request, stored_status=stored)


class Lanes:
    """The reviews at work in a process, over all steps."""

    def __init__(self) -> None:
        self._small = Lane(_SMALL_AT_ONCE, _MOST_WAITING)
        self._large = Lane(_LARGE_AT_ONCE, _MOST_WAITING)

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
        lanes: Lanes,
        counts: Counts,
        complaints: Complaints,
        clock: Clock,
    ) -> None:
        self.most = limits.admission
        self._lanes = lanes
        self._name = name
        self._step = step
        self._patches = patches
        self._seconds = limits.admission_seconds
        self._counts = counts
        self._complaints = complaints
        self._clock = clock
        for result in ("allowed", "denied", "failed"):  # from 0 on, or an alert misses the first
            counts.add("restow_admission_reviews_total", name, result, amount=0)

    async def answer(self, body: bytes | bytearray) -> bytes:
        """Answer one review.

        Raises:
            Refusal: the body is none, or there is no room for it.
        """
        started = self._clock.monotonic()
        values = sum(map(body.count, _STRUCTURE))
        if values > _MOST_VALUES:
            message = f"the review has more than {_MOST_VALUES} commas and brackets, the most that is accepted"
            raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large", message)
        try:
            async with asyncio.timeout(self._seconds) as limit, self._lanes.place(len(body), values):
                limit.reschedule(None)  # from here on the step is told by name
                return await self._answer(body, started)
        except (Full, TimeoutError) as error:
            message = "the webhook is busy with as many AdmissionReviews as it may decode; try again in a second"
            raise Refusal(HTTPStatus.TOO_MANY_REQUESTS, "overload", message) from error

    async def _answer(self, body: bytes | bytearray, started: float) -> bytes:
        try:
            review = await aside(len(body), AdmissionReview.of, bytes(body))
        except AdmissionError as error:
            raise Refusal(HTTPStatus.BAD_REQUEST, "no-review", str(error)) from error
        result, verdict = await self._verdict(review.request, self._seconds - (self._clock.monotonic() - started))
        self._counts.add("restow_admission_reviews_total", self._name, result)
        self._counts.observe(self._clock.monotonic() - started, "restow_admission_seconds", self._name)
        return review.answer(verdict)

    async def _verdict(self, request: AdmissionRequest, seconds: float) -> tuple[str, Verdict]:
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
    ) -> tuple[str, Verdict]:
        self._complaints.add(
            "admission failed", step=self._name, operation=request.operation, kind=request.kind.kind, what=what
        )
        advice = ", try again later" if code == HTTPStatus.INTERNAL_SERVER_ERROR else ""
        message = f"the admission step {self._name} {what}; the request is refused{advice}"
        return "failed", Verdict(allowed=False, message=message, code=code)
