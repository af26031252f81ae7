"""A cursor over JSON that is too large to be decoded at once.

msgspec finds the end of a value faster than the alternatives, but has no function for that: it decodes a whole text, or
reports the position of trailing characters. If more text follows a value, the cursor uses that position as the value's
end. It decodes only the values that its caller takes, and checks that everything it skips is JSON.
``restow.conversion.model.deepjson`` reads values that are nested too deeply for msgspec.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from restow.conversion.model.deepjson import MOST_NESTED, Nested, scan

_TRAILING: Final = re.compile(r"trailing characters \(byte (\d+)\)")
_OPEN_OBJECT: Final = re.compile(rb"\s*+\{\s*+(\})?")
_OPEN_ARRAY: Final = re.compile(rb"\s*+\[\s*+(\])?")
_COLON: Final = re.compile(rb"\s*+:")
_NEXT_MEMBER: Final = re.compile(rb"\s*+(?:,\s*+|(\}))")
_NEXT_ITEM: Final = re.compile(rb"\s*+(?:,|(\]))")
_END: Final = re.compile(rb"\s*+\Z")

_TOO_MUCH: Final = f"what is nested so deeply has more than {MOST_NESTED} bytes, or is no JSON"

_skip = msgspec.json.Decoder(msgspec.Raw).decode
_text = msgspec.json.Decoder(str).decode


class NoJson(ValueError):
    """The text is not JSON, or has another value than expected; the message may be empty."""


class JsonCursor:
    """Walks over a text. It returns views of the text.

    ``nested`` is the last value if it is nested more deeply than msgspec can decode. The cursor does not check that
    such a value is JSON.
    """

    def __init__(self, text: bytes | bytearray | memoryview) -> None:
        self._text = memoryview(text)
        self._place = 0
        self.nested: Nested | None = None

    def members(self) -> Iterator[str]:
        """Enter an object, and yield each name; the caller has to take the value after each."""
        closed = self._match(_OPEN_OBJECT)
        while not closed:
            name = self.value()
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
            yield self.value()
            closed = self._match(_NEXT_ITEM)

    def text(self) -> str:
        """Take a string."""
        try:
            return _text(self.value())
        except msgspec.MsgspecError as error:
            raise NoJson from error

    def skip(self) -> None:
        """Skip a value.

        Raises:
            NoJson: the value is not JSON, at any depth.
        """
        self.value()
        try:
            if self.nested is not None:
                self.nested.check()
        except msgspec.MsgspecError as error:
            raise NoJson from error

    def end(self) -> None:
        """Check that nothing follows."""
        self._match(_END)

    def _match(self, pattern: re.Pattern[bytes]) -> bool:
        """Consume a match; return whether it closes the current object or array."""
        found = pattern.match(self._text, self._place)
        if found is None:
            raise NoJson
        self._place = found.end()
        return found.lastindex is not None

    def value(self) -> memoryview:
        """Take a value that is followed by more text, and the blanks around it."""
        start = self._place
        self.nested = None
        try:
            _skip(self._text[start:])
        except RecursionError as error:
            self.nested = scan(self._text[start:])
            if self.nested is None:
                raise NoJson(_TOO_MUCH if len(self._text) - start > MOST_NESTED else "") from error
            self._place += self.nested.size
            return self._text[start : self._place]
        except msgspec.MsgspecError as error:
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


#: Whether the installed msgspec reports the position in the form that this module parses.
WORKS: Final = _works()
