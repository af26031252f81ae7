"""Cuts JSON that is nested more deeply than a decoder takes, without recursion. Pure.

The JSON decoder stops at Python's recursion limit, near level 1,000, also in parts that it skips; an API server stores
10,000 levels. One such object would make its whole page unreadable, and its watch event too. The functions find where
objects begin and end. They do not check anything else.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["elements", "take"]

_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{}]', re.DOTALL)
_COLON: Final = re.compile(rb"[ \t\r\n]*:[ \t\r\n]*")
_PAIRS: Final = {b"]": b"[", b"}": b"{"}


def take(text: bytes, key: str) -> tuple[bytes, bytes]:
    """Take the object or list at a key out of a JSON object.

    Returns:
        The object with ``null`` in its place, and the value; the object itself and nothing if it has no such value.

    Raises:
        ValueError: the text is not a whole JSON object.
    """
    wanted = b'"%s"' % key.encode()
    colon = -1  # where the value of the key has to begin, once the key is found
    for start, end in _spans(text, b"{"):
        if text[start : start + 1] == b'"':
            follows = _COLON.match(text, end)
            colon = follows.end() if follows is not None and text[start:end] == wanted else -1
        elif start == colon:
            return text[:start] + b"null" + text[end:], text[start:end]
    return text, b""


def elements(text: bytes) -> list[bytes]:
    """Return the objects and lists in a JSON list.

    Raises:
        ValueError: the text is not a whole JSON list.
    """
    return [text[start:end] for start, end in _spans(text, b"[") if text[start : start + 1] != b'"']


def _spans(text: bytes, outer: bytes) -> list[tuple[int, int]]:
    """Return where the strings, objects and lists directly in an object or list begin and end."""
    opened: list[bytes] = []
    found: list[tuple[int, int]] = []
    begun, ended = 0, False
    for token in _TOKEN.finditer(text):
        what = token.group()[:1]
        if ended or (not opened and what != outer):
            break
        if what == b'"':
            if len(opened) == 1:
                found.append(token.span())
        elif what in (b"{", b"["):
            if len(opened) == 1:
                begun = token.start()
            opened.append(what)
        elif opened.pop() != _PAIRS[what]:
            break
        elif len(opened) == 1:
            found.append((begun, token.end()))
        else:
            ended = not opened
    else:
        if ended:
            return found
    msg = "the JSON text is not whole"
    raise ValueError(msg)
