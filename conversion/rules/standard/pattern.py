"""Patterns that read a text and write it: plain text, named groups, and optional parts.

A pattern is a regular expression in the common syntax of RE2 and Python. It is restricted so that the groups determine
the text, and so that no text takes long to match: a group is a sequence of characters with quantifiers, all quantifiers
together have to try at most as many lengths as two unbounded ones, and texts have a maximum length.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

#: Longer texts do not match.
_LONGEST: Final = 1024
#: How many combinations of lengths may have to be tried: those of two quantifiers without an upper bound.
_MOST_TRIES: Final = _LONGEST**2

_ATOM: Final = r"(?:\[\^?\]?(?:\\.|[^\]\\])*\]|\\[dDwWsS]|\\[^A-Za-z0-9]|[^\\\[\](){}*+?^$|])"
_QUANTIFIER: Final = r"(?:[*+?]|\{[0-9]{1,3}(?:,[0-9]{0,3})?\})?\??"
_PIECE: Final = re.compile(f"({_ATOM})({_QUANTIFIER})|(\\|)")
_BODY: Final = re.compile(f"(?:{_ATOM}{_QUANTIFIER}|\\|)+")
_OPEN_GROUP: Final = re.compile(r"\(\?P<([A-Za-z_][A-Za-z0-9_]*)>")
_LITERAL: Final = re.compile(r"\\([^A-Za-z0-9])|([^\\\[\](){}*+?.^$|])")
_BOUNDS: Final = re.compile(r"\{([0-9]+)(,?)([0-9]*)\}")


@dataclass(frozen=True, slots=True)
class PatternGroup:
    """A named group."""

    name: str
    body: str


@dataclass(frozen=True, slots=True)
class Optional:
    """A part of the text that is present if all of its groups are."""

    parts: tuple[str | PatternGroup, ...]


Part = str | PatternGroup | Optional


@dataclass(frozen=True, slots=True)
class Pattern:
    """A parsed pattern. ``problem`` describes a defect, as a predicate; ``fix`` is the remedy."""

    parts: tuple[Part, ...] = ()
    expression: re.Pattern[str] | None = None
    problem: str = ""
    fix: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all groups."""
        return tuple(each.name for each in _flat(self.parts) if isinstance(each, PatternGroup))

    @property
    def optional(self) -> frozenset[str]:
        """The names of the groups in optional parts."""
        inner = [part for part in self.parts if isinstance(part, Optional)]
        return frozenset(each.name for part in inner for each in part.parts if isinstance(each, PatternGroup))

    def groups(self, text: str) -> dict[str, str] | None:
        """Return the texts of the groups that are present, None if the text does not match."""
        match = self.expression.fullmatch(text) if self.expression is not None and len(text) <= _LONGEST else None
        return None if match is None else {name: each for name, each in match.groupdict().items() if each is not None}

    def filled(self, texts: Mapping[str, str]) -> str | None:
        """Return the text of these groups, None if a required group is missing."""
        written: list[str] = []
        for part in self.parts:
            if isinstance(part, Optional):
                if all(each.name in texts for each in part.parts if isinstance(each, PatternGroup)):
                    written += [each if isinstance(each, str) else texts[each.name] for each in part.parts]
            elif isinstance(part, PatternGroup):
                if part.name not in texts:
                    return None
                written.append(texts[part.name])
            else:
                written.append(part)
        return "".join(written)


def _flat(parts: tuple[Part, ...]) -> list[str | PatternGroup]:
    return [each for part in parts for each in (part.parts if isinstance(part, Optional) else (part,))]


class _Bad(Exception):
    """The text is not a valid pattern: the problem, and the remedy."""


def parsed(text: Any) -> Pattern:
    """Parse a pattern. This never fails; see ``Pattern.problem``."""
    try:
        if not isinstance(text, str) or not text:
            raise _Bad("is no text", 'Give a text such as "(?P<host>[^:]+):(?P<port>[0-9]+)"')
        parts, _ = _parts(text, 0, inside=False)
        names = [each.name for each in _flat(parts) if isinstance(each, PatternGroup)]
        if len(set(names)) < len(names):
            raise _Bad("names a group twice", "Give each group a name of its own")
        if _tries(parts) > _MOST_TRIES:
            raise _Bad("may take very long for some texts", "Let groups end where the next text begins, as [^:]* does")
        return Pattern(parts, re.compile(text, re.ASCII))
    except _Bad as bad:
        return Pattern(problem=bad.args[0], fix=bad.args[1])
    except (re.error, OverflowError):
        return Pattern(problem="is no regular expression", fix="Correct it")


def _parts(text: str, position: int, *, inside: bool) -> tuple[tuple[Any, ...], int]:
    parts: list[Part] = []
    literal = ""
    while position < len(text) and not (inside and text[position] == ")"):
        match = _LITERAL.match(text, position)
        if match:
            literal += match[1] or match[2]
            position = match.end()
            continue
        if literal:
            parts.append(literal)
            literal = ""
        part, position = _part(text, position, inside=inside)
        parts.append(part)
    return (*parts, *([literal] if literal else ())), position


def _part(text: str, position: int, *, inside: bool) -> tuple[Part, int]:
    opened = _OPEN_GROUP.match(text, position)
    if opened:
        body = _BODY.match(text, opened.end())
        if body is None or text[body.end() : body.end() + 1] != ")":
            raise _Bad(
                f"has the group {opened[1]} with more than characters, classes and quantifiers",
                "Write the group without groups inside, and escape other signs",
            )
        return PatternGroup(opened[1], body[0]), body.end() + 1
    if text.startswith("(?:", position) and not inside:
        parts, end = _parts(text, position + 3, inside=True)
        if text[end : end + 2] == ")?" and any(isinstance(each, PatternGroup) for each in parts):
            return Optional(parts), end + 2
        raise _Bad("has a part in (?:…) that is not optional, or has no group", "Write (?:…)? with a named group in it")
    raise _Bad(f"has {text[position]!r} outside of its groups", "Escape it, or write it inside of a named group")


def _lengths(quantifier: str) -> int:
    """Return how many lengths a quantifier allows."""
    if bounds := _BOUNDS.match(quantifier):
        least, more, most = bounds.groups()
        return 1 if not more else int(most) - int(least) + 1 if most else _LONGEST
    return {"*": _LONGEST, "+": _LONGEST, "?": 2}.get(quantifier[:1], 1)


def _tries(parts: tuple[Part, ...]) -> int:
    """Return how many combinations of lengths may have to be tried."""
    tries = 1
    flat = _flat(parts)
    for index, part in enumerate(flat):
        if not isinstance(part, PatternGroup):
            continue
        pieces = [piece for piece in _PIECE.finditer(part.body) if piece[1]]
        for place, piece in enumerate(pieces):
            after = flat[index + 1 :]
            is_last = place == len(pieces) - 1 and "|" not in part.body
            starts = [each[0] for each in after if isinstance(each, str)][:2]
            follows_text = not after or isinstance(after[0], str)
            one = re.compile(piece[1], re.ASCII)
            if not (is_last and follows_text and not any(one.fullmatch(start) for start in starts)):
                tries *= max(1, _lengths(piece[2]))
    return tries
