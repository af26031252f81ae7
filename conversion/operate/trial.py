"""Tries an object: its conversion to every version and back.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from restow.conversion.compile.graph import Graph
from restow.conversion.explain.model import leaves
from restow.conversion.explain.roundtrip import BrokenLaw, round_trips
from restow.conversion.model.errors import ObjectError, kept_values
from restow.conversion.model.fieldpath import pointer
from restow.conversion.model.values import same

#: The most differing fields that are named.
_FIELDS: Final = 3


def tried(graph: Graph, obj: dict[str, Any]) -> str:
    """Return why an object does not convert to every version and back, without values; empty if it does.

    A value that an expression cannot take would not fail a conversion, but its rule has not asked to keep it.
    """
    try:
        with kept_values() as kept:
            broken = round_trips(graph, obj).broken
    except ObjectError as error:
        return str(error)
    if broken:
        return _told(broken[0])
    return next((str(failed) for failed in kept if failed.unasked), "")


def _told(broken: BrokenLaw) -> str:
    way = " -> ".join(broken.way)
    places = ", ".join(_differing(broken))
    what = broken.message or (f"{places} would change" if places else "it would change")
    return f"{broken.law.value}, {way}: {what}"


def _differing(broken: BrokenLaw) -> Iterator[str]:
    """Yield the first differing fields."""
    left, right = dict(leaves(broken.before)), dict(leaves(broken.after))
    found = 0
    for place in dict.fromkeys((*left, *right)):
        if place in broken.forgiven or (place in left and place in right and same(left[place], right[place])):
            continue
        yield pointer(tuple(place))
        found += 1
        if found >= _FIELDS:
            return
