r"""RE2 patterns of schemas as Python regular expressions with Go's meaning.

An API server matches ``pattern`` with Go's regexp package (RE2 syntax, unanchored). Python's ``re`` differs: ``$`` also
matches before a final newline, ``\d``, ``\w`` and ``\s`` mean all of Unicode, a flag such as ``(?i)`` may stand at the
beginning only, and ``\z``, ``\pL``, ``[[:alpha:]]``, ``\Q…\E`` do not exist. A translated pattern matches the same
strings as RE2; a test can use it to generate strings that the server accepts.

Source: https://github.com/google/re2/wiki/Syntax, Go's regexp/syntax.

Pure.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from dataclasses import dataclass
from functools import cache
from typing import Final


class NotTranslatable(ValueError):
    """The pattern is no RE2, or uses a construct that Python lacks; the message names it."""


#: Ranges of code points, both ends included.
Ranges = tuple[tuple[int, int], ...]

_LAST: Final = sys.maxunicode
_NEWLINE: Final = ord("\n")
_DIGIT: Final[Ranges] = ((0x30, 0x39),)
_WORD: Final[Ranges] = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
_SPACE: Final[Ranges] = ((0x09, 0x0A), (0x0C, 0x0D), (0x20, 0x20))
_PERL: Final = {"d": _DIGIT, "w": _WORD, "s": _SPACE}
_POSIX: Final[dict[str, Ranges]] = {
    "alnum": ((0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A)),
    "alpha": ((0x41, 0x5A), (0x61, 0x7A)),
    "ascii": ((0, 0x7F),),
    "blank": ((0x09, 0x09), (0x20, 0x20)),
    "cntrl": ((0, 0x1F), (0x7F, 0x7F)),
    "digit": _DIGIT,
    "graph": ((0x21, 0x7E),),
    "lower": ((0x61, 0x7A),),
    "print": ((0x20, 0x7E),),
    "punct": ((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)),
    "space": ((0x09, 0x0D), (0x20, 0x20)),
    "upper": ((0x41, 0x5A),),
    "word": _WORD,
    "xdigit": ((0x30, 0x39), (0x41, 0x46), (0x61, 0x66)),
}
_CONTROL: Final = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}
_REPEAT: Final = re.compile(r"\{(\d+)(,(\d*))?\}")
_MOST_REPEATS: Final = 1000
_COUNTS: Final = frozenset("*+?")
_FLAGS: Final = re.compile(r"\?([imsU]*)(?:-([imsU]+))?([:)])")
_NAME: Final = re.compile(r"\?P?<\w+>")
_HEX: Final = re.compile(r"x(?:\{([0-9A-Fa-f]+)\}|([0-9A-Fa-f]{2}))")
_OCTAL: Final = re.compile(r"[1-7][0-7]{1,2}|0[0-7]{0,2}")
_PROPERTY: Final = re.compile(r"([pP])(?:\{(\^?)(\w+)\}|(\w))")
_CLASS: Final = re.compile(r"\[:(\^?)(\w+):\]")


@cache
def translate(pattern: str) -> str:
    """Return a pattern for Python's ``re`` that finds a match in the same strings in which RE2 finds ``pattern``.

    Raises:
        NotTranslatable: the pattern is no RE2, or Python has no equivalent for a part of it.
    """
    parser = _Parser(pattern)
    translated = parser.alternatives(frozenset())
    if parser.position < len(pattern):
        raise NotTranslatable("it has a ) without a (")
    try:
        re.compile(translated)
    except (re.error, OverflowError, RecursionError) as error:
        raise NotTranslatable(f"Python cannot compile it ({error})") from error
    return translated


@dataclass(slots=True)
class _Parser:
    pattern: str
    position: int = 0

    def alternatives(self, flags: frozenset[str]) -> str:
        """Translate up to the end of the group. A flag holds until there, for all alternatives that follow it."""
        done: list[str] = []
        pieces: list[str] = []
        while (head := self._peek()) not in ("", ")"):
            if head == "|":
                self.position += 1
                done.append("".join(pieces))
                pieces = []
            elif (changed := self._flag_change(flags)) is not None:
                flags = changed
            else:
                pieces.append(self._repeated(self._atom(flags)))
        return "|".join([*done, "".join(pieces)])

    def _peek(self) -> str:
        return self.pattern[self.position : self.position + 1]

    def _take(self, expression: re.Pattern[str]) -> re.Match[str] | None:
        found = expression.match(self.pattern, self.position)
        if found is not None:
            self.position = found.end()
        return found

    def _flag_change(self, flags: frozenset[str]) -> frozenset[str] | None:
        if self._peek() != "(":
            return None
        found = _FLAGS.match(self.pattern, self.position + 1)
        if found is None or found[3] != ")":
            return None
        self.position = found.end()
        return (flags | set(found[1])) - set(found[2] or "")

    def _atom(self, flags: frozenset[str]) -> str:
        head = self._peek()
        self.position += 1
        match head:
            case "(":
                return self._group(flags)
            case "[":
                return self._class(flags)
            case "\\":
                return self._escape(flags)
            case ".":
                return _shown(((0, _LAST),) if "s" in flags else ((0, _NEWLINE - 1), (_NEWLINE + 1, _LAST)))
            case "^":
                return "(?m:^)" if "m" in flags else r"\A"
            case "$":
                return "(?m:$)" if "m" in flags else r"\Z"
            case "*" | "+" | "?":
                raise NotTranslatable(f"it repeats nothing with {head}")
            case _:
                return _literal(ord(head), flags)

    def _group(self, flags: frozenset[str]) -> str:
        if self._peek() == "?":
            found = self._take(_FLAGS)
            if found is not None:
                flags = (flags | set(found[1])) - set(found[2] or "")
            elif self._take(_NAME) is None:
                raise NotTranslatable("it has a group that RE2 does not know, such as a look-around")
        inside = self.alternatives(flags)
        if self._peek() != ")":
            raise NotTranslatable("it has a ( without a )")
        self.position += 1
        return f"(?:{inside})"

    def _repeated(self, atom: str) -> str:
        if self._peek() in _COUNTS:
            count = self._peek()
            self.position += 1
        elif (found := self._take(_REPEAT)) is not None:
            low, high = int(found[1]), found[3]
            if max(low, int(high or 0)) > _MOST_REPEATS or (high and int(high) < low):
                raise NotTranslatable("it has a count that RE2 refuses")
            count = found[0]
        else:
            return atom
        if self._peek() == "?":
            self.position += 1  # lazy and greedy quantifiers match the same strings
        if self._peek() in _COUNTS:
            raise NotTranslatable("it repeats a repetition")
        return f"(?:{atom}){count}"

    def _escape(self, flags: frozenset[str]) -> str:
        head = self._peek()
        match head:
            case "A":
                self.position += 1
                return r"\A"
            case "z":
                self.position += 1
                return r"\Z"
            case "b" | "B":
                self.position += 1
                return rf"(?a:\{head})"
            case "Q":
                end = self.pattern.find("\\E", self.position)
                text = self.pattern[self.position + 1 : end if end >= 0 else None]
                self.position = len(self.pattern) if end < 0 else end + 2
                return f"(?:{''.join(_literal(ord(each), flags) for each in text)})"
            case _:
                found = self._escaped()
                return _shown(_folded(found) if "i" in flags else found)

    def _escaped(self) -> Ranges:
        """Return the characters of an escape that is also allowed in a class."""
        head = self._peek()
        if head.lower() in _PERL and head:
            self.position += 1
            return _PERL[head] if head.islower() else _others(_PERL[head.lower()])
        if (found := self._take(_PROPERTY)) is not None:
            ranges = _category(found[3] or found[4])
            return _others(ranges) if (found[1] == "P") != bool(found[2]) else ranges
        if (found := self._take(_HEX)) is not None:
            return _one(int(found[1] or found[2], 16))
        if (found := self._take(_OCTAL)) is not None:
            return _one(int(found[0], 8))
        self.position += 1
        if head in _CONTROL:
            return _one(_CONTROL[head])
        if not head or (head.isascii() and head.isalnum()):
            raise NotTranslatable(f"it has the escape \\{head}, which RE2 does not know")
        return _one(ord(head))

    def _class(self, flags: frozenset[str]) -> str:
        negated = self._peek() == "^"
        self.position += negated
        found: list[tuple[int, int]] = []
        first = True
        while (head := self._peek()) != "]" or first:
            if not head:
                raise NotTranslatable("it has a [ without a ]")
            first = False
            if (posix := self._take(_CLASS)) is not None:
                if posix[2] not in _POSIX:
                    raise NotTranslatable(f"it has the class [:{posix[2]}:], which RE2 does not know")
                found += _others(_POSIX[posix[2]]) if posix[1] else _POSIX[posix[2]]
                continue
            found += self._range()
        self.position += 1
        ranges = tuple(found)
        ranges = _folded(ranges) if "i" in flags else ranges
        return _shown(_others(ranges) if negated else ranges)

    def _range(self) -> Ranges:
        low = self._class_part()
        rest = self.pattern[self.position : self.position + 2]
        if len(low) != 1 or low[0][0] != low[0][1] or rest[:1] != "-" or rest in ("-]", "-"):
            return low
        self.position += 1
        high = self._class_part()
        if len(high) != 1 or high[0][0] != high[0][1] or high[0][0] < low[0][0]:
            raise NotTranslatable("it has a range that RE2 refuses")
        return ((low[0][0], high[0][0]),)

    def _class_part(self) -> Ranges:
        head = self._peek()
        self.position += 1
        return self._escaped() if head == "\\" else _one(ord(head)) if head else ()


def _one(code: int) -> Ranges:
    if code > _LAST:
        raise NotTranslatable("it has a character beyond Unicode")
    return ((code, code),)


def _literal(code: int, flags: frozenset[str]) -> str:
    if "i" not in flags:
        return re.escape(chr(code))
    return _shown(_folded(_one(code)))


def _shown(ranges: Ranges) -> str:
    if not ranges:
        return r"(?!)"
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return re.escape(chr(ranges[0][0]))
    # Generators of strings visit each character of a class, but not those of a negated one.
    negated = sum(high - low + 1 for low, high in ranges) > _LAST // 2
    listed = _others(ranges) if negated else ranges
    if not listed:
        return "(?s:.)"
    parts = (_code(low) if low == high else f"{_code(low)}-{_code(high)}" for low, high in listed)
    return f"[{'^' if negated else ''}{''.join(parts)}]"


def _code(code: int) -> str:
    return f"\\U{code:08x}"


def _others(ranges: Ranges) -> Ranges:
    """Return all code points that are in none of the ranges."""
    found = []
    begin = 0
    for low, high in sorted(ranges):
        if low > begin:
            found.append((begin, low - 1))
        begin = max(begin, high + 1)
    return (*found, (begin, _LAST)) if begin <= _LAST else tuple(found)


@cache
def _category(name: str) -> Ranges:
    """Return the code points of a general category (``L``, ``Lu``); Python has no data on scripts."""
    found: list[tuple[int, int]] = []
    known = False
    for code in range(_LAST + 1):
        category = unicodedata.category(chr(code))
        known = known or category.startswith(name)
        if category.startswith(name):
            if found and found[-1][1] == code - 1:
                found[-1] = (found[-1][0], code)
            else:
                found.append((code, code))
    if not known:
        raise NotTranslatable(f"it has the property {name}, which Python does not know")
    return tuple(found)


#: The characters that simple case folding treats as one, if they are more than the two cases of one letter.
_ORBITS: Final = ("kK\u212a", "sS\u017f", "\u00e5\u00c5\u212b", "\u03b8\u0398\u03d1\u03f4", "\u03c9\u03a9\u2126")


def _folded(ranges: Ranges) -> Ranges:
    """Return the ranges with the other cases of their letters, by Unicode's simple case folding."""
    found = list(ranges)
    for low, high in ranges:
        if high - low > _MOST_REPEATS:
            continue  # large ranges are negations or whole categories, which include both cases
        for code in range(low, high + 1):
            letter = chr(code)
            orbit = next((each for each in _ORBITS if letter in each), letter.lower() + letter.upper())
            found += [(ord(each), ord(each)) for each in orbit if len(orbit) > 1]
    return tuple(dict.fromkeys(found))
