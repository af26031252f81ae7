"""Ugly YAML: random data written with comments in every position, mixed styles, odd indentation, anchors and aliases.

The writer knows nothing of the code under test.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

TEXTS = (
    *("", "a", "web", "yes", "on", "n", "1e3", "0x1F", "0777", "1_000", "2026-01-01", "1:30", "null", "~", "1.0", "<<"),
    *("a: b", "a #b", "# no comment", "- a", "{", "[", "a,b", "|", ">", "*a", "&a", "!a", "%", "@a", "'", '"', "it's"),
    *("é日本", "\U0001f6a2", "trailing ", " leading", "x" * 90, "a b " * 40, "tab\there", "\x7f\x85\u2028\ufeff", "\r"),
    *("two\nlines", "end\n", "many\n\n  lines\n\n", "\nfirst", " \n x", "a\n \nb"),
)
KEYS = ("a", "b", "name", "id", "spec", "x.dev/y", "on", "1", "two words", "é")
PLAIN = frozenset({"a", "web", "é日本", "it's", "name", "id", "b", "spec", "x.dev/y", "two words", "é", "x" * 90})


def trees() -> st.SearchStrategy[Any]:
    """JSON trees."""
    fractions = st.floats(-9, 9).filter(lambda number: not number.is_integer())
    scalars = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-5, 70_000),
        st.sampled_from(TEXTS),
        fractions,
        st.integers(-(2**63), 2**63),
    )
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
        max_leaves=12,
    )


@st.composite
def roots(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a document: an object with at least one field, in which some values come again, for aliases."""
    root = draw(st.dictionaries(st.sampled_from(KEYS), trees(), min_size=1, max_size=5))
    for name in draw(st.lists(st.sampled_from(KEYS), max_size=2, unique=True)):
        again = draw(st.sampled_from(list(root.values())))
        if isinstance(again, dict) and draw(st.booleans()):
            again = {**again, draw(st.sampled_from(KEYS)): draw(trees())}
        root.setdefault(name, copy.deepcopy(again))
    return root


@dataclass
class Text:
    """A document: its text, what that says, and the lines of each field of the root, without those above it."""

    text: str
    value: dict[str, Any]
    chunks: dict[str, str]


@st.composite
def documents(draw: st.DrawFn, values: st.SearchStrategy[dict[str, Any]] | None = None, *, block: bool = False) -> Text:
    """Draw a document, at times with Windows' line breaks; with ``block``, in block style only and without aliases."""
    value = draw(roots() if values is None else values)
    writer = Writer(draw, block)
    text = writer.document(value)
    if draw(st.integers(0, 4)) == 4:
        text = text.replace("\n", "\r\n")
        writer.chunks = {name: chunk.replace("\n", "\r\n") for name, chunk in writer.chunks.items()}
    return Text(text, value, writer.chunks)


@dataclass
class Writer:
    """Writes one document; every decision is drawn."""

    draw: Any
    block: bool = False
    comments: int = 0
    anchors: dict[str, Any] = field(default_factory=dict)
    chunks: dict[str, str] = field(default_factory=dict)

    def document(self, value: dict[str, Any]) -> str:
        head = self.lines(0) + ("---\n" if self.chance(3) else "") + self.lines(0)
        text = head
        for name, child in value.items():
            self.chunks[name] = self.field(name, child, 0)
            text += self.lines(0) + self.chunks[name]
        return text + self.lines(0)

    def chance(self, of: int) -> bool:
        return bool(self.draw(st.integers(0, of - 1)) == of - 1)

    def comment(self) -> str:
        self.comments += 1
        return f"# c{self.comments}" + ("" if self.chance(2) else ' it\'s "quoted": - {')

    def lines(self, column: int) -> str:
        """Blank and comment lines."""
        text = ""
        while self.chance(5):
            text += "\n" if self.chance(2) else " " * column + self.comment() + "\n"
        return text

    def beside(self) -> str:
        return "  " + self.comment() if self.chance(4) else ""

    def field(self, name: str, value: Any, column: int) -> str:
        text = self.key(name) + (" :" if self.chance(9) else ":") + self.value(value, column)
        return text + (" " * (column + 1) + self.comment() + "\n" if self.chance(9) else "")

    def mapping(self, value: dict[str, Any], column: int, *, compact: bool = False) -> str:
        text = ""
        for name, known in self.anchors.items():
            is_part = isinstance(known, dict) and all(key in value and alike(known[key], value[key]) for key in known)
            if is_part and known and not self.block and self.chance(2):
                text = ("" if compact else " " * column) + f"<<: *{name}{self.beside()}\n"
                value = {name: child for name, child in value.items() if name not in known}
                compact = False
                break
        for number, (name, child) in enumerate(value.items()):
            pad = "" if compact and not number else self.lines(column) + " " * column
            text += pad + self.field(name, child, column)
        return text + (self.lines(column) if column else "")

    def sequence(self, value: list[Any], column: int, *, compact: bool = False) -> str:
        text = ""
        for number, child in enumerate(value):
            pad = "" if compact and not number else self.lines(column) + " " * column
            text += pad + "-" + self.item(child, column)
        return text + (self.lines(column) if column else "")

    def item(self, value: Any, column: int) -> str:
        if isinstance(value, dict | list) and value and (self.block or not self.chance(4)):
            gap = 1 + (self.chance(4) and 2)
            inner = column + 1 + gap
            write: Any = self.mapping if isinstance(value, dict) else self.sequence
            if self.chance(5):
                return self.beside() + "\n" + self.lines(inner) + str(write(value, inner))
            return " " * gap + str(write(value, inner, compact=True))
        return self.value(value, column, in_list=True)

    def value(self, value: Any, column: int, *, in_list: bool = False) -> str:
        known = [name for name, each in self.anchors.items() if alike(each, value)]
        if known and not self.block and self.chance(2):
            return f" *{known[-1]}{self.beside()}\n"
        anchor = f"n{len(self.anchors)}" if self.chance(5) else ""
        if anchor:
            self.anchors[anchor] = object()
        text = self.written(value, column, f" &{anchor}" if anchor else "", in_list=in_list)
        if anchor:
            self.anchors[anchor] = value
        return text

    def written(self, value: Any, column: int, anchor: str, *, in_list: bool) -> str:
        gap = " " * (1 + (self.chance(5) and 3))
        if isinstance(value, dict | list) and value and (self.block or not self.chance(4)):
            deeper = self.draw(st.sampled_from([1, 2, 4]))
            if isinstance(value, list) and not in_list:
                deeper = self.draw(st.sampled_from([0, 2]))
            write: Any = self.mapping if isinstance(value, dict) else self.sequence
            return anchor + self.beside() + "\n" + str(write(value, column + deeper))
        if isinstance(value, str) and is_literal(value) and self.chance(2):
            return anchor + gap + self.literal(value, column + 2)
        if isinstance(value, str) and value.startswith("a b ") and self.chance(2):
            return anchor + gap + self.folded(value, column + 2) + self.beside() + "\n"
        return anchor + gap + self.inline(value, column, broken=True) + self.beside() + "\n"

    def literal(self, value: str, column: int) -> str:
        lines = "".join(" " * column + line + "\n" if line else "\n" for line in value.removesuffix("\n").split("\n"))
        return f"|{'' if value.endswith(chr(10)) else '-'}{self.beside()}\n{lines}"

    def folded(self, value: str, column: int) -> str:
        """A text in double quotes over several lines, their ends escaped."""
        return '"' + value[:40] + "\\\n" + " " * column + value[40:] + '"'

    def inline(self, value: Any, column: int, *, broken: bool = False) -> str:
        if isinstance(value, dict):
            parts = [f"{self.key(name)}: {self.inline(child, column)}" for name, child in value.items()]
            return self.flow("{", parts, "}", column, broken=broken)
        if isinstance(value, list):
            return self.flow("[", [self.inline(child, column) for child in value], "]", column, broken=broken)
        return self.quoted(value) if isinstance(value, str) else json.dumps(value)

    def flow(self, start: str, parts: list[str], end: str, column: int, *, broken: bool) -> str:
        if broken and parts and self.chance(3):
            pad = "\n" + " " * (column + 3)
            commas = [","] * (len(parts) - 1) + [""]
            lines = (part + comma + self.beside() for part, comma in zip(parts, commas, strict=True))
            return f"{start}{pad}{pad.join(lines)}{pad}{end}"
        space = " " if self.chance(3) else ""
        return start + space + ("," + ("" if self.chance(5) else " ")).join(parts) + space + end

    def key(self, name: str) -> str:
        return name if name in PLAIN and not self.chance(4) else quoted(name)

    def quoted(self, value: str) -> str:
        style = self.draw(st.sampled_from(["plain", "'", '"']))
        if style == "plain" and value in PLAIN:
            return value
        if style == "'" and value.isprintable():
            return "'" + value.replace("'", "''") + "'"
        return quoted(value)


def quoted(text: str) -> str:
    """A text in double quotes, which can say everything."""
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}
    return (
        '"'
        + "".join(escapes.get(char) or (char if char.isprintable() else f"\\U{ord(char):08x}") for char in text)
        + '"'
    )


def is_literal(text: str) -> bool:
    """Whether a block text can say it, with at most one line break at its end."""
    lines = text.removesuffix("\n").split("\n")
    return (
        "\n" in text
        and text[0] not in " \n"
        and bool(lines[-1])
        and all(line.isprintable() and line == line.rstrip() for line in lines)
    )


def alike(left: Any, right: Any) -> bool:
    """Whether two values are the same JSON; anchors that are not complete yet are like nothing."""
    try:
        return json.dumps(left) == json.dumps(right)
    except TypeError:
        return False
