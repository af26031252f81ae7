"""Who owns what an old client left out without meaning to: managedFields after a stash was restored.

An API server works out who owns what before it asks admission. Of an object that lost its stash on the way it sees
fields gone, and takes them from their owners; that admission brings them back gives nobody anything. An owner that
leaves such a field out of its next apply would then leave it behind for ever. Fields that are as they were belong to
whom they belonged to.

Source: apiserver ``handlers/update.go`` (the field manager comes before mutating admission, and what admission makes of
managedFields is kept if it is valid: ``managedfields/internal``, ``admission.go``); KEP-555 for the form of FieldsV1.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from restow.conversion.values import ABSENT, Json, same

__all__ = ["regained"]

Views = Callable[[str], tuple[Json, Json] | None]
"""The object as it was and as it is to be, at an apiVersion; None for one that cannot be had."""

_SELF: Final = "."


def regained(before: Iterable[Json], after: Iterable[Json], views: Views) -> list[Json]:
    """Return the managedFields ``after``, with what each entry of ``before`` lost of fields that did not change."""
    left = {_identity(entry): entry for entry in after}
    entries = []
    for entry in before:
        now, seen = left.pop(_identity(entry), None), views(str(entry.get("apiVersion")))
        owned = (now or {}).get("fieldsV1") or {}
        fields = _merged(entry.get("fieldsV1") or {}, owned, *seen) if seen is not None else owned
        if now is not None or fields:
            entries.append({**(now or entry), "fieldsV1": fields})
    return [*entries, *left.values()]


def _identity(entry: Json) -> tuple[Any, ...]:
    return tuple(entry.get(name) for name in ("manager", "operation", "subresource", "apiVersion"))


def _merged(before: Json, now: Json, was: Any, becomes: Any) -> Json:
    """Return the fields ``now``, and those of ``before`` whose values are the same in ``was`` and ``becomes``."""
    fields = dict(now)
    for name, below in before.items():
        if name == _SELF:
            fields[name] = {}
            continue
        old, new = _value(was, name), _value(becomes, name)
        if old is ABSENT or new is ABSENT:
            continue
        if not below:
            fields |= {name: {}} if same(old, new) else {}
        elif found := _merged(below, now.get(name) or {}, old, new):
            fields[name] = found
    return fields


def _value(parent: Any, name: str) -> Any:
    """Return what a path element of FieldsV1 leads to, ABSENT where there is nothing."""
    kind, _, rest = name.partition(":")
    if kind == "f":
        return parent.get(rest, ABSENT) if isinstance(parent, dict) else ABSENT
    if not isinstance(parent, list):
        return ABSENT
    if kind == "i":
        return parent[int(rest)] if int(rest) < len(parent) else ABSENT
    wanted = msgspec.json.decode(rest)
    if kind == "v":
        return wanted if wanted in parent else ABSENT
    items = (item for item in parent if isinstance(item, dict))
    return next((item for item in items if all(item.get(key) == value for key, value in wanted.items())), ABSENT)
