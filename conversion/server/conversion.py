"""The endpoint of one CRD: ConversionReviews in, answers out; and the graph that serves each CRD.

A review whose objects cannot be converted is answered with HTTP 200 and status Failure in its envelope, because that is
the message that the API server shows. A body that is no review has no uid for an answer, and is refused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from http import HTTPStatus
from typing import Final

import msgspec

from restow.conversion.compile.graph import Graph
from restow.conversion.model.errors import ReviewError, raised_at
from restow.conversion.reviews.conversion import LARGE, KeptValue, Review, ReviewTooLarge
from restow.conversion.reviews.tally import Tally, answered, converted
from restow.conversion.rules.functions import keeping
from restow.conversion.server.failures import RateLimitedLog
from restow.conversion.server.limits import Limits, Refusal
from restow.conversion.server.metrics import ServerMetrics
from restow.conversion.server.timeslices import TimeSlices
from restow.crds import Crd
from restow.kube.clock import Clock

KeptHook = Callable[[KeptValue], None]
"""Receives each value that a rule could not convert, and kept."""


_UNKNOWN: Final = "unknown"


class GaveUp(Exception):
    """The conversion was ended because it took too much. The message is a predicate of the object at ``index``.

    Without ``index`` it is unknown which object takes so much, and the message is a sentence.
    """

    def __init__(self, message: str, index: int | None = None) -> None:
        super().__init__(message)
        self.index = index


Elsewhere = Callable[[bytes, int], Awaitable[tuple[bytes, Tally, Sequence[KeptValue]]]]
"""Answers a review, whose objects may have so many bytes, in another process.

Raises GaveUp; ReviewError as ``Review`` does; Refusal if too many reviews wait.
"""


class ConversionEndpoint:
    """Converts the objects of one CRD, in this process or ``elsewhere``. ``most`` is the largest body, in bytes."""

    def __init__(
        self,
        crd: str,
        graph: Graph,
        *,
        limits: Limits,
        counts: ServerMetrics,
        time_slices: TimeSlices,
        request_log: RateLimitedLog,
        clock: Clock,
        kept: KeptHook | None = None,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        self.most = limits.body
        self._crd = crd
        self._graph = graph
        self._most_of_object = limits.object
        self._counts = counts
        self._time_slices = time_slices
        self._request_log = request_log
        self._clock = clock
        self._kept = kept
        self._elsewhere = elsewhere
        self._kept_log = RateLimitedLog(clock)
        for label in _keeping_labels(graph):
            counts.add("restow_conversion_kept_total", crd, label, amount=0)
        for result in ("success", "failure"):  # start at 0: an alert would miss the first increase of a series
            counts.add("restow_conversion_reviews_total", crd, result, amount=0)
        versions = {f"{kind.group}/{name}": name for kind in graph.kinds.values() for name in kind.visible_versions}
        self._versions = versions
        self._versions_as_sent: dict[bytes, str] = {msgspec.json.encode(text): name for text, name in versions.items()}

    async def answer(self, body: bytes | bytearray) -> bytes:
        """Answer one review.

        Raises:
            Refusal: the body is no ConversionReview or is too large, or the webhook is overloaded.
        """
        started = self._clock.monotonic()
        try:
            answer, tally, kept = await self._answered(bytes(body))
        except ReviewTooLarge as error:
            raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large", str(error)) from error
        except ReviewError as error:
            raise Refusal(HTTPStatus.BAD_REQUEST, "no-review", str(error)) from error
        self._count(tally, kept, len(body), len(answer), started)
        return answer

    async def _answered(self, body: bytes) -> tuple[bytes, Tally, Sequence[KeptValue]]:
        if self._elsewhere is not None:
            try:
                return await self._elsewhere(body, self._most_of_object)
            except GaveUp as gave_up:
                review = Review(self._graph, body, most=self._most_of_object)
                answer = review.give_up(f"{gave_up} (rules of {self._crd})", gave_up.index)
                return answer, Tally(review.target, 1, 1, review.failures[0]), ()
        if len(body) <= LARGE:
            return answered(self._graph, body, self._most_of_object)
        review = Review(self._graph, body, most=self._most_of_object)
        tally = Tally(review.target)
        await self._time_slices.drive(self._crd, converted(review, tally))
        return review.answer(), tally, review.kept

    def answer_at_once(self, body: bytes, *, most: int) -> bytes | None:
        """Answer a small review. Return None, and count nothing, if the answer has more than ``most`` bytes.

        Raises:
            ReviewError: the body is no ConversionReview.
        """
        if self._elsewhere is not None:
            return None
        started = self._clock.monotonic()
        answer, tally, kept = answered(self._graph, body, self._most_of_object)
        if len(answer) > most:
            return None
        self._count(tally, kept, len(body), len(answer), started)
        return answer

    def _count(self, tally: Tally, kept: Sequence[KeptValue], received: int, sent: int, started: float) -> None:
        add, crd = self._counts.add, self._crd
        add("restow_conversion_reviews_total", crd, "failure" if tally.failed else "success")
        add("restow_conversion_request_bytes_total", crd, amount=received)
        add("restow_conversion_response_bytes_total", crd, amount=sent)
        target = self._versions.get(tally.target, _UNKNOWN)
        for (source, failed), count in tally.sources.items():
            labels = (crd, self._versions_as_sent.get(source, _UNKNOWN), target, "failure" if failed else "success")
            add("restow_conversion_objects_total", *labels, amount=count)
        self._counts.observe(self._clock.monotonic() - started, "restow_conversion_seconds", crd)
        for each in kept:
            self._tell_kept(each, target)
        if tally.failed:
            self._request_log.add(
                "conversion failed",
                crd=crd,
                to=target,
                objects=tally.count,
                failed=tally.failed,
                first=tally.first,
            )

    def _tell_kept(self, kept: KeptValue, target: str) -> None:
        """Count, log and report a value that a rule kept; a separate log, so that kept values hide no failure."""
        failed = kept.failed
        self._counts.add("restow_conversion_kept_total", self._crd, failed.rule)
        self._kept_log.add(
            "conversion kept a value",
            crd=self._crd,
            to=target,
            object=kept.identity,
            pointer=failed.pointer,
            rule=failed.rule,
            why=failed.reason,
            line=raised_at(failed.__cause__),
        )
        if self._kept is not None:
            self._kept(kept)


def _keeping_labels(graph: Graph) -> frozenset[str]:
    """Return the names of the rules that may keep a value."""
    spokes = [spoke for kind in graph.kinds.values() for spoke in kind.spokes.values()]
    return frozenset(label for spoke in spokes for rule in keeping(spoke.rules) for label in rule.failing)


def conversions_by_crd(graph: Graph, crds: Iterable[Crd] = ()) -> dict[str, Graph]:
    """Return the graph of each kind by the name of its CRD (``<plural>.<group>``).

    Each graph holds one kind only, so a CRD that names the path of another CRD gets an error. A kind without its CRD
    gets the English plural, as in most CRDs; check the path of a kind with an irregular plural.
    """
    names = {(crd.group, crd.kind): crd.name for crd in crds}
    return {
        names.get((group, kind)) or f"{_plural(kind)}.{group}": Graph({(group, kind): conversions})
        for (group, kind), conversions in graph.kinds.items()
    }


def _plural(kind: str) -> str:
    singular = kind.lower()
    if singular.endswith(("s", "x", "z", "ch", "sh")):
        return f"{singular}es"
    if singular.endswith("y") and not singular.endswith(("ay", "ey", "iy", "oy", "uy")):
        return f"{singular.removesuffix('y')}ies"
    return f"{singular}s"
