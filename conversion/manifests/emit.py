"""Writes values that were not in a document before, in its style.

A value has a ``head``, which stands on the line of its key or dash, and a ``body`` of whole lines below it. Either may
be empty. Texts are quoted where any YAML reader could take them for something else.

Pure.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

import yaml

from restow.conversion.manifests.scalars import Unsayable, resolve
from restow.conversion.manifests.style import Style

__all__ = ["Written", "field", "flow", "item", "lines", "scalar", "value"]

_Dumper: Final[Any] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_WIDE: Final = 2**30

#: What every YAML reader takes as it is inside of a block text.
_LITERAL: Final = re.compile(r"[\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]*")


@dataclass(frozen=True, slots=True)
class Written:
    """A value as text: what follows its key or dash, and the lines below."""

    head: str
    body: str = ""


def value(data: Any, column: int, style: Style, *, in_list: bool = False) -> Written:
    """Write a value whose key or dash stands at ``column``."""
    if isinstance(data, dict | list) and data:
        deeper = 2 if in_list else style.step if isinstance(data, dict) else style.offset
        return Written("", lines(data, column + deeper, style))
    if isinstance(data, str) and "\n" in data.rstrip("\n"):
        return _literal(data, column + (2 if in_list else style.step), style)
    return Written(flow(data, style) if isinstance(data, dict | list) else scalar(data, style))


def lines(data: Any, column: int, style: Style) -> str:
    """Write the fields or items of an object or a list that has some."""
    if isinstance(data, dict):
        return "".join(field(name, child, column, style) for name, child in data.items())
    return "".join(item(child, column, style) for child in data)


def field(name: str, data: Any, column: int, style: Style) -> str:
    """Write a field of an object as whole lines."""
    return " " * column + scalar(name, style) + ":" + _beside(value(data, column, style))


def item(data: Any, column: int, style: Style) -> str:
    """Write an item of a list as whole lines: the first line of a nested object or list stands beside the dash."""
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
    """Write a scalar on one line; a text in the quotes that are wanted, or in those of the style if it needs some."""
    if data is None:
        return "null"
    if isinstance(data, bool):
        return "true" if data else "false"
    if not isinstance(data, str):
        return json.dumps(data)
    if not quote:
        text = _text(data, flow=flow, quote="")
        if text[:1] not in ("'", '"') and _stays(text, data):
            return text
        quote = "'" if '"' in data or "\\" in data else style.quote
    return _text(data, flow=flow, quote=quote)


def _text(data: str, *, flow: bool, quote: str) -> str:
    """Write a text with these quotes, or others if it has to be; without any where that is wanted and possible."""
    if quote and not data.isprintable():
        quote = '"'  # what one YAML takes for a line break, another does not
    if not flow:
        return _dumped(data, default_style=quote or None)
    return _dumped([data], default_flow_style=True, default_style=quote or None)[1:-1]


def _stays(text: str, data: str) -> bool:
    """Say whether a plain text is none of the words and numbers that kubectl knows."""
    try:
        return text == data and resolve(text, plain=True) == data
    except Unsayable:
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
