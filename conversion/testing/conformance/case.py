"""A case of conformance, and the webhook under test.

A case is one thing that an API server needs from a conversion webhook: an async function that raises ``NotConformant``
or ``Skipped``. Its docstring is the correct behaviour; ``must`` and ``should`` add the rest, and make it a ``Case``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from restow.conversion.certificates.probe import WebhookAnswer, WebhookClient
from restow.conversion.model.values import Json
from restow.conversion.reviews.responsechecks import (
    ResponseRejected,
    SentReview,
    check_http,
    check_result,
    converted_objects,
    restore_metadata,
    review_body,
)
from restow.conversion.testing.conformance.samples import Samples


@dataclass(frozen=True, slots=True)
class Exchange:
    """A review and its answer."""

    sent: SentReview
    http: WebhookAnswer

    @property
    def obj(self) -> Json:
        """The first object that was sent."""
        return self.sent.objects[0]

    @property
    def source(self) -> str:
        """The version of the first object that was sent."""
        return str(self.obj["apiVersion"]).rpartition("/")[2]

    @property
    def target(self) -> str:
        """The version that was asked for."""
        return self.sent.desired.rpartition("/")[2]

    @property
    def way(self) -> str:
        """Both versions, for messages."""
        return f"{self.source} to {self.target}"

    @property
    def what(self) -> str:
        """The sent request, for messages."""
        return f"an object of {self.source} asked for at {self.target}"

    @property
    def content_type(self) -> str:
        """The answer's Content-Type."""
        return self.http.headers.get("Content-Type", "")

    @property
    def answer(self) -> Json:
        """The decoded answer.

        Raises:
            ResponseRejected: the body is no JSON object, or the HTTP status is no success.
        """
        return check_http(self.http.status, self.content_type, self.http.body)

    @property
    def result(self) -> Json:
        """The ``result`` of the response; empty if there is none."""
        response = self.answer.get("response")
        result = response.get("result") if isinstance(response, dict) else None
        return result if isinstance(result, dict) else {}

    @property
    def objects(self) -> list[Json]:
        """The converted objects.

        Raises:
            ResponseRejected: the response has no ``convertedObjects``, or one of them is no object.
        """
        found = converted_objects(self.answer)
        if not found:
            check_result(self.answer)
        for each in found:
            if not isinstance(each, dict):
                raise ResponseRejected.no_object()
        return list(found)

    @property
    def first(self) -> Json:
        """The first converted object; empty if there is none, for whatever reason: other cases cover that."""
        try:
            found = converted_objects(self.answer)
        except ResponseRejected:
            return {}
        return found[0] if found and isinstance(found[0], dict) else {}


class WebhookUnderTest:
    """The webhook, and the samples to send to it.

    ``idle_s``: for how many seconds a connection stays idle before a check whether it is still open.
    """

    def __init__(self, caller: WebhookClient, samples: Samples, *, idle_s: float) -> None:
        self.caller = caller
        self.samples = samples
        self.idle_s = idle_s
        self._asked = 0

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[WebhookUnderTest]:
        """The same webhook over separate connections."""
        async with self.caller.another() as caller:
            yield WebhookUnderTest(caller, self.samples, idle_s=self.idle_s)

    async def ask(self, objects: Sequence[Json], version: str, *, review: str = "v1", **more: Any) -> Exchange:
        """Send a review of the objects to a version. ``more`` are further fields of the envelope."""
        return await self.ask_for(objects, self.samples.api_version(version), review=review, **more)

    async def ask_first(self, count: int = 1, **more: Any) -> Exchange:
        """Send a review of full objects of the first version to the second one."""
        source, target = self.samples.ways[0]
        return await self.ask([self.samples.full(source, number) for number in range(count)], target, **more)

    async def each_way(self, build: Callable[[str], Json | None] | None = None) -> AsyncIterator[Exchange]:
        """Send an object of each version to each other version; yield the answers.

        ``build`` makes the object of a version, or returns None for a version without one; by default the full one.
        """
        for source, target in self.samples.ways:
            obj = (build or self.samples.full)(source)
            if obj is not None:
                yield await self.ask([obj], target)

    async def each_sample(self) -> AsyncIterator[tuple[str, Exchange]]:
        """Send every sample to each other version; yield a description of the request, and the answer."""
        for source, target in self.samples.ways:
            for number, obj in enumerate(self.samples.objects(source)):
                yield f"sample {number} of {source} asked for at {target}", await self.ask([obj], target)

    async def ask_for(self, objects: Sequence[Json], desired: str, *, review: str = "v1", **more: Any) -> Exchange:
        """Send a review that asks for any ``group/version``."""
        self._asked += 1
        uid = f"9f3a0000-0000-4000-8000-{self._asked:012x}"
        sent = SentReview(uid, desired, tuple(objects), review)
        return Exchange(sent, await self.caller.call(review_body(sent, **more)))

    async def convert(self, obj: Json, version: str) -> Json:
        """Return an object at another version, as the API server would use it.

        Raises:
            ResponseRejected: an API server would reject the answer.
        """
        exchange = await self.ask([obj], version)
        objects = exchange.objects
        if not objects:
            raise ResponseRejected.no_object()
        got = objects[0]
        try:
            got = restore_metadata(obj, got)
        except ResponseRejected:
            got = {**got, "metadata": obj.get("metadata", {})}
        return {**got, "apiVersion": exchange.sent.desired, "kind": obj["kind"]}


class Severity(StrEnum):
    """The consequence if a case fails."""

    MUST = "must"
    """Requests of clients fail, or data is lost."""

    SHOULD = "should"
    """An API server does not do this today, or it costs only clarity."""


class NotConformant(AssertionError):
    """The webhook does not do what a case requires; the message says what it did instead, without values."""


class Skipped(Exception):
    """The case does not apply to this kind; the message says why."""


Check = Callable[[WebhookUnderTest], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Case:
    """One case.

    Attributes:
        name: short, unique, with hyphens.
        severity: MUST or SHOULD.
        what: the correct behaviour of the webhook.
        why: the consequence of a different behaviour.
        source: where this is specified: code of the API server, an issue, a KEP.
        check: calls the webhook; raises NotConformant, or Skipped.
    """

    name: str
    severity: Severity
    what: str
    why: str
    source: str
    check: Check = field(repr=False, compare=False)

    def __str__(self) -> str:
        return self.name


def must(name: str, why: str, source: str) -> Callable[[Check], Case]:
    """Return a decorator that makes a function a case that every webhook must pass."""
    return lambda check: Case(name, Severity.MUST, _what(check), why, source, check)


def should(name: str, why: str, source: str) -> Callable[[Check], Case]:
    """Return a decorator that makes a function a case that a webhook should pass."""
    return lambda check: Case(name, Severity.SHOULD, _what(check), why, source, check)


def _what(check: Check) -> str:
    return " ".join((check.__doc__ or "").split())


def body(obj: Json) -> Json:
    """Return what a webhook converts, and a manager can own: all fields but type and metadata."""
    return {name: value for name, value in obj.items() if name not in ("apiVersion", "kind", "metadata")}


def expect(condition: object, message: str) -> None:
    """Raise NotConformant with the message unless the condition holds."""
    if not condition:
        raise NotConformant(message)


@contextmanager
def asked(what: str) -> Iterator[None]:
    """Turn the API server's rejection into a NotConformant; ``what`` describes the sent request."""
    try:
        yield
    except ResponseRejected as error:
        raise NotConformant(f"{what}: {error}") from error
