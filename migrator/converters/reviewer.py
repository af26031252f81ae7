"""A converter that asks by ConversionReviews: in slices, again where that helps, and by halves where it does not.

A review fails as a whole. Which of its objects the webhook refuses, or chokes on, is found out by halving it. A webhook
that is out of reach is waited for, but not for long; one that answers for no object is given up for all.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import msgspec

from restow.kube.errors import KubeError, TimedOut
from restow.migrator.converters.converter import Answer, ConverterDown, Json, Unconverted
from restow.migrator.converters.reviews import MOST_OBJECTS, ReviewFailed, read_answer, slices, write_review
from restow.migrator.halt import Halt
from restow.migrator.outcome import Action, Outcome, is_outage, of_review_error
from restow.migrator.report import Requests
from restow.migrator.tries import Tries
from restow.migrator.waits import again

__all__ = ["Reviewer", "Way"]

IN_FLIGHT = 4
"""Reviews that are sent side by side: enough for a webhook with several replicas, and few for one with none."""

_SILENT_OBJECTS = 3
"""Objects in a row that got no answer, each asked for alone, after which no other is tried."""


@dataclass(frozen=True, slots=True)
class Way:
    """A way to a webhook.

    Attributes:
        post: sends a review and returns the answer; raises KubeError.
        review_version: apiVersion of the reviews that it takes.
        help: what to do if it does not answer, in a sentence.
    """

    post: Callable[[bytes], Awaitable[bytes]]
    review_version: str
    help: str


class Reviewer:
    """A ``Converter`` over a webhook.

    Args:
        name: of the webhook, for messages.
        find: finds the way to it, once, when it is first needed; may raise ConverterDown.
        halt: once raised, nothing more is sent.
        jitter: spreads a wait, ``seconds -> seconds``.
        chance: makes the uids of reviews.
        requests: where reviews are counted.
        patience_s: how long a webhook that is out of reach is waited for, beyond the usual tries.
    """

    def __init__(
        self,
        name: str,
        find: Callable[[], Awaitable[Way]],
        *,
        halt: Halt,
        jitter: Callable[[float], float],
        chance: random.Random,
        requests: Requests,
        patience_s: float = 0.0,
    ) -> None:
        self._name = name
        self._find = find
        self._halt = halt
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
        """Ask for some objects; where they cannot be answered for together, for each half."""
        tries, failures = Tries(self._patience_s), 0
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
                attempt = tries.failed(error, self._halt.now(), 0.0) if is_outage(error) else failures
                outcome = of_review_error(error, attempt=attempt, objects=len(objects), heard=self._heard)
                if outcome.action is Action.SPLIT:
                    self._most = len(objects) // 2 if outcome.slow_down else self._most
                    return await self._ask_by_halves(objects, bodies, api_version)
                if outcome.action is not Action.RETRY:
                    return [self._give_up(outcome, lasting=is_outage(error) or isinstance(error, TimedOut))]
                self._requests.retried += 1
                what = again("ask the conversion webhook", attempt, outcome.attempts, error.said)
                await self._halt.sleep(self._jitter(outcome.wait), what)
            else:
                self._hear()
                return answers

    async def _ask_by_halves(self, objects: Sequence[Json], bodies: Sequence[bytes], api_version: str) -> list[Answer]:
        half = len(objects) // 2
        first = await self._ask(objects[:half], bodies[:half], api_version)
        return [*first, *await self._ask(objects[half:], bodies[half:], api_version)]

    def _hear(self) -> None:
        self._heard, self._silent = True, 0

    def _give_up(self, outcome: Outcome, *, lasting: bool) -> Unconverted:
        """Give up one object; or all, where that is the outcome, or one follows upon the other."""
        self._silent += 1
        if outcome.action is Action.STOP or self._silent >= _SILENT_OBJECTS:
            help_ = self._way.help if self._way is not None else ""
            msg = f"{self._name} does not convert objects: {outcome.message}. {help_}"
            raise ConverterDown(msg, unreachable=self._name if lasting else "")
        return Unconverted(outcome.message, refused=False)

    async def _review(self, objects: Sequence[Json], bodies: Sequence[bytes], api_version: str) -> list[Json]:
        async with self._in_flight:
            if self._halt:
                raise ConverterDown(self._halt.why, unreachable=self._halt.unreachable)
            async with self._finding:
                self._way = self._way or await self._find()
            uid = str(uuid.UUID(int=self._chance.getrandbits(128), version=4))
            review = write_review(bodies, api_version, uid=uid, review_version=self._way.review_version)
            self._requests.review += 1
            answer = await self._way.post(review)
        return read_answer(answer, objects, api_version, uid=uid, review_version=self._way.review_version)
