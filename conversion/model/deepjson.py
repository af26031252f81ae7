"""JSON that is nested more deeply than msgspec can read.

Go, and so every API server, reads JSON 10,000 levels deep (encoding/json ``maxNestingDepth``, sigs.k8s.io/json). The
C code of msgspec recurses, and Python 3.11 stops it before level 1,000. Neither a higher recursion limit nor a larger
stack is safe in every thread. This module reads texts that msgspec has refused. It has two ways, which take about ten
times as long as msgspec:

- ``scan`` and ``encode`` read and write every level. The text is cut into flat pieces, innermost first; a number in
  the outer piece marks the place of the inner one. A conversion must not change unknown data, at any depth, so
  conversion reads objects this way.
- ``cut`` and ``restore`` read the first ``DEEPEST`` levels. Deeper parts stay text (``msgspec.Raw``), and are encoded
  as the received text. No schema describes anything so deep, so admission reads objects this way.

Both find the brackets with one regular expression, and msgspec reads every piece. Nothing recurses.

Pure.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

#: How deep an API server reads an object in a webhook's answer: 10,000 levels, three of which belong to the review.
MAX_DEPTH: Final = 9_997

#: The most bytes of such a value: as many as API servers accept of an object (``MaxRequestBodyBytes``).
MOST_NESTED: Final = 3 * 1024 * 1024

#: How many levels ``cut`` leaves, and a piece of ``scan`` has: a fifth of Python's default recursion limit, because the
#: caller may be deep as well. No schema describes as many levels.
DEEPEST: Final = 200

#: The most levels of a text that an API server accepts, with some for the envelope of a review.
_MOST_LEVELS: Final = 10_100

#: The most objects and lists of one level: a value that contains itself twice has twice as many in each level.
MOST_INSIDE: Final = 1024 * 1024

_BLANK: Final = rb'[^"\[\]{}]*+'
#: Everything up to the next bracket that is not in a string. The pattern matches everywhere, also at the end and before
#: an unterminated string: a pattern that can fail would be retried at every following byte.
_BRACKET: Final = re.compile(
    _BLANK + rb'(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"' + _BLANK + rb")*+(?:([\[{])|[\]}]|(\"|\Z))", re.DOTALL
)
#: The group of ``_BRACKET`` that matches no bracket.
_NO_BRACKET: Final = 2

_CONTAINERS: Final = frozenset({dict, list})

_skip = msgspec.json.Decoder(msgspec.Raw).decode
_any = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class NestedTooDeep(ValueError):
    """The value is nested more deeply than an API server reads."""


@dataclass(frozen=True, slots=True)
class Nested:
    """A deeply nested value that ``scan`` found: its size in bytes, its levels, and its pieces, innermost first.

    A number in a piece stands for the piece inside it. ``mark`` is the beginning of these numbers, and occurs nowhere
    else in the text.
    """

    size: int
    depth: int
    mark: str
    pieces: tuple[bytes, ...]

    def check(self) -> None:
        """Raise msgspec.DecodeError if the text is not JSON."""
        for piece in self.pieces:
            _skip(piece)

    def decode(self) -> Any:
        """Return the value.

        Raises:
            msgspec.DecodeError: the text is not JSON.
        """
        mark, value = self.mark, None
        values: list[Any] = []

        def number(text: str) -> Any:
            return values[int(text[len(mark) :])] if text.startswith(mark) else _any(text)

        read = msgspec.json.Decoder(float_hook=number).decode
        for piece in self.pieces:
            value = read(piece)
            values.append(value)
        return value


def scan(text: memoryview) -> Nested | None:
    """Find the end of the object or list at the beginning of the text, and cut it into pieces; None if it has no end.

    The search reads at most ``MOST_NESTED`` bytes. ``Nested.check`` and ``Nested.decode`` later read the text between
    the brackets.
    """
    text = text[:MOST_NESTED]
    spans: list[tuple[int, int]] = []
    starts: list[int] = []
    heights: list[int] = [0]
    deepest = 0
    for found in _BRACKET.finditer(text):
        if found.lastindex == _NO_BRACKET:
            return None
        if found.lastindex:
            starts.append(found.end() - 1)
            heights.append(0)
            if len(starts) > deepest:  # noqa: PLR1730 max costs more than all else here
                deepest = len(starts)
            continue
        if len(starts) < 2:
            spans.append((0, found.end()))
            return Nested(found.end(), deepest, *_cut(bytes(text[: found.end()]), spans))
        start, height = starts.pop(), heights.pop() + 1
        if height == DEEPEST:
            spans.append((start, found.end()))
            height = 0
        if height > heights[-1]:  # noqa: PLR1730
            heights[-1] = height
    return None


def _cut(text: bytes, spans: list[tuple[int, int]]) -> tuple[str, tuple[bytes, ...]]:
    """Cut parts, inner ones first, out of the text; return the mark and the pieces.

    The mark is a digest of the text, so no text can contain its own mark, and finding one takes no search.
    """
    mark = f"0.{int.from_bytes(sha256(text).digest()[:16])}e-0"
    pieces: list[bytes] = []
    cuts: list[tuple[int, int, bytes]] = []
    for number, (start, end) in enumerate(spans):
        inner = len(cuts)
        while inner and cuts[inner - 1][0] >= start:
            inner -= 1
        parts: list[bytes] = []
        place = start
        for cut_start, cut_end, name in cuts[inner:]:
            parts += text[place:cut_start], name
            place = cut_end
        pieces.append(b"".join((*parts, text[place:end])))
        cuts[inner:] = [(start, end, f"{mark}{number}".encode())]
    return mark, tuple(pieces)


def encode(value: Any, write: Callable[[Any], bytes] = _encode) -> bytes:
    """Return the JSON of an object or list of any depth up to ``MAX_DEPTH``; ``write`` encodes its pieces.

    Raises:
        NestedTooDeep: the value has more than ``MAX_DEPTH`` levels.
        MemoryError: one level has more than ``MOST_INSIDE`` objects and lists.
        Exception: whatever ``write`` raises.
    """
    levels = [_Level.of([value])]
    while levels[-1].inner:
        if len(levels) == MAX_DEPTH:
            message = f"it is nested more than {MAX_DEPTH} levels deep"
            raise NestedTooDeep(message)
        if len(levels[-1].inner) > MOST_INSIDE:
            raise MemoryError
        levels.append(_Level.of(levels[-1].inner))
    written: dict[int, Any] = {}
    while levels:
        level, is_cut = levels.pop(), not len(levels) % DEEPEST
        below, written = level.sorted(written), {}
        for index in range(len(level.values)) if is_cut else below:
            if index in below or level.first(index) < level.ends[index]:
                done = _with(level.values[index], below.get(index))
                written[index] = msgspec.Raw(write(done)) if is_cut else done
    return bytes(written[0]) if written else write(value)


class _Level(NamedTuple):
    """The objects and lists of one depth, all objects and lists inside them, and for each the end index of its own."""

    values: list[Any]
    inner: list[Any]
    ends: list[int]

    @classmethod
    def of(cls, values: list[Any]) -> _Level:
        """Collect the objects and lists inside, except empty ones. It makes one list each, to spare the collector."""
        inner: list[Any] = []
        ends = []
        for value in values:
            members = value.values() if value.__class__ is dict else value
            inner += [member for member in members if member.__class__ in _CONTAINERS and member]
            ends.append(len(inner))
        return cls(values, inner, ends)

    def first(self, index: int) -> int:
        """Return the index of the first object or list inside."""
        return self.ends[index - 1] if index else 0

    def sorted(self, written: dict[int, Any]) -> dict[int, dict[int, Any]]:
        """Group the replacements of inner objects and lists by the object or list around them."""
        found: dict[int, dict[int, Any]] = {}
        for place, done in written.items():
            index = bisect_right(self.ends, place)
            found.setdefault(index, {})[place - self.first(index)] = done
        return found


def _with(value: Any, written: dict[int, Any] | None) -> Any:
    """Return an object or list in which ``written`` replaces some of the inner objects and lists, by their number."""
    if not written:
        return value
    is_object = value.__class__ is dict
    copy = {**value} if is_object else [*value]
    place = 0
    for key, member in value.items() if is_object else enumerate(value):
        if member.__class__ in _CONTAINERS and member:
            if place in written:
                copy[key] = written[place]
            place += 1
    return copy


Cuts: TypeAlias = dict[str, msgspec.Raw]
"""The parts that ``cut`` removed, by the text that replaces them. Equal parts share one text."""


def cut(text: bytes) -> tuple[bytes, Cuts]:
    """Cut all parts below ``DEEPEST`` levels out of a text; return the rest, and the parts.

    Raises:
        ValueError: the text has more levels than an API server reads.
    """
    # The mark is the text's digest, so that no text can contain its own mark, with or without escapes.
    mark = f"cut:{sha256(text).hexdigest()}:"
    parts: list[bytes] = []
    cuts: Cuts = {}
    depth = kept = begins = 0
    for found in _BRACKET.finditer(text):
        if found.lastindex == _NO_BRACKET:
            break
        if found.lastindex:
            depth += 1
            if depth == DEEPEST + 1:
                begins = found.end() - 1
            elif depth > _MOST_LEVELS:
                message = f"nested more than {_MOST_LEVELS} levels deep"
                raise ValueError(message)
            continue
        depth -= 1
        if depth == DEEPEST:
            deep = text[begins : found.end()]
            name = f"{mark}{sha256(deep).hexdigest()}"
            cuts.setdefault(name, msgspec.Raw(deep))
            parts += (text[kept:begins], b'"', name.encode(), b'"')
            kept = found.end()
    return b"".join((*parts, text[kept:])), cuts


def restore(tree: dict[str, Any], cuts: Cuts) -> dict[str, Any]:
    """Put the parts that were cut out back into a tree, as text. Changes the tree."""
    _restore(tree, cuts)
    return tree


def _restore(value: Any, cuts: Cuts) -> None:
    for key, child in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(child, dict | list):
            _restore(child, cuts)
        elif isinstance(child, str) and child in cuts:
            value[key] = cuts[child]
