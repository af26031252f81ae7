"""Whether an object has the shape that the rules read: the types of its schema, and lists of no more than may be.

Mutating admission comes before the API server's own validation, so a step meets whatever a client sent: a version that
YAML took for a number, a text where a list belongs. The finding names the place and the type, as the server's would.
Lists are limited here as well, since some rules take a time that grows faster than a list. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from restow.cloudprofile.findings import Finding, invalid
from restow.crds import Schema, type_problems
from restow.crds.paths import ROOT, field_path, item_path

__all__ = ["shape_findings"]

_MOST: Final = 20


def shape_findings(obj: Any, schema: Schema, *, stored: bool = False) -> tuple[Finding, ...]:
    """Return what of an object has another shape than the schema says, the first twenty places.

    ``stored`` says that it is the object as it is stored, which the client did not send.
    """
    where = " in the object as it is stored" if stored else ""
    if long := tuple(islice(_too_long(obj, schema, ROOT, where), _MOST)):
        return long
    problems = islice(type_problems(obj, schema), _MOST)
    return tuple(invalid(problem.field or "object", f"{problem.detail}{where}") for problem in problems)


def _too_long(value: Any, schema: Schema, path: str, where: str) -> Iterator[Finding]:
    """Find lists with more items than their schema allows, whatever else is wrong."""
    if isinstance(value, dict):
        for name, child in value.items():
            field = schema.field(name) if isinstance(child, dict | list) else None
            if field is not None:
                yield from _too_long(child, field, field_path(path, name), where)
    elif isinstance(value, list) and (items := schema.items) is not None:
        most = schema.node.get("maxItems")
        if most is not None and len(value) > most:
            yield invalid(path.removeprefix("."), f"has {len(value)} items, at most {most} are allowed{where}")
            return
        for index, child in enumerate(value):
            if isinstance(child, dict | list):
                yield from _too_long(child, items, item_path(path, index), where)
