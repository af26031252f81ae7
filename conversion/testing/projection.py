"""What a single manager owns of an object: the partial objects that the API server has converted for managedFields.

That is: any subset of the fields, list-map items with at least their keys, atomic
lists and maps as a whole, and no object that holds nothing (but for one that was empty, or is owned by itself).
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from restow.conversion.values import ABSENT, Json
from restow.crds import ANY, Schema

__all__ = ["projections"]


@st.composite
def projections(draw: st.DrawFn, obj: Json, schema: Schema) -> Json:
    """Draw a part of an object. apiVersion and kind are always there, metadata need not be."""
    part: Json = {"apiVersion": obj["apiVersion"], "kind": obj["kind"]}
    if "metadata" in obj and draw(st.booleans()):
        part["metadata"] = {name: obj["metadata"][name] for name in obj["metadata"] if draw(st.booleans())}
    for name, value in obj.items():
        if name not in ("apiVersion", "kind", "metadata"):
            kept = _part(draw, value, schema.field(name) or ANY)
            if kept is not ABSENT:
                part[name] = kept
    return part


def _part(draw: st.DrawFn, value: Any, schema: Schema) -> Any:
    chance = draw(st.integers(0, 4))
    if chance == 0:
        return ABSENT
    if chance == 1:
        return value
    if isinstance(value, dict) and schema.map_type != "atomic" and value:
        parts = {name: _part(draw, child, schema.field(name) or ANY) for name, child in value.items()}
        left = {name: part for name, part in parts.items() if part is not ABSENT}
        return left or ABSENT
    if isinstance(value, list) and schema.list_type == "map":
        items = [_item(draw, item, schema) for item in value if draw(st.booleans())]
        return items or ABSENT
    return value


def _item(draw: st.DrawFn, item: Any, schema: Schema) -> Any:
    if not isinstance(item, dict):
        return item
    inner = schema.items or ANY
    parts = {
        name: child if name in schema.list_keys else _part(draw, child, inner.field(name) or ANY)
        for name, child in item.items()
    }
    return {name: part for name, part in parts.items() if part is not ABSENT}
