"""The style of a document, so that added text looks like the rest.

Pure.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import yaml

from restow.conversion.manifests.document import YamlAlias, YamlMapping, YamlNode, YamlScalar, YamlSequence, is_block
from restow.crds.scalars import NotRepresentable, resolve


@dataclass(frozen=True, slots=True)
class Style:
    """The indentation of nested objects (``step``) and of lists in objects (``offset``), in columns; the line break.

    ``quote`` is the kind of quotes for texts that need some, if it can represent them. ``json``: the document is JSON.
    """

    step: int = 2
    offset: int = 0
    newline: str = "\n"
    quote: str = "'"
    json: bool = False


def style_of(text: str, root: YamlNode) -> Style:
    """Return the most frequent style of a document."""
    steps, offsets = Counter[int](), Counter[int]()
    for outer, inner in _nested(root):
        if isinstance(outer, YamlMapping):
            (steps if isinstance(inner, YamlMapping) else offsets)[inner.column - outer.column] += 1
    part = text[root.start : root.end]
    breaks = part.count("\n")
    quotes = Counter(_quotes(root))
    is_json = _is_json(root)
    if is_json and breaks and isinstance(root, YamlMapping) and root.entries:
        steps[root.column] += 1
    return Style(
        step=_most(steps, 2),
        offset=_most(offsets, 0),
        newline="\r\n" if breaks and part.count("\r\n") * 2 > breaks else "\n",
        quote='"' if quotes['"'] > quotes["'"] else "'",
        json=is_json,
    )


def _nested(node: YamlNode) -> Iterator[tuple[YamlMapping | YamlSequence, YamlMapping | YamlSequence]]:
    children = _children(node)
    for child in children:
        if is_block(child):
            assert isinstance(node, YamlMapping | YamlSequence)
            yield node, child
        yield from _nested(child)


def _children(node: YamlNode) -> list[YamlNode]:
    if isinstance(node, YamlMapping):
        return [entry.value for entry in node.entries]
    return node.items if isinstance(node, YamlSequence) else []


def _quotes(node: YamlNode) -> Iterator[str]:
    """Yield the quotes around the texts of a document."""
    if isinstance(node, YamlScalar):
        yield node.style
    for child in _children(node):
        yield from _quotes(child)


def _most(found: Counter[int], otherwise: int) -> int:
    usual = [(count, -size) for size, count in found.items() if size >= 0]
    return -max(usual)[1] if usual else otherwise


def _is_json(node: YamlNode) -> bool:
    """Return whether everything is written as in JSON: flow style throughout, and double quotes around all texts."""
    if isinstance(node, YamlAlias) or node.anchor is not None or node.tag is not None:
        return False
    if isinstance(node, YamlScalar):
        return node.style == '"' or (not node.style and not isinstance(node.value, str))
    if isinstance(node, YamlMapping) and not all(_is_json(entry.key) for entry in node.entries):
        return False
    assert isinstance(node, YamlMapping | YamlSequence)
    return node.flow and all(map(_is_json, _children(node)))


_Dumper: Final[Any] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_WIDE: Final = 2**30

#: Characters that every YAML reader takes literally inside of a block text.
_LITERAL: Final = re.compile(r"[\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]*")


@dataclass(frozen=True, slots=True)
class Written:
    """A value as text: the part after its key or dash, and the lines below."""

    head: str
    body: str = ""


def value(data: Any, column: int, style: Style, *, in_list: bool = False) -> Written:
    """Write a value whose key or dash is at ``column``."""
    if isinstance(data, dict | list) and data:
        deeper = 2 if in_list else style.step if isinstance(data, dict) else style.offset
        return Written("", lines(data, column + deeper, style))
    if isinstance(data, str) and "\n" in data.rstrip("\n"):
        return _literal(data, column + (2 if in_list else style.step), style)
    return Written(flow(data, style) if isinstance(data, dict | list) else scalar(data, style))


def lines(data: Any, column: int, style: Style) -> str:
    """Write the fields or items of a non-empty object or list."""
    if isinstance(data, dict):
        return "".join(field(name, child, column, style) for name, child in data.items())
    return "".join(item(child, column, style) for child in data)


def field(name: str, data: Any, column: int, style: Style) -> str:
    """Write a field of an object as whole lines."""
    return " " * column + scalar(name, style) + ":" + _beside(value(data, column, style))


def item(data: Any, column: int, style: Style) -> str:
    """Write an item of a list as whole lines: the first line of a nested object or list follows the dash."""
    if isinstance(data, dict | list) and data:
        return " " * column + "- " + lines(data, column + 2, style)[column + 2 :]
    return " " * column + "-" + _beside(value(data, column, style, in_list=True))


def flow(data: Any, style: Style, *, indent: str | None = None) -> str:
    """Write a value on one line; or, given the ``indent`` of its own line, JSON over several lines."""
    if style.json:
        if indent is None or not isinstance(data, dict | list):
            return json.dumps(data, ensure_ascii=False)
        written = json.dumps(data, ensure_ascii=False, indent=style.step)
        return written.replace("\n", style.newline + indent)
    if isinstance(data, dict):
        fields = (f"{scalar(name, style, flow=True)}: {flow(child, style)}" for name, child in data.items())
        return "{" + ", ".join(fields) + "}"
    if isinstance(data, list):
        return "[" + ", ".join(flow(child, style) for child in data) + "]"
    return scalar(data, style, flow=True)


def scalar(data: Any, style: Style, *, flow: bool = False, quote: str = "") -> str:
    """Write a scalar on one line; a text in the requested quotes, or in those of the style if it needs some."""
    if data is None:
        return "null"
    if isinstance(data, bool):
        return "true" if data else "false"
    if not isinstance(data, str):
        text = json.dumps(data)
        # YAML 1.1 reads a number with an exponent and no dot as a string.
        return text.replace("e", ".0e") if isinstance(data, float) and "e" in text and "." not in text else text
    if not quote:
        text = _text(data, flow=flow, quote="")
        if text[:1] not in ("'", '"') and _stays(text, data):
            return text
        quote = "'" if '"' in data or "\\" in data else style.quote
    return _text(data, flow=flow, quote=quote)


def _text(data: str, *, flow: bool, quote: str) -> str:
    """Write a text with these quotes, or others if necessary; without quotes if that is requested and possible."""
    if quote and not data.isprintable():
        quote = '"'  # YAML versions differ in what they take for a line break
    if not flow:
        return _dumped(data, default_style=quote or None)
    return _dumped([data], default_flow_style=True, default_style=quote or None)[1:-1]


def _stays(text: str, data: str) -> bool:
    """Return whether a plain text is none of the words and numbers that kubectl knows."""
    try:
        return text == data and resolve(text, plain=True) == data
    except NotRepresentable:
        return False


def _literal(data: str, column: int, style: Style) -> Written:
    first = data[:1]
    lines = data.rstrip("\n").split("\n")
    if first in (" ", "\t", "\n") or not _LITERAL.fullmatch(data) or any(line and not line.strip() for line in lines):
        return Written(scalar(data, style, quote='"'))
    end = data[len(data.rstrip("\n")) :]
    mark = "-" if not end else "" if end == "\n" else "+"
    body = "".join(" " * column + line + "\n" if line else "\n" for line in lines)
    return Written("|" + mark, body + "\n" * max(0, len(end) - 1))


def _beside(written: Written) -> str:
    return (f" {written.head}" if written.head else "") + "\n" + written.body


def _dumped(data: Any, **options: Any) -> str:
    text: str = yaml.dump(data, Dumper=_Dumper, width=_WIDE, allow_unicode=True, **options)
    return text.removesuffix("\n").removesuffix("\n...").removesuffix("\n")
