"""JSON that no YAML parser takes: several values in a row, escaped surrogate pairs, or very long keys.

Such texts have no comments to be kept; a value that changes is written anew, indented as it was.

Pure.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["JsonText", "read_json", "write_json"]

_BLANK: Final = re.compile(r"[ \t\r\n]*")
_INDENT: Final = re.compile(r"[{\[]\r?\n([ \t]+)")


@dataclass(frozen=True, slots=True)
class JsonText:
    """One value and where it stands."""

    start: int
    end: int
    line: int
    value: Any


def read_json(text: str) -> list[JsonText] | None:
    """Return the values of a text; None if it is no JSON."""
    decoder = json.JSONDecoder(parse_constant=_refuse)
    found: list[JsonText] = []
    position = _behind_blank(text, 0)
    try:
        while position < len(text):
            value, end = decoder.raw_decode(text, position)
            found.append(JsonText(position, end, text.count("\n", 0, position) + 1, value))
            position = _behind_blank(text, end)
    except (ValueError, RecursionError):
        return None
    return found


def write_json(value: Any, like: str) -> str:
    """Return a value as JSON, indented like another text."""
    indent = _INDENT.search(like)
    written = json.dumps(
        value,
        ensure_ascii=like.isascii(),
        indent=None if indent is None else indent[1],
        separators=None if indent is not None or ": " in like else (",", ":"),
    )
    return written.replace("\n", "\r\n") if "\r\n" in like else written


def _behind_blank(text: str, position: int) -> int:
    found = _BLANK.match(text, position)
    return position if found is None else found.end()


def _refuse(_constant: str) -> Any:
    raise ValueError
