"""What there is to own of a value: structured-merge-diff's ``ToFieldSet``, by a version's structural schema.

A scalar, and an atomic list or object, is owned as one; a set value by value; a list of type map item by item, and an
item once more field by field; any other object field by field. This is how the API server itself names what an apply
owns (``typed/tofieldset.go`` of structured-merge-diff 6.3). Pure.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from restow.crds import Schema
from restow.migrator.managedfields.fieldset import FieldSet, Path, is_leaf, normal
from restow.migrator.managedfields.shapes import Shape, keys_of, shape_of

__all__ = ["Members", "Unknown", "owned", "was_whole"]

Members: TypeAlias = dict[Path, Any]
"""Values by the paths that they are owned by. What is owned beside what is in it has a value of its own: an item of a
list its keys, a key of a map its name."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Stands for the schema of a version that is no longer in the CRD.

    What it was can be told in part: where any manager of that version owns something *below* a list or map, that one
    was granular.

    Attributes:
        owned: the union of what all managers of the version own here.
        others: the union of what all other entries own here, of whatever version, where a leaf may stand for an empty
            keyed list. That is so in an Update entry only: an apply of an empty keyed list owns nothing. The leaf then
            stands for the items that no other entry owns.
    """

    owned: FieldSet
    others: FieldSet = field(default_factory=dict)

    def below(self, name: str) -> Unknown:
        """What is known of the child at this path element."""
        return Unknown(self.owned.get(name, {}), self.others.get(name, {}))

    def left_to(self, items: FieldSet) -> FieldSet:
        """Return the items, by their path elements, that no other entry owns."""
        taken = {normal(name) for name in self.others}
        return {name: node for name, node in items.items() if normal(name) not in taken}


def was_whole(shape: Shape | Unknown, value: Any = None) -> bool:
    """Whether what is owned at this very place is the whole value there."""
    if isinstance(shape, Unknown):
        # Of objects, an empty one is owned just so far more often than one that was atomic.
        return is_leaf(shape.owned) and not isinstance(value, dict)
    return shape.is_whole(value)


def owned(value: Any, schema: Schema | Shape, *, empty_lists: bool = False) -> Members:
    """Return everything that there is to own in a value.

    Args:
        value: a value; an object without the fields that no manager can own (``body_of``).
        schema: its schema.
        empty_lists: count an empty list as a member, too, that the server would own item by item and hence not at all.
    """
    found: Members = {}
    _collect(value, schema if isinstance(schema, Shape) else shape_of(schema), (), found, empty_lists)
    return found


def _collect(value: Any, shape: Shape, path: Path, found: Members, empty_lists: bool) -> None:
    if shape.is_whole(value):
        found[path] = value
    elif isinstance(value, list) and shape.is_list:
        _collect_items(value, shape, path, found, empty_lists)
    elif isinstance(value, dict) and shape.is_map:
        for name, child in value.items():
            below, here = shape.field(name), (*path, f"f:{name}")
            if below is None:
                found[here] = child
                continue
            _collect(child, below, here, found, empty_lists)
            # A key of a map is a member itself, a declared field is not, unless it is empty.
            if not shape.declares(name):
                found.setdefault(here, {"": name})
            elif child is None or child == {}:
                found.setdefault(here, child)


def _collect_items(value: list[Any], shape: Shape, path: Path, found: Members, empty_lists: bool) -> None:
    names = [shape.element(item) for item in value]
    items = shape.items
    if None in names or items is None or (not names and empty_lists):
        found[path] = value
        return
    times = Counter(names)
    for name, item in zip(names, value, strict=True):
        assert name is not None
        here = (*path, name)
        if times[name] == 1:  # items that cannot be told apart are owned as one, and nothing below them
            _collect(item, items, here, found, empty_lists)
        found.setdefault(here, keys_of(name))
