"""A cursor over JSON that is too large to be decoded, or even looked through, in one go.

msgspec finds the end of a value faster than anything else at hand, but has no call for it: it decodes all of a text, or
says where something came that should not be there. That place is what is used here, for a value that is followed by
more. Nothing is decoded that nobody asks for; whatever is passed over is checked to be JSON.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

__all__ = ["WORKS", "JsonCursor", "NoJson"]

_TRAILING: Final = re.compile(r"trailing characters \(byte (\d+)\)")
_OPEN_OBJECT: Final = re.compile(rb"\s*+\{\s*+(\})?")
_OPEN_ARRAY: Final = re.compile(rb"\s*+\[\s*+(\])?")
_COLON: Final = re.compile(rb"\s*+:")
_NEXT_MEMBER: Final = re.compile(rb"\s*+(?:,\s*+|(\}))")
_NEXT_ITEM: Final = re.compile(rb"\s*+(?:,|(\]))")
_END: Final = re.compile(rb"\s*+\Z")

_skip = msgspec.json.Decoder(msgspec.Raw).decode
_text = msgspec.json.Decoder(str).decode


class NoJson(ValueError):
    """The text is no JSON, or has something else than was asked for."""


class JsonCursor:
    """Walks over a text. What it returns are views of the text."""

    def __init__(self, text: bytes | bytearray) -> None:
        self._text = memoryview(text)
        self._place = 0

    def members(self) -> Iterator[str]:
        """Enter an object; yields each name, after which the caller has to take the value."""
        closed = self._match(_OPEN_OBJECT)
        while not closed:
            name = self._value()
            self._match(_COLON)
            try:
                yield _text(name)
            except msgspec.MsgspecError as error:
                raise NoJson from error
            closed = self._match(_NEXT_MEMBER)

    def items(self) -> Iterator[memoryview]:
        """Enter an array; yields each item."""
        closed = self._match(_OPEN_ARRAY)
        while not closed:
            yield self._value()
            closed = self._match(_NEXT_ITEM)

    def text(self) -> str:
        """Take a string."""
        try:
            return _text(self._value())
        except msgspec.MsgspecError as error:
            raise NoJson from error

    def skip(self) -> None:
        """Take a value that nobody needs."""
        self._value()

    def end(self) -> None:
        """Check that nothing follows."""
        self._match(_END)

    def _match(self, pattern: re.Pattern[bytes]) -> bool:
        """Take what matches; tell whether it closes what is open."""
        found = pattern.match(self._text, self._place)
        if found is None:
            raise NoJson
        self._place = found.end()
        return found.lastindex is not None

    def _value(self) -> memoryview:
        """Take a value that is followed by more, and the blanks around it."""
        start = self._place
        try:
            _skip(self._text[start:])
        except (msgspec.MsgspecError, RecursionError) as error:
            found = _TRAILING.search(str(error))
            if found is None:
                raise NoJson from error
            self._place += int(found[1]) - 1
            return self._text[start : self._place]
        raise NoJson


def _works() -> bool:
    try:
        return [bytes(item) for item in JsonCursor(b'[1, {"a":[]} ]').items()] == [b"1", b' {"a":[]} ']
    except NoJson:
        return False


#: Whether the installed msgspec tells the place as it did when this was written.
WORKS: Final = _works()
