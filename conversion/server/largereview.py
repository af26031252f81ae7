"""Large ConversionReviews, whose objects are found one by one, and whose answer is made piece by piece.

`Review` reads all objects of a review at once, and writes the answer at once. Of a hundred megabytes either step keeps
everybody else waiting for a fifth of a second, and two bytes on the wire (`{}`) may be worth eighty in memory. Here no
step is longer than the conversion of one object, and only one object is in memory as one.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, cast

import msgspec

from restow.conversion.errors import ReviewError
from restow.conversion.graph import Graph
from restow.conversion.jsoncursor import WORKS, JsonCursor, NoJson
from restow.conversion.review import Fields, Review, read_item
from restow.conversion.values import Json

__all__ = ["LargeReview", "Pieces", "TooLarge"]

#: How many bytes a part of an answer has; one object more if need be.
_PART: Final = 256 * 1024

#: What has to be known before the first object.
_SAID: Final = frozenset({"apiVersion", "kind", "uid", "desiredAPIVersion"})

_NONE: Final = "the body is no ConversionReview"
_MALFORMED: Final = "it is not JSON, or its objects are no list"
_NO_OBJECTS: Final = b'"convertedObjects":[]'

_encode = msgspec.json.Encoder().encode


class TooLarge(ReviewError):
    """An object is larger than allowed."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """An answer that nobody puts together: its size in bytes, and its parts, which are made as they are asked for."""

    size: int
    parts: Iterator[bytes]


class LargeReview(Review):
    """A review that is read while it is iterated over. Iterating raises ReviewError where it is malformed.

    It has to begin as API servers begin one, with all that is said of the objects before them. Another one is read as
    `Review` does it, if it is no larger than an object may be.
    """

    def __init__(self, graph: Graph, body: bytes | bytearray, *, most: int) -> None:
        """Read up to the objects, none of which may have more than `most` bytes. Raises ReviewError."""
        objects = _Objects(JsonCursor(body), most)
        if not (WORKS and objects.begin()):
            if WORKS and len(body) > most:
                message = f"{_NONE}: {_MALFORMED}, or what it asks for is not said before them"
                raise ReviewError(message)
            super().__init__(graph, bytes(body), most=most)
            return
        super().__init__(graph, objects.envelope, most=most)
        # A sequence as Review wants it, of which each item is made when it is asked for.
        self.objects = cast("tuple[Fields | msgspec.Raw, ...]", objects)

    def pieces(self) -> Pieces:
        """Return the answer, once, after the iteration: the converted objects are let go as they are asked for."""
        objects, self._converted = self._converted, []
        head, at, tail = self.answer().partition(_NO_OBJECTS)
        if not objects:
            return Pieces(len(head) + len(at) + len(tail), iter((head, at, tail)))
        head, tail = head + at[:-1], at[-1:] + tail
        size = len(head) + sum(memoryview(each).nbytes for each in objects) + len(objects) - 1 + len(tail)
        return Pieces(size, _parts(head, objects, tail))


class _Objects:
    """The objects of a review, found one by one: its length is what was found so far, and only the last is kept."""

    def __init__(self, cursor: JsonCursor, most: int) -> None:
        self._envelope: Json = {}
        self._request: Json = {}
        self._walk = _walked(cursor, self._envelope, self._request)
        self._most = most
        self._found = 0
        self._last: Fields | msgspec.Raw = {}

    def begin(self) -> bool:
        """Walk up to the objects; False if there are none, or if not all is known yet that is said of them."""
        try:
            return next(self._walk, None) is not None and len(self._envelope) + len(self._request) == len(_SAID)
        except NoJson:
            return False

    @property
    def envelope(self) -> bytes:
        """The review without its objects."""
        return _encode({**self._envelope, "request": {**self._request, "objects": []}})

    def __len__(self) -> int:
        return self._found

    def __getitem__(self, index: int) -> Fields | msgspec.Raw:
        if index != self._found - 1:
            raise IndexError(index)
        return self._last

    def __iter__(self) -> Iterator[Fields | msgspec.Raw]:
        try:
            for text in self._walk:
                if len(text) > self._most:
                    message = f"an object of the review is larger than {self._most} bytes, the most that is accepted"
                    raise TooLarge(message)
                self._found += 1
                self._last = read_item(bytes(text))
                yield self._last
        except (NoJson, msgspec.MsgspecError) as error:
            message = f"{_NONE}: {(isinstance(error, NoJson) and str(error)) or _MALFORMED}"
            raise ReviewError(message) from error


def _walked(cursor: JsonCursor, envelope: Json, request: Json) -> Iterator[memoryview]:
    """Yield nothing worth having once the objects are reached, then each of them, and check what follows.

    What is said of them is put into the two dicts. No method: a generator that knows its owner would keep the body
    until the garbage collector comes by, where an iteration is given up.
    """
    for name in cursor.members():
        if name in _SAID:
            envelope[name] = cursor.text()
        elif name == "request" and not request:
            yield from _walked_request(cursor, request)
        else:
            cursor.skip()
    cursor.end()


def _walked_request(cursor: JsonCursor, request: Json) -> Iterator[memoryview]:
    reached = False
    for name in cursor.members():
        if name in _SAID:
            request[name] = cursor.text()
        elif name == "objects" and not reached:
            reached = True
            yield memoryview(b"")
            yield from cursor.items()
        else:
            cursor.skip()


def _parts(head: bytes, objects: list[msgspec.Raw], tail: bytes) -> Iterator[bytes]:
    yield head
    objects.reverse()
    before = b""
    while objects:
        some: list[msgspec.Raw] = []
        size = 0
        while objects and size < _PART:
            some.append(objects.pop())
            size += memoryview(some[-1]).nbytes
        yield before + b",".join(map(bytes, some))
        before = b","
    yield tail
