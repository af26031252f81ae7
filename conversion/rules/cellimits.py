"""What an expression may cost for values: an upper bound from its text and from the size of the values.

A text can grow where parts are joined (``+``, literals of lists and maps), and again where the result has a name
(``cel.bind``) or is an item of a macro: 20 doublings make a GiB of a KiB. With ``joins`` joins and ``names`` names it
grows at most by ``(1 + joins / (names + 1)) ** (names + 1)``, which is the most that joins between names can make. A
macro whose body has only its own items handles each part of the values once; one that has other names can handle all of
the values for each item. The time of a regular expression is at most its program times the text.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

#: The evaluator stops after so many.
MOST_ITERATIONS: Final = 10_000
#: The most characters that an evaluation may have in memory.
MOST_WORK: Final = 64 * 1024 * 1024
#: The most steps of regular expressions: a second.
MOST_STEPS: Final = 64 * 1024 * 1024

#: An item counts as so many characters.
_OF_ELEMENT: Final = 16

#: An escape in a literal that stands for U+0000; after another backslash it is part of a regular expression.
_NUL: Final = re.compile(r"(?<!\\)(?:\\\\)*\\(?:[xX]00|u0000|U00000000|000)")

_S: Final = r"(?:\s|//[^\n]*\n)*"  # space, with comments
#: Literals of texts and bytes, and comments: a sign in one of them has no meaning.
_TEXTS: Final = re.compile(
    r"//[^\n]*|\b[bB]?[rR][bB]?(\"{3}|'{3}|\"|').*?\1|(\"{3}|'{3}|\"|')(?:\\.|(?!\2).)*?\2", re.DOTALL
)
_MACRO: Final = re.compile(r"\.\s*(?:map|filter|all|exists|exists_one|existsOne)\s*\(")
_NAME: Final = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?!\w*\s*\()")
_OWN: Final = re.compile(r"\s*(\w+)\s*,")
_VALUES: Final = frozenset({"true", "false", "null", "in", "absent", "cel", "math", "optional", "lists"})
_BIND: Final = re.compile(r"\b(?:bind|optMap|optFlatMap)\b")
_REPLACE: Final = re.compile(r"\breplace\b")
_RANGE: Final = re.compile(r"\blists\s*\.\s*range\s*\((\s*(?:size\s*\(\s*[\w.]+\s*\)|[\w.]+\s*\.\s*size\(\s*\))\s*\))?")
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

    ``fits``: CEL has all numbers, and the library takes all texts.
    """

    elements: int = 1
    size: int = 1
    fits: bool = True

    @classmethod
    def of(cls, values: Sequence[Any]) -> Measure:
        """Measure some values, and all that is in them."""
        found, todo = cls(), [*values]
        while todo:
            value = todo.pop()
            if isinstance(value, str):
                found.size += len(value)
                found.fits = found.fits and "\0" not in value
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
        depth: how many macros are inside of each other.
        repeats: whether a macro can handle all of the values for each item.
        growth: how much its values may grow at most.
        program: the size of all its regular expressions.
        has_range: whether it can iterate without a value that is as long.
        splits: whether it makes lists of texts.
        replaces: whether it replaces parts of texts, which makes them longer by the text that comes instead.
    """

    length: int
    depth: int
    repeats: bool
    growth: float
    program: int
    has_range: bool
    splits: bool
    replaces: bool

    @classmethod
    def of(cls, text: str) -> ExpressionLimits:
        """Read an expression; one that cannot be compiled gets some result."""
        bare = _TEXTS.sub("''", text)
        binds = len(_BIND.findall(bare))
        depth, macros, repeats = _macros(bare)
        names = macros + binds
        calls = sum(bare.count(f"{name}(") for name in ("split", "join", "substring", "indexOf", "replace"))
        joins = bare.count("+") + max(0, bare.count(",") - 2 * binds - macros - 2 * calls)
        ranges = _RANGE.findall(bare)
        return cls(
            len(text),
            depth,
            repeats,
            (1 + joins / (names + 1)) ** min(names + 1, 64),
            sum(_program(_LITERAL.match(text, found.end())) for found in _MATCHES.finditer(text)),
            not all(ranges),
            "split" in bare or bool(ranges),
            _REPLACE.search(bare) is not None,
        )

    def are_exceeded(self, values: Measure) -> bool:
        """Return whether an evaluation may cost too much for values."""
        size, iterations = values.size + _OF_ELEMENT * values.elements, 1
        if self.depth:
            elements = MOST_ITERATIONS if self.has_range else values.elements
            elements += values.size if self.splits else 0
            iterations = min(elements ** min(self.depth, 16), MOST_ITERATIONS)
        times = iterations if self.repeats else 1
        if self.replaces:
            size *= 1 + min(self.length, 64)
        work = times * size + iterations * self.length
        return work * self.growth > MOST_WORK or times * values.size * self.program > MOST_STEPS


def has_nul(text: str) -> bool:
    """Return whether a literal of an expression has U+0000: the library would cut it where a function gets it."""
    return "\0" in text or any(found[2] and _NUL.search(found[0]) for found in _TEXTS.finditer(text))


def _macros(bare: str) -> tuple[int, int, bool]:
    """Return how deep macros are, how many there are, and whether a body has a name that is not of its own items."""
    open_: list[tuple[int, set[str]]] = []  # where the body of a macro began, and the names of the items in it
    found, deepest, repeats = 0, 0, False
    starts = {each.end() - 1: each for each in _MACRO.finditer(bare)}
    stack: list[int] = []
    for at, sign in enumerate(bare):
        if sign in "([{":
            stack.append(at)
            if at in starts:
                own = _OWN.match(bare, at + 1)
                open_.append((at, {own[1]} if own else set()))
                found, deepest = found + 1, max(deepest, len(open_))
        elif sign in ")]}" and stack:
            began = stack.pop()
            if open_ and open_[-1][0] == began:
                _, own_names = open_.pop()
                names = {each[0] for each in _NAME.finditer(bare, began + 1, at)}
                repeats = repeats or not names <= own_names | _VALUES
                if open_:
                    open_[-1][1].update(own_names)
    return deepest, found, repeats


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
