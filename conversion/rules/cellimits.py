"""What an expression may cost for values: an upper bound from its text and from the size of the values.

A text can grow where parts are joined (``+``, literals of lists and maps), and again where the result has a name
(``cel.bind``) or is an item of a macro: 20 doublings make a GiB of a KiB. With ``joins`` joins and ``names`` names it
grows at most by ``(1 + joins / (names + 1)) ** (names + 1)``, which is the most that joins between names can make. The
time of a regular expression is at most its program times the text.

All is estimated from above: a sign in a literal or a comment counts as well.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

__all__ = ["MOST_ITERATIONS", "NUL", "ExpressionLimits", "Measure", "program_size"]

#: The evaluator stops after so many.
MOST_ITERATIONS: Final = 10_000
#: The most characters that an evaluation may have in memory.
MOST_WORK: Final = 64 * 1024 * 1024
#: The most steps of regular expressions: half a second.
MOST_STEPS: Final = 16 * 1024 * 1024
_MOST_TEXT: Final = 1024 * 1024

#: An item counts as so many characters.
_OF_ELEMENT: Final = 16

#: An escape in an expression that stands for U+0000.
NUL: Final = re.compile(r"\0|\\(?:[xX]00|u0000|U00000000|000)")

_S: Final = r"(?:\s|//[^\n]*\n)*"  # space, with comments
_MACRO: Final = re.compile(rf"\.{_S}(?:map|filter|all|exists|exists_one|existsOne){_S}\(")
_BIND: Final = re.compile(r"\bbind\b")
_GROWING: Final = re.compile(r"\b(?:join|replace)\b")
_RANGE: Final = re.compile(rf"\blists{_S}\.{_S}range\b")
_MATCHES: Final = re.compile(r"\bmatches\b")
#: A regular expression that is written as one literal, without escapes in which a sign could hide.
_LITERAL: Final = re.compile(rf"{_S}\({_S}(?:\w+{_S},{_S})?(r?)(?:'([^']*)'|\"([^\"]*)\"){_S}\)")
_HIDING: Final = re.compile(r"\\[xXuU0-9]")
#: A pattern that is not written in the expression may be as large as the library allows.
_LARGEST_PROGRAM: Final = 20_000

_INTEGERS: Final = 2**63


@dataclass(slots=True)
class Measure:
    """The size of values: their items and fields, and the characters of their texts.

    ``has_nul``: a text has U+0000. ``fits``: CEL has all numbers.
    """

    elements: int = 1
    size: int = 1
    has_nul: bool = False
    fits: bool = True

    @classmethod
    def of(cls, values: Sequence[Any]) -> Measure:
        """Measure some values, and all that is in them."""
        found, todo = cls(), [*values]
        while todo:
            value = todo.pop()
            if isinstance(value, str):
                found.size += len(value)
                found.has_nul = found.has_nul or "\0" in value
            elif isinstance(value, dict):
                found.elements += len(value)
                todo += value
                todo += value.values()
            elif isinstance(value, list):
                found.elements += len(value)
                todo += value
            elif isinstance(value, int):
                found.fits = found.fits and -_INTEGERS <= value < _INTEGERS
            elif isinstance(value, float):
                found.fits = found.fits and isfinite(value)
        return found


@dataclass(frozen=True, slots=True)
class ExpressionLimits:
    """What is known of an expression: see above.

    Attributes:
        length: its characters.
        depth: the number of macros, which may be inside of each other.
        growth: how much its values may grow at most.
        program: the size of all its regular expressions.
        has_range: whether it can iterate without a value that is as long.
        splits: whether it makes lists of texts.
        may_grow: whether it has functions that make long texts of short ones.
    """

    length: int
    depth: int
    growth: float
    program: int
    has_range: bool
    splits: bool
    may_grow: bool

    @classmethod
    def of(cls, text: str) -> ExpressionLimits:
        """Read an expression; one that cannot be compiled gets some result."""
        depth, binds = len(_MACRO.findall(text)), len(_BIND.findall(text))
        names = depth + binds
        joins = text.count("+") + max(0, text.count(",") - 2 * binds - depth)
        return cls(
            len(text),
            depth,
            (1 + joins / (names + 1)) ** min(names + 1, 64),
            sum(_program(_LITERAL.match(text, found.end())) for found in _MATCHES.finditer(text)),
            _RANGE.search(text) is not None,
            "split" in text,
            _GROWING.search(text) is not None,
        )

    def are_exceeded(self, values: Measure) -> bool:
        """Return whether an evaluation may cost too much for values."""
        size, iterations = values.size + self.length + _OF_ELEMENT * values.elements, 1
        if self.depth:
            elements = MOST_ITERATIONS if self.has_range else values.elements
            elements += size if self.splits else 0
            iterations = min(elements ** min(self.depth, 16), MOST_ITERATIONS)
        if self.may_grow:
            size = max(size, min(size * size, _MOST_TEXT))
        return iterations * size * self.growth > MOST_WORK or iterations * size * self.program > MOST_STEPS


def _program(literal: re.Match[str] | None) -> int:
    """Return the size of a regular expression, given its literal."""
    if literal is None or (not literal[1] and _HIDING.search(literal[0])):
        return _LARGEST_PROGRAM
    return program_size(literal[2] or literal[3] or "")


def program_size(pattern: str) -> int:
    """Return about how many instructions a regular expression has: repetitions with numbers are written out."""
    sizes: list[list[int]] = [[]]
    for part in _PARTS.finditer(pattern):
        text = part[0]
        if text == "(":
            sizes.append([])
        elif text == ")" and len(sizes) > 1:
            inside = sum(sizes.pop()) + 2
            sizes[-1].append(inside)
        elif part[1] is not None and sizes[-1]:
            sizes[-1][-1] *= max(1, int(part[2] or 0), int(part[1]))
        else:
            sizes[-1].append(_CLASS if text.startswith(("[", "\\")) else 1)
    return 2 + sum(map(sum, sizes))


_PARTS: Final = re.compile(r"\{([0-9]+)(?:,([0-9]*))?\}|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)
#: A class of characters is several instructions, because texts are UTF-8.
_CLASS: Final = 4
