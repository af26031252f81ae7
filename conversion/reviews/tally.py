"""Answers a ConversionReview, and tells what happened in a form that another process can send.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from restow.conversion.compile.graph import Graph
from restow.conversion.model.errors import RuleFailed
from restow.conversion.model.values import Json
from restow.conversion.reviews.conversion import Fields, KeptValue, Review

#: Conversion of a review stops after this many failures; its message has reached its full length long before.
_ENOUGH_FAILURES: Final = 1000
_NAMED_BY: Final = ("name", "namespace", "uid")


class Tally(msgspec.Struct, array_like=True):
    """What happened in a review.

    Attributes:
        target: the requested apiVersion.
        count, failed: how many objects it has, and how many of them failed.
        first: the first failure.
        sources: the number of objects by their original apiVersion (as JSON) and by whether they failed.
    """

    target: str
    count: int = 0
    failed: int = 0
    first: str = ""
    sources: dict[tuple[bytes, bool], int] = {}


class Kept(msgspec.Struct, array_like=True):
    """A ``KeptValue`` to be sent: of the object only what names it."""

    obj: Json
    reason: str
    rule: str
    version: str
    pointer: str

    @classmethod
    def of(cls, kept: KeptValue) -> Kept:
        """Return what is sent of a kept value."""
        metadata, failed = kept.obj.get("metadata") or {}, kept.failed
        named = {name: metadata[name] for name in _NAMED_BY if name in metadata}
        obj = {"apiVersion": kept.obj["apiVersion"], "kind": kept.obj["kind"], "metadata": named}
        return cls(obj, failed.reason, failed.rule, failed.version, failed.pointer)

    def value(self) -> KeptValue:
        """Return the kept value."""
        return KeptValue(self.obj, RuleFailed(self.reason, rule=self.rule, version=self.version, pointer=self.pointer))


def converted(review: Review, tally: Tally) -> Iterator[None]:
    """Convert the objects, yield after each, and count them."""
    for obj in review:
        failed = len(review.failures)
        key = _source(obj), failed > tally.failed
        tally.sources[key] = tally.sources.get(key, 0) + 1
        tally.count, tally.failed = review.count, failed
        if failed >= _ENOUGH_FAILURES:
            break
        yield
    tally.first = review.failures[0] if review.failures else ""


def _source(obj: Fields | msgspec.Raw) -> bytes:
    return bytes(obj.get("apiVersion", b"")) if isinstance(obj, dict) else b""


def _ignore(_index: int) -> None:
    pass


def answered(
    graph: Graph, body: bytes, most: int, at: Callable[[int], None] = _ignore
) -> tuple[bytes, Tally, Sequence[KeptValue]]:
    """Return the answer to a review. ``at`` is called with the index of each object before its conversion.

    Raises:
        ReviewError: the body is no ConversionReview, or has an object that is too large.
    """
    review = Review(graph, body, most=most)
    tally = Tally(review.target)
    at(0)
    for _ in converted(review, tally):
        at(review.count)
    return review.answer(), tally, review.kept
