"""Names in sentences: the existing ones for a name that does not exist, and a few of many. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Final

_MOST: Final = 3


def similar(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names that are closest to an unknown name, the closest first.

    The first part of a name (``widgets`` of ``widgets.example.com``) also matches, in singular or plural, as in
    kubectl.
    """
    names = sorted(set(known))
    wanted = name.lower()
    first = [each for each in names if each.partition(".")[0] in (wanted, f"{wanted}s", f"{wanted}es")]
    if first or "." in name:
        return (first or get_close_matches(wanted, names))[:_MOST]
    by_part: dict[str, list[str]] = {}
    for each in names:
        by_part.setdefault(each.partition(".")[0], []).append(each)
    return [each for part in get_close_matches(wanted, by_part) for each in by_part[part]][:_MOST]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``did you mean a, b or c?``, or an empty text if no known name is close."""
    found = similar(name, known)
    if not found:
        return ""
    *others, last = found
    return f"did you mean {', '.join(others)} or {last}?" if others else f"did you mean {last}?"


def few(parts: Sequence[str], most: int = 5, between: str = ", ") -> str:
    """Return the first of many parts for a sentence, and the number of the others."""
    more = f"{between.rstrip(', ')} and {len(parts) - most} more" if len(parts) > most else ""
    return between.join(parts[:most]) + more
