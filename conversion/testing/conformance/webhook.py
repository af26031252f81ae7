"""The webhook under test, as the cases speak to it.

Each case looks at one thing, so what it does not look at is taken leniently here: a webhook that, say, forgets the uid
shall fail one case and not all of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from restow.conversion.testing.conformance.samples import Samples
from restow.conversion.values import Json
from restow.conversion.wiring.acceptance import (
    Rejected,
    Sent,
    check_http,
    check_result,
    converted_objects,
    restore_metadata,
    review_body,
)
from restow.conversion.wiring.caller import Answer, Caller

__all__ = ["Exchange", "Webhook"]


@dataclass(frozen=True, slots=True)
class Exchange:
    """A review and what came back."""

    sent: Sent
    http: Answer

    @property
    def content_type(self) -> str:
        """The answer's Content-Type."""
        return self.http.headers.get("Content-Type", "")

    @property
    def answer(self) -> Json:
        """The decoded answer.

        Raises:
            Rejected: it is none.
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
            Rejected: there are none, or one is no object.
        """
        found = converted_objects(self.answer)
        if not found:
            check_result(self.answer)
        for each in found:
            if not isinstance(each, dict):
                raise Rejected.no_object()
        return list(found)

    @property
    def first(self) -> Json:
        """The first converted object; empty if there is none, for whatever reason: other cases are about that."""
        try:
            found = converted_objects(self.answer)
        except Rejected:
            return {}
        return found[0] if found and isinstance(found[0], dict) else {}


class Webhook:
    """The webhook and the samples to ask it with.

    ``idle_s``: seconds for which a connection is left idle to see whether it stays open.
    """

    def __init__(self, caller: Caller, samples: Samples, *, idle_s: float) -> None:
        self.caller = caller
        self.samples = samples
        self.idle_s = idle_s
        self._asked = 0

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[Webhook]:
        """The same webhook over connections of one's own."""
        async with self.caller.another() as caller:
            yield Webhook(caller, self.samples, idle_s=self.idle_s)

    async def ask(self, objects: Sequence[Json], version: str, *, review: str = "v1", **more: Any) -> Exchange:
        """Send a review of the objects to a version. ``more`` are further fields of the envelope."""
        return await self.ask_for(objects, self.samples.api_version(version), review=review, **more)

    async def ask_for(self, objects: Sequence[Json], desired: str, *, review: str = "v1", **more: Any) -> Exchange:
        """Send a review that asks for any ``group/version``."""
        self._asked += 1
        uid = f"9f3a0000-0000-4000-8000-{self._asked:012x}"
        sent = Sent(uid, desired, tuple(objects), review)
        return Exchange(sent, await self.caller.call(review_body(sent, **more)))

    async def convert(self, obj: Json, version: str) -> Json:
        """Return an object at another version, as the API server would go on with it.

        Raises:
            Rejected: the answer is rejected.
        """
        exchange = await self.ask([obj], version)
        objects = exchange.objects
        if not objects:
            raise Rejected.no_object()
        got = objects[0]
        try:
            got = restore_metadata(obj, got)
        except Rejected:
            got = {**got, "metadata": obj.get("metadata", {})}
        return {**got, "apiVersion": exchange.sent.desired, "kind": obj["kind"]}
