"""Reconcile a field set with another schema, if two versions differ in the fields that can be owned.

Under strategy None the fields of two versions have the same paths and values, but a list that is atomic in one version
may be keyed in the other (all of Cluster API's CRDs changed ``.status.conditions`` in this way). Ownership of the whole
list then means ownership of each item, and the reverse. The live object shows the items.
structured-merge-diff has the same step as ``ReconcileFieldSetWithSchema``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from restow.crds import Schema
from restow.crds.fieldpath import FieldSet, from_paths, is_leaf, keys_of, normal, union
from restow.crds.ownedpaths import Items, owned

_ABSENT: Any = object()


def reconcile_with_schema(fields: FieldSet, old: Schema | Unknown, new: Schema, live: Any) -> FieldSet:
    """Return the set that owns under ``new`` the same values as ``fields`` under ``old``.

    Args:
        fields: a set, or a node of one.
        old: the schema of the set, or the known part of a schema that is no longer in the CRD.
        new: the schema of the result.
        live: the object's value here, as served at the new version.
    """
    reconciled: FieldSet = {}
    items = Items(live, new if isinstance(old, Unknown) else old)
    for key, node in fields.items():
        if key == ".":
            reconciled[key] = {}
        elif key.startswith("f:"):
            value = live.get(key[2:], _ABSENT) if isinstance(live, dict) else _ABSENT
            below = _node(node, old.below(key), new.below(key), value)
            reconciled[key] = below if new.is_declared(key[2:]) or not is_leaf(node) else _member(below)
        else:
            name, below = _item(key, node, old, new, items)
            reconciled[name] = union(reconciled[name], below) if name in reconciled else below
    return reconciled


def misfit(value: Any, schema: Schema, path: str = "") -> str:
    """Return the first path whose value has a type that the schema does not admit, or an empty string.

    The API server cannot determine the owners of such an object: any write empties its managedFields (before 1.37).
    """
    if not _is_admitted(value, schema):
        return path
    if isinstance(value, dict):
        fields, values = schema.properties, schema.values
        for name, child in value.items():
            below = fields.get(name, values)
            if below is None or type(child) in below.plain_types:
                continue
            if found := misfit(child, below, path + (f".{name}" if name in fields else _OF_USER)):
                return found
    elif isinstance(value, list) and (items := schema.items) is not None:
        for child in value:
            if found := misfit(child, items, f"{path}[]"):
                return found
    return ""


_OF_USER = "{}"
"""Replaces the key of a map in a path, because the key belongs to the user's data."""


def _is_admitted(value: Any, schema: Schema) -> bool:
    if isinstance(value, dict):
        return schema.admits_map
    if isinstance(value, list):
        return schema.admits_list
    return type(value) in schema.plain_types


def _node(node: FieldSet, old: Schema | Unknown | None, new: Schema | None, live: Any) -> FieldSet:
    if new is None or old is None:
        return node  # a field that one version does not know: there is no other way to own it
    if new.is_whole(None if live is _ABSENT else live):
        return {}
    if is_leaf(node) and live is not _ABSENT and was_whole(old, live):
        everything = from_paths(owned(live, new, empty_lists=True))
        return old.left_to(everything) if isinstance(old, Unknown) else everything
    return reconcile_with_schema(node, old, new, live)


def _item(key: str, node: FieldSet, old: Schema | Unknown, new: Schema, live: Items) -> tuple[str, FieldSet]:
    """Return an owned list item, with a new path element if the list's keys differ between the versions."""
    if new.admits_map or new.below(key) is None:  # where any type is allowed, a list is atomic
        return key, node
    position = live.find(key)
    value = _ABSENT if position is None else live[position]
    below = _node(node, old.below(key), new.below(key), value)
    if is_leaf(node):
        below = _member(below)
    if position is None or keys_of(key).keys() == set(new.list_keys):
        return key, below
    return new.element(value) or key, below


def _member(node: FieldSet) -> FieldSet:
    """Return the node of a path that is itself a member, whatever is below it."""
    return node | {".": {}} if node else node


def whole_owners(fields: FieldSet, old: Unknown, new: Schema) -> bool:
    """Return whether a set of an unknown version has a leaf that may mean a whole list that is granular now.

    Also return true if the set identifies list items by other keys than the list's current ones.
    """
    listed = new.admits_list and not new.admits_map
    for key, node in fields.items():
        if listed and key != "." and keys_of(key).keys() != set(new.list_keys):
            return True
        below = new.field(key[2:]) if key.startswith("f:") else new.items if listed else None
        if key == "." or below is None or below.is_whole():
            continue
        if is_leaf(node):
            if below.admits_list and not below.admits_map and was_whole(old.below(key)):
                return True
        elif whole_owners(node, old.below(key), below):
            return True
    return False


@dataclass(frozen=True, slots=True)
class Unknown:
    """The schema of a version that is no longer in the CRD, as far as it is known.

    A list or map was granular if any manager of that version owns something *below* it.

    Attributes:
        owned: the union of the fields that all managers of the version own here.
        others: the union of the fields that all other entries, of any version, own here, if a leaf may mean an empty
            keyed list. This is possible only in an Update entry: an apply of an empty keyed list owns nothing. The leaf
            then means the items that no other entry owns.
    """

    owned: FieldSet
    others: FieldSet = field(default_factory=dict)

    def below(self, name: str) -> Unknown:
        """Return the known part of the child's schema at this path element."""
        return Unknown(self.owned.get(name, {}), self.others.get(name, {}))

    def left_to(self, items: FieldSet) -> FieldSet:
        """Return the items, by their path elements, that no other entry owns."""
        taken = {normal(name) for name in self.others}
        return {name: node for name, node in items.items() if normal(name) not in taken}


def was_whole(schema: Schema | Unknown, value: Any = None) -> bool:
    """Return whether ownership of this path means the whole value."""
    if isinstance(schema, Unknown):
        # For objects such a leaf is far more often an empty object than an atomic one.
        return is_leaf(schema.owned) and not isinstance(value, dict)
    return schema.is_whole(value)
