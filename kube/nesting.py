"""Cuts JSON that is nested more deeply than a decoder takes, without recursion. Pure.

The JSON decoder stops at Python's recursion limit, near level 1,000, also in parts that it skips; an API server stores
10,000 levels. One such object would make its whole page unreadable, and its watch event too. The functions find where
objects begin and end. They do not check anything else, not even which bracket closes which.

A page may have millions of brackets, and the event loop waits meanwhile. So no loop in Python looks at each bracket or
string: brackets are counted by functions in C, and only the few that begin or end a wanted value are located.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from itertools import accumulate
from typing import Final

_OPENING: Final = b"[{"
_CLOSING: Final = b"]}"
_OTHERS: Final = bytes(each for each in range(256) if each not in _OPENING + _CLOSING)
#: An opening bracket becomes 1, a closing one 255, which is -1 as a signed byte.
_STEPS: Final = bytes.maketrans(_OPENING + _CLOSING, b"\x01\x01\xff\xff")
_BRACKET_OR_STRING: Final = re.compile(rb'[\[\]{}]|"[^"]*"')
#: The size of a part in bytes. Smaller ones cost more for ordinary text, and less for text of brackets alone.
_PART: Final = 1024


def take(text: bytes, key: str) -> tuple[bytes, bytes]:
    """Take the object or list at a key out of a JSON object.

    Returns:
        The object with ``null`` in its place, and the value; the object itself and nothing if it has no such value.

    Raises:
        ValueError: the text is not a whole JSON object.
    """
    brackets = _Brackets(text, b"{")
    if (opening := brackets.at_key(key)) is None:
        return text, b""
    return brackets.cut(opening, brackets.closing(opening))


def take_elements(text: bytes, key: str) -> tuple[bytes, list[bytes]]:
    """Take the list at a key out of a JSON object, as ``take`` does, and return the objects and lists in it.

    Raises:
        ValueError: the text is not a whole JSON object.
    """
    brackets = _Brackets(text, b"{")
    if (opening := brackets.at_key(key)) is None:
        return text, []
    values, closing = brackets.values(opening)
    return brackets.cut(opening, closing)[0], values


class _Brackets:
    """The brackets of a text that begins with ``outer``, without those in strings. They are numbered from 0.

    The text is divided into parts, none of which begins in a string. Parts that are too deep to end a wanted value are
    skipped.

    Raises:
        ValueError: the text ends before its brackets are closed.
    """

    def __init__(self, text: bytes, outer: bytes) -> None:
        self._text = text
        # Of the same length; every quote begins or ends a string now.
        self._plain = plain = text.replace(rb"\\", b"__").replace(rb"\"", b"__")
        self._starts: list[int] = []  # where each part begins in the text
        self._firsts: list[int] = []  # the number of its first bracket
        self._levels: list[int] = []  # how deep the text is before it
        self._found: list[bytes] = []  # its brackets
        self._seen: tuple[int, array[int]] = (-1, array("i"))  # a part, and how deep the text is after its brackets
        self._located: tuple[int, list[int]] = (-1, [])  # a part, and where its brackets are
        start = number = level = 0
        while start < len(plain):
            end = start + _PART
            if plain.count(b'"', start, end) % 2:
                end = (plain.find(b'"', end) + 1) or len(plain)
            found = b"".join(plain[start:end].split(b'"')[::2]).translate(None, _OTHERS)
            self._starts.append(start)
            self._firsts.append(number)
            self._levels.append(level)
            self._found.append(found)
            start, number = end, number + len(found)
            level += sum(map(found.count, (b"[", b"{"))) - sum(map(found.count, (b"]", b"}")))
        if level or not b"".join(self._found[:1]).startswith(outer):
            msg = "the JSON text is not whole"
            raise ValueError(msg)

    def at_key(self, key: str) -> int | None:
        """Return the bracket that opens the value of a key of the text; None if there is none."""
        ends_with_key = re.compile(rb'"%s"[ \t\r\n]*:[ \t\r\n]*\Z' % re.escape(key.encode()))
        before = 0
        for opening in self._inside(0):
            if ends_with_key.search(self._plain, before, self._place(opening)):
                return opening
            before = self._place(self.closing(opening))
        return None

    def closing(self, opening: int) -> int:
        """Return the bracket that closes the value which a bracket opens."""
        return self._next(self._depth(opening) - 1, opening)

    def values(self, outer: int) -> tuple[list[bytes], int]:
        """Return the objects and lists directly in the one that a bracket opens, and the bracket that closes it."""
        found: list[bytes] = []
        closing = outer
        for opening in self._inside(outer):
            closing = self.closing(opening)
            found.append(self._text[self._place(opening) : self._place(closing) + 1])
        return found, closing + 1

    def cut(self, opening: int, closing: int) -> tuple[bytes, bytes]:
        """Return the text with ``null`` in the place of a value, and the value."""
        start, end = self._place(opening), self._place(closing) + 1
        return self._text[:start] + b"null" + self._text[end:], self._text[start:end]

    def _inside(self, outer: int) -> Iterator[int]:
        """Yield the bracket that opens each object and list directly in the one that a bracket opens."""
        depth, opening = self._depth(outer), outer + 1
        while self._depth(opening) > depth:
            yield opening
            opening = self.closing(opening) + 1

    def _next(self, depth: int, number: int) -> int:
        """Return the first bracket, from a deeper one on, after which the text is as deep as this."""
        first = self._part(number)
        for part in range(first, len(self._found)):
            if self._levels[part] - len(self._found[part]) <= depth:
                at = number - self._firsts[part] if part == first else 0
                with suppress(ValueError):
                    return self._firsts[part] + self._depths(part).index(depth, at)
        msg = "the JSON text is not whole"
        raise ValueError(msg)

    def _part(self, number: int) -> int:
        return bisect_right(self._firsts, number) - 1

    def _depth(self, number: int) -> int:
        """Return how deep the text is after a bracket."""
        part = self._part(number)
        return self._depths(part)[number - self._firsts[part]]

    def _depths(self, part: int) -> array[int]:
        if self._seen[0] != part:
            steps = memoryview(self._found[part].translate(_STEPS)).cast("b")
            depths = array("i", accumulate(steps, initial=self._levels[part]))
            self._seen = (part, depths[1:])
        return self._seen[1]

    def _place(self, number: int) -> int:
        """Return where a bracket is in the text."""
        part = self._part(number)
        if self._located[0] != part:
            end = self._starts[part + 1] if part + 1 < len(self._starts) else len(self._plain)
            tokens = _BRACKET_OR_STRING.finditer(self._plain, self._starts[part], end)
            self._located = (part, [each.start() for each in tokens if each.end() - each.start() == 1])
        return self._located[1][number - self._firsts[part]]
