"""A converter that sends ConversionReviews to a webhook: in slices, with retries, and halved to find a bad object.

It writes and reads reviews as an API server does (apiextensions-apiserver ``webhook_converter.go``, 1.36), and makes
every check that the API server makes of an answer: a migration must not use a converted object that the server would
refuse. A review fails or succeeds as a whole, so the reviewer halves one that fails, to find the objects that the
webhook refuses or cannot process. It waits for a webhook that is out of reach, for a bounded time, and gives up a
webhook that answers for no object.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from restow.kube.errors import BadReply, KubeError, TimedOut, one_line
from restow.migrator.decide.errortable import Attempts, ErrorAction, ErrorOutcome, is_outage, of_review_error
from restow.migrator.model.converter import Answer, ConverterDown, Json, Unconverted
from restow.migrator.model.report import Requests, again
from restow.migrator.requests.stop import RunStop

_KIND = "ConversionReview"
_LONGEST_MESSAGE = 300

MOST_OBJECTS = 500
MOST_BYTES = 4 * 2**20
"""The most bytes of one review; a larger object is sent alone."""


class ReviewFailed(Exception):
    """The converter reports that an object of the review cannot be converted; the message is the converter's."""


class _Result(msgspec.Struct, frozen=True):
    status: str = ""
    message: str = ""


class _Response(msgspec.Struct, frozen=True):
    uid: str = ""
    result: _Result = _Result()
    converted: list[dict[str, Any]] | None = msgspec.field(name="convertedObjects", default=None)


class _Answer(msgspec.Struct, frozen=True):
    api_version: str = msgspec.field(name="apiVersion", default="")
    kind: str = ""
    response: _Response | None = None


_decoder = msgspec.json.Decoder(_Answer)


def slices(sizes: Sequence[int], most: int = MOST_OBJECTS) -> Iterator[slice]:
    """Split objects of these sizes (bytes) into reviews within the limits."""
    begin, size = 0, 0
    for place, each in enumerate(sizes):
        if place > begin and (place - begin >= most or size + each > MOST_BYTES):
            yield slice(begin, place)
            begin, size = place, 0
        size += each
    if sizes:
        yield slice(begin, len(sizes))


def write_review(objects: Sequence[bytes], api_version: str, *, uid: str, review_version: str) -> bytes:
    """Return the body of a review; the objects are encoded JSON."""
    request = {"uid": uid, "desiredAPIVersion": api_version, "objects": [msgspec.Raw(each) for each in objects]}
    return msgspec.json.encode({"apiVersion": review_version, "kind": _KIND, "request": request})


def read_answer(body: bytes, sent: Sequence[Json], api_version: str, *, uid: str, review_version: str) -> list[Json]:
    """Return the converted objects of an answer.

    Raises:
        ReviewFailed: the converter reports a failure.
        BadReply: the body does not answer that review, or does not return the same objects.
    """
    try:
        answer = _decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadReply(f"the answer is no {_KIND}, or is nested too deeply to be read here") from error
    response = answer.response
    if response is None or (answer.api_version, answer.kind) != (review_version, _KIND) or response.uid != uid:
        raise BadReply(f"the answer is no {_KIND} of {review_version}, or not to the one that was sent")
    if response.result.status != "Success":
        raise ReviewFailed(one_line(response.result.message, _LONGEST_MESSAGE) or "the converter gives no reason")
    converted = response.converted or []
    if len(converted) != len(sent):
        raise BadReply(f"{len(sent)} objects were sent, and {len(converted)} came back")
    for before, after in zip(sent, converted, strict=True):
        if (after.get("apiVersion"), after.get("kind"), _names(after)) != (api_version, before["kind"], _names(before)):
            raise BadReply(f"an object did not come back as the same object at {api_version}")
    return converted


def _names(obj: Json) -> tuple[Any, ...]:
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        return ()
    return metadata.get("namespace"), metadata.get("name"), metadata.get("uid")


IN_FLIGHT = 4
"""Concurrent reviews: enough for a webhook with several replicas, and not too many for one with a single replica."""

_SILENT_OBJECTS = 3
"""Objects in a row that got no answer in a separate review, after which the reviewer gives up all others."""


@dataclass(frozen=True, slots=True)
class Way:
    """The connection to a webhook.

    Attributes:
        post: sends a review and returns the answer; raises KubeError.
        review_version: the apiVersion of reviews that the webhook accepts.
        help: a sentence about what to do if it does not answer.
    """

    post: Callable[[bytes], Awaitable[bytes]]
    review_version: str
    help: str


class Reviewer:
    """A ``Converter`` over a webhook.

    Args:
        name: the name of the webhook, for messages.
        find: returns the connection to it, once, on first use; may raise ConverterDown.
        stop: once it is set, the reviewer sends no further review.
        jitter: adds jitter to a wait, ``seconds -> seconds``.
        chance: makes the uids of reviews.
        requests: counts the reviews.
        patience_s: seconds to wait for an unreachable webhook, beyond the usual attempts.
    """

    def __init__(
        self,
        name: str,
        find: Callable[[], Awaitable[Way]],
        *,
        stop: RunStop,
        jitter: Callable[[float], float],
        chance: random.Random,
        requests: Requests,
        patience_s: float = 0.0,
    ) -> None:
        self._name = name
        self._find = find
        self._stop = stop
        self._jitter = jitter
        self._chance = chance
        self._requests = requests
        self._patience_s = patience_s
        self._finding = asyncio.Lock()
        self._way: Way | None = None
        self._in_flight = asyncio.Semaphore(IN_FLIGHT)
        self._most = MOST_OBJECTS
        self._heard = False
        self._silent = 0

    async def convert(self, objects: Sequence[Json], api_version: str) -> Sequence[Answer]:
        bodies = [msgspec.json.encode(obj) for obj in objects]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._ask(objects[part], bodies[part], api_version))
                    for part in slices([len(body) for body in bodies], self._most)
                ]
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return [answer for task in tasks for answer in task.result()]

    async def _ask(self, objects: Sequence[Json], bodies: Sequence[bytes], api_version: str) -> list[Answer]:
        """Send a review of some objects; if it fails, send a review of each half."""
        attempts, failures = Attempts(self._patience_s), 0
        while True:
            try:
                answers: list[Answer] = [*await self._review(objects, bodies, api_version)]
            except ReviewFailed as failure:
                self._hear()
                if len(objects) == 1:
                    return [Unconverted(str(failure))]
                return await self._ask_by_halves(objects, bodies, api_version)
            except KubeError as error:
                failures += 1
                attempt = attempts.failed(error, self._stop.now(), 0.0) if is_outage(error) else failures
                outcome = of_review_error(error, attempt=attempt, objects=len(objects), heard=self._heard)
                if outcome.action is ErrorAction.SPLIT:
                    self._most = len(objects) // 2 if outcome.slow_down else self._most
                    return await self._ask_by_halves(objects, bodies, api_version)
                if outcome.action is not ErrorAction.RETRY:
                    return [self._give_up(outcome, lasting=is_outage(error) or isinstance(error, TimedOut))]
                self._requests.retried += 1
                what = again("ask the conversion webhook", attempt, outcome.attempts, error.said)
                await self._stop.sleep(self._jitter(outcome.wait), what)
            else:
                self._hear()
                return answers

    async def _ask_by_halves(self, objects: Sequence[Json], bodies: Sequence[bytes], api_version: str) -> list[Answer]:
        half = len(objects) // 2
        first = await self._ask(objects[:half], bodies[:half], api_version)
        return [*first, *await self._ask(objects[half:], bodies[half:], api_version)]

    def _hear(self) -> None:
        self._heard, self._silent = True, 0

    def _give_up(self, outcome: ErrorOutcome, *, lasting: bool) -> Unconverted:
        """Give up one object, or all objects if the outcome says so or several in a row got no answer."""
        self._silent += 1
        if outcome.action is ErrorAction.STOP or self._silent >= _SILENT_OBJECTS:
            help_ = self._way.help if self._way is not None else ""
            msg = f"{self._name} does not convert objects: {outcome.message}. {help_}"
            raise ConverterDown(msg, unreachable=self._name if lasting else "")
        return Unconverted(outcome.message, refused=False)

    async def _review(self, objects: Sequence[Json], bodies: Sequence[bytes], api_version: str) -> list[Json]:
        async with self._in_flight:
            if self._stop:
                raise ConverterDown(self._stop.why, unreachable=self._stop.unreachable)
            async with self._finding:
                self._way = self._way or await self._find()
            uid = str(uuid.UUID(int=self._chance.getrandbits(128), version=4))
            review = write_review(bodies, api_version, uid=uid, review_version=self._way.review_version)
            self._requests.review += 1
            answer = await self._way.post(review)
        return read_answer(answer, objects, api_version, uid=uid, review_version=self._way.review_version)
